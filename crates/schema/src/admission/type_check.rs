//! Type-checks the expressions of a policy against the kinds that it matches.
//!
//! Policies are compiled without types, so that a policy with a misspelt field is accepted. The warnings found here go to
//! the policy's status and have no other effect.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_cel::{Declaration, OpaqueType, Shape, Type as CelType, compile, escape};

use crate::api_resources::{self, split_api_version};
use crate::json::Value as Json;
use crate::read::Read;
use crate::types::{self, Schema, Type};

/// The most kinds that a policy is checked against.
const KINDS_MAX: usize = 10;

/// A type error in an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The path of the expression.
    pub field: String,
    /// The issues, for each kind that has some.
    pub text: String,
}

/// Type-checks the validations in the spec of a `ValidatingAdmissionPolicy` against each built-in kind that it matches by name.
pub fn type_check(spec: &Json) -> Vec<Warning> {
    let kinds = kinds_of(spec);
    let params = spec.at("paramKind").map(|kind| {
        let (group, version) = split_api_version(kind.str("apiVersion"));
        declared(group, version, kind.str("kind"))
    });
    let mut warnings = Vec::new();
    for (index, validation) in spec.list("validations").iter().enumerate() {
        for field in ["expression", "messageExpression"] {
            let source = validation.str(field);
            let found = kinds.iter().filter_map(|kind| kind.check(spec, source, params.as_ref()));
            let found: Vec<String> = found.collect();
            if !source.is_empty() && !found.is_empty() {
                let field = format!("spec.validations[{index}].{field}");
                warnings.push(Warning { field, text: found.join("\n") });
            }
        }
    }
    warnings
}

/// A kind that a policy matches.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct About {
    group: String,
    version: String,
    kind: String,
}

impl About {
    fn check(&self, spec: &Json, source: &str, params: Option<&CelType>) -> Option<String> {
        let object = declared(&self.group, &self.version, &self.kind);
        let mut variables = vec![
            ("object", object.clone()),
            ("oldObject", object),
            ("request", CelType::Dyn),
            ("namespaceObject", CelType::Dyn),
            ("authorizer", CelType::Opaque(OpaqueType::Authorizer)),
        ];
        variables.extend(params.map(|params| ("params", params.clone())));
        let mut named = BTreeMap::new();
        for variable in spec.list("variables") {
            variables.push(("variables", fields(&named)));
            let kind = result(variable.str("expression"), &variables).unwrap_or(CelType::Dyn);
            variables.pop();
            named.insert(variable.str("name").to_owned(), simple(kind));
        }
        variables.push(("variables", fields(&named)));
        let issues = result(source, &variables).err()?;
        let Self { group, version, kind } = self;
        Some(format!("{group}/{version}, Kind={kind}: {issues}\n"))
    }
}

fn result(source: &str, variables: &[(&str, CelType)]) -> Result<CelType, String> {
    compile(source, variables).map(|checked| checked.result().clone()).map_err(|issues| issues.to_string())
}

/// The kinds that the rules of a policy match by name; a rule with a star is skipped.
fn kinds_of(spec: &Json) -> Vec<About> {
    let mut all = Vec::new();
    for rule in spec.at("matchConstraints").list("resourceRules") {
        let [groups, versions, resources] = ["apiGroups", "apiVersions", "resources"].map(|field| {
            let mut names = rule.strs(field);
            if names.contains(&"*") {
                names.clear();
            }
            names.retain(|name| !name.contains('/'));
            names.sort_unstable();
            names
        });
        let names = groups.iter().flat_map(|group| versions.iter().map(move |version| (group, version)));
        let names =
            names.flat_map(|(group, version)| resources.iter().map(move |name| (*group, *version, *name)));
        let found = names.filter_map(|(group, version, name)| api_resources::find(group, version, name));
        all.extend(found.take(KINDS_MAX).map(|resource| About {
            group: resource.group.to_string(),
            version: resource.version.to_string(),
            kind: resource.kind.to_string(),
        }));
    }
    all.sort();
    all.dedup();
    all.truncate(KINDS_MAX);
    all
}

/// The CEL type of the objects of a built-in kind; `dyn` for other kinds.
fn declared(group: &str, version: &str, kind: &str) -> CelType {
    match types::builtin(group, version, kind) {
        Some(schema) => declare(schema, kind, &mut BTreeMap::new()).cel_type(),
        None => CelType::Dyn,
    }
}

fn simple(kind: CelType) -> Arc<Declaration> {
    shaped(Shape::Simple(kind), "")
}

