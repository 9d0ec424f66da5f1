//! Validates the conversion between the versions of a definition.

use super::one_of;
use crate::field::{FieldError, Path};
use crate::json::Value;
use crate::names;
use crate::read::Read;
use crate::webhook_client_config;

pub(super) fn conversion(path: &Path<'_>, conversion: Option<&Value>, errors: &mut Vec<FieldError>) {
    let Some(conversion) = conversion else { return };
    one_of(&path.child("strategy"), conversion.str("strategy"), &["None", "Webhook"], errors);
    let webhook = conversion.at("webhook");
    let config = webhook.at("clientConfig");
    let reviews = webhook.strs("conversionReviewVersions");
    let (config_path, reviews_path) =
        (path.child("webhookClientConfig"), path.child("conversionReviewVersions"));
    if conversion.str("strategy") != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        if config.is_some() {
            errors.push(FieldError::forbidden(config_path, detail));
        }
        if !reviews.is_empty() {
            errors.push(FieldError::forbidden(reviews_path, detail));
        }
        return;
    }
    match config {
        None => errors.push(FieldError::required(config_path, "required when strategy is set to Webhook")),
        Some(config) => webhook_client_config::validate(&config_path, config, errors),
    }
    review_versions(&reviews_path, &reviews, errors);
}

fn review_versions(path: &Path<'_>, versions: &[&str], errors: &mut Vec<FieldError>) {
    if versions.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    for (index, version) in versions.iter().enumerate() {
        if versions[..index].contains(version) {
            errors.push(FieldError::invalid(path.index(index), *version, "duplicate version"));
            continue;
        }
        for message in names::dns1035_label(version) {
            errors.push(FieldError::invalid(path.index(index), *version, message));
        }
    }
    if !versions.iter().any(|version| matches!(*version, "v1" | "v1beta1")) {
        let detail = "must include at least one of v1, v1beta1";
        errors.push(FieldError::invalid(path, Value::from(versions.to_vec()), detail));
    }
}
