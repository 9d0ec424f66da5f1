//! The Pod Security policy of a namespace, from its labels.

use std::fmt;

use evenkeel_schema::field::{FieldError, Path};

/// A level of the Pod Security Standards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    #[default]
    Privileged,
    Baseline,
    Restricted,
}

/// A level of the Pod Security Standards in a version of Kubernetes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) level: Level,
    /// The minor version; `None` for the latest.
    pub(super) version: Option<u32>,
}

/// The policy of a namespace: the rule for each mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) enforce: Rule,
    pub(super) audit: Rule,
    pub(super) warn: Rule,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        match self.version {
            Some(minor) => write!(f, "{level}:v1.{minor}"),
            None => write!(f, "{level}:latest"),
        }
    }
}

impl Policy {
    /// Parses the labels of a namespace and returns their errors. An invalid level counts as `restricted` in
    /// the mode `enforce`, and as `privileged` in the other modes.
    pub(super) fn read(label: impl Fn(&str) -> Option<String>) -> (Self, Vec<FieldError>) {
        let mut errors = Vec::new();
        let mut rules = [Rule::default(); 3];
        let mut said = [(false, false); 3];
        for ((rule, said), mode) in rules.iter_mut().zip(&mut said).zip(["enforce", "audit", "warn"]) {
            let name = format!("pod-security.kubernetes.io/{mode}");
            if let Some(text) = label(&name) {
                let level = level(&text);
                said.0 = level.is_some() || mode == "warn";
                let otherwise = if mode == "enforce" { Level::Restricted } else { Level::Privileged };
                rule.level = level.unwrap_or(otherwise);
                if level.is_none() {
                    errors.push(error(&name, &text, "must be one of privileged, baseline, restricted"));
                }
            }
            let name = format!("{name}-version");
            if let Some(text) = label(&name) {
                said.1 = true;
                let version = version(&text);
                rule.version = version.flatten();
                if version.is_none() {
                    errors.push(error(&name, &text, "must be \"latest\" or \"v1.x\""));
                }
            }
        }
        let [enforce, audit, mut warn] = rules;
        if !said[2].0 && said[0].0 && enforce.level > warn.level {
            warn.level = enforce.level;
            if !said[2].1 {
                warn.version = enforce.version;
            }
        }
        (Self { enforce, audit, warn }, errors)
    }

    pub(super) fn demands_nothing(&self) -> bool {
        [self.enforce, self.audit, self.warn].iter().all(|rule| rule.level == Level::Privileged)
    }
}

fn error(label: &str, value: &str, why: &str) -> FieldError {
    FieldError::invalid(Path::new("metadata").child("labels").key(label), value, why)
}

fn level(text: &str) -> Option<Level> {
    match text {
        "privileged" => Some(Level::Privileged),
        "baseline" => Some(Level::Baseline),
        "restricted" => Some(Level::Restricted),
        _ => None,
    }
}

/// Parses a version; the outer `None` is an error, the inner `None` means the latest version.
fn version(text: &str) -> Option<Option<u32>> {
    if text == "latest" {
        return Some(None);
    }
    let minor = text.strip_prefix("v1.")?;
    let plain = minor == "0" || !minor.starts_with('0') && minor.bytes().all(|it| it.is_ascii_digit());
    if plain { minor.parse().ok().map(Some) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(labels: &[(&str, &str)]) -> (Policy, Vec<FieldError>) {
        let find = |name: &str| {
            let own = name.trim_start_matches("pod-security.kubernetes.io/");
            labels.iter().find(|(key, _)| *key == own).map(|(_, value)| (*value).to_owned())
        };
        Policy::read(find)
    }

    #[test]
    fn what_is_enforced_is_warned_of_unless_the_namespace_says_otherwise() {
        let (policy, errors) = read(&[("enforce", "baseline"), ("enforce-version", "v1.25")]);
        assert_eq!((policy.warn.to_string(), errors.len()), ("baseline:v1.25".to_owned(), 0));
        let (policy, _) = read(&[("enforce", "baseline"), ("warn", "privileged")]);
        assert_eq!(policy.warn.level, Level::Privileged);
    }

    #[test]
    fn labels_that_cannot_be_read_are_named() {
        let (policy, errors) = read(&[("enforce", "strict"), ("warn-version", "1.2")]);
        assert_eq!((policy.enforce.level, errors.len()), (Level::Restricted, 2));
    }
}
