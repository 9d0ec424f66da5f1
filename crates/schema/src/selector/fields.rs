//! Field selectors: equality on the few selectable fields of a kind.

use std::fmt;

/// A requirement on one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    /// The path of the field, such as `metadata.name`.
    pub field: String,
    /// Whether the field must be equal to the value; otherwise it must differ.
    pub equals: bool,
    /// The value that the field is compared with.
    pub value: String,
}

/// A conjunction of requirements on fields.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

impl FieldSelector {
    /// Parses a field selector of a query string. The error is the message of Kubernetes.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut terms = split_terms(text);
        terms.sort_unstable();
        let mut requirements = Vec::new();
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            let (field, equals, value) = split_term(term)
                .ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{term}'"))?;
            let value = unescape(value)?;
            // A term of nothing but an operator matches everything.
            if !field.is_empty() || !value.is_empty() {
                requirements.push(FieldRequirement { field: field.to_owned(), equals, value });
            }
        }
        Ok(FieldSelector { requirements })
    }

    /// The requirements, sorted by their text.
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// The requirements, so that a caller can replace deprecated field names.
    pub fn requirements_mut(&mut self) -> &mut Vec<FieldRequirement> {
        &mut self.requirements
    }

    /// Whether the selector matches every object.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The value that the field must have; `None` unless the selector demands exactly one.
    pub fn exact(&self, field: &str) -> Option<&str> {
        let found =
            self.requirements.iter().find(|requirement| requirement.equals && requirement.field == field);
        found.map(|requirement| requirement.value.as_str())
    }

    /// Whether the selector matches the fields that `get` looks up. An absent field has the value "".
    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| {
            (get(&requirement.field).unwrap_or_default() == requirement.value) == requirement.equals
        })
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let operator = if requirement.equals { "=" } else { "!=" };
            let value = requirement.value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
            write!(f, "{comma}{}{operator}{value}", requirement.field)?;
        }
        Ok(())
    }
}

/// Splits a selector at commas that are not escaped by a backslash.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (index, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

/// Splits a term at the first operator: the field, whether it must be equal, and the escaped value.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    for (index, _) in term.char_indices() {
        let rest = &term[index..];
        for (operator, equals) in [("!=", false), ("==", true), ("=", true)] {
            if let Some(value) = rest.strip_prefix(operator) {
                return Some((&term[..index], equals, value));
            }
        }
    }
    None
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(next @ ('\\' | ',' | '=')) => out.push(next),
                Some(next) => {
                    return Err(format!("invalid field selector: invalid escape sequence: \\{next}"));
                }
                None => return Err("invalid field selector: invalid escape sequence: \\".into()),
            },
            // Kubernetes prints the code point of the character here, not the character.
            ',' | '=' => {
                return Err(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(c)
                ));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parses_and_matches() {
        for everything in ["=", "==", "!=", "=,"] {
            assert!(FieldSelector::parse(everything).expect("well-formed").is_everything(), "{everything}");
        }
        let selector = FieldSelector::parse("metadata.name=a,status.phase!=Running,").expect("well-formed");
        assert_eq!(selector.exact("metadata.name"), Some("a"));
        assert_eq!(selector.exact("status.phase"), None);
        assert!(selector.matches(|field| (field == "metadata.name").then_some("a")));
        assert!(!selector.matches(|_| None));
    }

    #[test]
    fn refuses_as_kubernetes_does() {
        for (text, error) in [
            ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
            ("a=b=c", "invalid field selector: unescaped character in value: 61"),
            (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
            (r"a=b\", r"invalid field selector: invalid escape sequence: \"),
        ] {
            assert_eq!(FieldSelector::parse(text).expect_err(text), error);
        }
    }

    proptest! {
        #[test]
        fn survives_its_text_form(value in ".{0,12}") {
            let selector = FieldSelector {
                requirements: vec![FieldRequirement { field: "a".into(), equals: true, value }],
            };
            prop_assert_eq!(FieldSelector::parse(&selector.to_string()).expect("own text"), selector);
        }
    }
}
