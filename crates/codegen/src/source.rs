//! Writes the Rust file for a list of definitions.

use evenkeel_schema::{depth, structural};
use serde_json::Value;

use crate::crates::Crates;
use crate::definition::{self, Names};
use crate::docs;
use crate::error::GenerateError;
use crate::names::Scope;
use crate::plan::{is, list, text};
use crate::preamble;
use crate::root;
use crate::whole;

/// Generated source, and notes on what it does not express.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Generated {
    /// The text of a Rust file.
    pub source: String,
    /// What the types do not express. The file has the same notes in a comment.
    pub notes: Vec<Note>,
    /// For each definition, its name and the Rust path of its function `definition` within the file.
    pub definitions: Vec<(String, String)>,
}

/// Something that the types do not express.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Note {
    /// The definition, and the version if the note concerns only one.
    pub definition: String,
    /// What is not expressed.
    pub text: String,
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.definition, self.text)
    }
}

/// Writes Rust types for CustomResourceDefinitions. Lists are opened, and objects of other kinds are noted and skipped.
///
/// A single definition with a single version becomes types at the top of the file. Each further version gets a module,
/// and so does each of several definitions. See the [crate](crate) for an example.
///
/// # Errors
/// If there is no definition, or one that an API server would refuse: because of its names or schemas, or because it is
/// nested deeper than [`depth::DEPTH_MAX`].
pub fn generate(objects: &[Value], crates: Crates) -> Result<Generated, GenerateError> {
    if !objects.iter().all(|object| fits(object, depth::DEPTH_MAX)) {
        return Err(depth::TooDeep.into());
    }
    let mut notes = Vec::new();
    let definitions = definitions(objects, &mut notes);
    if definitions.is_empty() {
        return Err(GenerateError::NoDefinition);
    }
    let mut scope = Scope::with(&["support"]);
    let mut body = String::new();
    let mut functions = Vec::new();
    for definition in &definitions {
        let names = definition::names(definition)?;
        check_structural(definition, &names)?;
        if definitions.len() == 1 {
            body.push_str(&one(definition, &names, "", crates, &mut notes));
            functions.push((names.definition.clone(), "definition".to_owned()));
        } else {
            let module = scope.give_snake(&names.kind);
            let text = preamble::indented(&one(definition, &names, "super::", crates, &mut notes));
            body.push_str(&format!(
                "/// {} of {}.\npub mod {module} {{\n{text}}}\n\n",
                names.kind, names.group
            ));
            functions.push((names.definition.clone(), format!("{module}::definition")));
        }
    }
    let support = preamble::module(&body, crates).map(|module| format!("\n{module}")).unwrap_or_default();
    let source =
        format!("{}{}{support}", header(&functions, &notes, crates), body.trim_end().to_owned() + "\n");
    Ok(Generated { source, notes, definitions: functions })
}

/// Returns the definitions among the objects, and adds notes about all other objects.
fn definitions(objects: &[Value], notes: &mut Vec<Note>) -> Vec<Value> {
    let mut found = Vec::new();
    for object in objects {
        let kind = text(object, "kind");
        if kind == "CustomResourceDefinition" {
            found.push(object.clone());
        } else if kind == "List" || kind == "CustomResourceDefinitionList" {
            found.extend(definitions(list(object, "items"), notes));
        } else if !object.is_null() {
            let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
            let text = "skipped, because it is not a CustomResourceDefinition".to_owned();
            notes.push(Note { definition: format!("{kind} {name}"), text });
        }
    }
    found
}

/// Whether a tree has at most `levels` levels of lists and maps. The recursion stops at that depth.
fn fits(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels > 0 && items.iter().all(|item| fits(item, levels - 1)),
        Value::Object(map) => levels > 0 && map.values().all(|value| fits(value, levels - 1)),
        _ => true,
    }
}

fn check_structural(definition: &Value, names: &Names) -> Result<(), GenerateError> {
    for version in list(&definition["spec"], "versions") {
        let schema = version.pointer("/schema/openAPIV3Schema").ok_or_else(|| GenerateError::Missing {
            name: names.definition.clone(),
            field: "/spec/versions/*/schema/openAPIV3Schema",
        })?;
        if is(schema, "x-kubernetes-preserve-unknown-fields") && schema.get("type").is_none() {
            continue;
        }
        if let Err(errors) = structural::compile(&schema.into()) {
            let problem = errors.first().map(ToString::to_string).unwrap_or_default();
            let version = text(version, "name").to_owned();
            return Err(GenerateError::NotStructural { name: names.definition.clone(), version, problem });
        }
    }
    Ok(())
}

/// Generates the code of one definition. `above` is the path to the module with the helpers.
fn one(definition: &Value, names: &Names, above: &str, crates: Crates, notes: &mut Vec<Note>) -> String {
    let versions = list(&definition["spec"], "versions");
    let mut scope = Scope::default();
    let mut written = Vec::new();
    let mut text = String::new();
    for version in versions {
        let version = root::version(names, version, crates);
        for note in &version.notes {
            notes.push(Note {
                definition: format!("{} {}", names.definition, version.name),
                text: note.clone(),
            });
        }
        let path = if versions.len() == 1 {
            let above = if above.is_empty() { "self::" } else { above };
            text.push_str(&format!(
                "{}\n{}\n",
                preamble::imports(&version.body, above, crates),
                version.body
            ));
            String::new()
        } else {
            let module = scope.give_snake(&version.name);
            let inner = format!(
                "{}\n{}",
                preamble::imports(&version.body, &format!("super::{above}"), crates),
                version.body
            );
            let inner = preamble::indented(&inner);
            text.push_str(&format!(
                "/// Version {} of {}.\npub mod {module} {{\n{inner}}}\n\n",
                version.name, names.kind
            ));
            format!("{module}::")
        };
        written.push((path, version));
    }
    text.push_str(&whole::function(definition, names, &written, crates));
    // Long JSON values outside of the version modules need the full path of the helper.
    text.replace("from_value(parsed(", &format!("from_value({above}support::parsed("))
}

/// A text without what would end a comment or change how it is read.
fn on_one_line(text: &str) -> String {
    text.chars().map(|letter| if docs::is_direction(letter) { ' ' } else { letter }).collect()
}

/// Returns the comment at the start of the file.
fn header(functions: &[(String, String)], notes: &[Note], crates: Crates) -> String {
    let names: Vec<&str> = functions.iter().map(|(name, _)| name.as_str()).collect();
    let mut lines = vec![
        format!("// Generated by `evenkeel generate types` from {}.", names.join(", ")),
        format!("// Needs {}.", crates.needs()),
    ];
    if !notes.is_empty() {
        lines.push("//".to_owned());
        lines.push("// Not expressed:".to_owned());
        // The names of objects that were skipped may be any text.
        lines.extend(notes.iter().map(|note| format!("// - {}", on_one_line(&note.to_string()))));
    }
    // Descriptions are copied from the definition, so lints on comments cannot be enforced.
    lines.join("\n") + "\n\n#![allow(clippy::all, rustdoc::all)]\n\n"
}
