//! Validates updates of a Job's status. A rule applies only if one of its fields has changed, so that an invalid stored
//! status does not block other changes.

use super::success_policy::{bounds, count_indexes};
use crate::field::{BadValue, FieldError, Path};
use crate::internal_structs;
use crate::json::Value;
use crate::read::Read;
use crate::validate::field_rules::{IMMUTABLE, non_negative};

/// Validates the new status of a Job.
pub(super) fn update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let path = Path::new("status");
    let (status, before) =
        (new.at("status").unwrap_or(&Value::Null), old.at("status").unwrap_or(&Value::Null));
    let job = Job { spec: new.at("spec").unwrap_or(&Value::Null), status, before, path: &path };
    for field in ["active", "succeeded", "failed", "ready", "terminating"] {
        non_negative(status, &path, field, errors);
    }
    uncounted(&path.child("uncountedTerminatedPods"), status, errors);
    job.completion(errors);
    job.finished(errors);
    job.indexes(errors);
    job.success(errors);
    job.changes(errors);
}

/// Validates the uids of pods that have terminated and are not counted yet.
fn uncounted(path: &Path<'_>, status: &Value, errors: &mut Vec<FieldError>) {
    let uncounted = status.at("uncountedTerminatedPods");
    let mut seen = Vec::new();
    for list in ["succeeded", "failed"] {
        let at = path.child(list);
        for (index, uid) in uncounted.strs(list).into_iter().enumerate() {
            if uid.is_empty() {
                errors.push(FieldError::invalid(at.index(index), uid, "must not be empty"));
            } else if seen.contains(&uid) {
                errors.push(FieldError::duplicate(at.index(index), uid));
            } else {
                seen.push(uid);
            }
        }
    }
}

fn is_true(status: &Value, condition: &str) -> bool {
    let conditions = status.list("conditions");
    conditions.iter().any(|it| it.str("type") == condition && it.str("status") == "True")
}

fn is_finished(status: &Value) -> bool {
    is_true(status, "Complete") || is_true(status, "Failed")
}

/// A Job with a changed status.
struct Job<'a> {
    spec: &'a Value,
    status: &'a Value,
    before: &'a Value,
    path: &'a Path<'a>,
}

