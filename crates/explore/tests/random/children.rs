//! The children of a random operator: a value in an object of each kind, and the ways to write it.

use std::fmt::Debug;

use evenkeel_runtime::{Ctx, Object, Result};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service, ServiceAccount};
use kube::api::Patch;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::operator::World;
use crate::recipe::{Kind, Way};

/// Where the value of an object is, and what else the object has.
struct Shape {
    base: Value,
    path: &'static [&'static str],
}

const ANNOTATION: &[&str] = &["metadata", "annotations", "value"];

fn shape(kind: Kind) -> Shape {
    match kind {
        Kind::ConfigMap => Shape { base: json!({}), path: &["data", "value"] },
        Kind::Secret => Shape { base: json!({"data": {"fixed": "Zml4ZWQ="}}), path: ANNOTATION },
        Kind::Service => {
            let spec = json!({"selector": {"app": "zoo"}, "ports": [{"port": 80}]});
            Shape { base: json!({"spec": spec}), path: ANNOTATION }
        }
        Kind::ServiceAccount => Shape { base: json!({}), path: ANNOTATION },
        Kind::Deployment => {
            let template = json!({
                "metadata": {"labels": {"app": "zoo"}},
                "spec": {"containers": [{"name": "main", "image": "zoo:1"}]},
            });
            let spec =
                json!({"replicas": 1, "selector": {"matchLabels": {"app": "zoo"}}, "template": template});
            let path = &["spec", "template", "metadata", "annotations", "value"];
            Shape { base: json!({"spec": spec}), path }
        }
    }
}

fn set(object: &mut Value, path: &[&str], value: &str) {
    let place = path.iter().fold(object, |object, name| &mut object[*name]);
    *place = value.into();
}

fn get<'v>(object: &'v Value, path: &[&str]) -> Option<&'v str> {
    path.iter().fold(object, |object, name| &object[*name]).as_str()
}

/// Writes a child, and returns whether the cache shows it.
pub(crate) async fn write(
    ctx: &Ctx<World>,
    kind: Kind,
    name: &str,
    value: &str,
    copied: bool,
) -> Result<bool> {
    match kind {
        Kind::ConfigMap => write_as::<ConfigMap>(ctx, kind, name, value, copied).await,
        Kind::Secret => write_as::<Secret>(ctx, kind, name, value, false).await,
        Kind::Service => write_as::<Service>(ctx, kind, name, value, false).await,
        Kind::ServiceAccount => write_as::<ServiceAccount>(ctx, kind, name, value, false).await,
        Kind::Deployment => write_as::<Deployment>(ctx, kind, name, value, false).await,
    }
}

async fn write_as<K>(ctx: &Ctx<World>, kind: Kind, name: &str, value: &str, copied: bool) -> Result<bool>
where
    K: Object<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug,
{
    let Shape { base, path } = shape(kind);
    let mut wanted = base;
    wanted["metadata"]["name"] = name.into();
    if copied {
        wanted["metadata"]["labels"]["copy"] = "yes".into();
    }
    set(&mut wanted, path, value);
    let object: K = serde_json::from_value(wanted)?;
    match ctx.state().recipe.way {
        Way::Apply => {
            ctx.apply(object).await?;
        }
        Way::Update => {
            let change = |found: &mut K| {
                let mut changed = serde_json::to_value(&*found).unwrap();
                set(&mut changed, path, value);
                *found = serde_json::from_value(changed).unwrap();
            };
            ctx.create_or_update(object, change).await?;
        }
        Way::Patch => {
            let found = ctx.get_or_create(object).await?;
            if get(&serde_json::to_value(&found)?, path) != Some(value) {
                let mut patch = json!({});
                set(&mut patch, path, value);
                ctx.patch(&found, &Patch::Merge(patch)).await?;
            }
        }
    }
    Ok(ctx.get::<K>(name)?.is_some())
}
