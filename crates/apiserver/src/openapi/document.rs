//! One OpenAPI document: operations, and the schemas that they refer to.

use std::collections::BTreeMap;

use bytes::Bytes;
use evenkeel_schema::json::{Value, json};

use super::descriptions::Describer;
use super::{custom, operations, types};
use crate::discovery::{Group, Version, hash};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
/// The types that every group and version has as a kind of its own.
const SHARED_KINDS: [&str; 2] = ["DeleteOptions", "WatchEvent"];

/// An encoded document.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) bytes: Bytes,
    /// The hash of the bytes, which is part of the document's URL.
    pub(super) hash: String,
}

impl Document {
    /// Builds the document of a built-in group and version.
    pub(super) fn built_in(group: &Group, version: &Version, describer: &Describer) -> Self {
        let paths = operations::paths(group, version);
        let mut schemas = types::close_over(types::references(&paths), describer);
        for kind in SHARED_KINDS {
            let Some(schema) = schemas.get_mut(&format!("{META}.{kind}")) else { continue };
            let mut kinds = vec![json!({ "group": "", "kind": kind, "version": "v1" })];
            if !group.name.is_empty() {
                kinds.push(json!({ "group": group.name, "kind": kind, "version": version.name }));
            }
            schema["x-kubernetes-group-version-kind"] = kinds.into();
        }
        Self::assemble(built_in_info(), paths, schemas, Some(bearer()))
    }

    /// Builds a document with only these paths, such as that of `/version/`.
    pub(super) fn of_paths(paths: Value, describer: &Describer) -> Self {
        let schemas = types::close_over(types::references(&paths), describer);
        Self::assemble(built_in_info(), paths, schemas, Some(bearer()))
    }

    /// Builds the document of a group and version that CRDs define.
    pub(super) fn custom(group: &Group, version: &Version) -> Self {
        let paths = operations::paths(group, version);
        let own = version.resources.iter().flat_map(|info| custom::schemas(info));
        let own: BTreeMap<String, Value> = own.collect();
        let names = types::references(&paths).into_iter().chain(own.values().flat_map(types::references));
        let names: Vec<String> = names.filter(|name| !own.contains_key(name)).collect();
        let mut schemas = types::close_over_for_custom(names);
        schemas.extend(own);
        let info = json!({ "title": "Kubernetes CRD Swagger", "version": "v0.1.0" });
        Self::assemble(info, paths, schemas, None)
    }

    fn assemble(
        info: Value,
        paths: Value,
        schemas: BTreeMap<String, Value>,
        security: Option<Value>,
    ) -> Self {
        let schemas = match schemas.is_empty() {
            true => None,
            false => Some(Value::Object(schemas.into_iter().collect())),
        };
        let components: evenkeel_schema::json::Map = [("schemas", schemas), ("securitySchemes", security)]
            .into_iter()
            .filter_map(|(name, part)| Some((name.to_owned(), part?)))
            .collect();
        let document = json!({ "openapi": "3.0.0", "info": info, "paths": paths, "components": components });
        let text = document.to_string();
        let hash = hash(text.as_bytes());
        Self { bytes: text.into(), hash }
    }
}

fn built_in_info() -> Value {
    json!({ "title": "Kubernetes", "version": "1.36" })
}

fn bearer() -> Value {
    json!({ "BearerToken": {
        "type": "apiKey",
        "description": "Bearer Token authentication",
        "name": "authorization",
        "in": "header",
    } })
}
