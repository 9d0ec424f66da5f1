//! Validates names: DNS labels and subdomains, qualified names, label values, ports.
//!
//! Each function returns the error messages for a name, none if the name is valid. The texts are those of Kubernetes, which
//! has two families of them: the older one counts in "characters", the newer one in "bytes".

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const LABEL_TEXT: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const SUBDOMAIN_TEXT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const SUBDOMAIN_UNDERSCORE: &str = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";
const SUBDOMAIN_UNDERSCORE_TEXT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character";
const LABEL_1035: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const LABEL_1035_TEXT: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character";
const WILDCARD: &str = r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const WILDCARD_TEXT: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character";
const LABEL_KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_KEY_TEXT: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const LABEL_VALUE_TEXT: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const CONFIG_KEY: &str = "[-._a-zA-Z0-9]+";
const CONFIG_KEY_TEXT: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
const C_IDENTIFIER: &str = "[A-Za-z_][A-Za-z0-9_]*";
const C_IDENTIFIER_TEXT: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'";
const HEADER: &str = "[-A-Za-z0-9]+";
const HEADER_TEXT: &str = "a valid HTTP header must consist of alphanumeric characters or '-'";
const PERCENT: &str = "[0-9]+%";
const PERCENT_TEXT: &str = "a valid percent string must be a numeric string followed by an ending '%'";
const ENV_TEXT: &str =
    "a valid environment variable name must consist only of printable ASCII characters other than '='";

/// The longest DNS label, label value and name part of a qualified name.
pub const LABEL_MAX: usize = 63;
/// The longest DNS subdomain, and so the longest name of most objects.
pub const SUBDOMAIN_MAX: usize = 253;
/// The longest port name.
const PORT_NAME_MAX: usize = 15;

/// The message for a value that does not match a regular expression.
pub fn regex_error(text: &str, pattern: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{text} (regex used for validation is '{pattern}')");
    }
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{text} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

/// The message for a text of more than `max` characters.
pub fn max_characters(max: usize) -> String {
    format!("must be no more than {max} characters")
}

