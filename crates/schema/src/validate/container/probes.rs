//! The probes and lifecycle hooks of a container.

use super::Pod;
use crate::field::{BadValue, FieldError, Path};
use crate::json::Value;
use crate::names;
use crate::read::Read;
use crate::validate::field_rules::{named, non_negative, port_or_name, supported};

const HANDLERS: [&str; 5] = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

pub(super) fn probes_and_hooks(
    path: &Path<'_>,
    container: &Value,
    pod: &Pod<'_>,
    errors: &mut Vec<FieldError>,
) {
    if let Some(lifecycle) = container.at("lifecycle") {
        let path = path.child("lifecycle");
        for hook in ["postStart", "preStop"] {
            if let Some(handler_value) = lifecycle.at(hook) {
                handler(&path.child(hook), handler_value, pod.grace_period, errors);
            }
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(value) = container.at(name) {
            probe(&path.child(name), name, value, pod.grace_period, errors);
        }
    }
}

fn probe(
    path: &Path<'_>,
    name: &str,
    probe: &Value,
    grace_period: Option<i64>,
    errors: &mut Vec<FieldError>,
) {
    handler(path, probe, grace_period, errors);
    for field in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        non_negative(probe, path, field, errors);
    }
    let grace = probe.int("terminationGracePeriodSeconds");
    let grace_path = path.child("terminationGracePeriodSeconds");
    if let Some(seconds) = grace.filter(|seconds| *seconds <= 0) {
        errors.push(FieldError::invalid(grace_path, seconds, "must be greater than 0"));
    }
    let threshold = probe.int("successThreshold").unwrap_or_default();
    if name != "readinessProbe" && threshold != 1 {
        errors.push(FieldError::invalid(path.child("successThreshold"), threshold, "must be 1"));
    }
    if let (Some(seconds), "readinessProbe") = (grace, name) {
        errors.push(FieldError::invalid(grace_path, seconds, "must not be set for readinessProbes"));
    }
}

fn handler(path: &Path<'_>, handler: &Value, grace_period: Option<i64>, errors: &mut Vec<FieldError>) {
    let mut found = false;
    for name in HANDLERS {
        let Some(action) = handler.at(name) else { continue };
        let path = path.child(name);
        if found {
            errors.push(FieldError::forbidden(path, "may not specify more than 1 handler type"));
            continue;
        }
        found = true;
        match name {
            "exec" if action.list("command").is_empty() => {
                errors.push(FieldError::required(path.child("command"), ""));
            }
            "httpGet" => http_get(&path, action, errors),
            "tcpSocket" | "grpc" => port_or_name(&path.child("port"), action.at("port"), errors),
            "sleep" => sleep(&path, action, grace_period, errors),
            _ => {}
        }
    }
    if !found {
        errors.push(FieldError::required(path, "must specify a handler type"));
    }
}

fn http_get(path: &Path<'_>, action: &Value, errors: &mut Vec<FieldError>) {
    if action.str("path").is_empty() {
        errors.push(FieldError::required(path.child("path"), ""));
    }
    port_or_name(&path.child("port"), action.at("port"), errors);
    supported(&path.child("scheme"), action.str("scheme"), &["HTTP", "HTTPS"], errors);
    for header in action.list("httpHeaders") {
        let name = header.str("name");
        named(&path.child("httpHeaders"), name, names::http_header_name(name), errors);
    }
}

fn sleep(path: &Path<'_>, action: &Value, grace_period: Option<i64>, errors: &mut Vec<FieldError>) {
    let seconds = action.int("seconds").unwrap_or_default();
    let Some(grace) = grace_period else { return };
    if seconds < 0 || seconds > grace {
        let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errors.push(FieldError::invalid(path, BadValue::Value(seconds.into()), detail));
    }
}
