//! The parser of audit policy files, with kube-apiserver's validation and error messages.

use evenkeel_schema::field::{self, FieldError, Path};
use evenkeel_schema::json::go_kind;
use evenkeel_schema::json::{Map, Value};
use evenkeel_schema::names;
use evenkeel_schema::strict_decoding::strict_message;

use super::policy::{AuditPolicy, GroupResources, Level, Rule, Stage, Stages};
use crate::decode::{self, Decoded};

const API_VERSION: &str = "audit.k8s.io/v1";
/// The name of the Go scheme that kube-apiserver's error messages mention.
const SCHEME: &str = "pkg/runtime/scheme.go:111";

const POLICY_FIELDS: [&str; 6] =
    ["apiVersion", "kind", "metadata", "rules", "omitStages", "omitManagedFields"];
const RULE_FIELDS: [&str; 9] = [
    "level",
    "users",
    "userGroups",
    "verbs",
    "resources",
    "namespaces",
    "nonResourceURLs",
    "omitStages",
    "omitManagedFields",
];
const RESOURCES_FIELDS: [&str; 3] = ["group", "resources", "resourceNames"];

/// An audit policy cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuditPolicyError {
    /// The text is not a policy.
    #[error("failed decoding: {0}")]
    Decode(String),
    /// The policy has another API version, or a field has an invalid value.
    #[error("{0}")]
    Invalid(String),
    /// The policy has no rules and would record nothing.
    #[error("loaded illegal policy with 0 rules")]
    Empty,
}

type Result<T> = std::result::Result<T, AuditPolicyError>;

impl AuditPolicy {
    /// Parses a policy in YAML or JSON. Also returns warnings for the user.
    ///
    /// Like kube-apiserver, it warns of unknown and duplicate fields and ignores them.
    pub fn parse(text: &[u8]) -> Result<(Self, Vec<String>)> {
        let Decoded { object, oddities } =
            decode::parse_yaml(text, true).map_err(AuditPolicyError::Decode)?;
        check_kind(&object)?;
        let mut reader = Reader { odd: oddities.0, errors: Vec::new() };
        let policy = reader.policy(&object)?;
        if !reader.errors.is_empty() {
            return Err(AuditPolicyError::Invalid(field::aggregate(&reader.errors)));
        }
        if policy.rules.is_empty() {
            return Err(AuditPolicyError::Empty);
        }
        let warnings = if reader.odd.is_empty() { Vec::new() } else { vec![lenient(&reader.odd)] };
        Ok((policy, warnings))
    }
}

fn lenient(odd: &[String]) -> String {
    let why = strict_message(odd);
    format!("Audit policy contains errors, falling back to lenient decoding: {why}")
}

/// Refuses a document that is not a `Policy` of `audit.k8s.io/v1`. The kind may be missing.
fn check_kind(object: &Value) -> Result<()> {
    if !object.is_object() {
        return Err(AuditPolicyError::Decode(decode::not_an_object(object)));
    }
    let text = |name: &str| object[name].as_str().unwrap_or_default();
    match (text("kind"), text("apiVersion")) {
        ("" | "Policy", API_VERSION) => Ok(()),
        ("" | "Policy", "") => {
            let why = "unknown group version field audit.k8s.io/__internal, Kind=Policy in policy";
            Err(AuditPolicyError::Invalid(why.to_owned()))
        }
        (kind, "") => Err(AuditPolicyError::Decode(format!(
            "no kind {kind:?} is registered for the internal version of group \"audit.k8s.io\" in scheme {SCHEME:?}"
        ))),
        (kind, version) => {
            let kind = if kind.is_empty() { "Policy" } else { kind };
            Err(AuditPolicyError::Decode(format!(
                "no kind {kind:?} is registered for version {version:?} in scheme {SCHEME:?}"
            )))
        }
    }
}

/// Reads the fields of a policy and collects their errors.
struct Reader {
    /// Unknown and duplicate fields, in the words of strict decoding.
    odd: Vec<String>,
    /// Validation errors.
    errors: Vec<FieldError>,
}

