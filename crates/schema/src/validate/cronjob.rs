//! CronJobs and their schedules.

use super::field_rules::{non_negative, one_of};
use super::job;
use super::metadata::{self, NameRule};
use crate::field::{FieldError, Path, quote};
use crate::json::Value;
use crate::read::Read;
use crate::time::parse_duration;

const NAME_MAX: usize = 52;
/// The names of the time zone database.
static TIME_ZONES: &str = include_str!("../../facts/timezones.txt");
const DESCRIPTORS: [&str; 7] =
    ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

pub(super) fn create(object: &Value) -> Vec<FieldError> {
    let mut errors = metadata::create_builtin(object, true, NameRule::Subdomain);
    spec(object, None, &mut errors);
    let name = object.at("metadata").str("name");
    if name.len() > NAME_MAX {
        errors.push(FieldError::invalid("metadata.name", name, "must be no more than 52 characters"));
    }
    errors
}

pub(super) fn update(new: &Value, old: &Value, subresource: &str) -> Vec<FieldError> {
    let mut errors = metadata::update_builtin(new, old);
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
    if job_spec.bool("manualSelector") {
        errors.push(FieldError::not_supported(template.child("manualSelector"), true, &["nil", "false"]));
    }
    for field in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        non_negative(spec, &path, field, errors);
    }
}

fn schedule(path: &Path<'_>, text: &str, has_zone: bool, old: &str, errors: &mut Vec<FieldError>) {
    if let Err(error) = parse(text) {
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
    } else if !is_time_zone(zone) {
        errors.push(FieldError::invalid(path, zone, format!("unknown time zone {zone}")));
    }
}

fn is_time_zone(name: &str) -> bool {
    TIME_ZONES.lines().any(|zone| zone == name)
}

/// Whether a schedule is well-formed; the error is the one of the library that Kubernetes uses.
fn parse(text: &str) -> Result<(), String> {
    let mut rest = text;
    if text.starts_with("TZ=") || text.starts_with("CRON_TZ=") {
        let (zone, after) = text.split_once(' ').ok_or_else(|| {
            "invalid schedule format: runtime error: slice bounds out of range [:-1]".to_owned()
        })?;
        let zone = zone.split_once('=').map_or("", |(_, zone)| zone);
        if !is_time_zone(zone) && !matches!(zone, "" | "Local") {
            return Err(format!("provided bad location {zone}: unknown time zone {zone}"));
        }
        rest = after.trim();
    }
    if rest.starts_with('@') {
        return descriptor(rest);
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.len() != 5 {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    let bounds: [(u64, u64, &[&str]); 5] =
        [(0, 59, &[]), (0, 23, &[]), (1, 31, &[]), (1, 12, &MONTHS), (0, 6, &DAYS)];
    for (field, (min, max, names)) in fields.into_iter().zip(bounds) {
        for part in field.split(',').filter(|part| !part.is_empty()) {
            range(part, min, max, names)?;
        }
    }
    Ok(())
}

fn descriptor(text: &str) -> Result<(), String> {
    if DESCRIPTORS.contains(&text) {
        return Ok(());
    }
    match text.strip_prefix("@every ") {
        Some(duration) if parse_duration(duration).is_some() => Ok(()),
        Some(duration) => {
            Err(format!("failed to parse duration {text}: time: invalid duration {}", quote(duration)))
        }
        None => Err(format!("unrecognized descriptor: {text}")),
    }
}

fn range(text: &str, min: u64, max: u64, names: &[&str]) -> Result<(), String> {
    let steps: Vec<&str> = text.split('/').collect();
    let ends: Vec<&str> = steps[0].split('-').collect();
    let (start, mut end) = match ends.as_slice() {
        ["*" | "?", ..] => (min, max),
        [single] => {
            let start = number(single, names, min)?;
            (start, start)
        }
        [first, last] => (number(first, names, min)?, number(last, names, min)?),
        _ => return Err(format!("too many hyphens: {text}")),
    };
    let step = match steps.as_slice() {
        [_] => 1,
        [_, step] => {
            if ends.len() == 1 {
                end = max;
            }
            number(step, &[], 0)?
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    if start < min {
        return Err(format!("beginning of range ({start}) below minimum ({min}): {text}"));
    }
    if end > max {
        return Err(format!("end of range ({end}) above maximum ({max}): {text}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

fn number(text: &str, names: &[&str], first: u64) -> Result<u64, String> {
    let lower = text.to_lowercase();
    if let Some(index) = names.iter().position(|name| *name == lower) {
        return Ok(index as u64 + first);
    }
    let parsed: i64 = text.parse().map_err(|_| {
        format!("failed to parse int from {text}: strconv.Atoi: parsing {}: invalid syntax", quote(text))
    })?;
    u64::try_from(parsed).map_err(|_| format!("negative number ({parsed}) not allowed: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules() {
        for good in ["* * * * *", "*/5 0 1-7 jan,FEB mon-fri", "@daily", "@every 1h30m", "0 0 ? * 0"] {
            assert_eq!(parse(good), Ok(()), "{good}");
        }
        for (bad, error) in [
            ("every day", "expected exactly 5 fields, found 2: [every day]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("@never", "unrecognized descriptor: @never"),
            ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
        ] {
            assert_eq!(parse(bad), Err(error.to_owned()));
        }
    }
}
