//! The Windows options of a security context.

use evenkeel_scalars::go_regex;

use crate::field::{FieldError, Path};
use crate::json::Value;
use crate::names;
use crate::read::Read;
use crate::validate::field_rules::named;

/// The largest credential spec, in KiB, which must fit into the Windows registry.
const CREDENTIAL_SPEC_KIB_MAX: usize = 64;
/// The limit on the length of a user name's domain, exclusive.
const DOMAIN_LIMIT: usize = 256;
/// The longest user name without its domain.
const USER_MAX: usize = 104;
const NET_BIOS: &str = r#"^[^\\/:\*\?"<>|\.][^\\/:\*\?"<>|]{0,14}$"#;
const DNS_DOMAIN: &str =
    r"^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$";
const USER_CHARACTERS: &str = r#""/\:;|=,+*?<>@[]"#;

/// Validates the Windows options of a pod or a container.
pub(super) fn options(path: &Path<'_>, options: Option<&Value>, errors: &mut Vec<FieldError>) {
    let Some(options) = options else { return };
    let text = |field: &str| options.at(field).and_then(Value::as_str);
    if let Some(name) = text("gmsaCredentialSpecName") {
        let at = path.child("gmsaCredentialSpecName");
        named(&at, name, names::dns1123_subdomain(name), errors);
    }
    if let Some(spec) = text("gmsaCredentialSpec") {
        let at = path.child("gmsaCredentialSpec");
        if spec.is_empty() {
            errors.push(FieldError::invalid(at, spec, "gmsaCredentialSpec cannot be an empty string"));
        } else if spec.len() > CREDENTIAL_SPEC_KIB_MAX * 1024 {
            let detail = format!("gmsaCredentialSpec size must be under {CREDENTIAL_SPEC_KIB_MAX} KiB");
            errors.push(FieldError::invalid(at, spec, detail));
        }
    }
    if let Some(name) = text("runAsUserName") {
        let at = path.child("runAsUserName");
        named(&at, name, user_name(name), errors);
    }
}

/// Returns the problems of a user name, which may have a domain before a backslash.
fn user_name(name: &str) -> Vec<String> {
    if name.is_empty() {
        return vec!["runAsUserName cannot be an empty string".to_owned()];
    }
    if name.chars().any(|character| character.is_ascii_control()) {
        return vec!["runAsUserName cannot contain control characters".to_owned()];
    }
    let (domain, user) = match name.split_once('\\') {
        Some((_, user)) if user.contains('\\') => {
            return vec!["runAsUserName cannot contain more than one backslash".to_owned()];
        }
        Some((domain, user)) => (Some(domain), user),
        None => (None, name),
    };
    let mut wrong = Vec::new();
    if domain.is_some_and(|domain| domain.len() >= DOMAIN_LIMIT) {
        wrong.push(format!("runAsUserName's Domain length must be under {DOMAIN_LIMIT} characters"));
    }
    let is_domain =
        |domain: &str| go_regex::is_match(NET_BIOS, domain) || go_regex::is_match(DNS_DOMAIN, domain);
    if domain.is_some_and(|domain| !is_domain(domain)) {
        wrong.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format".to_owned());
    }
    if user.is_empty() {
        wrong.push("runAsUserName's User cannot be empty".to_owned());
    } else if user.len() > USER_MAX {
        wrong.push(format!("runAsUserName's User length must not be longer than {USER_MAX} characters"));
    }
    if !user.is_empty() && user.chars().all(|character| matches!(character, '.' | ' ')) {
        wrong.push("runAsUserName's User cannot contain only periods or spaces".to_owned());
    }
    if user.chars().any(|character| USER_CHARACTERS.contains(character)) {
        let detail =
            format!("runAsUserName's User cannot contain the following characters: {USER_CHARACTERS}");
        wrong.push(detail);
    }
    wrong
}