impl Reader {
    fn policy(&mut self, object: &Value) -> Result<AuditPolicy> {
        let map = self.object(object, "Policy", "v1.Policy", &POLICY_FIELDS, "")?;
        let field = Field { owner: "Policy", map: &map, path: "" };
        let omit_stages = self.stages(&field, &Path::new("omitStages"))?;
        let mut rules = Vec::new();
        for (index, rule) in field.list("rules", "[]v1.PolicyRule")?.iter().enumerate() {
            let mut rule = self.rule(rule, index)?;
            rule.omit_stages = rule.omit_stages.union(omit_stages);
            rules.push(rule);
        }
        let omit_managed_fields = field.flag("omitManagedFields")?.unwrap_or(false);
        Ok(AuditPolicy { rules, omit_managed_fields })
    }

    fn rule(&mut self, rule: &Value, index: usize) -> Result<Rule> {
        let rules = Path::new("rules");
        let path = rules.index(index);
        let map = self.object(rule, "Policy.rules", "v1.PolicyRule", &RULE_FIELDS, &format!("{path}."))?;
        let field = Field { owner: "PolicyRule", map: &map, path: "rules." };
        let level = self.level(&field, &path.child("level"))?;
        let non_resource_urls = field.texts("nonResourceURLs")?;
        self.check_urls(&non_resource_urls, &path.child("nonResourceURLs"));
        let mut resources = Vec::new();
        for (nth, group) in field.list("resources", "[]v1.GroupResources")?.iter().enumerate() {
            resources.push(self.group_resources(group, &path.child("resources"), nth)?);
        }
        let omit_stages = self.stages(&field, &path.child("omitStages"))?;
        let namespaces = field.texts("namespaces")?;
        if !non_resource_urls.is_empty() && (!resources.is_empty() || !namespaces.is_empty()) {
            let why = "rules cannot apply to both regular resources and non-resource URLs";
            let urls = Value::from(non_resource_urls.clone());
            self.errors.push(FieldError::invalid(path.child("nonResourceURLs"), urls, why));
        }
        Ok(Rule {
            level,
            users: field.texts("users")?,
            user_groups: field.texts("userGroups")?,
            verbs: field.texts("verbs")?,
            resources,
            namespaces,
            non_resource_urls,
            omit_stages,
            omit_managed_fields: field.flag("omitManagedFields")?,
        })
    }

    /// Reads one entry of a rule's `resources`. As in Kubernetes, its errors carry the path of the whole
    /// list.
    fn group_resources(&mut self, value: &Value, path: &Path<'_>, nth: usize) -> Result<GroupResources> {
        let known = &RESOURCES_FIELDS;
        let prefix = format!("{}.", path.index(nth));
        let map = self.object(value, "PolicyRule.rules.resources", "v1.GroupResources", known, &prefix)?;
        let field = Field { owner: "GroupResources", map: &map, path: "rules.resources." };
        let group = field.text("group", "string")?;
        let read = GroupResources {
            group: group.to_owned(),
            resources: field.texts("resources")?,
            resource_names: field.texts("resourceNames")?,
        };
        let errors = if matches!(group, "" | "*") { Vec::new() } else { names::dns1123_subdomain(group) };
        if !errors.is_empty() {
            self.errors.push(FieldError::invalid(path.child("group"), group, errors.join(",")));
        }
        if !read.resource_names.is_empty() && read.resources.is_empty() {
            let why = "using resourceNames requires at least one resource";
            let names = Value::from(read.resource_names.clone());
            self.errors.push(FieldError::invalid(path.child("resourceNames"), names, why));
        }
        Ok(read)
    }

    /// Reads the level of a rule; a missing or unknown level is a validation error.
    fn level(&mut self, field: &Field<'_>, path: &Path<'_>) -> Result<Level> {
        let name = field.text("level", "v1.Level")?;
        if let Some(level) = Level::ALL.into_iter().find(|level| level.name() == name) {
            return Ok(level);
        }
        self.errors.push(match name {
            "" => FieldError::required(path, ""),
            _ => FieldError::not_supported(path, name, &Level::ALL.map(Level::name)),
        });
        Ok(Level::None)
    }

