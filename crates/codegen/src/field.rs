//! The attributes that make schemars produce the schema of a field.
//!
//! [`produced`] knows what schemars produces for a type. The attributes describe the difference to the source's schema:
//! limits have attributes of their own, everything else uses `extend`, and a value of `null` removes a keyword.

use serde_json::{Map, Value, json};

use crate::docs;
use crate::literal;
use crate::plan::{Field, Plan, Shape, Type, is, list};

/// Returns the schema that schemars and kube produce for a type, or for its [stand-in](Plan::stand_in).
pub(crate) fn produced(plan: &Plan, value_type: &Type) -> Value {
    match value_type {
        Type::String | Type::Time | Type::Bytes => json!({"type": "string"}),
        Type::Bool => json!({"type": "boolean"}),
        Type::Int32 => json!({"type": "integer", "format": "int32"}),
        Type::Int64 => json!({"type": "integer", "format": "int64"}),
        Type::Float => json!({"type": "number", "format": "double"}),
        Type::Any | Type::IntOrString | Type::Quantity => Value::Bool(true),
        Type::List(items) => json!({"type": "array", "items": produced(plan, items)}),
        Type::Map(values) => json!({"type": "object", "additionalProperties": produced(plan, values)}),
        Type::Named(index) => {
            let item = &plan.items[*index];
            let mut node = item.node.clone();
            if let Some(description) = &item.description {
                node["description"] = Value::from(description.as_str());
            }
            node
        }
    }
}

/// Keywords to set, by the JSON pointer of the subschema that they belong to.
type Settings = Vec<(String, Map<String, Value>)>;

/// Returns the keywords to set so that `produced` becomes `wanted`.
fn settings(produced: &Value, wanted: &Value) -> Settings {
    let mut settings = Vec::new();
    part("", produced, wanted, &mut settings);
    settings
}

fn part(pointer: &str, produced: &Value, wanted: &Value, settings: &mut Settings) {
    let nothing = Map::new();
    let produced = produced.as_object().unwrap_or(&nothing);
    let wanted = wanted.as_object().unwrap_or(&nothing);
    let mut here = Map::new();
    let mut below = Vec::new();
    for (keyword, value) in wanted {
        let subschema = keyword == "items" || keyword == "additionalProperties";
        match produced.get(keyword) {
            Some(made @ Value::Object(_)) if subschema && value.is_object() => {
                below.push((keyword, made, value))
            }
            Some(made) if made == value => {}
            _ => {
                here.insert(keyword.clone(), value.clone());
            }
        }
    }
    let taken_away = produced.keys().filter(|keyword| !wanted.contains_key(*keyword));
    here.extend(taken_away.map(|keyword| (keyword.clone(), Value::Null)));
    if !here.is_empty() {
        settings.push((pointer.to_owned(), here));
    }
    for (keyword, made, value) in below {
        part(&format!("{pointer}/{keyword}"), made, value, settings);
    }
}

/// Returns the doc comment and the schemars attributes for a value of this type and schema.
pub(crate) fn attributes(plan: &Plan, value_type: &Type, node: &Value) -> Vec<String> {
    attributes_of(&produced(plan, value_type), node)
}

/// Returns the schema that schemars produces for a field. An enum that may be left out may be null for schemars; the helper
/// `without_null` takes that back, unless the field may be null.
fn produced_for(plan: &Plan, field: &Field) -> Value {
    let mut made = produced(plan, &field.value_type);
    let stays = !field.required && is(&field.node, "nullable");
    if let Some(values) = made.get_mut("enum").and_then(Value::as_array_mut).filter(|_| stays)
        && !list(&field.node, "enum").contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    made
}

/// Returns the doc comment, and the attributes that make the produced schema the one that is wanted.
fn attributes_of(produced: &Value, node: &Value) -> Vec<String> {
    let description = node.get("description").and_then(Value::as_str);
    let mut lines = Vec::new();
    let mut settings = settings(produced, node);
    if let Some(description) = description {
        let comment = docs::lines(description);
        let same = docs::reads_back(&comment, description);
        lines.extend(comment.iter().map(|line| format!("/// {line}").trim_end().to_owned()));
        let wanted = (!same).then(|| Value::from(description));
        set_description(&mut settings, wanted);
    }
    let types = json_type(node);
    for (pointer, mut keywords) in settings {
        if !pointer.is_empty() {
            let keywords = literal::json(&Value::Object(keywords));
            lines.push(format!("#[schemars(transform = keywords({pointer:?}, json!({keywords})))]"));
            continue;
        }
        let limits = limits(types, &mut keywords);
        if !limits.is_empty() {
            lines.push(format!("#[schemars({})]", limits.join(", ")));
        }
        lines.extend(extend(&keywords));
    }
    lines
}

