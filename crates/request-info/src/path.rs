//! Paths: `/api/{version}/…` and `/apis/{group}/{version}/…`.

use std::borrow::Cow;
use std::fmt;

use crate::escape::{encode_segment, percent_decode};

/// What the path of a request addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiPath<'a> {
    /// A resource. Whether the resource exists is not known here.
    Resource(ResourcePath<'a>),
    /// A path that ends after a special verb, such as `/api/v1/watch`. It names no resource, and Kubernetes answers
    /// that it cannot tell what is asked for.
    VerbOnly,
    /// Any other path: discovery, health, version, or nothing at all.
    NonResource,
}

/// The parts of a path to a resource, as Kubernetes' `RequestInfo` has them.
///
/// Its text is the path after the namespace: `deployments/web/status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourcePath<'a> {
    /// The API group; empty for the core group.
    pub group: Cow<'a, str>,
    /// The version of the API group.
    pub version: Cow<'a, str>,
    /// The namespace that the resource is in; empty for paths outside of a namespace, which includes the path of a
    /// namespace. See [`request_namespace`](Self::request_namespace).
    pub namespace: Cow<'a, str>,
    /// The resource by its plural name.
    pub resource: Cow<'a, str>,
    /// The name of the object; empty for collections.
    pub name: Cow<'a, str>,
    /// The subresource; empty for the object itself.
    pub subresource: Cow<'a, str>,
    /// The verb in the path before the resource, as in `/api/v1/watch/pods`.
    pub special_verb: Option<SpecialVerb>,
    /// Why the path matches no resource, however the resources are called.
    pub defect: Option<Defect>,
    /// Whether `namespaces/{namespace}` precedes the resource.
    in_namespace: bool,
}

/// A verb in a path, from the time before watches were a query parameter and proxies were subresources.
///
/// A special verb is the verb of the request whatever its method is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialVerb {
    /// `/api/v1/watch/…`
    Watch,
    /// `/api/v1/proxy/…`
    Proxy,
}

/// Why a path matches no resource. If a path has several defects, the first one of this list is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// The path begins with more than one slash, or its group is empty; it is outside of the API.
    OutsideApi,
    /// The path has an empty segment, or segments after the subresource.
    Segments,
    /// The path has a subresource of an object without a name.
    Unnamed,
}

impl SpecialVerb {
    fn parse(segment: &str) -> Option<Self> {
        match segment {
            "watch" => Some(Self::Watch),
            "proxy" => Some(Self::Proxy),
            _ => None,
        }
    }

    /// The verb as RBAC spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Watch => "watch",
            Self::Proxy => "proxy",
        }
    }
}

impl<'a> ApiPath<'a> {
    /// Parses a path whose escapes are [decoded](crate::percent_decode), without a query.
    ///
    /// Authorization and routing must use the same result, so that the resource that is authorized is the one that is served.
    pub fn parse(path: &'a str) -> Self {
        let mut segments = Segments(Some(path.trim_matches('/')));
        let group = match segments.next() {
            Some("api") => None,
            Some("apis") => match segments.next() {
                Some(group) => Some(group),
                None => return Self::NonResource,
            },
            _ => return Self::NonResource,
        };
        let (Some(version), Some(first)) = (segments.next(), segments.next()) else {
            return Self::NonResource;
        };
        let (special_verb, first) = match SpecialVerb::parse(first) {
            None => (None, first),
            Some(verb) => match segments.next() {
                Some(first) => (Some(verb), first),
                None => return Self::VerbOnly,
            },
        };
        let mut resource = ResourcePath::of(first, segments, special_verb);
        if path.starts_with("//") || group == Some("") {
            resource.defect = Some(Defect::OutsideApi);
        } else if version.is_empty() {
            resource.defect = Some(Defect::Segments);
        }
        (resource.group, resource.version) = (group.unwrap_or_default().into(), version.into());
        Self::Resource(resource)
    }

    /// Parses a decoded path that may not live as long as the request. Copies the parts only if it does not.
    pub fn parse_cow(path: Cow<'a, str>) -> Self {
        match path {
            Cow::Borrowed(path) => Self::parse(path),
            Cow::Owned(path) => ApiPath::parse(&path).into_owned(),
        }
    }

    /// Copies the parts of the path, so that they outlive its text.
    pub fn into_owned(self) -> ApiPath<'static> {
        match self {
            Self::Resource(path) => ApiPath::Resource(path.into_owned()),
            Self::VerbOnly => ApiPath::VerbOnly,
            Self::NonResource => ApiPath::NonResource,
        }
    }

    /// The path to a resource, if the path addresses one.
    pub fn into_resource(self) -> Option<ResourcePath<'a>> {
        match self {
            Self::Resource(path) => Some(path),
            Self::VerbOnly | Self::NonResource => None,
        }
    }
}