    fn stages(&mut self, field: &Field<'_>, path: &Path<'_>) -> Result<Stages> {
        let mut stages = Stages::default();
        for (index, name) in field.texts_of("omitStages", "v1.Stage")?.iter().enumerate() {
            match Stage::ALL.into_iter().find(|stage| stage.name() == name) {
                Some(stage) => stages.insert(stage),
                None => {
                    let why = format!("allowed stages are {}", Stage::ALL.map(Stage::name).join(","));
                    self.errors.push(FieldError::invalid(path.index(index), name.as_str(), why));
                }
            }
        }
        Ok(stages)
    }

    fn check_urls(&mut self, urls: &[String], path: &Path<'_>) {
        for (index, url) in urls.iter().enumerate().filter(|(_, url)| *url != "*") {
            let mut refuse =
                |why: &str| self.errors.push(FieldError::invalid(path.index(index), url.as_str(), why));
            if !url.starts_with('/') {
                refuse("non-resource URL rules must begin with a '/' character");
            }
            if url.find('*').is_some_and(|at| at + 1 < url.len()) {
                refuse("non-resource URL wildcards '*' must be the final character of the rule");
            }
        }
    }

    /// Returns the fields of an object and notes unknown ones; null counts as an empty object.
    fn object(
        &mut self,
        value: &Value,
        field: &str,
        go_type: &str,
        known: &[&str],
        prefix: &str,
    ) -> Result<Map> {
        let map = match value {
            Value::Object(map) => map.clone(),
            Value::Null => Map::new(),
            other => return Err(mismatch(other, field, go_type)),
        };
        let unknown = map.keys().filter(|key| !known.contains(&key.as_str()));
        self.odd.extend(unknown.map(|key| format!("unknown field \"{prefix}{key}\"")));
        Ok(map)
    }
}

/// A JSON object whose fields are read, with the names that Go's decoder gives it in errors.
struct Field<'a> {
    /// The name of the Go struct.
    owner: &'a str,
    map: &'a Map,
    /// The field names that lead here, each followed by a dot.
    path: &'a str,
}

impl<'a> Field<'a> {
    fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    fn mismatch(&self, name: &str, value: &Value, go_type: &str) -> AuditPolicyError {
        mismatch(value, &format!("{}.{}{name}", self.owner, self.path), go_type)
    }

    fn list(&self, name: &str, go_type: &str) -> Result<&'a [Value]> {
        match self.get(name) {
            None => Ok(&[]),
            Some(Value::Array(items)) => Ok(items),
            Some(other) => Err(self.mismatch(name, other, go_type)),
        }
    }

    fn texts(&self, name: &str) -> Result<Vec<String>> {
        self.texts_of(name, "string")
    }

    fn texts_of(&self, name: &str, go_type: &str) -> Result<Vec<String>> {
        let items = self.list(name, &format!("[]{go_type}"))?;
        let text = |item: &Value| match item {
            Value::String(text) => Ok(text.to_string()),
            Value::Null => Ok(String::new()),
            other => Err(self.mismatch(name, other, go_type)),
        };
        items.iter().map(text).collect()
    }

    fn text(&self, name: &str, go_type: &str) -> Result<&'a str> {
        match self.get(name) {
            None => Ok(""),
            Some(Value::String(text)) => Ok(text),
            Some(other) => Err(self.mismatch(name, other, go_type)),
        }
    }

    fn flag(&self, name: &str) -> Result<Option<bool>> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(other) => Err(self.mismatch(name, other, "bool")),
        }
    }
}

/// The error of Go's decoder for a value that does not have the field's type.
fn mismatch(value: &Value, field: &str, go_type: &str) -> AuditPolicyError {
    let what = go_kind(value);
    AuditPolicyError::Decode(format!(
        "json: cannot unmarshal {what} into Go struct field {field} of type {go_type}"
    ))
}

#[cfg(test)]
mod tests;
