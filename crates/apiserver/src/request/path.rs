//! Parsing of request paths: `/api/v1/…` and `/apis/{group}/{version}/…`.

use std::borrow::Cow;

/// What a path addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route<'a> {
    /// A resource, whether it exists or not.
    Resource(ResourcePath<'a>),
    /// A path that ends after a verb, such as `/api/v1/watch`, and names no resource.
    VerbOnly,
    /// Any other path: discovery, health, version, or one that is not served.
    Other,
}

/// The parts of a path that addresses a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath<'a> {
    pub(crate) group: Cow<'a, str>,
    pub(crate) version: Cow<'a, str>,
    /// The namespace; empty for paths outside of a namespace.
    pub(crate) namespace: Cow<'a, str>,
    /// The plural name of the resource.
    pub(crate) resource: Cow<'a, str>,
    /// The object's name; empty for collections.
    pub(crate) name: Cow<'a, str>,
    /// The subresource; empty for the object itself.
    pub(crate) subresource: Cow<'a, str>,
    /// The verb before the resource, as in `/api/v1/watch/pods`. It is the verb of the request, whatever the
    /// method.
    pub(crate) prefix: Option<Prefix>,
    /// The path has an empty segment, or more segments than a subresource has, and matches no resource.
    pub(crate) broken: bool,
    /// The path begins with more than one slash, or has an empty group, and is outside of the API.
    pub(crate) outside: bool,
    /// The path has a subresource but an empty object name.
    pub(crate) unnamed: bool,
    /// The path names namespaces within a namespace, and matches no resource.
    pub(crate) nested: bool,
}

/// A verb in a path. Both verbs predate the query parameter `watch` and the subresource `proxy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prefix {
    Watch,
    Proxy,
}

impl Prefix {
    fn of(segment: &str) -> Option<Self> {
        match segment {
            "watch" => Some(Self::Watch),
            "proxy" => Some(Self::Proxy),
            _ => None,
        }
    }

    /// The verb for authorization.
    pub(crate) fn verb(self) -> &'static str {
        match self {
            Self::Watch => "watch",
            Self::Proxy => "proxy",
        }
    }
}

impl Route<'_> {
    /// Parses a decoded path that does not live as long as the request.
    pub(crate) fn parse_owned(path: &str) -> Route<'static> {
        match Route::parse(path) {
            Route::Resource(path) => Route::Resource(path.into_owned()),
            Route::VerbOnly => Route::VerbOnly,
            Route::Other => Route::Other,
        }
    }
}

impl<'a> Route<'a> {
    /// Parses a decoded path. Authorization and routing use the same result, so that the resource that is
    /// authorized is the one that is served.
    pub(crate) fn parse(path: &'a str) -> Self {
        let mut parts = Segments(Some(path.trim_matches('/')));
        let mut outside = path.starts_with("//");
        let group = match parts.next() {
            Some("api") => "",
            Some("apis") => match parts.next() {
                Some(group) => {
                    outside |= group.is_empty();
                    group
                }
                None => return Self::Other,
            },
            _ => return Self::Other,
        };
        let (Some(version), Some(first)) = (parts.next(), parts.next()) else { return Self::Other };
        let (prefix, first) = match Prefix::of(first) {
            None => (None, first),
            Some(prefix) => match parts.next() {
                Some(first) => (Some(prefix), first),
                None => return Self::VerbOnly,
            },
        };
        let mut path = ResourcePath::of(first, parts, prefix);
        (path.group, path.version) = (group.into(), version.into());
        path.broken |= version.is_empty();
        path.outside = outside;
        Self::Resource(path)
    }
}

/// An iterator over the segments of a path.
struct Segments<'a>(Option<&'a str>);

impl<'a> Iterator for Segments<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let path = self.0?;
        // Segments are short, so a byte-wise loop is faster than a search.
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
    /// Parses the part of a path after group, version and prefix.
    fn of(first: &'a str, parts: impl Iterator<Item = &'a str>, prefix: Option<Prefix>) -> Self {
        let mut path = Self { prefix, ..Self::default() };
        let mut parts = parts;
        let (mut first, mut second) = (first, parts.next());
        let mut third = parts.next();
        if first == "namespaces"
            && let Some(inner) = third
        {
            path.namespace = second.unwrap_or_default().into();
            path.broken = path.namespace.is_empty();
            // `/namespaces/a/status` is a subresource of the namespace, `/namespaces/a/pods` a resource in
            // it.
            if !matches!(inner, "status" | "finalize") {
                path.nested = inner == "namespaces";
                (first, second, third) = (inner, parts.next(), parts.next());
            }
        }
        let longer = parts.count() > 0;
        path.unnamed = second == Some("") && third.is_some();
        path.broken |= first.is_empty() || third == Some("");
        path.resource = first.into();
        path.name = second.unwrap_or_default().into();
        // Segments after the name belong to the proxied server.
        path.subresource = third.filter(|_| prefix != Some(Prefix::Proxy)).unwrap_or_default().into();
        path.broken |= longer && path.subresource != "proxy";
        path
    }

    fn into_owned(self) -> ResourcePath<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        ResourcePath {
            group: own(self.group),
            version: own(self.version),
            namespace: own(self.namespace),
            resource: own(self.resource),
            name: own(self.name),
            subresource: own(self.subresource),
            prefix: self.prefix,
            broken: self.broken,
            outside: self.outside,
            unnamed: self.unnamed,
            nested: self.nested,
        }
    }
}

