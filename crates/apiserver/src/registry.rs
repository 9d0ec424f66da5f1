//! The registry of served resources: built-in ones, and those that CRDs define.

mod group_resource;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use evenkeel_env::HashMap;
use evenkeel_schema::api_resources;
use evenkeel_schema::json::Value;
use evenkeel_schema::structural::Rules;
use evenkeel_schema::types::Schema;
use parking_lot::RwLock;

use crate::converted_objects::ConvertedObjects;
use crate::strategy::Strategy;

pub(crate) use group_resource::GroupResource;

/// A served resource in one version.
#[derive(Debug, Default)]
pub struct ResourceInfo {
    /// The API group; empty for the core group.
    pub group: String,
    /// The API version.
    pub version: String,
    /// The plural name, as in paths.
    pub plural: String,
    /// The singular name.
    pub singular: String,
    /// The kind of its objects.
    pub kind: String,
    /// The kind of its lists; for built-in resources the kind followed by `List`.
    pub list_kind: String,
    /// Whether its objects are namespaced.
    pub namespaced: bool,
    /// The supported verbs, as in discovery.
    pub verbs: Vec<String>,
    /// Short names for command lines.
    pub short_names: Vec<String>,
    /// Categories, such as `all`.
    pub categories: Vec<String>,
    /// The subresources.
    pub subresources: Vec<SubresourceInfo>,
    /// The columns of its Tables.
    pub columns: Vec<Column>,
    /// Facts from the CustomResourceDefinition; `None` for built-in resources.
    pub custom: Option<Arc<CustomInfo>>,
    /// The key prefix of its objects, ending in `/`. All versions of a kind share it.
    pub prefix: String,
    /// How the kind differs from others.
    pub(crate) strategy: &'static Strategy,
}

/// A subresource of a resource.
#[derive(Clone, Debug, Default)]
pub struct SubresourceInfo {
    /// The last segment of its path.
    pub name: String,
    /// The kind of its request and response bodies; empty if it is the resource's.
    pub kind: String,
    /// The group of the kind, if it differs from the resource's.
    pub group: String,
    /// The version of the kind, if it differs from the resource's.
    pub version: String,
    /// The supported verbs, as in discovery.
    pub verbs: Vec<String>,
}

/// A column of a Table.
#[derive(Clone, Debug, Default)]
pub struct Column {
    /// The heading.
    pub name: String,
    /// The type: `string`, `integer`, `date`, …
    pub kind: String,
    /// The format, such as `name`; often empty.
    pub format: String,
    /// The description; may be empty.
    pub description: String,
    /// Zero for columns that are always shown; others appear in wide output.
    pub priority: i64,
    /// For custom resources, the JSONPath of the cell's value.
    pub json_path: String,
}

/// Facts from a CustomResourceDefinition about one served version.
#[derive(Debug)]
pub struct CustomInfo {
    /// The name of the CRD.
    pub definition: String,
    /// The UID of the CRD.
    pub uid: String,
    /// The entry of `spec.versions`.
    pub version: Value,
    /// The schema of the version.
    pub schema: Schema,
    /// The schema's CEL rules, compiled on first use and kept while the schema is unchanged.
    pub(crate) rules: Arc<OnceLock<Option<Rules>>>,
    /// The revision since which the storage version and its schema are unchanged, which identifies both. Objects that
    /// requests in progress wrote later may still be in another version; see `Conformity`.
    pub stored_revision: u64,
    /// The name of the storage version.
    pub storage_version: String,
    /// All versions of the definition, served or not. Old objects may be stored in any of them.
    pub(crate) versions: Arc<BTreeMap<String, Arc<VersionSchema>>>,
    /// The conversion webhook; `None` for the conversion strategy `None`.
    pub(crate) webhook: Option<Arc<WebhookConversion>>,
    /// Whether unknown fields are preserved (`spec.preserveUnknownFields`, or no schema).
    pub preserve_unknown_fields: bool,
    /// Whether the CRD is being deleted, so that no objects can be created.
    pub terminating: bool,
    /// The cache of objects that were converted to this version.
    pub(crate) converted: Arc<ConvertedObjects>,
}

/// The schema of one version of a CustomResourceDefinition.
#[derive(Debug)]
pub(crate) struct VersionSchema {
    pub(crate) schema: Schema,
    /// The schema as written in the definition.
    pub(crate) source: Value,
}

/// The conversion webhook of a CustomResourceDefinition.
#[derive(Debug, PartialEq)]
pub(crate) struct WebhookConversion {
    /// The `clientConfig`.
    pub(crate) client_config: Value,
    /// The `conversionReviewVersions`, in order of preference.
    pub(crate) review_versions: Vec<String>,
}

impl CustomInfo {
    /// The schema's CEL rules; `None` if it has none.
    pub(crate) fn rules(&self) -> Option<&Rules> {
        self.rules.get_or_init(|| Rules::compile(&self.schema)).as_ref()
    }

    /// The version `v1` of a definition, with this entry of `spec.versions` and an empty schema, for unit tests.
    #[cfg(test)]
    pub(crate) fn for_tests(definition: impl Into<String>, version: Value) -> Self {
        Self {
            definition: definition.into(),
            uid: String::new(),
            version,
            schema: Schema::default(),
            rules: Arc::default(),
            stored_revision: 0,
            storage_version: "v1".to_owned(),
            versions: Arc::default(),
            webhook: None,
            preserve_unknown_fields: false,
            terminating: false,
            converted: Arc::default(),
        }
    }
}