fn max_bytes(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

/// The message for a number outside of a range.
pub fn inclusive_range(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

fn is_lower_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Whether the first and the last byte satisfy `edge`, and all bytes between them `inner`.
fn framed(text: &str, edge: fn(u8) -> bool, inner: fn(u8) -> bool) -> bool {
    match text.as_bytes() {
        [] => false,
        [only] => edge(*only),
        [first, middle @ .., last] => edge(*first) && edge(*last) && middle.iter().all(|byte| inner(*byte)),
    }
}

fn has_label_form(text: &str) -> bool {
    framed(text, is_lower_alphanumeric, |byte| is_lower_alphanumeric(byte) || byte == b'-')
}

fn has_subdomain_form(text: &str) -> bool {
    text.split('.').all(has_label_form)
}

fn has_label_key_form(text: &str) -> bool {
    framed(
        text,
        |byte| byte.is_ascii_alphanumeric(),
        |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'),
    )
}

/// Validates a DNS label (RFC 1123): the names of namespaces, services and containers.
pub fn dns1123_label(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LABEL_MAX {
        errors.push(max_characters(LABEL_MAX));
    }
    if !has_label_form(text) {
        if has_subdomain_form(text) {
            errors.push("must not contain dots".into());
        } else {
            errors.push(regex_error(LABEL_TEXT, LABEL, &["my-name", "123-abc"]));
        }
    }
    errors
}

/// Validates a DNS subdomain (RFC 1123): the names of most objects.
pub fn dns1123_subdomain(text: &str) -> Vec<String> {
    subdomain(text, max_characters(SUBDOMAIN_MAX))
}

fn subdomain(text: &str, too_long: String) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > SUBDOMAIN_MAX {
        errors.push(too_long);
    }
    if !has_subdomain_form(text) {
        errors.push(regex_error(SUBDOMAIN_TEXT, SUBDOMAIN, &["example.com"]));
    }
    errors
}

/// Validates a DNS subdomain whose labels may also contain underscores.
pub fn dns1123_subdomain_with_underscore(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > SUBDOMAIN_MAX {
        errors.push(max_characters(SUBDOMAIN_MAX));
    }
    let has_form = text.split('.').all(|label| {
        let rest = label.strip_prefix('_').unwrap_or(label);
        framed(rest, is_lower_alphanumeric, |byte| is_lower_alphanumeric(byte) || matches!(byte, b'-' | b'_'))
    });
    if !has_form {
        errors.push(regex_error(SUBDOMAIN_UNDERSCORE_TEXT, SUBDOMAIN_UNDERSCORE, &["example.com"]));
    }
    errors
}

/// Validates a DNS label (RFC 1035), which starts with a letter: plural names of resources, older service names.
pub fn dns1035_label(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LABEL_MAX {
        errors.push(max_characters(LABEL_MAX));
    }
    if !(has_label_form(text) && text.starts_with(|c: char| c.is_ascii_lowercase())) {
        errors.push(regex_error(LABEL_1035_TEXT, LABEL_1035, &["my-name", "abc-123"]));
    }
    errors
}

/// Validates `*.` followed by a DNS subdomain.
pub fn wildcard_dns1123_subdomain(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > SUBDOMAIN_MAX {
        errors.push(max_characters(SUBDOMAIN_MAX));
    }
    if !text.strip_prefix("*.").is_some_and(has_subdomain_form) {
        errors.push(regex_error(WILDCARD_TEXT, WILDCARD, &["*.example.com"]));
    }
    errors
}

/// Validates a name with an optional DNS prefix: the keys of labels and annotations, finalizers.
pub fn qualified_name(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let regex = || regex_error(LABEL_KEY_TEXT, LABEL_KEY, &["MyName", "my.name", "123-abc"]);
    let mut parts = text.split('/');
    let (name, rest) = match (parts.next(), parts.next(), parts.next()) {
        (Some(prefix), Some(name), None) => (name, Some(prefix)),
        (Some(name), None, _) => (name, None),
        _ => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                regex()
            )];
        }
    };
    match rest {
        Some("") => errors.push("prefix part must be non-empty".into()),
        Some(prefix) => errors.extend(
            subdomain(prefix, max_bytes(SUBDOMAIN_MAX)).into_iter().map(|text| format!("prefix part {text}")),
        ),
        None => {}
    }
    if name.is_empty() {
        errors.push("name part must be non-empty".into());
    } else if name.len() > LABEL_MAX {
        errors.push(format!("name part {}", max_bytes(LABEL_MAX)));
    }
    if !has_label_key_form(name) {
        errors.push(format!("name part {}", regex()));
    }
    errors
}

/// Validates the value of a label.
pub fn label_value(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LABEL_MAX {
        errors.push(max_bytes(LABEL_MAX));
    }
    if !text.is_empty() && !has_label_key_form(text) {
        errors.push(regex_error(LABEL_VALUE_TEXT, LABEL_VALUE, &["MyValue", "my_value", "12345"]));
    }
    errors
}

/// Validates a key of a ConfigMap or a Secret.
pub fn config_map_key(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > SUBDOMAIN_MAX {
        errors.push(max_characters(SUBDOMAIN_MAX));
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if text.is_empty() || !text.bytes().all(allowed) {
        errors.push(regex_error(CONFIG_KEY_TEXT, CONFIG_KEY, &["key.name", "KEY_NAME", "key-name"]));
    }
    match text {
        "." => errors.push("must not be '.'".into()),
        ".." => errors.push("must not be '..'".into()),
        _ if text.starts_with("..") => errors.push("must not start with '..'".into()),
        _ => {}
    }
    errors
}

/// Validates the name of an environment variable, by the relaxed rules of current Kubernetes versions.
pub fn env_var_name(text: &str) -> Vec<String> {
    if text.is_empty() {
        return vec!["environment variable name must be non-empty".into()];
    }
    match text.chars().any(|c| !c.is_ascii() || c.is_ascii_control() || c == '=') {
        true => vec![ENV_TEXT.into()],
        false => Vec::new(),
    }
}

/// Validates a C identifier.
pub fn c_identifier(text: &str) -> Vec<String> {
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    match starts && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        true => Vec::new(),
        false => vec![regex_error(C_IDENTIFIER_TEXT, C_IDENTIFIER, &["my_name", "MY_NAME", "MyName"])],
    }
}

/// Validates the name of an HTTP header.
pub fn http_header_name(text: &str) -> Vec<String> {
    match !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        true => Vec::new(),
        false => vec![regex_error(HEADER_TEXT, HEADER, &["X-Header-Name"])],
    }
}