/// Decodes `%xx` escapes. Returns `None` if a percent sign does not begin an escape, because Go's parser
/// refuses such a text as a whole. Bytes that are not UTF-8 become the replacement character.
pub(crate) fn percent_decode(text: &str) -> Option<Cow<'_, str>> {
    // Most texts have no escapes. A fold without an early exit is vectorized and costs almost nothing.
    if !text.bytes().fold(false, |escaped, byte| escaped | (byte == b'%')) {
        return Some(text.into());
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first != b'%' {
            out.push(first);
            rest = tail;
            continue;
        }
        let (&[high, low], tail) = tail.split_first_chunk()?;
        out.push(hex_digit(high)? << 4 | hex_digit(low)?);
        rest = tail;
    }
    Some(String::from_utf8_lossy(&out).into_owned().into())
}

fn hex_digit(byte: u8) -> Option<u8> {
    (byte as char).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, expected: &str) {
        let text = match Route::parse(&percent_decode(path).unwrap()) {
            Route::Other => "other".to_owned(),
            Route::VerbOnly => "verb only".to_owned(),
            Route::Resource(it) => {
                let parts = [&it.group, &it.version, &it.namespace, &it.resource, &it.name, &it.subresource];
                let flags = [
                    it.prefix.map_or("", Prefix::verb),
                    if it.broken { "broken" } else { "" },
                    if it.outside { "outside" } else { "" },
                    if it.unnamed { "unnamed" } else { "" },
                ];
                format!("{} {}", parts.map(|it| &**it).join(" "), flags.join(""))
            }
        };
        assert_eq!(text.trim_end(), expected, "{path}");
    }

    #[test]
    fn paths_are_taken_apart() {
        check("/api/v1/pods", " v1  pods");
        check("/api/v1/namespaces/a/pods/p/log", " v1 a pods p log");
        check("/api/v1/namespaces/a", " v1  namespaces a");
        check("/api/v1/namespaces/a/status", " v1 a namespaces a status");
        check("/apis/apps/v1/namespaces/a/deployments/", "apps v1 a deployments");
        check("/apis/apps/v1", "other");
        check("/api/v1/watch/namespaces/a/pods", " v1 a pods   watch");
        check("/api/v1/proxy/nodes/n/metrics", " v1  nodes n  proxy");
        check("/api/v1/watch", "verb only");
        check("/api/v1/namespaces/a/namespaces/b", " v1 a namespaces b");
        check("/api/v1/namespaces/a/pods/p/log/more", " v1 a pods p log broken");
        check("/api/v1/namespaces/a/pods/p/proxy/more", " v1 a pods p proxy");
        check("/healthz", "other");
    }

    #[test]
    fn an_escaped_slash_divides_like_a_plain_one() {
        check("/api/v1/nodes/a%2Fb", " v1  nodes a b");
        check("/api/v1/namespaces/a%2fsecrets/s", " v1 a secrets s");
        check("/api/v1%2Fpods", " v1  pods");
        check("/api/v1/nodes/a%252Fb", " v1  nodes a%2Fb");
    }

    #[test]
    fn slashes_at_the_ends_do_not_count_and_empty_segments_lead_nowhere() {
        check("//api/v1/pods//", " v1  pods   outside");
        check("/apis//v1/pods", " v1  pods   outside");
        check("/api//v1/pods", "   v1 pods  broken");
        check("/api/v1/namespaces//pods", " v1  pods   broken");
        check("/api/v1/namespaces/a/pods//log", " v1 a pods  log unnamed");
    }

    #[test]
    fn an_escape_that_is_none_is_refused() {
        for text in ["%", "%a", "a%zz", "%+5", "%\u{e9}1"] {
            assert_eq!(percent_decode(text), None, "{text}");
        }
        assert_eq!(percent_decode("%C3%a9%ff").as_deref(), Some("\u{e9}\u{fffd}"));
    }
}