impl Job<'_> {
    fn changed(&self, field: &str) -> bool {
        self.status.at(field) != self.before.at(field)
    }

    fn flipped(&self, condition: &str) -> bool {
        is_true(self.status, condition) != is_true(self.before, condition)
    }

    fn holds(&self, condition: &str) -> bool {
        is_true(self.status, condition)
    }

    fn finish_changed(&self) -> bool {
        is_finished(self.status) != is_finished(self.before)
    }

    /// Adds an error about the conditions, which does not show their value.
    fn conflict(&self, detail: &str, errors: &mut Vec<FieldError>) {
        errors.push(FieldError::invalid(self.path.child("conditions"), BadValue::Omitted, detail));
    }

    /// Returns the value of a pointer field as messages print it.
    fn shown(&self, field: &str) -> BadValue {
        BadValue::Printed(self.status.at(field).unwrap_or(&Value::Null).to_string())
    }

    fn completion(&self, errors: &mut Vec<FieldError>) {
        let complete = self.holds("Complete");
        if complete && self.holds("Failed") && (self.flipped("Complete") || self.flipped("Failed")) {
            self.conflict("cannot set Complete=True and Failed=true conditions", errors);
        }
        if complete
            && self.holds("FailureTarget")
            && (self.flipped("Complete") || self.flipped("FailureTarget"))
        {
            self.conflict("cannot set Complete=True and FailureTarget=true conditions", errors);
        }
        let at = self.path.child("completionTime");
        let (start, end) = (self.status.at("startTime"), self.status.at("completionTime"));
        if self.flipped("Complete") || self.changed("completionTime") {
            if end.is_some() && !complete {
                let detail = "cannot set completionTime when there is no Complete=True condition";
                errors.push(FieldError::invalid(at, self.shown("completionTime"), detail));
            }
            if end.is_none() && complete {
                errors.push(FieldError::required(at, "completionTime is required for Complete jobs"));
            }
        }
        let both = start.and_then(Value::as_str).zip(end.and_then(Value::as_str));
        if (self.changed("startTime") || self.changed("completionTime"))
            && both.is_some_and(|(start, end)| end < start)
        {
            let detail = "must be equal to or after `startTime`";
            errors.push(FieldError::invalid(at, self.shown("completionTime"), detail));
        }
        if self.holds("Failed")
            && !self.holds("FailureTarget")
            && (self.flipped("Failed") || self.changed("failedIndexes"))
        {
            self.conflict(
                "cannot set Failed=True condition without the FailureTarget=true condition",
                errors,
            );
        }
        if complete
            && !self.holds("SuccessCriteriaMet")
            && (self.flipped("Complete") || self.flipped("SuccessCriteriaMet"))
        {
            let detail = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
            self.conflict(detail, errors);
        }
    }

    fn finished(&self, errors: &mut Vec<FieldError>) {
        if !is_finished(self.status) {
            return;
        }
        let finish_changed = self.finish_changed();
        let active = self.status.int("active").unwrap_or_default();
        if active > 0 && (finish_changed || self.changed("active")) {
            let detail = "active>0 is invalid for finished job";
            errors.push(FieldError::invalid(self.path.child("active"), active, detail));
        }
        let never_ran = self.spec.bool("suspend") && self.spec.int("completions") == Some(0);
        if !self.status.has("startTime") && !never_ran && (finish_changed || self.changed("startTime")) {
            let detail = "startTime is required for finished job";
            errors.push(FieldError::required(self.path.child("startTime"), detail));
        }
        let uncounted = self.status.at("uncountedTerminatedPods");
        let some = ["failed", "succeeded"].iter().any(|list| !uncounted.list(list).is_empty());
        if some && (finish_changed || self.changed("uncountedTerminatedPods")) {
            let shown = internal_structs::bad_value("batch.UncountedTerminatedPods", uncounted);
            let at = self.path.child("uncountedTerminatedPods");
            errors.push(FieldError::invalid(at, shown, "must be empty for finished job"));
        }
    }

    fn indexes(&self, errors: &mut Vec<FieldError>) {
        let completions = self.spec.int("completions");
        let completed = self.status.str("completedIndexes");
        let failed = self.status.at("failedIndexes").and_then(Value::as_str);
        let per_index = self.spec.has("backoffLimitPerIndex");
        let (at, failed_at) = (self.path.child("completedIndexes"), self.path.child("failedIndexes"));
        if let (Some(count), true) = (completions, self.changed("completedIndexes"))
            && let Err(why) = count_indexes(completed, count)
        {
            let detail = format!("error parsing completedIndexes: {why}");
            errors.push(FieldError::invalid(at, completed, detail));
        }
        if let (Some(count), Some(failed), true) =
            (completions, failed, per_index && self.changed("failedIndexes"))
            && let Err(why) = count_indexes(failed, count)
        {
            let detail = format!("error parsing failedIndexes: {why}");
            errors.push(FieldError::invalid(failed_at, self.shown("failedIndexes"), detail));
        }
        if self.changed("completedIndexes")
            && !completed.is_empty()
            && self.spec.str("completionMode") != "Indexed"
        {
            let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
            errors.push(FieldError::invalid(at, completed, detail));
        }
        if let Some(failed) = failed.filter(|_| !per_index && self.changed("failedIndexes")) {
            let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
            errors.push(FieldError::invalid(failed_at, failed, detail));
        }
        if let (Some(count), Some(failed), true) =
            (completions, failed, self.changed("failedIndexes") || self.changed("completedIndexes"))
            && let Some(index) = overlap(completed, failed, count)
        {
            let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
            errors.push(FieldError::invalid(failed_at, failed, detail));
        }
    }

    fn success(&self, errors: &mut Vec<FieldError>) {
        let terminating = self.status.int("terminating").unwrap_or_default();
        let active = self.status.int("active").unwrap_or_default();
        if terminating > 0
            && is_finished(self.status)
            && (self.finish_changed() || self.changed("terminating"))
        {
            let at = self.path.child("terminating");
            errors.push(FieldError::invalid(at, terminating, "terminating>0 is invalid for finished job"));
        }
        if let Some(ready) = self.status.int("ready").filter(|ready| *ready > active)
            && (self.changed("ready") || self.changed("active"))
        {
            let detail = "cannot set more ready pods than active";
            errors.push(FieldError::invalid(self.path.child("ready"), ready, detail));
        }
        let met = self.holds("SuccessCriteriaMet");
        if met && self.holds("Failed") {
            self.conflict("cannot set SuccessCriteriaMet=True and Failed=true conditions", errors);
        }
        if met && self.holds("FailureTarget") {
            self.conflict("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions", errors);
        }
        if self.spec.has("successPolicy") && !met && self.holds("Complete") {
            let detail = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
            self.conflict(detail, errors);
        }
    }

    fn changes(&self, errors: &mut Vec<FieldError>) {
        for condition in ["Failed", "Complete", "FailureTarget"] {
            if is_true(self.before, condition) && !self.holds(condition) {
                self.conflict(&format!("cannot disable the terminal {condition}=True condition"), errors);
            }
        }
        let indexed = self.spec.str("completionMode") == "Indexed";
        let scalable = indexed && self.spec.at("completions") == self.spec.at("parallelism");
        for (field, checked) in [("failed", true), ("succeeded", !scalable)] {
            let count = self.status.int(field).unwrap_or_default();
            if checked && count < self.before.int(field).unwrap_or_default() {
                let detail = format!("cannot decrease the {field} counter");
                errors.push(FieldError::invalid(self.path.child(field), count, detail));
            }
        }
        let has = |status: &Value, field: &str| status.has(field);
        let at = self.path.child("completionTime");
        if has(self.status, "completionTime")
            && has(self.before, "completionTime")
            && self.changed("completionTime")
        {
            errors.push(FieldError::invalid(at, self.shown("completionTime"), IMMUTABLE));
        }
        let suspended = |status: &Value, value: &str| {
            let conditions = status.list("conditions");
            conditions.iter().any(|it| it.str("type") == "Suspended" && it.str("status") == value)
        };
        let resuming = suspended(self.before, "True") && suspended(self.status, "False");
        if has(self.before, "startTime")
            && self.changed("startTime")
            && !self.spec.bool("suspend")
            && !resuming
        {
            let detail = "field is immutable for unsuspended job once set";
            errors.push(FieldError::invalid(self.path.child("startTime"), self.shown("startTime"), detail));
        }
        let (met, was_met) = (self.holds("SuccessCriteriaMet"), is_true(self.before, "SuccessCriteriaMet"));
        if was_met && !met {
            self.conflict("cannot disable the SuccessCriteriaMet=True condition", errors);
        }
        if is_true(self.before, "Complete") && !was_met && met {
            let detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
            self.conflict(detail, errors);
        }
    }
}

