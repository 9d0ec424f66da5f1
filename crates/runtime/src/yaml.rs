//! Applying what people write: YAML documents, as `kubectl apply -f` takes them.

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::{Client, ResourceExt as _};

use crate::error::BoxError;

/// YAML documents could not be applied.
///
/// ```
/// use evenkeel_runtime::yaml::{self, YamlError};
///
/// assert!(matches!(yaml::parse("kind: [").unwrap_err(), YamlError::Parse(_)));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum YamlError {
    /// It is not YAML, or not of objects.
    #[error("read the documents: {0}")]
    Parse(#[source] BoxError),
    /// A document does not say of which kind it is.
    #[error("apply {name}: the document has no apiVersion and kind")]
    Untyped {
        /// The name of the object.
        name: String,
    },
    /// The API server refused, or could not be reached.
    #[error("apply {kind} {name}: {source}")]
    Api {
        /// The kind of the object.
        kind: String,
        /// Its name.
        name: String,
        /// The answer.
        source: Box<kube::Error>,
    },
}

/// Applies every document of a YAML text server-side, in its order, as this field manager; gives what the server made
/// of them. Objects that name no namespace go into this one, where their kind has any.
///
/// # Errors
/// At the first document that cannot be applied.
pub async fn apply(
    client: &Client,
    namespace: &str,
    field_manager: &str,
    yaml: &str,
) -> Result<Vec<DynamicObject>, YamlError> {
    let mut applied = Vec::new();
    for object in parse(yaml)? {
        applied.push(apply_one(client, namespace, field_manager, &object).await?);
    }
    Ok(applied)
}

/// The objects of a YAML text.
///
/// # Errors
/// When it is not YAML, or a document is no object.
pub fn parse(yaml: &str) -> Result<Vec<DynamicObject>, YamlError> {
    serde_saphyr::from_multiple(yaml).map_err(|error| YamlError::Parse(error.into()))
}

async fn apply_one(
    client: &Client,
    namespace: &str,
    field_manager: &str,
    object: &DynamicObject,
) -> Result<DynamicObject, YamlError> {
    let name = object.name_any();
    let Some(types) = &object.types else { return Err(YamlError::Untyped { name }) };
    let Ok(gvk) = GroupVersionKind::try_from(types) else { return Err(YamlError::Untyped { name }) };
    let fail =
        |source| YamlError::Api { kind: types.kind.clone(), name: name.clone(), source: Box::new(source) };
    let (resource, capabilities) = pinned_kind(client, &gvk).await.map_err(fail)?;
    let own = object.namespace();
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => {
            Api::namespaced_with(client.clone(), own.as_deref().unwrap_or(namespace), &resource)
        }
    };
    let params = PatchParams::apply(field_manager).force();
    api.patch(&name, &params, &Patch::Apply(object)).await.map_err(fail)
}
