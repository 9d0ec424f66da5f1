//! Writes a struct or an enum.

use serde_json::{Map, Value};

use crate::crates::Crates;
use crate::docs;
use crate::field;
use crate::literal;
use crate::names::{Scope, snake};
use crate::plan::{Item, Plan, Shape, keeps_more};

/// The derives of every struct.
const DERIVES: &str = "Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema";

/// Returns the lines of an item. `head` comes before the item's own attributes.
pub(crate) fn lines(
    plan: &Plan,
    index: usize,
    derives: &[&str],
    head: &[String],
    crates: Crates,
) -> Vec<String> {
    let item = &plan.items[index];
    let mut lines = Vec::new();
    let mut wanted = item.node.as_object().cloned().unwrap_or_default();
    if let Some(description) = &item.description {
        let comment = docs::lines(description);
        lines.extend(comment.iter().map(|line| format!("/// {line}").trim_end().to_owned()));
        if !docs::reads_back(&comment, description) {
            wanted.insert("description".to_owned(), Value::from(description.as_str()));
        }
    }
    lines.extend(crates.attribute());
    match &item.shape {
        Shape::Enum(variants) => enumeration(item, variants, &mut lines),
        Shape::Struct(_) => structure(plan, index, &wanted, derives, head, &mut lines),
        Shape::Wrapper(inner) => {
            lines.push(derive(derives));
            lines.extend(head.iter().cloned());
            lines.push(format!("pub struct {}(", item.name));
            let field = field::attributes(plan, inner, &item.node);
            lines.extend(field.into_iter().map(|line| format!("    {line}")));
            let (text, stand_in) = (plan.text(inner), plan.stand_in(inner));
            if stand_in != text {
                lines.push(format!("    #[schemars(with = {stand_in:?})]"));
            }
            lines.push(format!("    pub {text},"));
            lines.push(");".to_owned());
        }
    }
    lines
}

fn derive(more: &[&str]) -> String {
    let derives: Vec<&str> = more.iter().copied().chain([DERIVES]).collect();
    format!("#[derive({})]", derives.join(", "))
}

fn enumeration(item: &Item, variants: &[(String, String)], lines: &mut Vec<String>) {
    lines.push("#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]".to_owned());
    lines.push(format!("pub enum {} {{", item.name));
    for (variant, value) in variants {
        if variant != value {
            lines.push(format!("    #[serde(rename = {})]", literal::string(value)));
        }
        lines.push(format!("    {variant},"));
    }
    lines.push("}".to_owned());
}

fn structure(
    plan: &Plan,
    index: usize,
    wanted: &Map<String, Value>,
    derives: &[&str],
    head: &[String],
    lines: &mut Vec<String>,
) {
    let item = &plan.items[index];
    let Shape::Struct(fields) = &item.shape else { return };
    lines.push(derive(derives));
    lines.push("#[serde(rename_all = \"camelCase\")]".to_owned());
    lines.extend(head.iter().cloned());
    if fields.iter().any(|field| !field.required) {
        lines.push("#[schemars(transform = without_null)]".to_owned());
    }
    let produced = field::produced_by_shape(&item.shape);
    let mut more: Map<String, Value> =
        wanted.iter().map(|(keyword, value)| (keyword.clone(), value.clone())).collect();
    more.retain(|keyword, value| keyword != "properties" && produced.get(keyword) != Some(value));
    lines.extend(field::extend(&more));
    lines.push(format!("pub struct {} {{", item.name));
    for field in fields {
        lines.extend(field::lines(plan, field).into_iter().map(|line| format!("    {line}")));
    }
    if keeps_more(&item.node) {
        let mut scope = Scope::default();
        fields.iter().for_each(|field| {
            scope.give(&snake(&field.property), "_");
        });
        lines.push("    /// The fields that the schema keeps without naming them.".to_owned());
        lines.push("    #[serde(flatten)]".to_owned());
        lines.push("    #[schemars(skip)]".to_owned());
        lines.push(format!("    pub {}: BTreeMap<String, Value>,", scope.give_snake("otherFields")));
    }
    lines.push("}".to_owned());
}
