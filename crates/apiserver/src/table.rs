//! Server-side printing: objects as rows of a `Table`, which `kubectl get` shows.
//!
//! A [`Printer`] knows the columns of a resource and builds a Table for a list, a single object or one watch
//! event. The current time is a parameter, because cells show ages.

mod age;
mod cells;
mod custom;
mod jsonpath;

use evenkeel_schema::json::{Value, json};
use jiff::Timestamp;

use crate::registry::{Column, GroupResource, ResourceInfo};
use crate::request::Request;
use crate::status::Status;
use custom::CustomColumns;

/// Prints the objects of one resource as rows of a Table.
#[derive(Debug)]
pub(crate) struct Printer {
    columns: Vec<Value>,
    rows: Rows,
    quirk: Quirk,
}

/// How the Tables of a few kinds differ from all others, apart from their cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quirk {
    None,
    /// A row of a finished pod carries a `Completed` condition.
    Completion,
    /// Rows are sorted by `matchingPrecedence`, the order in which the API server tries flow schemas.
    Precedence,
}

/// The resources whose Tables differ from all others.
const QUIRKS: [(GroupResource, Quirk); 2] = [
    (GroupResource::PODS, Quirk::Completion),
    (GroupResource::new("flowcontrol.apiserver.k8s.io", "flowschemas"), Quirk::Precedence),
];

enum Rows {
    /// A built-in kind with its own columns.
    Kind(cells::Row),
    /// A built-in kind that shows only its name and creation time.
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

/// How much of each object a row carries (the query parameter `includeObject`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Include {
    /// The row carries no object.
    None,
    /// The row carries the object's metadata, from which kubectl reads names and labels.
    #[default]
    Metadata,
    /// The row carries the whole object.
    Object,
}

impl Include {
    /// Parses the value of `includeObject`; an empty value means [`Include::Metadata`].
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

/// The options of a request that asks for a Table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableOptions {
    /// The version of `meta.k8s.io`: `v1`, or `v1beta1` if an old client asks for it.
    pub(crate) version: &'static str,
    pub(crate) include: Include,
    /// The time of the request, from which ages are counted.
    pub(crate) now: Timestamp,
}

impl TableOptions {
    /// Reads the options from the query of a request.
    pub(crate) fn of(request: &Request<'_>, beta: bool, now: Timestamp) -> Result<Self, Status> {
        let include = Include::parse(request.query.text("includeObject"))?;
        let version = if beta { "v1beta1" } else { "v1" };
        Ok(Self { version, include, now })
    }
}

impl Printer {
    /// Creates the printer for a resource.
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
        let quirk = QUIRKS.iter().find(|it| info.is(it.0)).map_or(Quirk::None, |(_, quirk)| *quirk);
        Self { columns, rows, quirk }
    }

    /// Returns the cells of the row that shows `object`.
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

    /// Returns a Table that shows these objects.
    ///
    /// `metadata` is the metadata of the list, or only the resource version of a single object. A watch sends
    /// the column definitions (`headings`) with its first event only.
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

    /// Returns a Table with one row.
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

/// The definition of a custom resource's column. A column without a description is described by its JSONPath.
fn custom_heading(column: &Column) -> Value {
    let mut value = heading(column);
    if column.description.is_empty() {
        let text = format!("Custom resource definition column (in JSONPath format): {}", column.json_path);
        value["description"] = text.into();
    }
    value
}

/// Kubernetes' description of `metadata.name`.
const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources \
    may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for \
    creation idempotence and configuration definition. Cannot be updated. More info: \
    https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
/// Kubernetes' description of `metadata.creationTimestamp`.
const CREATION_TIMESTAMP: &str = "CreationTimestamp is a timestamp representing the server time when this object was \
    created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this \
    value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More \
    info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

fn name_column() -> Value {
    heading(&Column {
        name: "Name".into(),
        kind: "string".into(),
        format: "name".into(),
        description: NAME.into(),
        ..Column::default()
    })
}

/// The column that a CRD without `additionalPrinterColumns` shows after the name.
fn age_column() -> Column {
    let json_path = ".metadata.creationTimestamp".to_owned();
    let description = CREATION_TIMESTAMP.to_owned();
    Column { name: "Age".into(), kind: "date".into(), json_path, description, ..Column::default() }
}

#[cfg(test)]
mod tests;
