//! Which resources are served: those of the facts, and those that CustomResourceDefinitions declare.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use evenkeel_env::HashMap;
use evenkeel_schema::kinds;
use evenkeel_schema::structural::Rules;
use evenkeel_schema::types::Schema;
use parking_lot::RwLock;
use serde_json::Value;

use crate::conversion::Converted;

/// A resource that is served, in one version.
#[derive(Debug, Default)]
pub struct ResourceInfo {
    /// The API group, empty for core.
    pub group: String,
    /// The API version.
    pub version: String,
    /// The name in paths.
    pub plural: String,
    /// The name for one of it.
    pub singular: String,
    /// The kind of its objects.
    pub kind: String,
    /// The kind of its lists; for built-ins the kind with `List` behind it.
    pub list_kind: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// The verbs of discovery.
    pub verbs: Vec<String>,
    /// Short names for command lines.
    pub short_names: Vec<String>,
    /// Groups of resources, such as `all`.
    pub categories: Vec<String>,
    /// The parts of its objects that are served by themselves.
    pub subresources: Vec<SubresourceInfo>,
    /// The columns of its tables.
    pub columns: Vec<Column>,
    /// What a CustomResourceDefinition says of it; none for built-ins.
    pub custom: Option<Arc<CustomInfo>>,
    /// Where its objects lie: the prefix of their keys, with a `/` at the end. Two faces of one stored kind share it.
    pub prefix: String,
}

/// A part of an object that is served by itself.
#[derive(Clone, Debug, Default)]
pub struct SubresourceInfo {
    /// The last segment of its path.
    pub name: String,
    /// The kind that it takes and gives.
    pub kind: String,
    /// The group of that kind, where it is another than the resource's.
    pub group: String,
    /// The version of that kind, where it is another than the resource's.
    pub version: String,
    /// The verbs of discovery.
    pub verbs: Vec<String>,
}

/// A column of a table.
#[derive(Clone, Debug, Default)]
pub struct Column {
    /// Its heading.
    pub name: String,
    /// `string`, `integer`, `date`, …
    pub kind: String,
    /// Such as `name`; often empty.
    pub format: String,
    /// Its prose, where the definition gives one.
    pub description: String,
    /// Zero is always shown, more is for wide output.
    pub priority: i64,
    /// For custom resources: where the cell's value is found.
    pub json_path: String,
}

/// What a CustomResourceDefinition says of one served version.
#[derive(Debug)]
pub struct CustomInfo {
    /// The definition's name.
    pub definition: String,
    /// The uid of the definition.
    pub uid: String,
    /// The version as it stands in `spec.versions`.
    pub version: Value,
    /// The schema of the version.
    pub schema: Schema,
    /// The rules of the schema in CEL, compiled when they are first needed and kept while the schema is the same.
    pub(crate) rules: Arc<OnceLock<Option<Rules>>>,
    /// Since which revision the schema is as it is.
    pub schema_revision: u64,
    /// The version that is stored.
    pub storage_version: String,
    /// The schema of the version that is stored, where that is another version.
    pub storage_schema: Option<Schema>,
    /// Whether unknown fields are kept (`spec.preserveUnknownFields` or no schema).
    pub preserve_unknown_fields: bool,
    /// Whether the definition is being deleted: no new objects then.
    pub terminating: bool,
    /// Objects in this version, where it is not the form that they are stored in.
    pub(crate) converted: Converted,
}

impl CustomInfo {
    /// The rules of the schema, if it has any.
    pub(crate) fn rules(&self) -> Option<&Rules> {
        self.rules.get_or_init(|| Rules::compile(&self.schema)).as_ref()
    }
}

impl ResourceInfo {
    /// `group/version`, or the version alone for core: what objects carry as `apiVersion`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The key of an object.
    pub fn key(&self, namespace: &str, name: &str) -> String {
        let mut key = String::with_capacity(self.prefix.len() + namespace.len() + 1 + name.len());
        self.write_key(namespace, name, &mut key);
        key
    }

    /// The same into a text that is at hand.
    pub(crate) fn write_key(&self, namespace: &str, name: &str, key: &mut String) {
        key.push_str(&self.prefix);
        if self.namespaced {
            key.push_str(namespace);
            key.push('/');
        }
        key.push_str(name);
    }

    /// The prefix of the keys of a namespace, or of all where it is empty.
    pub fn scope(&self, namespace: &str) -> String {
        if self.namespaced && !namespace.is_empty() {
            format!("{}{namespace}/", self.prefix)
        } else {
            self.prefix.clone()
        }
    }

    /// The kind of a part: its own, or the resource's where it names none.
    pub(crate) fn kind_of<'a>(&'a self, part: &'a SubresourceInfo) -> &'a str {
        if part.kind.is_empty() { &self.kind } else { &part.kind }
    }

    /// The subresource of this name.
    pub fn subresource(&self, name: &str) -> Option<&SubresourceInfo> {
        self.subresources.iter().find(|it| it.name == name)
    }

    /// Whether it is declared by a CustomResourceDefinition.
    pub fn is_custom(&self) -> bool {
        self.custom.is_some()
    }

    fn id(&self) -> (&str, &str, &str) {
        (&self.group, &self.version, &self.plural)
    }
}

/// The prefix under which the objects of a resource are stored.
pub(crate) fn storage_prefix(group: &str, plural: &str) -> String {
    format!("{}{plural}/", storage_folder(group))
}

/// The prefix under which the objects of all resources of a group are stored.
pub(crate) fn storage_folder(group: &str) -> String {
    format!("/registry/{}/", if group.is_empty() { "core" } else { group })
}

