//! Writes one version of a definition: the types of its objects, with kube's derive.

use serde_json::{Map, Value, json};

use crate::crates::Crates;
use crate::definition::Names;
use crate::docs;
use crate::item;
use crate::literal::{json as json_text, string};
use crate::meaning::normalize;
use crate::plan::{OF_THE_USE, Plan, Shape, Type, is, keeps_more, list, map, text};
use crate::preamble;

/// The fields of an object that kube's derive adds itself.
const KUBES: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];

/// The code that reads an optional spec. kube's root type always has a spec field; serde offers `None` for a missing field
/// to a type that deserializes as an option, as this implementation does.
const OPTIONAL_SPEC: &str = r#"impl Serialize for FooSpec {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

/// An object without a spec has the default spec.
impl<'de> Deserialize<'de> for FooSpec {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Optional;
        impl<'de> serde::de::Visitor<'de> for Optional {
            type Value = FooSpec;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a spec")
            }
            fn visit_none<E>(self) -> Result<FooSpec, E> {
                Ok(FooSpec::default())
            }
            fn visit_some<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<FooSpec, D::Error> {
                FooSpec::deserialize(deserializer)
            }
        }
        deserializer.deserialize_option(Optional)
    }
}"#;

/// The generated code of one version.
pub(crate) struct Version {
    /// The name of the version.
    pub(crate) name: String,
    /// The Rust name of the kind.
    pub(crate) root: String,
    pub(crate) body: String,
    /// The definition's subresources, if kube's derive would produce others.
    pub(crate) subresources: Option<Value>,
    /// What the types cannot express.
    pub(crate) notes: Vec<String>,
}

/// The input for the attributes of kube's derive.
struct Root<'a> {
    names: &'a Names,
    version: &'a Value,
    schema: Value,
    root: String,
    status: Option<Type>,
    /// Whether the object has fields outside of `spec` and `status`.
    flat: bool,
}

/// Generates the code of one version.
pub(crate) fn version(names: &Names, version: &Value, crates: Crates) -> Version {
    let schema =
        version.pointer("/schema/openAPIV3Schema").cloned().unwrap_or_else(|| json!({"type": "object"}));
    let schema = preamble::guarded(&normalize(&schema));
    let properties = map(&schema, "properties");
    let has = |name: &str| properties.iter().any(|(property, _)| *property == name);
    let other = properties.iter().any(|(name, _)| *name != "spec" && !KUBES.contains(&name.as_str()));
    let flat = !has("spec") || other || keeps_more(&schema);

    let mut plan = Plan::new(crate::names::pascal(&names.kind));
    let spec_node = if flat { flat_node(&schema) } else { schema["properties"]["spec"].clone() };
    let spec = plan.spec(&spec_node, flat);
    let status = schema.pointer("/properties/status").map(|status| plan.type_of(status, "status", None));
    let served_status = version.pointer("/subresources/status").is_some_and(|status| !status.is_null());
    let status = status.or(served_status.then_some(Type::Any));
    let mut root = crate::names::pascal(&names.kind);
    if crate::names::TAKEN.contains(&root.as_str()) {
        root.push_str("Resource");
    }
    plan.name_items(&[root.as_str()]);

    let optional = !flat && !list(&schema, "required").contains(&json!("spec"));
    let readable = optional && plan.has_default(&Type::Named(spec));
    let note =
        "spec: an object may leave it out, but has to have fields in it; objects without it cannot be read";
    let this = Root { names, version, schema, root, status, flat };
    let mut head = this.attributes(&plan, spec);
    head.extend(readable.then(|| "#[serde(remote = \"Self\")]".to_owned()));
    let mut lines = item::lines(&plan, spec, &this.derives(&plan, spec), &head, crates);
    lines.push(String::new());
    if readable {
        let text = OPTIONAL_SPEC
            .replace("FooSpec", &plan.items[spec].name)
            .replace("serde::", &format!("{}serde::", crates.prefix()));
        lines.extend(text.lines().map(str::to_owned));
        lines.push(String::new());
    }
    lines.extend(this.schema_lines(&plan, spec));
    for index in (0..plan.items.len()).filter(|index| *index != spec) {
        lines.push(String::new());
        let default =
            plan.has_default(&Type::Named(index)) && !matches!(plan.items[index].shape, Shape::Enum(_));
        let derives: &[&str] = if default { &["Default"] } else { &[] };
        lines.extend(item::lines(&plan, index, derives, &[], crates));
    }
    Version {
        name: text(version, "name").to_owned(),
        subresources: this.other_subresources(),
        root: this.root,
        body: lines.join("\n") + "\n",
        notes: if optional && !readable { vec![note.to_owned()] } else { Vec::new() },
    }
}

