//! Makes Rust identifiers from the names of a schema, which may be any text.

use std::collections::BTreeSet;

/// Keywords of Rust that a raw identifier (`r#type`) can spell.
const KEYWORDS: [&str; 49] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro",
    "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "static", "struct", "trait",
    "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
    "union",
];

/// Keywords that cannot be raw identifiers.
const UNSPEAKABLE: [&str; 5] = ["self", "Self", "super", "crate", "_"];

/// Type names that generated code already uses, from the prelude or by import. Generated types must not have these
/// names.
pub(crate) const TAKEN: [&str; 36] = [
    "BTreeMap",
    "Box",
    "ByteString",
    "Clone",
    "Copy",
    "Cow",
    "CustomResource",
    "CustomResourceDefinition",
    "CustomResourceExt",
    "Debug",
    "Default",
    "Deserialize",
    "Drop",
    "Eq",
    "Err",
    "Fn",
    "From",
    "IntOrString",
    "Into",
    "Iterator",
    "JsonSchema",
    "None",
    "Ok",
    "Option",
    "PartialEq",
    "Quantity",
    "Result",
    "Schema",
    "SchemaGenerator",
    "Self",
    "Serialize",
    "Some",
    "String",
    "Time",
    "Value",
    "Vec",
];

/// Splits a name into words: `clusterIP` into `cluster` and `IP`, `HTTPRoute` into `HTTP` and `Route`.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![String::new()];
    let letters: Vec<char> = name.chars().collect();
    for (at, &letter) in letters.iter().enumerate() {
        if !letter.is_ascii_alphanumeric() {
            words.push(String::new());
            continue;
        }
        let before = at.checked_sub(1).map(|at| letters[at]);
        let after = letters.get(at + 1);
        let starts = letter.is_ascii_uppercase()
            && (before.is_some_and(|before| before.is_ascii_lowercase() || before.is_ascii_digit())
                || after.is_some_and(|after| after.is_ascii_lowercase()));
        if starts {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.push(letter);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Makes the name of a type, or a part of one: each word begins with a capital, and other capitals are kept.
pub(crate) fn pascal(name: &str) -> String {
    let mut text = String::new();
    for part in name.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|part| !part.is_empty()) {
        let (first, rest) = part.split_at(1);
        text.push_str(&first.to_ascii_uppercase());
        text.push_str(rest);
    }
    text
}

/// Makes the name of a field or a module.
pub(crate) fn snake(name: &str) -> String {
    let text = words(name).join("_").to_ascii_lowercase();
    if text.is_empty() { "field".to_owned() } else { text }
}

/// Makes an identifier from text that consists of letters, digits and underscores.
fn identifier(text: &str) -> String {
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        return format!("_{text}");
    }
    if UNSPEAKABLE.contains(&text) {
        return format!("{text}_");
    }
    if KEYWORDS.contains(&text) { format!("r#{text}") } else { text.to_owned() }
}

/// The names in use in one scope.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    taken: BTreeSet<String>,
}

impl Scope {
    /// Makes a scope in which these names are in use.
    pub(crate) fn with(taken: &[&str]) -> Self {
        Self { taken: taken.iter().map(|&name| name.to_owned()).collect() }
    }

    /// Whether the name is not in use yet.
    pub(crate) fn is_free(&self, name: &str) -> bool {
        !self.taken.contains(name)
    }

    /// Reserves `wanted`, or `wanted` with the lowest number that makes it unique.
    pub(crate) fn give(&mut self, wanted: &str, separator: &str) -> String {
        let numbered = (2..).map(|number| format!("{wanted}{separator}{number}"));
        let name = std::iter::once(wanted.to_owned()).chain(numbered).find(|name| self.is_free(name));
        let name = name.expect("there is always a higher number");
        self.taken.insert(name.clone());
        name
    }

