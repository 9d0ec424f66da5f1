//! The built-in API resources: their kinds, verbs, subresources and table columns.
//!
//! The facts are compiled in as text (`facts/resources.txt`, about 16 KB) and parsed once in a process.

use std::sync::OnceLock;

static FACTS: &str = include_str!("../facts/resources.txt");

/// Every verb of a resource, in the order of discovery.
static ALL_VERBS: [&str; 8] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// The scope of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Its objects live in namespaces.
    Namespaced,
    /// Its objects belong to the whole cluster.
    Cluster,
}

/// A resource that a Kubernetes API server serves by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// The API group, empty for the core group.
    pub group: &'static str,
    /// The version within the group.
    pub version: &'static str,
    /// The plural name, which URL paths contain (`pods`).
    pub plural: &'static str,
    /// The kind of its objects (`Pod`).
    pub kind: &'static str,
    /// The singular name in discovery (`pod`).
    pub singular: &'static str,
    /// Whether objects live in a namespace.
    pub scope: Scope,
    /// The supported verbs, in the order of discovery.
    pub verbs: Vec<&'static str>,
    /// The short names that kubectl accepts (`po`).
    pub short_names: Vec<&'static str>,
    /// The categories, by which kubectl selects several resources (`all`).
    pub categories: Vec<&'static str>,
    /// The subresources.
    pub subresources: Vec<Subresource>,
    /// The columns of a Table; empty if Kubernetes has only the default columns, or none.
    pub columns: Vec<Column>,
}

/// A path beneath an object, such as `status` or `scale`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subresource {
    /// The last segment of the path.
    pub name: &'static str,
    /// The kind of the request and response bodies.
    pub kind: &'static str,
    /// The group of that kind; empty if it is that of the resource, or the core group.
    pub group: &'static str,
    /// The version of that kind; empty if it is that of the resource.
    pub version: &'static str,
    /// The supported verbs.
    pub verbs: Vec<&'static str>,
}

/// A column of a Table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The heading.
    pub name: &'static str,
    /// The OpenAPI type of the cells.
    pub kind: &'static str,
    /// The OpenAPI format of the cells, or an empty string.
    pub format: &'static str,
    /// Columns of priority 0 are always shown, others only with `-o wide`.
    pub priority: i32,
}

impl Resource {
    /// `v1` or `apps/v1`, as objects carry it.
    pub fn api_version(&self) -> String {
        api_version(self.group, self.version)
    }

    /// The subresource of this name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// Whether objects live in a namespace.
    pub fn namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// Whether the resource supports the verb.
    pub fn serves(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }
}

/// `v1` or `apps/v1`, as objects carry it.
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// Splits an `apiVersion` into group and version.
///
/// ```
/// assert_eq!(evenkeel_schema::api_resources::split_api_version("apps/v1"), ("apps", "v1"));
/// assert_eq!(evenkeel_schema::api_resources::split_api_version("v1"), ("", "v1"));
/// ```
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// Every built-in resource, in the order of discovery.
pub fn resources() -> &'static [Resource] {
    static RESOURCES: OnceLock<Vec<Resource>> = OnceLock::new();
    RESOURCES.get_or_init(|| parse(FACTS))
}

/// The resource at a path.
///
/// ```
/// let pods = evenkeel_schema::api_resources::find("", "v1", "pods").unwrap();
/// assert_eq!(pods.kind, "Pod");
/// assert!(pods.subresource("eviction").is_some());
/// ```
pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    resources().iter().find(|r| r.plural == plural && r.group == group && r.version == version)
}

/// The resource that holds objects of a kind.
pub fn by_kind(group: &str, version: &str, kind: &str) -> Option<&'static Resource> {
    position(group, version, kind).map(|at| &resources()[at])
}

