//! Paths: `/api/v1/…` and `/apis/{group}/{version}/…`.

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// A resource, whether it exists or not.
    Resource(ResourcePath),
    /// Anything else: discovery, health, version, or nothing.
    Other,
}

/// A path to a resource, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub(crate) group: String,
    pub(crate) version: String,
    /// Empty for paths outside of a namespace.
    pub(crate) namespace: String,
    /// The plural name.
    pub(crate) resource: String,
    /// Empty for collections.
    pub(crate) name: String,
    /// Empty for the object itself.
    pub(crate) subresource: String,
    /// What follows the subresource: for proxies alone.
    pub(crate) rest: Vec<String>,
    /// `/api/v1/watch/…`, the way to watch from before the parameter.
    pub(crate) legacy_watch: bool,
    /// The path has an empty segment within it, which matches no resource.
    pub(crate) broken: bool,
    /// It names namespaces inside of a namespace, which leads nowhere.
    pub(crate) nested: bool,
}

impl Route {
    /// Takes a path apart.
    pub(crate) fn parse(path: &str) -> Self {
        let trimmed = path.strip_prefix('/').unwrap_or(path);
        let trimmed = trimmed.strip_suffix('/').unwrap_or(trimmed);
        let parts: Vec<String> = trimmed.split('/').map(percent_decode).collect();
        let mut parts = parts.into_iter();
        let (group, version) = match parts.next().as_deref() {
            Some("api") => (Some(String::new()), parts.next()),
            Some("apis") => (parts.next(), parts.next()),
            _ => return Self::Other,
        };
        let (Some(group), Some(version)) = (group, version) else { return Self::Other };
        let rest: Vec<String> = parts.collect();
        if rest.is_empty() {
            return Self::Other;
        }
        Self::Resource(ResourcePath { group, version, ..ResourcePath::of(rest) })
    }
}

impl ResourcePath {
    fn of(mut parts: Vec<String>) -> Self {
        let mut path = Self { broken: parts.iter().any(String::is_empty), ..Self::default() };
        if parts[0] == "watch" && parts.len() > 1 {
            path.legacy_watch = true;
            parts.remove(0);
        }
        // `/namespaces/a/status` is a part of the namespace, `/namespaces/a/pods` a resource in it.
        let inside = parts.len() > 2 && parts[0] == "namespaces";
        if inside && !matches!(parts[2].as_str(), "status" | "finalize") {
            path.namespace = parts.remove(1);
            parts.remove(0);
            path.nested = parts[0] == "namespaces";
        } else if inside {
            path.namespace = parts[1].clone();
        }
        let mut parts = parts.into_iter();
        path.resource = parts.next().unwrap_or_default();
        path.name = parts.next().unwrap_or_default();
        path.subresource = parts.next().unwrap_or_default();
        path.rest = parts.collect();
        path
    }
}

/// Decodes `%xx`; what is no valid escape stays as it is, and what is no UTF-8 becomes the replacement character.
pub(crate) fn percent_decode(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escape = (bytes[at] == b'%').then(|| bytes.get(at + 1..at + 3)).flatten();
        match escape.and_then(|it| u8::from_str_radix(std::str::from_utf8(it).ok()?, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, expected: &str) {
        let text = match Route::parse(path) {
            Route::Other => "other".to_owned(),
            Route::Resource(it) => {
                [&it.group, &it.version, &it.namespace, &it.resource, &it.name, &it.subresource]
                    .map(String::as_str)
                    .join(" ")
            }
        };
        assert_eq!(text, expected, "{path}");
    }

    #[test]
    fn paths_are_taken_apart() {
        check("/api/v1/pods", " v1  pods  ");
        check("/api/v1/namespaces/a/pods/p/log", " v1 a pods p log");
        check("/api/v1/namespaces/a", " v1  namespaces a ");
        check("/api/v1/namespaces/a/status", " v1 a namespaces a status");
        check("/apis/apps/v1/namespaces/a/deployments/", "apps v1 a deployments  ");
        check("/apis/apps/v1", "other");
        check("/api/v1/watch/namespaces/a/pods", " v1 a pods  ");
        check("/api/v1/namespaces/a/namespaces/b", " v1 a namespaces b ");
        check("/api/v1/nodes/a%2Fb", " v1  nodes a/b ");
        check("/healthz", "other");
    }
}
