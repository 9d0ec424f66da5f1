//! Objects as rows: what `kubectl get` shows.
//!
//! A [`Printer`] knows the columns of a resource and makes the cells of its objects, and frames rows for a
//! list, a single object or one event of a watch. The time is a parameter: ages are part of the answer.

mod age;
mod cells;
mod custom;
mod jsonpath;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::call::Call;
use crate::registry::{Column, ResourceInfo};
use crate::status::Status;
use custom::CustomColumns;

/// Makes rows for the objects of one resource.
#[derive(Debug)]
pub(crate) struct Printer {
    columns: Vec<Value>,
    rows: Rows,
    quirk: Quirk,
}

/// What two kinds have beside their cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quirk {
    None,
    /// The row of a pod that is done says so.
    Completion,
    /// Flow schemas are listed in the order in which they match.
    Precedence,
}

enum Rows {
    /// A built-in kind with columns of its own.
    Kind(cells::Row),
    /// A built-in kind of which name and creation time are shown.
    Plain,
    Custom(CustomColumns),
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Kind(_) => "Kind",
            Self::Plain => "Plain",
            Self::Custom(_) => "Custom",
        })
    }
}

/// How much of each object a row carries (`includeObject`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Include {
    /// Nothing.
    None,
    /// Its metadata, which kubectl needs for names and labels.
    #[default]
    Metadata,
    /// All of it.
    Object,
}

impl Include {
    /// Reads the query parameter; absent and empty mean the metadata.
    pub(crate) fn parse(text: &str) -> Result<Self, Status> {
        match text {
            "None" => Ok(Self::None),
            "" | "Metadata" => Ok(Self::Metadata),
            "Object" => Ok(Self::Object),
            other => Err(Status::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: \
                 must be 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }
}

/// What a client asked for beside the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableOptions {
    /// `v1`, or `v1beta1` where an old client asks for it.
    pub(crate) version: &'static str,
    pub(crate) include: Include,
    /// The time of the request.
    pub(crate) now: Timestamp,
}

impl TableOptions {
    /// The options of a request for a Table.
    pub(crate) fn of(call: &Call<'_>, beta: bool) -> Result<Self, Status> {
        let include = Include::parse(call.request.query.text("includeObject"))?;
        let version = if beta { "v1beta1" } else { "v1" };
        Ok(Self { version, include, now: call.server.env().now() })
    }
}

impl Printer {
    /// The printer of a resource.
    pub(crate) fn of(info: &ResourceInfo) -> Self {
        if info.is_custom() {
            let columns = if info.columns.is_empty() { vec![age_column()] } else { info.columns.clone() };
            let headings = std::iter::once(name_column()).chain(columns.iter().map(custom_heading)).collect();
            return Self {
                columns: headings,
                rows: Rows::Custom(CustomColumns::of(&columns)),
                quirk: Quirk::None,
            };
        }
        let columns = info.columns.iter().map(heading).collect();
        let is_plain = info.columns.iter().any(|column| column.name == "Created At");
        let rows = match cells::of(&info.group, &info.kind) {
            Some(row) if !is_plain => Rows::Kind(row),
            _ => Rows::Plain,
        };
        let quirk = match info.kind.as_str() {
            "Pod" => Quirk::Completion,
            "FlowSchema" => Quirk::Precedence,
            _ => Quirk::None,
        };
        Self { columns, rows, quirk }
    }

    /// The cells of one object's row.
    pub(crate) fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        match &self.rows {
            Rows::Kind(row) => cells::cells(*row, object, now),
            Rows::Custom(columns) => columns.cells(object, now),
            Rows::Plain => {
                let text = |pointer| object.pointer(pointer).cloned().unwrap_or_else(|| "".into());
                vec![text("/metadata/name"), text("/metadata/creationTimestamp")]
            }
        }
    }

    /// A Table of these objects, whole and in the version that the client reads. `metadata` is that of the list, or
    /// of a single object its resourceVersion; later events of a watch come without headings.
    pub(crate) fn table(
        &self,
        objects: &[Value],
        metadata: Value,
        headings: bool,
        options: TableOptions,
    ) -> Value {
        let mut order: Vec<&Value> = objects.iter().collect();
        if self.quirk == Quirk::Precedence {
            order.sort_by_key(|object| precedence(object));
        }
        let rows: Vec<Value> = order.into_iter().map(|object| self.row(object, options)).collect();
        json!({
            "kind": "Table",
            "apiVersion": format!("meta.k8s.io/{}", options.version),
            "metadata": metadata,
            "columnDefinitions": if headings { Value::from(self.columns.clone()) } else { Value::Null },
            "rows": if rows.is_empty() && matches!(self.rows, Rows::Plain) { Value::Null } else { rows.into() },
        })
    }

    /// A Table of one object.
    pub(crate) fn single(&self, object: Value, headings: bool, options: TableOptions) -> Value {
        let version = object.pointer("/metadata/resourceVersion").cloned();
        let metadata = version.map_or_else(|| json!({}), |version| json!({ "resourceVersion": version }));
        self.table(&[object], metadata, headings, options)
    }

    fn row(&self, object: &Value, options: TableOptions) -> Value {
        let mut row =
            json!({ "cells": self.cells(object, options.now), "object": included(object, options) });
        if self.quirk == Quirk::Completion
            && let Some(conditions) = cells::pod_conditions(object, options.now)
        {
            row["conditions"] = conditions;
        }
        row
    }
}

fn included(object: &Value, options: TableOptions) -> Value {
    match options.include {
        Include::None => Value::Null,
        Include::Object => object.clone(),
        Include::Metadata => json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": format!("meta.k8s.io/{}", options.version),
            "metadata": object.get("metadata"),
        }),
    }
}

fn precedence(object: &Value) -> (i64, &str) {
    let number = object.pointer("/spec/matchingPrecedence").and_then(Value::as_i64);
    let name = object.pointer("/metadata/name").and_then(Value::as_str);
    (number.unwrap_or_default(), name.unwrap_or_default())
}

fn heading(column: &Column) -> Value {
    json!({
        "name": column.name,
        "type": column.kind,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    })
}

/// The heading of a printer column, which says where its cells come from unless the definition describes it.
fn custom_heading(column: &Column) -> Value {
    let mut value = heading(column);
    if column.description.is_empty() {
        let text = format!("Custom resource definition column (in JSONPath format): {}", column.json_path);
        value["description"] = text.into();
    }
    value
}

fn name_column() -> Value {
    heading(&Column {
        name: "Name".into(),
        kind: "string".into(),
        format: "name".into(),
        ..Column::default()
    })
}

/// What a definition without columns shows behind the name.
fn age_column() -> Column {
    let json_path = ".metadata.creationTimestamp".to_owned();
    Column { name: "Age".into(), kind: "date".into(), json_path, ..Column::default() }
}

#[cfg(test)]
mod tests;