impl ResourceInfo {
    /// The `apiVersion` of its objects: `group/version`, or only the version in the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The key of an object in the store.
    pub fn key(&self, namespace: &str, name: &str) -> String {
        let mut key = String::with_capacity(self.prefix.len() + namespace.len() + 1 + name.len());
        self.write_key(namespace, name, &mut key);
        key
    }

    /// Appends the key of an object to `key`, without an allocation of its own.
    pub(crate) fn write_key(&self, namespace: &str, name: &str, key: &mut String) {
        key.push_str(&self.prefix);
        if self.namespaced {
            key.push_str(namespace);
            key.push('/');
        }
        key.push_str(name);
    }

    /// The key prefix of a namespace; of all objects if the namespace is empty.
    pub fn scope(&self, namespace: &str) -> String {
        if self.namespaced && !namespace.is_empty() {
            format!("{}{namespace}/", self.prefix)
        } else {
            self.prefix.clone()
        }
    }

    /// The kind of a subresource's body; the resource's own if the subresource names none.
    pub(crate) fn kind_of<'a>(&'a self, part: &'a SubresourceInfo) -> &'a str {
        if part.kind.is_empty() { &self.kind } else { &part.kind }
    }

    /// The subresource with this name.
    pub fn subresource(&self, name: &str) -> Option<&SubresourceInfo> {
        self.subresources.iter().find(|it| it.name == name)
    }

    /// Whether a CustomResourceDefinition defines this resource.
    pub fn is_custom(&self) -> bool {
        self.custom.is_some()
    }

    /// Whether this is the given resource, in any version.
    pub(crate) fn is(&self, resource: GroupResource) -> bool {
        self.plural == resource.resource && self.group == resource.group
    }

    fn id(&self) -> (&str, &str, &str) {
        (&self.group, &self.version, &self.plural)
    }
}

/// The key prefix of a resource's objects.
pub(crate) fn storage_prefix(group: &str, plural: &str) -> String {
    format!("{}{plural}/", storage_folder(group))
}

/// The key prefix of all objects in an API group.
pub(crate) fn storage_folder(group: &str) -> String {
    format!("/registry/{}/", if group.is_empty() { "core" } else { group })
}

/// Custom resources by group, version and plural name.
type CustomResources = BTreeMap<(String, String, String), Arc<ResourceInfo>>;

/// All resources that one server serves.
#[derive(Debug, Default)]
pub struct Registry {
    /// Replaced as a whole when a CRD changes, so that readers hold no lock.
    custom: RwLock<Arc<CustomResources>>,
    generation: AtomicU64,
}

impl Registry {
    /// Creates a registry with the built-in resources only.
    pub fn new() -> Self {
        Self::default()
    }

    /// The resource at `/apis/{group}/{version}/…/{plural}`.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<ResourceInfo>> {
        self.look_up(group, version, plural).map(Cow::into_owned)
    }

    /// The resource at `/apis/{group}/{version}/…/{plural}`. A built-in resource is borrowed: cloning its
    /// `Arc` on every request would make all cores contend for the reference count.
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

    /// All resources, sorted by group, version and plural name.
    pub fn all(&self) -> Vec<Arc<ResourceInfo>> {
        let mut all = built_in().to_vec();
        all.extend(self.custom.read().values().cloned());
        all.sort_by(|a, b| a.id().cmp(&b.id()));
        all
    }

    /// The custom resources, sorted by group, version and plural name.
    pub fn custom(&self) -> Vec<Arc<ResourceInfo>> {
        self.custom.read().values().cloned().collect()
    }

    /// The served versions of a group, unsorted and without duplicates.
    pub fn versions(&self, group: &str) -> Vec<String> {
        let mut versions: Vec<String> =
            self.all().iter().filter(|it| it.group == group).map(|it| it.version.clone()).collect();
        versions.dedup();
        versions
    }

    /// A number that changes whenever the served resources change. Caches of anything derived from them
    /// compare it.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Replaces the resources that one CRD serves.
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

/// The built-in resources, sorted by group, version and plural name; built once per process.
pub(crate) fn built_in() -> &'static [Arc<ResourceInfo>] {
    static BUILT_IN: OnceLock<Vec<Arc<ResourceInfo>>> = OnceLock::new();
    BUILT_IN.get_or_init(|| {
        let mut all: Vec<_> = api_resources::resources().iter().map(|it| Arc::new(of_facts(it))).collect();
        all.sort_by(|a, b| a.id().cmp(&b.id()));
        all
    })
}

/// The built-in resources by plural name. Few names occur in more than one group and version.
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

fn of_facts(facts: &api_resources::Resource) -> ResourceInfo {
    let owned = |texts: &[&str]| texts.iter().map(|&it| it.to_owned()).collect();
    let strategy = Strategy::of(facts.group, facts.kind);
    // A kind that is served in two groups is stored in one of them.
    let storage_group = strategy.storage_version.map_or(facts.group, |(group, _)| group);
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
        prefix: storage_prefix(storage_group, facts.plural),
        strategy,
    }
}

fn subresource_of_facts(facts: &api_resources::Subresource) -> SubresourceInfo {
    SubresourceInfo {
        name: facts.name.to_owned(),
        kind: facts.kind.to_owned(),
        group: facts.group.to_owned(),
        version: facts.version.to_owned(),
        verbs: facts.verbs.iter().map(|&it| it.to_owned()).collect(),
    }
}

fn column_of_facts(facts: &api_resources::Column) -> Column {
    Column {
        name: facts.name.to_owned(),
        kind: facts.kind.to_owned(),
        format: facts.format.to_owned(),
        priority: facts.priority.into(),
        ..Column::default()
    }
}
