//! Paths: `/api/v1/…` and `/apis/{group}/{version}/…`.

use std::borrow::Cow;

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route<'a> {
    /// A resource, whether it exists or not.
    Resource(ResourcePath<'a>),
    /// Anything else: discovery, health, version, or nothing.
    Other,
}

/// A path to a resource, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath<'a> {
    pub(crate) group: Cow<'a, str>,
    pub(crate) version: Cow<'a, str>,
    /// Empty for paths outside of a namespace.
    pub(crate) namespace: Cow<'a, str>,
    /// The plural name.
    pub(crate) resource: Cow<'a, str>,
    /// Empty for collections.
    pub(crate) name: Cow<'a, str>,
    /// Empty for the object itself.
    pub(crate) subresource: Cow<'a, str>,
    /// What follows the subresource: for proxies alone.
    pub(crate) rest: Vec<String>,
    /// `/api/v1/watch/…`, the way to watch from before the parameter.
    pub(crate) legacy_watch: bool,
    /// The path has an empty segment within it, which matches no resource.
    pub(crate) broken: bool,
    /// It names namespaces inside of a namespace, which leads nowhere.
    pub(crate) nested: bool,
}

impl<'a> Route<'a> {
    /// Takes a path apart.
    pub(crate) fn parse(path: &'a str) -> Self {
        let trimmed = path.strip_prefix('/').unwrap_or(path);
        let trimmed = trimmed.strip_suffix('/').unwrap_or(trimmed);
        // Most paths have no escapes: they are looked for once, not in each segment, and in all of it without a stop,
        // which takes no time.
        let escaped = trimmed.bytes().fold(false, |escaped, byte| escaped | (byte == b'%'));
        if escaped { Self::of(trimmed, percent_decode) } else { Self::of(trimmed, Cow::Borrowed) }
    }

    /// The same for a path without the slashes at its ends, each segment decoded like this.
    fn of(path: &'a str, decode: impl Fn(&'a str) -> Cow<'a, str> + Copy) -> Self {
        let mut parts = Segments(Some(path));
        let group = match parts.next().map(decode).as_deref() {
            Some("api") => Some(Cow::default()),
            Some("apis") => parts.next().map(decode),
            _ => return Self::Other,
        };
        let (Some(group), Some(version)) = (group, parts.next()) else { return Self::Other };
        match parts.next() {
            Some(first) => Self::Resource(ResourcePath {
                group,
                version: decode(version),
                ..ResourcePath::of(first, parts, decode)
            }),
            None => Self::Other,
        }
    }
}

/// The segments of a path.
struct Segments<'a>(Option<&'a str>);

impl<'a> Iterator for Segments<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let path = self.0?;
        // Segments are short: looking at each byte costs less than searching.
        match path.bytes().position(|byte| byte == b'/') {
            Some(at) => {
                self.0 = Some(&path[at + 1..]);
                Some(&path[..at])
            }
            None => self.0.take(),
        }
    }
}

impl<'a> ResourcePath<'a> {
    /// The part of a path behind group and version.
    fn of(
        first: &'a str,
        parts: impl Iterator<Item = &'a str>,
        decode: impl Fn(&'a str) -> Cow<'a, str>,
    ) -> Self {
        let mut path = Self { broken: first.is_empty(), ..Self::default() };
        let mut broken = false;
        let mut parts = parts.inspect(|part| broken |= part.is_empty()).map(&decode);
        let (mut first, mut second) = (decode(first), parts.next());
        if first == "watch"
            && let Some(watched) = second
        {
            path.legacy_watch = true;
            (first, second) = (watched, parts.next());
        }
        let mut third = parts.next();
        if first == "namespaces"
            && let Some(inner) = third
        {
            path.namespace = second.clone().unwrap_or_default();
            // `/namespaces/a/status` is a part of the namespace, `/namespaces/a/pods` a resource in it.
            if matches!(&*inner, "status" | "finalize") {
                third = Some(inner);
            } else {
                path.nested = inner == "namespaces";
                (first, second, third) = (inner, parts.next(), parts.next());
            }
        }
        path.resource = first;
        path.name = second.unwrap_or_default();
        path.subresource = third.unwrap_or_default();
        path.rest = parts.map(Cow::into_owned).collect();
        path.broken |= broken;
        path
    }
}

/// Decodes `%xx`; what is no valid escape stays as it is, and what is no UTF-8 becomes the replacement character.
pub(crate) fn percent_decode(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return text.into();
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
    String::from_utf8_lossy(&out).into_owned().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, expected: &str) {
        let text = match Route::parse(path) {
            Route::Other => "other".to_owned(),
            Route::Resource(it) => {
                [&it.group, &it.version, &it.namespace, &it.resource, &it.name, &it.subresource]
                    .map(|it| &**it)
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