/// Validates a percentage such as `25%`.
pub fn percent(text: &str) -> Vec<String> {
    let digits = text.strip_suffix('%').unwrap_or_default();
    match !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        true => Vec::new(),
        false => vec![regex_error(PERCENT_TEXT, PERCENT, &["1%", "93%"])],
    }
}

/// Validates a port number.
pub fn port_number(port: i64) -> Vec<String> {
    match (1..=65535).contains(&port) {
        true => Vec::new(),
        false => vec![inclusive_range(1, 65535)],
    }
}

/// Validates a port name (an IANA service name).
pub fn port_name(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > PORT_NAME_MAX {
        errors.push(max_characters(PORT_NAME_MAX));
    }
    if text.is_empty() || !text.bytes().all(|byte| is_lower_alphanumeric(byte) || byte == b'-') {
        errors.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".into());
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)".into());
    }
    if text.contains("--") {
        errors.push("must not contain consecutive hyphens".into());
    }
    if text.starts_with('-') || text.ends_with('-') {
        errors.push("must not begin or end with a hyphen".into());
    }
    errors
}

/// Validates a name that must be safe as a segment of a URL path: the names of RBAC objects, for example.
pub fn path_segment(text: &str) -> Vec<String> {
    if matches!(text, "." | "..") {
        return vec![format!("may not be '{text}'")];
    }
    path_segment_prefix(text)
}

/// Validates the `generateName` of an object whose name must be safe as a segment of a URL path.
pub fn path_segment_prefix(text: &str) -> Vec<String> {
    ["/", "%"]
        .into_iter()
        .filter(|part| text.contains(part))
        .map(|part| format!("may not contain '{part}'"))
        .collect()
}

/// Prepares a `generateName` for validation: if it ends in a dash, its last two characters become an `a`.
pub fn mask_trailing_dash(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let mut masked = rest.to_owned();
            masked.pop();
            masked.push('a');
            masked
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(form: fn(&str) -> Vec<String>, good: &[&str], bad: &[&str]) {
        for text in good {
            assert_eq!(form(text), Vec::<String>::new(), "{text}");
        }
        for text in bad {
            assert_ne!(form(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn labels() {
        let long = "a".repeat(64);
        check(dns1123_label, &["a", "a-b", "0"], &["", "-a", "a-", "A", "a.b", "a_b", &long]);
        check(dns1035_label, &["a", "a-0"], &["0a", "", "a-", "a.b"]);
        assert_eq!(dns1123_label("a.b"), ["must not contain dots"]);
        assert_eq!(dns1123_label(&long), ["must be no more than 63 characters"]);
    }

    #[test]
    fn subdomains() {
        check(dns1123_subdomain, &["a", "a.b", "a-b.0"], &["", ".", "a.", ".a", "a..b", "A", "a_b"]);
        check(wildcard_dns1123_subdomain, &["*.a", "*.a.b"], &["*", "*.", "a.b", "*.*.a"]);
        check(dns1123_subdomain_with_underscore, &["_a.b_c"], &["__a", "a_"]);
        assert_eq!(
            dns1123_subdomain("A"),
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        );
    }

    #[test]
    fn keys_and_values() {
        check(
            qualified_name,
            &["a", "A.b_c-d", "example.com/a"],
            &["", "/a", "a/", "a/b/c", "-a", "A.com/a", "a b"],
        );
        check(label_value, &["", "a", "A.b"], &["-a", "a b", "a-"]);
        assert_eq!(label_value(&"a".repeat(64)), ["must be no more than 63 bytes"]);
        check(config_map_key, &["a", ".a", "A-b_c"], &["", ".", "..", "..a", "a/b"]);
    }

    #[test]
    fn ports_and_the_rest() {
        check(port_name, &["http", "a-1"], &["", "1", "-a", "a--b", "A", "abcdefghijklmnop"]);
        check(path_segment, &["a:b", "A"], &[".", "..", "a/b", "a%b"]);
        check(env_var_name, &["A", "1a", "a b"], &["", "a=b", "é"]);
        check(percent, &["1%", "100%"], &["%", "1", "-1%"]);
        check(c_identifier, &["_a1"], &["1a", "a-b", ""]);
        check(http_header_name, &["X-A"], &["", "a b"]);
        assert_eq!(mask_trailing_dash("web-"), "wea");
    }
}