/// Returns the schema of the object's fields outside of `spec` that kube's derive does not add itself.
fn flat_node(schema: &Value) -> Value {
    let mine = |name: &str| !KUBES.contains(&name);
    let properties = map(schema, "properties").into_iter().filter(|(name, _)| mine(name));
    let properties: Map<String, Value> =
        properties.map(|(name, field)| (name.clone(), field.clone())).collect();
    let required: Vec<&Value> =
        list(schema, "required").iter().filter(|name| name.as_str().is_some_and(mine)).collect();
    let mut node = json!({"type": "object", "properties": properties, "required": required});
    let preserve = "x-kubernetes-preserve-unknown-fields";
    if is(schema, preserve) {
        node[preserve] = Value::Bool(true);
    }
    normalize(&node)
}

impl Root<'_> {
    fn derives(&self, plan: &Plan, spec: usize) -> Vec<&'static str> {
        let default = plan.has_default(&Type::Named(spec)).then_some("Default");
        ["CustomResource"].into_iter().chain(default).collect()
    }

    /// Returns the `kube` attribute of the spec.
    fn attributes(&self, plan: &Plan, spec: usize) -> Vec<String> {
        let mut parts = Vec::new();
        let mut pair = |name: &str, value: &str| parts.push(format!("{name} = {}", string(value)));
        pair("group", &self.names.group);
        pair("version", text(self.version, "name"));
        pair("kind", &self.names.kind);
        if self.root != self.names.kind {
            pair("root", &self.root);
        }
        pair("plural", &self.names.plural);
        if self.names.singular != self.names.kind.to_ascii_lowercase() {
            pair("singular", &self.names.singular);
        }
        self.names.short_names.iter().for_each(|name| pair("shortname", name));
        self.names.categories.iter().for_each(|name| pair("category", name));
        if let Some(status) = &self.status {
            pair("status", &plan.text(status));
        }
        list(self.version, "selectableFields")
            .iter()
            .for_each(|field| pair("selectable", text(field, "jsonPath")));
        if let Some(description) = self.schema.get("description").and_then(Value::as_str) {
            let lines: Vec<String> = docs::lines(description).iter().map(|line| format!(" {line}")).collect();
            pair("doc", &lines.join("\n"));
        }
        pair("derive", "PartialEq");
        if plan.has_default(&Type::Named(spec)) {
            pair("derive", "Default");
        }
        pair("schema", "manual");
        parts.extend(self.names.namespaced.then(|| "namespaced".to_owned()));
        parts.extend(self.flat.then(|| "no_spec".to_owned()));
        parts.extend(self.flags());
        parts.extend(list(self.version, "additionalPrinterColumns").iter().map(column));
        parts.extend(self.scale());
        let mut lines = vec!["#[kube(".to_owned()];
        lines.extend(parts.into_iter().map(|part| format!("    {part},")));
        lines.push(")]".to_owned());
        lines
    }

    fn flags(&self) -> Vec<String> {
        let mut flags = Vec::new();
        for flag in ["storage", "served"] {
            if !is(self.version, flag) {
                flags.push(format!("{flag} = false"));
            }
        }
        if is(self.version, "deprecated") {
            let warning = self.version.get("deprecationWarning").and_then(Value::as_str);
            flags.push(
                warning.map_or("deprecated".to_owned(), |text| format!("deprecated = {}", string(text))),
            );
        }
        flags
    }

    /// Returns the attribute for the scale subresource, which kube's derive supports only together with the status
    /// subresource.
    fn scale(&self) -> Option<String> {
        let scale = self.version.pointer("/subresources/scale").filter(|scale| scale.is_object())?;
        self.status.as_ref()?;
        let paths = [
            ("spec_replicas_path", "specReplicasPath"),
            ("status_replicas_path", "statusReplicasPath"),
            ("label_selector_path", "labelSelectorPath"),
        ];
        let paths = paths.iter().filter_map(|(name, keyword)| {
            let path = scale.get(*keyword).and_then(Value::as_str)?;
            Some(format!("{name} = {}", string(path)))
        });
        Some(format!("scale({})", paths.collect::<Vec<_>>().join(", ")))
    }

    /// Returns the source's subresources, if kube's derive would produce others: it always enables the status
    /// subresource when it knows a status, and enables scale only together with it.
    fn other_subresources(&self) -> Option<Value> {
        let subresources = self.version.get("subresources").cloned().unwrap_or(Value::Null);
        let has = |name: &str| subresources.get(name).is_some_and(|it| !it.is_null());
        let same = has("status") == self.status.is_some() && (self.status.is_some() || !has("scale"));
        (!same).then_some(subresources)
    }

    /// Returns the implementation of `JsonSchema` for the whole object.
    fn schema_lines(&self, plan: &Plan, spec: usize) -> Vec<String> {
        let mut keywords = self.schema.as_object().cloned().unwrap_or_default();
        keywords.remove("properties");
        // schemars uses the type's name as the title of a root schema without one.
        keywords.entry("title").or_insert(Value::Null);
        let spec_name = &plan.items[spec].name;
        let start = if self.flat {
            format!("{spec_name}::json_schema(generator)")
        } else {
            "json_schema!({})".to_owned()
        };
        let mut fields = Vec::new();
        for (name, node) in map(&self.schema, "properties") {
            let is_spec = name == "spec" && !self.flat;
            if !is_spec && !KUBES.contains(&name.as_str()) {
                continue;
            }
            let named = match (&self.status, name.as_str()) {
                _ if is_spec => Some(spec_name.clone()),
                (Some(status @ Type::Named(_)), "status") => Some(plan.text(status)),
                _ => None,
            };
            fields.push(match named {
                Some(type_name) => {
                    let keywords = json_text(&of_the_use(node));
                    format!("({name:?}, generator.subschema_for::<{type_name}>(), json!({keywords})),")
                }
                None => format!("({name:?}, json_schema!({{}}), json!({})),", json_text(node)),
            });
        }
        let mut lines = vec![
            format!("impl JsonSchema for {} {{", self.root),
            "    fn schema_name() -> std::borrow::Cow<'static, str> {".to_owned(),
            format!("        {:?}.into()", self.root),
            "    }".to_owned(),
            String::new(),
            "    fn json_schema(generator: &mut SchemaGenerator) -> Schema {".to_owned(),
            format!("        let keywords = json!({});", json_text(&Value::Object(keywords))),
            "        let fields = vec![".to_owned(),
        ];
        lines.extend(fields.into_iter().map(|field| format!("            {field}")));
        lines.push("        ];".to_owned());
        lines.push(format!("        root({start}, keywords, fields)"));
        lines.extend(["    }", "}"].map(str::to_owned));
        if fields_need_no_generator(&lines) {
            lines[5] = lines[5].replace("generator:", "_:");
        }
        lines
    }
}