/// Sets the top-level description: `description`, or nothing if the doc comment provides it.
fn set_description(settings: &mut Settings, description: Option<Value>) {
    if let Some((_, keywords)) = settings.iter_mut().find(|(pointer, _)| pointer.is_empty()) {
        keywords.remove("description");
    }
    if let Some(description) = description {
        match settings.iter_mut().find(|(pointer, _)| pointer.is_empty()) {
            Some((_, keywords)) => {
                keywords.insert("description".to_owned(), description);
            }
            None => settings
                .push((String::new(), [("description".to_owned(), description)].into_iter().collect())),
        }
    }
}

/// Returns the attribute that sets these keywords, or `None` if there are none.
pub(crate) fn extend(keywords: &Map<String, Value>) -> Option<String> {
    let pairs: Vec<String> =
        keywords.iter().map(|(name, value)| format!("{name:?} = {}", literal::json(value))).collect();
    (!pairs.is_empty()).then(|| format!("#[schemars(extend({}))]", pairs.join(", ")))
}

fn json_type(node: &Value) -> &str {
    node.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// Removes the limits for which schemars has attributes from `keywords`, and returns those attributes. Which ones apply
/// depends on the JSON type.
fn limits(json_type: &str, keywords: &mut Map<String, Value>) -> Vec<String> {
    let (name, lower, upper) = match json_type {
        "string" => ("length", "minLength", "maxLength"),
        "array" => ("length", "minItems", "maxItems"),
        "integer" | "number" => ("range", "minimum", "maximum"),
        _ => return Vec::new(),
    };
    let mut attributes = Vec::new();
    let mut bounds = Vec::new();
    for (bound, keyword) in [("min", lower), ("max", upper)] {
        if let Some(Value::Number(number)) = keywords.get(keyword) {
            bounds.push(format!("{bound} = {}", literal::number(number)));
            keywords.remove(keyword);
        }
    }
    if !bounds.is_empty() {
        attributes.push(format!("{name}({})", bounds.join(", ")));
    }
    if json_type == "string"
        && let Some(Value::String(pattern)) = keywords.remove("pattern")
    {
        attributes.push(format!("regex(pattern = {})", literal::string(&pattern)));
    }
    attributes
}

/// Returns the lines of a struct's field.
pub(crate) fn lines(plan: &Plan, field: &Field) -> Vec<String> {
    let mut lines = attributes_of(&produced_for(plan, field), &field.node);
    let mut serde = Vec::new();
    if crate::names::camel(&field.name) != field.property {
        serde.push(format!("rename = {}", literal::string(&field.property)));
    }
    if !field.required {
        serde.push("default".to_owned());
        serde.push("skip_serializing_if = \"Option::is_none\"".to_owned());
    } else if is(&field.node, "nullable") {
        lines.push("#[schemars(required)]".to_owned());
    }
    if !serde.is_empty() {
        lines.push(format!("#[serde({})]", serde.join(", ")));
    }
    let option = |text: String| if field.is_option() { format!("Option<{text}>") } else { text };
    let text = option(plan.text(&field.value_type));
    let stand_in = option(plan.stand_in(&field.value_type));
    if stand_in != text {
        lines.push(format!("#[schemars(with = {stand_in:?})]"));
    }
    lines.push(format!("pub {}: {text},", field.name));
    lines
}

/// Returns the schema that schemars produces for an item from its fields or variants alone.
pub(crate) fn produced_by_shape(shape: &Shape) -> Value {
    let Shape::Struct(fields) = shape else { return json!({"type": "string"}) };
    let mut required: Vec<&str> =
        fields.iter().filter(|field| field.required).map(|field| field.property.as_str()).collect();
    required.sort_by_key(|name| Value::from(*name).to_string());
    if required.is_empty() {
        json!({"type": "object"})
    } else {
        json!({"type": "object", "required": required})
    }
}
