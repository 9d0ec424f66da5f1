//! Semantic versions.

use std::cmp::Ordering;

use crate::value::{Fault, Outcome, Value};
use evenkeel_scalars::go::quote;

/// A semantic version. Comparisons ignore its build metadata.
#[derive(Debug)]
pub struct Version {
    numbers: [u64; 3],
    pre: Vec<Pre>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Pre {
    Number(u64),
    Text(String),
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Version {}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.pre.cmp(&other.pre),
        })
    }
}

impl Version {
    pub(crate) fn part<'a>(&self, function: &str) -> Outcome<Value<'a>> {
        let at = ["major", "minor", "patch"].iter().position(|name| *name == function);
        let at = at.ok_or_else(Fault::no_overload)?;
        Ok(Value::Int(self.numbers[at] as i64))
    }
}

/// Parses a version. With `loose`, it may lack parts, begin with `v` and have leading zeros.
pub(crate) fn parse(text: &str, loose: bool) -> Outcome<Version> {
    let loosened;
    let text = if loose {
        loosened = loosen(text)?;
        &loosened
    } else {
        text
    };
    if text.is_empty() {
        return Err(Fault::new("Version string empty"));
    }
    let parts: Vec<&str> = text.splitn(3, '.').collect();
    let &[major, minor, rest] = parts.as_slice() else {
        return Err(Fault::new("No Major.Minor.Patch elements found"));
    };
    let (major, minor) = (number("major", major)?, number("minor", minor)?);
    let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
    let (patch, pre) = rest.split_once('-').map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
    let patch = number("patch", patch)?;
    let pre = pre.into_iter().flat_map(|pre| pre.split('.')).map(prerelease).collect::<Outcome<_>>()?;
    for part in build.into_iter().flat_map(|build| build.split('.')) {
        if part.is_empty() {
            return Err(Fault::new("Build meta data is empty"));
        }
        if !is_word(part) {
            return Err(Fault::new(format!("Invalid character(s) found in build meta data {}", quote(part))));
        }
    }
    Ok(Version { numbers: [major, minor, patch], pre })
}

fn loosen(text: &str) -> Outcome<String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text.splitn(3, '.').map(str::to_owned).collect();
    for part in parts.iter_mut().filter(|part| part.len() > 1) {
        let stripped = part.trim_start_matches('0');
        *part = match stripped.starts_with(|c: char| c.is_ascii_digit()) {
            true => stripped.to_owned(),
            false => format!("0{stripped}"),
        };
    }
    if parts.len() < 3 {
        if parts.last().is_some_and(|part| part.contains(['+', '-'])) {
            return Err(Fault::new("short version cannot contain PreRelease/Build meta data"));
        }
        parts.resize(3, "0".to_owned());
    }
    Ok(parts.join("."))
}

fn number(which: &str, text: &str) -> Outcome<u64> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Fault::new(format!("Invalid character(s) found in {which} number {}", quote(text))));
    }
    if text.len() > 1 && text.starts_with('0') {
        let which = format!("{}{}", which[..1].to_uppercase(), &which[1..]);
        return Err(Fault::new(format!("{which} number must not contain leading zeroes {}", quote(text))));
    }
    let problem = if text.is_empty() { "invalid syntax" } else { "value out of range" };
    text.parse().map_err(|_| Fault::new(format!("strconv.ParseUint: parsing {}: {problem}", quote(text))))
}

fn is_word(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn prerelease(text: &str) -> Outcome<Pre> {
    if text.is_empty() {
        return Err(Fault::new("Prerelease is empty"));
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            let detail = "Numeric PreRelease version must not contain leading zeroes";
            return Err(Fault::new(format!("{detail} {}", quote(text))));
        }
        return number("", text).map(Pre::Number);
    }
    match is_word(text) {
        true => Ok(Pre::Text(text.to_owned())),
        false => Err(Fault::new(format!("Invalid character(s) found in prerelease {}", quote(text)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered() {
        let parsed = |text: &str| parse(text, false).unwrap();
        assert!(parsed("1.2.3-alpha.1") < parsed("1.2.3-alpha.b"));
        assert!(parsed("1.2.3-alpha") < parsed("1.2.3"));
        assert_eq!(parsed("1.2.3+a"), parsed("1.2.3+b"));
        assert!(parse("01.2.3", false).is_err());
        assert_eq!(parse("v01.2", true).unwrap(), parsed("1.2.0"));
    }
}