/// Whether these lines do not use the parameter `generator`.
fn fields_need_no_generator(lines: &[String]) -> bool {
    !lines[6..].iter().any(|line| line.contains("generator.") || line.contains("(generator)"))
}

/// Returns the keywords of a node that belong to its use; the description is set to null if the node has none.
fn of_the_use(node: &Value) -> Value {
    let mut keywords: Map<String, Value> = OF_THE_USE
        .iter()
        .filter_map(|keyword| Some(((*keyword).to_owned(), node.get(*keyword)?.clone())))
        .collect();
    keywords.entry("description").or_insert(Value::Null);
    Value::Object(keywords)
}

/// Returns the attribute for a column of `kubectl get`.
fn column(column: &Value) -> String {
    let names = [
        ("name", "name"),
        ("type_", "type"),
        ("json_path", "jsonPath"),
        ("description", "description"),
        ("format", "format"),
    ];
    let mut parts: Vec<String> = names
        .iter()
        .filter_map(|(name, keyword)| {
            let value = column.get(*keyword).and_then(Value::as_str)?;
            Some(format!("{name} = {}", string(value)))
        })
        .collect();
    if let Some(priority) = column.get("priority").and_then(Value::as_i64).filter(|priority| *priority != 0) {
        parts.push(format!("priority = {priority}"));
    }
    format!("printcolumn({})", parts.join(", "))
}
