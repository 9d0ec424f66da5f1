//! The target of a request, for authorization and the audit log.

use evenkeel_request_info::ApiPath;
use evenkeel_schema::selector::FieldSelector;
use http::Method;

use super::{ListQuery, Request};
use crate::access::Target;

impl Request<'_> {
    /// Whether a request is long-running, so that its `timeout` is ignored.
    pub(crate) fn is_long_running(&self) -> bool {
        let ApiPath::Resource(path) = &self.route else { return false };
        matches!(self.verb(), "watch" | "proxy")
            || matches!(&*path.subresource, "attach" | "exec" | "proxy" | "log" | "portforward")
    }

    /// The name for which a list or watch with `fieldSelector=metadata.name=…` is authorized.
    ///
    /// No other verb takes its name from a selector. Otherwise a user with access to one object could create
    /// other objects, or delete a whole collection, by adding the selector to the request.
    pub(crate) fn selected_name(&self) -> Option<String> {
        let ApiPath::Resource(path) = &self.route else { return None };
        let reads_many = path.name.is_empty()
            && path.special_verb.is_none()
            && matches!(*self.method, Method::GET | Method::HEAD);
        if !reads_many || self.query.text("fieldSelector").is_empty() {
            return None;
        }
        // If any option is malformed, the selector does not count.
        let options = ListQuery::parse(&self.query).ok()?;
        let selector = FieldSelector::parse(&options.fields).ok()?;
        let name = selector.exact("metadata.name")?;
        (path_segment_error(name).is_none() && !has(name, b'/')).then(|| name.to_owned())
    }

    /// The target of a request for authorization. `selected` is the name in its field selector.
    pub(crate) fn target<'a>(&'a self, selected: Option<&'a str>) -> Target<'a> {
        match &self.route {
            ApiPath::NonResource | ApiPath::VerbOnly => Target::Path(&self.path),
            ApiPath::Resource(path) => Target::resource(path, selected.unwrap_or(&path.name)),
        }
    }
}

/// Why a name cannot be a path segment; `None` if it can.
pub(crate) fn path_segment_error(name: &str) -> Option<&'static str> {
    match name {
        "." => Some("may not be '.'"),
        ".." => Some("may not be '..'"),
        name if has(name, b'%') => Some("may not contain '%'"),
        _ => None,
    }
}

/// Whether a text contains an ASCII character. Names are short, so a byte-wise loop is faster than a search.
fn has(text: &str, character: u8) -> bool {
    text.bytes().any(|byte| byte == character)
}