/// Returns the first index that is in both lists. Intervals that cannot be parsed are skipped.
fn overlap(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    let intervals = |text: &str| -> Vec<(i64, i64)> {
        text.split(',').filter_map(|interval| bounds(interval, completions).ok()).collect()
    };
    let (completed, failed) = (intervals(completed), intervals(failed));
    let (mut c, mut f) = (completed.iter().peekable(), failed.iter().peekable());
    while let (Some(one), Some(other)) = (c.peek(), f.peek()) {
        if one.0 <= other.1 && other.0 <= one.1 {
            return Some(one.0.max(other.0));
        }
        if one.0 <= other.0 {
            c.next()
        } else {
            f.next()
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn told(status: Value, before: Value) -> Vec<String> {
        let spec = json!({"completions": 5, "parallelism": 1, "completionMode": "Indexed"});
        let mut errors = Vec::new();
        update(
            &json!({"spec": spec, "status": status}),
            &json!({"spec": spec, "status": before}),
            &mut errors,
        );
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_finished_job_stays_finished() {
        let done = json!({"startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:01Z", "succeeded": 5,
            "conditions": [{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}]});
        assert_eq!(told(done.clone(), json!({"startTime": "2026-01-01T00:00:00Z"})), [""; 0]);
        assert_eq!(
            told(json!({"startTime": "2026-01-01T00:00:00Z", "succeeded": 4}), done),
            [
                "status.conditions: Invalid value: cannot disable the terminal Complete=True condition",
                "status.succeeded: Invalid value: 4: cannot decrease the succeeded counter",
                "status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition"
            ]
        );
    }

    #[test]
    fn an_index_ends_once() {
        let wrong = told(json!({"completedIndexes": "0-2", "failedIndexes": "2"}), json!({}));
        assert_eq!(
            wrong,
            [
                "status.failedIndexes: Invalid value: \"2\": cannot set non-null failedIndexes when backoffLimitPerIndex is null",
                "status.failedIndexes: Invalid value: \"2\": failedIndexes and completedIndexes overlap at index: 2"
            ]
        );
    }
}
