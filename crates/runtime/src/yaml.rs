//! Applies YAML documents, as `kubectl apply -f` does.

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
    /// The text is not YAML, or a document is not an object.
    #[error("read the documents: {0}")]
    Parse(#[source] BoxError),
    /// A document has no apiVersion or kind.
    #[error("apply {name}: the document has no apiVersion and kind")]
    Untyped {
        /// The name of the object.
        name: String,
    },
    /// The API server refused the request, or could not be reached.
    #[error("apply {kind} {name}: {source}")]
    Api {
        /// The kind of the object.
        kind: String,
        /// The name of the object.
        name: String,
        /// The server's answer, or the error of the connection.
        source: Box<kube::Error>,
    },
}

/// Applies every document of a YAML text in order, by server-side apply with this field manager. Returns the objects as
/// the server stored them. Objects without a namespace go into `namespace`, if their kind lives in namespaces.
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

/// Reads the objects of a YAML text.
///
/// # Errors
/// When the text is not YAML, or a document is not an object.
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
