//! CronJobs and their schedules.

use super::field_rules::{non_negative, one_of};
use super::job;
use crate::cron::{self, Schedule};
use crate::field::{FieldError, Path};
use crate::internal_structs;
use crate::json::Value;
use crate::object_meta::{self, NameRule};
use crate::read::Read;

const NAME_MAX: usize = 52;

pub(super) fn create(object: &Value) -> Vec<FieldError> {
    let mut errors = object_meta::create_builtin(object, true, NameRule::Subdomain);
    spec(object, None, &mut errors);
    let name = object.at("metadata").str("name");
    if name.len() > NAME_MAX {
        errors.push(FieldError::invalid("metadata.name", name, "must be no more than 52 characters"));
    }
    errors
}

pub(super) fn update(new: &Value, old: &Value, subresource: &str) -> Vec<FieldError> {
    let mut errors = object_meta::update_builtin(new, old);
    if subresource.is_empty() {
        spec(new, Some(old), &mut errors);
    }
    errors
}

fn spec(object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let path = Path::new("spec");
    let spec = object.at("spec").unwrap_or(&Value::Null);
    let old = old.at("spec");
    match spec.str("schedule") {
        "" => errors.push(FieldError::required(path.child("schedule"), "")),
        text => schedule(&path.child("schedule"), text, spec.has("timeZone"), old.str("schedule"), errors),
    }
    non_negative(spec, &path, "startingDeadlineSeconds", errors);
    if old.is_none() || old.at("timeZone") != spec.at("timeZone") {
        time_zone(&path.child("timeZone"), spec, errors);
    }
    let policies = ["Allow", "Forbid", "Replace"];
    one_of(&path.child("concurrencyPolicy"), spec.str("concurrencyPolicy"), &policies, errors);
    let template = path.child("jobTemplate");
    let template = template.child("spec");
    let job_spec = spec.at("jobTemplate").at("spec").unwrap_or(&Value::Null);
    job::without_selector(&template, job_spec, errors);
    if let Some(selector) = job_spec.at("selector") {
        let detail = "`selector` will be auto-generated";
        let shown = internal_structs::bad_value("*meta.LabelSelector", Some(selector));
        errors.push(FieldError::invalid(template.child("selector"), shown, detail));
    }
    if job_spec.bool("manualSelector") {
        errors.push(FieldError::not_supported(template.child("manualSelector"), true, &["nil", "false"]));
    }
    for field in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        non_negative(spec, &path, field, errors);
    }
}

fn schedule(path: &Path<'_>, text: &str, has_zone: bool, old: &str, errors: &mut Vec<FieldError>) {
    if let Err(error) = Schedule::parse(text) {
        errors.push(FieldError::invalid(path, text, error));
    }
    if text.contains("TZ") {
        let detail = match old.contains("TZ") {
            true if has_zone => "cannot use both timeZone field and TZ or CRON_TZ in schedule",
            true => return,
            false => "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
        };
        errors.push(FieldError::invalid(path, text, detail));
    }
}

fn time_zone(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    let Some(zone) = spec.at("timeZone").and_then(Value::as_str) else { return };
    if zone.is_empty() {
        let detail = "timeZone must be nil or non-empty string";
        errors.push(FieldError::invalid(path, zone, detail));
    } else if zone.eq_ignore_ascii_case("local") {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.push(FieldError::invalid(path, zone, detail));
    } else if let Err(error) = cron::time_zone(zone) {
        errors.push(FieldError::invalid(path, zone, error.to_string()));
    }
}