    /// Reserves the name of a field or a module.
    pub(crate) fn give_snake(&mut self, name: &str) -> String {
        identifier(&self.give(&snake(name), "_"))
    }

    /// Reserves the name of a type.
    pub(crate) fn give_type(&mut self, name: &str) -> String {
        let text = pascal(name);
        let text = if text.is_empty() { "Type".to_owned() } else { text };
        let text =
            if text.starts_with(|first: char| first.is_ascii_digit()) { format!("T{text}") } else { text };
        self.give(&text, "")
    }

    /// Reserves the name of an enum variant.
    pub(crate) fn give_variant(&mut self, value: &str) -> String {
        let text = match value {
            "" => "Empty".to_owned(),
            "*" => "Any".to_owned(),
            value => pascal(&spell_signs(value)),
        };
        let text = if text.is_empty() { "Other".to_owned() } else { text };
        let text = if text == "Self" { "Itself".to_owned() } else { text };
        let text =
            if text.starts_with(|first: char| first.is_ascii_digit()) { format!("V{text}") } else { text };
        self.give(&text, "")
    }
}

/// Replaces comparison and range signs by words, because identifiers cannot contain them.
fn spell_signs(value: &str) -> String {
    if value.contains(|letter: char| letter.is_ascii_alphanumeric()) {
        return value.to_owned();
    }
    let spell = |sign: char| match sign {
        '<' => "Less",
        '>' => "Greater",
        '=' => "Equal",
        '!' => "Not",
        '+' => "Plus",
        '-' => "Minus",
        '*' => "Star",
        '/' => "Slash",
        '.' => "Dot",
        '&' => "And",
        '|' => "Or",
        '~' => "Tilde",
        '%' => "Percent",
        _ => "Sign",
    };
    value.chars().map(spell).collect()
}

/// Returns what serde's `rename_all = "camelCase"` makes of a field name.
pub(crate) fn camel(field: &str) -> String {
    let field = field.strip_prefix("r#").unwrap_or(field);
    let mut text = String::new();
    let mut capital = false;
    for letter in field.chars() {
        if letter == '_' {
            capital = true;
        } else if capital {
            text.push(letter.to_ascii_uppercase());
            capital = false;
        } else {
            text.push(letter);
        }
    }
    // serde first makes the Pascal form, which begins with a capital, and then lowers that letter.
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_ascii_lowercase().to_string() + letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_snake_case_identifiers() {
        let cases = [
            ("dnsNames", "dns_names"),
            ("clusterIP", "cluster_ip"),
            ("IPAddress", "ip_address"),
            ("HTTPRoute", "http_route"),
            ("type", "r#type"),
            ("self", "self_"),
            ("1st", "_1st"),
            ("$ref", "r#ref"),
            ("a-b.c/d", "a_b_c_d"),
            ("ß", "field"),
            ("", "field"),
        ];
        for (name, expected) in cases {
            assert_eq!(Scope::default().give_snake(name), expected, "{name}");
        }
    }

    #[test]
    fn names_that_collide_are_numbered() {
        let mut scope = Scope::default();
        assert_eq!(scope.give_snake("fooBar"), "foo_bar");
        assert_eq!(scope.give_snake("foo_bar"), "foo_bar_2");
        assert_eq!(scope.give_snake("foo-bar"), "foo_bar_3");
        let mut scope = Scope::default();
        let values = ["A", "a", "", "=", "!=", "10", "1.0", "self", "*"];
        let variants: Vec<String> = values.iter().map(|value| scope.give_variant(value)).collect();
        assert_eq!(variants, ["A", "A2", "Empty", "Equal", "NotEqual", "V10", "V102", "Itself", "Any"]);
    }

    #[test]
    fn camel_case_is_serdes() {
        for (field, expected) in
            [("dns_names", "dnsNames"), ("r#type", "type"), ("_1st", "1st"), ("self_", "self")]
        {
            assert_eq!(camel(field), expected, "{field}");
        }
    }
}
