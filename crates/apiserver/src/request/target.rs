//! What a request aims at, as authorization and the audit log see it.

use evenkeel_request_info::ApiPath;
use evenkeel_schema::selector::FieldSelector;
use http::Method;

use super::{ListQuery, Request};
use crate::access::Target;

impl Request<'_> {
    /// Whether a request may go on for as long as its client wants. Its `timeout` is not looked at.
    pub(crate) fn is_long_running(&self) -> bool {
        let ApiPath::Resource(path) = &self.route else { return false };
        matches!(self.verb(), "watch" | "proxy")
            || matches!(&*path.subresource, "attach" | "exec" | "proxy" | "log" | "portforward")
    }

    /// The name for which a list or a watch by `fieldSelector=metadata.name=…` is authorized.
    ///
    /// No other verb takes its name from a selector: a creation or a deletion of many by that selector would be allowed to
    /// whoever may touch that one object.
    pub(crate) fn selected_name(&self) -> Option<String> {
        let ApiPath::Resource(path) = &self.route else { return None };
        let reads_many = path.name.is_empty()
            && path.special_verb.is_none()
            && matches!(*self.method, Method::GET | Method::HEAD);
        if !reads_many || self.query.text("fieldSelector").is_empty() {
            return None;
        }
        // Options that cannot be read as a whole say nothing.
        let options = ListQuery::parse(&self.query).ok()?;
        let selector = FieldSelector::parse(&options.fields).ok()?;
        let name = selector.exact("metadata.name")?;
        (path_segment_error(name).is_none() && !has(name, b'/')).then(|| name.to_owned())
    }

    /// What a request aims at. `selected` is the name that it selects.
    pub(crate) fn target<'a>(&'a self, selected: Option<&'a str>) -> Target<'a> {
        match &self.route {
            ApiPath::NonResource | ApiPath::VerbOnly => Target::Path(&self.path),
            ApiPath::Resource(path) => Target::resource(path, selected.unwrap_or(&path.name)),
        }
    }
}

/// Why a name cannot be a segment of a path. Returns `None` if it can.
pub(crate) fn path_segment_error(name: &str) -> Option<&'static str> {
    match name {
        "." => Some("may not be '.'"),
        ".." => Some("may not be '..'"),
        name if has(name, b'%') => Some("may not contain '%'"),
        _ => None,
    }
}

/// Whether a text has an ASCII character. Names are short: looking at each byte costs less than searching.
fn has(text: &str, character: u8) -> bool {
    text.bytes().any(|byte| byte == character)
}
