//! The managed fields of statuses that the server itself writes.

use evenkeel_schema::api_resources::split_api_version;
use evenkeel_schema::json::{Map, Value};
use evenkeel_schema::managed_fields::{self, Context, OneVersion, Reset};
use evenkeel_schema::types;
use jiff::Timestamp;

/// The name by which the server is a field manager.
pub(crate) const MANAGER: &str = "kube-apiserver";

/// Records in the managed fields of an object that the server has changed its status. `before` is the status that it had.
pub(crate) fn record(object: &mut Value, before: &Value, now: Timestamp) {
    // Only metadata and status are looked at, because nothing else has changed and a schema in a spec may be large.
    let part = |status: &Value| {
        let fields = ["apiVersion", "kind", "metadata"].map(|name| (name.to_owned(), object[name].clone()));
        let status = [("status".to_owned(), status.clone())];
        Value::Object(fields.into_iter().chain(status).collect::<Map>())
    };
    let (old, new) = (part(before), part(&object["status"]));
    let recorded = with(object, MANAGER, now, |context| managed_fields::update(context, Some(&old), new));
    if let Some(mut recorded) = recorded {
        object["metadata"] = recorded["metadata"].take();
    }
}

/// Applies a status in the name of a manager; `None` if that is refused.
pub(crate) fn apply(object: &Value, config: &Value, manager: &str, now: Timestamp) -> Option<Value> {
    with(object, manager, now, |context| {
        managed_fields::apply(context, Some(object.clone()), config, true).ok()
    })?
}

fn with<T>(object: &Value, manager: &str, now: Timestamp, run: impl FnOnce(&Context<'_>) -> T) -> Option<T> {
    let (api_version, kind) = (object["apiVersion"].as_str()?, object["kind"].as_str()?);
    let (group, version) = split_api_version(api_version);
    let schema = types::builtin(group, version, kind)?;
    let reset = Reset::builtin(group, kind, "status", true);
    let context = Context {
        schema,
        api_version,
        kind,
        manager,
        subresource: "status",
        now,
        reset,
        versions: &OneVersion,
    };
    Some(run(&context))
}

#[cfg(test)]
mod tests {
    use evenkeel_schema::json::json;

    use super::*;

    #[test]
    fn the_server_owns_what_it_writes_and_nothing_else() {
        let condition = json!({"type": "Established", "status": "True", "reason": "R", "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let owned = json!({"manager": "m", "operation": "Update", "apiVersion": "apiextensions.k8s.io/v1",
            "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:group": {}}}});
        let mut object = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "a", "managedFields": [owned.clone()]}, "spec": {"group": "g"},
            "status": {"conditions": [condition], "storedVersions": ["v1"]},
        });
        record(&mut object, &json!({"storedVersions": ["v1"]}), Timestamp::UNIX_EPOCH);
        assert_eq!(object["spec"], json!({"group": "g"}));
        let entries = object["metadata"]["managedFields"].as_array().unwrap();
        assert!(entries.contains(&owned), "{entries:?}");
        let own = entries.iter().find(|it| it["manager"] == MANAGER).unwrap();
        assert_eq!(own["subresource"], "status");
        let fields = &own["fieldsV1"]["f:status"];
        assert!(fields["f:conditions"][r#"k:{"type":"Established"}"#]["f:reason"].is_object(), "{own}");
        assert!(fields["f:storedVersions"].is_null(), "{own}");
    }
}