/// Custom resources by group, version and plural.
type CustomResources = BTreeMap<(String, String, String), Arc<ResourceInfo>>;

/// Every resource that one server serves.
#[derive(Debug, Default)]
pub struct Registry {
    /// Replaced as a whole when a definition changes, so that readers hold no lock.
    custom: RwLock<Arc<CustomResources>>,
    generation: AtomicU64,
}

impl Registry {
    /// The built-in resources and no custom ones.
    pub fn new() -> Self {
        Self::default()
    }

    /// The resource at `/apis/{group}/{version}/…/{plural}`.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<ResourceInfo>> {
        self.look_up(group, version, plural).map(Cow::into_owned)
    }

    /// The same; one that is built in is borrowed, as all that count its uses on every request would wait for each
    /// other.
    pub(crate) fn look_up(
        &self,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Option<Cow<'static, Arc<ResourceInfo>>> {
        let named = by_plural().get(plural).map(Vec::as_slice).unwrap_or_default();
        if let Some(built_in) = named.iter().find(|it| it.group == group && it.version == version) {
            return Some(Cow::Borrowed(built_in));
        }
        let custom = self.custom.read().clone();
        custom.get(&(group.to_owned(), version.to_owned(), plural.to_owned())).cloned().map(Cow::Owned)
    }

    /// Every resource, sorted by group, version and plural.
    pub fn all(&self) -> Vec<Arc<ResourceInfo>> {
        let mut all = built_in().to_vec();
        all.extend(self.custom.read().values().cloned());
        all.sort_by(|a, b| a.id().cmp(&b.id()));
        all
    }

    /// Custom resources alone, sorted by group, version and plural.
    pub fn custom(&self) -> Vec<Arc<ResourceInfo>> {
        self.custom.read().values().cloned().collect()
    }

    /// The versions that a group serves, unsorted and without repeats.
    pub fn versions(&self, group: &str) -> Vec<String> {
        let mut versions: Vec<String> =
            self.all().iter().filter(|it| it.group == group).map(|it| it.version.clone()).collect();
        versions.dedup();
        versions
    }

    /// A number that changes with every change of the served resources: what is made from them may be kept by it.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Replaces what one definition serves.
    pub(crate) fn replace(&self, definition: &str, served: Vec<ResourceInfo>) {
        let mut custom = self.custom.write();
        let mut next = (**custom).clone();
        next.retain(|_, info| info.custom.as_ref().is_none_or(|it| it.definition != definition));
        next.extend(
            served.into_iter().map(|info| {
                ((info.group.clone(), info.version.clone(), info.plural.clone()), Arc::new(info))
            }),
        );
        *custom = Arc::new(next);
        self.generation.fetch_add(1, Ordering::AcqRel);
    }
}

/// The resources of the facts, sorted by group, version and plural; made once for the process.
pub(crate) fn built_in() -> &'static [Arc<ResourceInfo>] {
    static BUILT_IN: OnceLock<Vec<Arc<ResourceInfo>>> = OnceLock::new();
    BUILT_IN.get_or_init(|| {
        let mut all: Vec<_> = kinds::resources().iter().map(|it| Arc::new(of_facts(it))).collect();
        all.sort_by(|a, b| a.id().cmp(&b.id()));
        all
    })
}

/// The same by plural, of which there are few in more than one group and version.
fn by_plural() -> &'static HashMap<&'static str, Vec<Arc<ResourceInfo>>> {
    static BY_PLURAL: OnceLock<HashMap<&'static str, Vec<Arc<ResourceInfo>>>> = OnceLock::new();
    BY_PLURAL.get_or_init(|| {
        let mut by_plural: HashMap<&str, Vec<Arc<ResourceInfo>>> = HashMap::default();
        for info in built_in() {
            by_plural.entry(&info.plural).or_default().push(info.clone());
        }
        by_plural
    })
}

fn of_facts(facts: &kinds::Resource) -> ResourceInfo {
    let owned = |texts: &[&str]| texts.iter().map(|&it| it.to_owned()).collect();
    // Events of both groups are one kind with two faces.
    let group = if facts.group == "events.k8s.io" { "" } else { facts.group };
    ResourceInfo {
        group: facts.group.to_owned(),
        version: facts.version.to_owned(),
        plural: facts.plural.to_owned(),
        singular: facts.singular.to_owned(),
        kind: facts.kind.to_owned(),
        list_kind: format!("{}List", facts.kind),
        namespaced: facts.namespaced(),
        verbs: owned(&facts.verbs),
        short_names: owned(&facts.short_names),
        categories: owned(&facts.categories),
        subresources: facts.subresources.iter().map(subresource_of_facts).collect(),
        columns: facts.columns.iter().map(column_of_facts).collect(),
        custom: None,
        prefix: storage_prefix(group, facts.plural),
    }
}

fn subresource_of_facts(facts: &kinds::Subresource) -> SubresourceInfo {
    SubresourceInfo {
        name: facts.name.to_owned(),
        kind: facts.kind.to_owned(),
        group: facts.group.to_owned(),
        version: facts.version.to_owned(),
        verbs: facts.verbs.iter().map(|&it| it.to_owned()).collect(),
    }
}

fn column_of_facts(facts: &kinds::Column) -> Column {
    Column {
        name: facts.name.to_owned(),
        kind: facts.kind.to_owned(),
        format: facts.format.to_owned(),
        priority: facts.priority.into(),
        ..Column::default()
    }
}
