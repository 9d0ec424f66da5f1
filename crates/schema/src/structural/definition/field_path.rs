//! Parses the `fieldPath` of a rule, such as `.spec.color` or `.spec['a b']`.

use crate::json::Value;
use crate::read::Read;
use crate::types::{Additional, Schema};

/// A schema that a path leads into: compiled, or as JSON.
pub(in crate::structural) trait Fields {
    /// Whether the schema has named fields.
    fn is_named(&self) -> bool;
    /// The schema of one field.
    fn named(&self, name: &str) -> Option<&Self>;
    /// The schema of a map's values.
    fn values(&self) -> Option<&Self>;
}

impl Fields for Value {
    fn is_named(&self) -> bool {
        self.map("properties").is_some_and(|properties| !properties.is_empty())
    }

    fn named(&self, name: &str) -> Option<&Self> {
        self.at("properties").at(name)
    }

    fn values(&self) -> Option<&Self> {
        self.at("additionalProperties").filter(|values| values.is_object())
    }
}

impl Fields for Schema {
    fn is_named(&self) -> bool {
        !self.properties.is_empty()
    }

    fn named(&self, name: &str) -> Option<&Self> {
        self.properties.get(name)
    }

    fn values(&self) -> Option<&Self> {
        match &self.additional {
            Additional::Schema(values) => Some(values),
            _ => None,
        }
    }
}

/// Resolves a path. Returns it without its leading dot, and the schema that it leads to.
pub(in crate::structural) fn find<'a, S: Fields>(
    schema: &'a S,
    text: &str,
    brackets: bool,
) -> Result<(String, &'a S), String> {
    let mut schema = schema;
    let mut found = String::new();
    let mut tokens = tokens(text).into_iter();
    while let Some(token) = tokens.next() {
        let (name, bracketed) = match token {
            "." => (tokens.next().ok_or("unexpected end of JSON path")?.to_owned(), false),
            "[" if !brackets => return Err("array notation is not allowed".into()),
            "[" => {
                let name = tokens.next().ok_or("unexpected end of JSON path")?;
                let inner = name.strip_prefix('\'').and_then(|name| name.strip_suffix('\''));
                let inner = inner.ok_or_else(|| format!("expected single quoted string but got {name}"))?;
                (inner.replace("\\'", "'"), true)
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        schema = step(schema, &name, &mut found)?;
        if bracketed {
            match tokens.next() {
                Some("]") => {}
                Some(other) => return Err(format!("expected ] but got {other}")),
                None => return Err("unexpected end of JSON path".into()),
            }
        }
    }
    Ok((found, schema))
}

fn step<'a, S: Fields>(schema: &'a S, name: &str, found: &mut String) -> Result<&'a S, String> {
    let invalid = || "does not refer to a valid field".to_owned();
    if schema.is_named() {
        if !found.is_empty() {
            found.push('.');
        }
        found.push_str(name);
        return schema.named(name).ok_or_else(invalid);
    }
    let values = schema.values().ok_or_else(invalid)?;
    found.push_str(&format!("[{name}]"));
    Ok(values)
}

/// Splits a path into tokens: dots, brackets, quoted strings and names.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = match rest.chars().next() {
            Some('.' | '[' | ']') => 1,
            Some('\'') => {
                let bytes = rest.as_bytes();
                let close = (1..bytes.len()).find(|at| bytes[*at] == b'\'' && bytes[at - 1] != b'\\');
                close.map_or(rest.len(), |close| close + 1)
            }
            _ => rest.find(['.', '[', ']']).unwrap_or(rest.len()),
        };
        tokens.push(&rest[..end]);
        rest = &rest[end..];
    }
    tokens
}
