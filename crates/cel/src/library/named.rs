//! The named formats of Kubernetes' format library, such as `format.dns1123Label()`.

use crate::value::url;
use crate::value::{Fault, Outcome, Value};
use evenkeel_scalars::formats;
use evenkeel_scalars::names;

const NAMES: [&str; 13] = [
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

/// The format of this name; `None` if there is none.
pub(crate) fn find(name: &str) -> Option<&'static str> {
    NAMES.into_iter().find(|known| *known == name)
}

/// Validates a string against a format. Returns an optional of the list of errors, empty if the string is valid.
pub(crate) fn validate<'a>(format: &str, text: &str) -> Outcome<Value<'a>> {
    let masked = || names::mask_trailing_dash(text);
    let checked = |known: &str, problem: &str| match formats::matches(known, text) {
        true => Vec::new(),
        false => vec![problem.to_owned()],
    };
    let problems = match format {
        "dns1123Label" => names::dns1123_label(text),
        "dns1123Subdomain" => names::dns1123_subdomain(text),
        "dns1035Label" => names::dns1035_label(text),
        "qualifiedName" => names::qualified_name(text),
        "dns1123LabelPrefix" => names::dns1123_label(&masked()),
        "dns1123SubdomainPrefix" => names::dns1123_subdomain(&masked()),
        "dns1035LabelPrefix" => names::dns1035_label(&masked()),
        "labelValue" => names::label_value(text),
        "uri" => match url::parse(text) {
            Err(Fault::Error(problem)) => {
                let context = "URL parse error during conversion from string: ";
                vec![problem.strip_prefix(context).unwrap_or(&problem).to_owned()]
            }
            _ => Vec::new(),
        },
        "uuid" => checked("uuid", "does not match the UUID format"),
        "byte" => checked("byte", "invalid base64"),
        "date" => checked("date", "invalid date"),
        _ => checked("datetime", "invalid datetime"),
    };
    Ok(match problems.is_empty() {
        true => Value::Optional(None),
        false => Value::some(Value::texts(problems)),
    })
}
