//! One OpenAPI document: the operations of a group and version, and the schemas that they refer to.

use std::collections::BTreeMap;

use bytes::Bytes;
use evenkeel_schema::types::builtin_type_name;
use serde_json::{Value, json};

use super::{custom, operations, types};
use crate::discovery::{Group, Version, hash};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// An encoded document.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) bytes: Bytes,
    /// The hash of the bytes, which is part of the document's URL.
    pub(super) hash: String,
}

impl Document {
    /// Builds the document of a built-in group and version.
    pub(super) fn built_in(group: &Group, version: &Version) -> Self {
        let mut names: Vec<String> = ["DeleteOptions", "Status", "Patch", "WatchEvent", "APIResourceList"]
            .map(|name| format!("{META}.{name}"))
            .to_vec();
        for info in &version.resources {
            names.push(builtin_type_name(&info.group, &info.version, &info.kind));
            names.push(builtin_type_name(&info.group, &info.version, &info.list_kind));
            let own =
                |text: &str, other: &str| if text.is_empty() { other.to_owned() } else { text.to_owned() };
            names.extend(info.subresources.iter().map(|part| {
                let group = if part.version.is_empty() { info.group.clone() } else { part.group.clone() };
                builtin_type_name(&group, &own(&part.version, &info.version), &part.kind)
            }));
        }
        let schemas = types::close_over(names).into_iter().map(|(name, text)| (name, text.json.to_string()));
        let info = json!({ "title": "Kubernetes", "version": "1.36" });
        let bearer = json!({ "BearerToken": {
            "type": "apiKey",
            "description": "Bearer Token authentication",
            "name": "authorization",
            "in": "header",
        } });
        Self::assemble(info, operations::paths(group, version), schemas.collect(), Some(bearer))
    }

    /// Builds the document of a group and version that CRDs define.
    pub(super) fn custom(group: &Group, version: &Version) -> Self {
        let mut names: Vec<String> = ["DeleteOptions", "Status", "Patch", "ListMeta", "ObjectMeta"]
            .map(|name| format!("{META}.{name}"))
            .to_vec();
        let scales = version.resources.iter().any(|info| info.subresource("scale").is_some());
        if scales {
            names.push(builtin_type_name("autoscaling", "v1", "Scale"));
        }
        let schemas = types::close_over(names).into_iter().map(|(name, text)| (name, text.json.to_string()));
        let mut schemas: BTreeMap<String, String> = schemas.collect();
        for info in &version.resources {
            schemas.extend(custom::schemas(info).map(|(name, schema)| (name, schema.to_string())));
        }
        let info = json!({ "title": "Kubernetes CRD Swagger", "version": "v0.1.0" });
        Self::assemble(info, operations::paths(group, version), schemas, None)
    }

    fn assemble(
        info: Value,
        paths: Value,
        schemas: BTreeMap<String, String>,
        security: Option<Value>,
    ) -> Self {
        let schemas: Vec<String> = schemas.iter().map(|(name, json)| format!("\"{name}\":{json}")).collect();
        let security = security.map(|it| format!(",\"securitySchemes\":{it}")).unwrap_or_default();
        let text = format!(
            "{{\"openapi\":\"3.0.0\",\"info\":{info},\"paths\":{paths},\"components\":{{\"schemas\":{{{}}}{security}}}}}",
            schemas.join(",")
        );
        let hash = hash(text.as_bytes());
        Self { bytes: text.into(), hash }
    }
}