/// The index of a kind's resource among all resources.
fn position(group: &str, version: &str, kind: &str) -> Option<usize> {
    type Named = ((&'static str, &'static str, &'static str), usize);
    static SORTED: OnceLock<Vec<Named>> = OnceLock::new();
    let sorted = SORTED.get_or_init(|| {
        let names = resources().iter().enumerate().map(|(at, r)| ((r.kind, r.group, r.version), at));
        let mut sorted: Vec<Named> = names.collect();
        sorted.sort_unstable();
        sorted
    });
    let found = sorted.binary_search_by_key(&(kind, group, version), |(name, _)| *name).ok()?;
    Some(sorted[found].1)
}

/// A table with one value for each built-in kind, which is computed on first use.
pub(crate) struct PerKind<T: 'static>(OnceLock<Box<[OnceLock<Option<&'static T>>]>>);

impl<T> PerKind<T> {
    pub(crate) const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// The value for a kind. For kinds without a resource, such as Scale, it is computed every time.
    pub(crate) fn get(
        &self,
        (group, version, kind): (&str, &str, &str),
        find: impl FnOnce() -> Option<&'static T>,
    ) -> Option<&'static T> {
        let Some(at) = position(group, version, kind) else { return find() };
        let slots = self.0.get_or_init(|| resources().iter().map(|_| OnceLock::new()).collect());
        *slots[at].get_or_init(find)
    }
}

fn parse(facts: &'static str) -> Vec<Resource> {
    let mut resources: Vec<Resource> = Vec::new();
    for line in facts.lines() {
        let words: Vec<&'static str> = line.split_ascii_whitespace().collect();
        match (words.first().copied(), resources.last_mut()) {
            (Some("resource"), _) => resources.push(resource(&words)),
            (Some("sub"), Some(last)) => last.subresources.push(subresource(&words)),
            (Some("col"), Some(last)) => last.columns.push(column(line, &words)),
            _ => {}
        }
    }
    resources
}

fn resource(words: &[&'static str]) -> Resource {
    Resource {
        group: word(words, 1),
        version: word(words, 2),
        plural: word(words, 3),
        kind: word(words, 4),
        singular: word(words, 5),
        scope: if word(words, 6) == "Namespaced" { Scope::Namespaced } else { Scope::Cluster },
        verbs: verbs(word(words, 7)),
        short_names: list(word(words, 8)),
        categories: list(word(words, 9)),
        subresources: Vec::new(),
        columns: Vec::new(),
    }
}

fn subresource(words: &[&'static str]) -> Subresource {
    Subresource {
        name: word(words, 1),
        kind: word(words, 2),
        group: word(words, 3),
        version: word(words, 4),
        verbs: verbs(word(words, 5)),
    }
}

fn column(line: &'static str, words: &[&'static str]) -> Column {
    Column {
        priority: i32::from(word(words, 1) == "1"),
        kind: word(words, 2),
        format: word(words, 3),
        // A heading may contain spaces, so it takes the rest of the line.
        name: line.trim_start().splitn(5, ' ').nth(4).unwrap_or_default(),
    }
}

fn word(words: &[&'static str], index: usize) -> &'static str {
    words.get(index).copied().filter(|word| *word != "-").unwrap_or_default()
}

fn verbs(word: &'static str) -> Vec<&'static str> {
    if word == "*" { ALL_VERBS.to_vec() } else { list(word) }
}

fn list(word: &'static str) -> Vec<&'static str> {
    word.split(',').filter(|item| !item.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resource_is_read() {
        assert_eq!(resources().len(), 68);
        assert!(resources().iter().all(|r| !r.kind.is_empty() && !r.verbs.is_empty()));
    }

    #[test]
    fn headings_keep_their_spaces() {
        let claims = find("", "v1", "persistentvolumeclaims").unwrap();
        assert_eq!(claims.columns[4].name, "Access Modes");
        assert_eq!(claims.columns.last().unwrap().priority, 1);
    }

    #[test]
    fn a_kind_is_found_in_its_group() {
        assert_eq!(by_kind("apps", "v1", "Deployment").unwrap().plural, "deployments");
        assert_eq!(by_kind("", "v1", "Deployment"), None);
    }
}