fn shaped(shape: Shape, name: &str) -> Arc<Declaration> {
    Arc::new(Declaration { shape, name: name.to_owned(), elements_max: 0, bytes_min: 1 })
}

fn fields(fields: &BTreeMap<String, Arc<Declaration>>) -> CelType {
    shaped(Shape::Object(fields.clone()), "kubernetes.variables").cel_type()
}

/// Declares the values of a schema. A type inside of itself is `dyn`.
fn declare(
    schema: &Schema,
    name: &str,
    known: &mut BTreeMap<String, Option<Arc<Declaration>>>,
) -> Arc<Declaration> {
    let Some(full) = schema.type_name() else { return declare_plain(schema, name, known) };
    if let Some(found) = known.get(full) {
        return found.clone().unwrap_or_else(|| simple(CelType::Dyn));
    }
    let short = full.rsplit('.').next().unwrap_or(full);
    let made = match short {
        "Quantity" | "IntOrString" | "RawExtension" | "FieldsV1" | "JSON" | "JSONSchemaProps" => {
            simple(CelType::Dyn)
        }
        "Time" | "MicroTime" => simple(CelType::Timestamp),
        _ => {
            known.insert(full.to_owned(), None);
            declare_plain(schema, short, known)
        }
    };
    known.insert(full.to_owned(), Some(made.clone()));
    made
}

fn declare_plain(
    schema: &Schema,
    name: &str,
    known: &mut BTreeMap<String, Option<Arc<Declaration>>>,
) -> Arc<Declaration> {
    let kind = match (schema.value_type(), schema.resolve().format.as_ref()) {
        (Some(Type::String), "byte") => CelType::Bytes,
        (Some(Type::String), "date-time") => CelType::Timestamp,
        (Some(Type::String), _) => CelType::String,
        (Some(Type::Integer), _) => CelType::Int,
        (Some(Type::Number), _) => CelType::Double,
        (Some(Type::Boolean), _) => CelType::Bool,
        (Some(Type::Array), _) => {
            let items =
                schema.items().map_or_else(|| simple(CelType::Dyn), |items| declare(items, name, known));
            return shaped(Shape::List(items), "");
        }
        (Some(Type::Object), _) => return declare_object(schema, name, known),
        (None, _) => CelType::Dyn,
    };
    simple(kind)
}

fn declare_object(
    schema: &Schema,
    name: &str,
    known: &mut BTreeMap<String, Option<Arc<Declaration>>>,
) -> Arc<Declaration> {
    if let Some(values) = schema.values() {
        return shaped(Shape::Map(declare(values, name, known)), "");
    }
    if schema.fields().is_empty() {
        return simple(CelType::Dyn);
    }
    let mut fields = BTreeMap::new();
    for (field, schema) in schema.fields().iter() {
        if let Some(escaped) = escape(field) {
            fields.insert(escaped, declare(schema, field, known));
        }
    }
    shaped(Shape::Object(fields), name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn warnings(resource: (&str, &str), spec: Json) -> Vec<(String, String)> {
        let mut spec = spec;
        spec["matchConstraints"] = json!({"resourceRules": [
            {"apiGroups": [resource.0], "apiVersions": ["v1"], "resources": [resource.1]}]});
        type_check(&spec).into_iter().map(|it| (it.field, it.text)).collect()
    }

    #[test]
    fn a_field_that_is_misspelt_is_told() {
        let text = "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'replicsa'\n \
                    | object.spec.replicsa <= 5\n | ...........^\n";
        assert_eq!(
            warnings(
                ("apps", "deployments"),
                json!({"validations": [{"expression": "object.spec.replicsa <= 5"}]})
            ),
            [("spec.validations[0].expression".to_owned(), text.to_owned())]
        );
    }

    #[test]
    fn what_fits_or_is_not_known_is_not_told() {
        let spec = json!({
            "variables": [{"name": "count", "expression": "object.spec.replicas"}],
            "validations": [{"expression": "variables.count <= 5 && object.metadata.labels['a'] == 'b'",
                "messageExpression": "'not ' + string(variables.count)"}]
        });
        assert_eq!(warnings(("apps", "deployments"), spec.clone()), []);
        assert_eq!(warnings(("apps", "*"), spec), []);
        let types = json!({"validations": [{"expression": "object.spec.containers.all(c, c.resources.limits['cpu'] != 1)"}]});
        assert_eq!(warnings(("", "pods"), types), []);
    }
}