impl<'a> ResourcePath<'a> {
    /// Reads the path of a URI, with its escapes. A query after the path is ignored.
    ///
    /// Returns `None` if the path addresses no resource, or if it has a malformed escape.
    ///
    /// ```
    /// use evenkeel_request_info::ResourcePath;
    ///
    /// let path = ResourcePath::parse("/apis/apps/v1/namespaces/shop/deployments/web?dryRun=All").unwrap();
    /// assert_eq!(path.to_string(), "deployments/web");
    /// assert_eq!(ResourcePath::parse("/version"), None);
    /// ```
    pub fn parse(path_and_query: &'a str) -> Option<Self> {
        let path = path_and_query.split('?').next().unwrap_or(path_and_query);
        ApiPath::parse_cow(percent_decode(path)?).into_resource()
    }

    /// Reads the part of a path after group, version and special verb.
    fn of(first: &'a str, mut segments: Segments<'a>, special_verb: Option<SpecialVerb>) -> Self {
        let mut path = Self { special_verb, ..Self::default() };
        let (mut resource, mut name, mut subresource) = (first, segments.next(), segments.next());
        // `/namespaces/a/status` is a subresource of the namespace, `/namespaces/a/pods` a resource in it.
        if let ("namespaces", Some(namespace), Some(inner)) = (resource, name, subresource)
            && !matches!(inner, "status" | "finalize")
        {
            path.in_namespace = true;
            path.namespace = namespace.into();
            (resource, name, subresource) = (inner, segments.next(), segments.next());
        }
        // Kubernetes leaves what follows the name to the server behind a proxy.
        let shown = subresource.filter(|_| special_verb != Some(SpecialVerb::Proxy)).unwrap_or_default();
        let surplus = segments.0.is_some() && shown != "proxy";
        let empty = resource.is_empty()
            || subresource == Some("")
            || path.in_namespace && path.namespace.is_empty()
            || resource == "namespaces" && name == Some("") && subresource.is_some();
        path.defect = match () {
            () if empty || surplus => Some(Defect::Segments),
            () if name == Some("") && subresource.is_some() => Some(Defect::Unnamed),
            () => None,
        };
        path.resource = resource.into();
        path.name = name.unwrap_or_default().into();
        path.subresource = shown.into();
        path
    }

    /// The namespace that the request is authorized in, which is `RequestInfo.Namespace`.
    ///
    /// A namespace counts as being in itself, so that a role in a namespace can grant access to it.
    pub fn request_namespace(&self) -> &str {
        if self.resource == "namespaces" && !self.in_namespace { &self.name } else { &self.namespace }
    }

    /// Whether the path is in a namespace. The path of a namespace itself does not.
    pub fn is_in_namespace(&self) -> bool {
        self.in_namespace
    }

    /// The path of the collection that the object is in, with escapes where they are needed.
    ///
    /// ```
    /// use evenkeel_request_info::ApiPath;
    ///
    /// let path = ApiPath::parse("/apis/apps/v1/namespaces/shop/deployments/web/scale").into_resource().unwrap();
    /// assert_eq!(path.collection_path(), "/apis/apps/v1/namespaces/shop/deployments");
    /// assert_eq!(path.object_path().unwrap(), "/apis/apps/v1/namespaces/shop/deployments/web");
    /// ```
    pub fn collection_path(&self) -> String {
        let [group, version, namespace, resource] =
            [&self.group, &self.version, &self.namespace, &self.resource].map(|part| encode_segment(part));
        let mut path = match self.group.is_empty() {
            true => format!("/api/{version}"),
            false => format!("/apis/{group}/{version}"),
        };
        if self.in_namespace {
            path += &format!("/namespaces/{namespace}");
        }
        format!("{path}/{resource}")
    }

    /// The path of the object without its subresource, with escapes where they are needed; `None` for a collection.
    pub fn object_path(&self) -> Option<String> {
        (!self.name.is_empty()).then(|| format!("{}/{}", self.collection_path(), encode_segment(&self.name)))
    }

    /// Copies the parts of the path, so that they outlive its text.
    pub fn into_owned(self) -> ResourcePath<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        ResourcePath {
            group: own(self.group),
            version: own(self.version),
            namespace: own(self.namespace),
            resource: own(self.resource),
            name: own(self.name),
            subresource: own(self.subresource),
            special_verb: self.special_verb,
            defect: self.defect,
            in_namespace: self.in_namespace,
        }
    }
}

impl fmt::Display for ResourcePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        let parts = [&self.name, &self.subresource];
        parts.into_iter().filter(|part| !part.is_empty()).try_for_each(|part| write!(f, "/{part}"))
    }
}

/// The segments of a path that are not read yet.
struct Segments<'a>(Option<&'a str>);

impl<'a> Segments<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let path = self.0?;
        // Segments are short: looking at each byte costs less than a search.
        match path.bytes().position(|byte| byte == b'/') {
            Some(at) => {
                self.0 = Some(&path[at + 1..]);
                Some(&path[..at])
            }
            None => self.0.take(),
        }
    }
}

#[cfg(test)]
mod tests;
