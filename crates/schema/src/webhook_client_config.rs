//! Validates the client configuration of a webhook, which is a URL or a Service.

use evenkeel_scalars::go;

use crate::field::{FieldError, Path};
use crate::json::Value;
use crate::names;
use crate::read::Read;

/// Validates the `clientConfig` of an admission or conversion webhook.
pub(crate) fn validate(path: &Path<'_>, config: &Value, errors: &mut Vec<FieldError>) {
    if config.has("url") == config.has("service") {
        errors.push(FieldError::required(path, "exactly one of url or service is required"));
    } else if config.has("url") {
        url(&path.child("url"), config.str("url"), errors);
    } else if let Some(service) = config.at("service") {
        let path = path.child("service");
        // Kubernetes' errors swap `name` and `namespace` here.
        for (field, told) in [("namespace", "name"), ("name", "namespace")] {
            if service.str(field).is_empty() {
                errors.push(FieldError::required(path.child(told), ""));
            }
        }
        if let Some(port) = service.int("port").filter(|port| !(1..=65_535).contains(port)) {
            let detail = "port is not valid: must be between 1 and 65535, inclusive";
            errors.push(FieldError::invalid(path.child("port"), port, detail));
        }
        service_path(&path.child("path"), service.str("path"), errors);
    }
}

/// Validates the path of a Service reference, whose segments are DNS subdomains.
fn service_path(path: &Path<'_>, text: &str, errors: &mut Vec<FieldError>) {
    if text.is_empty() || text == "/" {
        return;
    }
    if text == "//" {
        errors.push(FieldError::invalid(path, text, "segment[0] may not be empty"));
        return;
    }
    if !text.starts_with('/') {
        errors.push(FieldError::invalid(path, text, "must start with a '/'"));
    }
    // Like in Kubernetes, the first character is skipped, whatever it is.
    let mut characters = text.chars();
    characters.next();
    let rest = characters.as_str();
    for (index, segment) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if segment.is_empty() {
            errors.push(FieldError::invalid(path, text, format!("segment[{index}] may not be empty")));
            continue;
        }
        for message in names::dns1123_subdomain(segment) {
            errors.push(FieldError::invalid(path, text, format!("segment[{index}]: {message}")));
        }
    }
}

fn url(path: &Path<'_>, text: &str, errors: &mut Vec<FieldError>) {
    const FORM: &str = "; desired format: https://host[/path]";
    if text.contains(|character: char| character.is_ascii_control()) {
        let problem = format!("parse {}: net/url: invalid control character in URL", go::quote(text));
        errors.push(FieldError::required(path, format!("url must be a valid URL: {problem}{FORM}")));
        return;
    }
    let mut refuse = |value: &str, what: &str, form: &str| {
        errors.push(FieldError::invalid(path, value, format!("{what}{form}")));
    };
    let Some((scheme, rest)) = text.split_once("://") else {
        let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
        refuse(scheme, "'https' is the only allowed URL scheme", FORM);
        refuse("", "host must be specified", FORM);
        return;
    };
    if scheme != "https" {
        refuse(scheme, "'https' is the only allowed URL scheme", FORM);
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host) =
        authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    if host.is_empty() {
        refuse(host, "host must be specified", FORM);
    }
    if let Some(user) = user {
        refuse(user, "user information is not permitted in the URL", "");
    }
    if !fragment.is_empty() {
        refuse(fragment, "fragments are not permitted in the URL", "");
    }
    if !query.is_empty() {
        refuse(query, "query parameters are not permitted in the URL", "");
    }
}
