use serde_json::{Value, json};

use crate::api::Api;

const MAPS: &str = "/api/v1/namespaces/a/configmaps";
const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

fn rules(operations: &[&str], resource: &str) -> Value {
    json!({"resourceRules": [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": operations, "resources": [resource]}]})
}

fn map(name: &str, data: Value) -> Value {
    json!({"metadata": {"name": name}, "data": data})
}

async fn make(api: &Api, kind: &str, spec: Value) {
    let made = api.post(&format!("{GROUP}/{kind}"), json!({"metadata": {"name": "p"}, "spec": spec})).await;
    assert_eq!(made.status, 201, "{made:?}");
}

#[tokio::test(start_paused = true)]
async fn a_policy_holds_where_it_is_bound() {
    let api = Api::start().await;
    let spec = json!({"matchConstraints": rules(&["CREATE", "UPDATE", "DELETE"], "configmaps"),
        "variables": [{"name": "size", "expression": "object == null ? 0 : object.data.size()"}],
        "validations": [{"expression": "variables.size < 2", "reason": "Forbidden",
            "messageExpression": "'too many: ' + string(variables.size)"},
            {"expression": "request.operation != 'DELETE' || oldObject.metadata.name != 'kept'", "message": "kept"}]});
    make(&api, "validatingadmissionpolicies", spec).await;
    let two = map("two", json!({"a": "1", "b": "2"}));
    assert_eq!(api.post(MAPS, two.clone()).await.status, 201, "a policy without a binding holds nowhere");
    let binding = json!({"policyName": "p", "validationActions": ["Deny"]});
    make(&api, "validatingadmissionpolicybindings", binding).await;
    let refused = api.post(&format!("{MAPS}?dryRun=All"), two).await;
    let message = "configmaps \"two\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: too many: 2";
    assert_eq!((refused.status, refused.body["message"].as_str()), (403, Some(message)));
    assert_eq!(api.post(MAPS, map("kept", json!({"a": "1"}))).await.status, 201);
    let refused = api.delete(&format!("{MAPS}/kept")).await;
    assert_eq!((refused.status, refused.body["reason"].as_str()), (422, Some("Invalid")), "{refused:?}");
    assert_eq!(api.delete(&format!("{GROUP}/validatingadmissionpolicybindings/p")).await.status, 200);
    assert_eq!(api.delete(&format!("{MAPS}/kept")).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_policy_may_only_warn() {
    let api = Api::start().await;
    let spec = json!({"matchConstraints": rules(&["CREATE"], "configmaps"),
        "validations": [{"expression": "object.metadata.name != 'odd'"}]});
    make(&api, "validatingadmissionpolicies", spec).await;
    let binding = json!({"policyName": "p", "validationActions": ["Warn"]});
    make(&api, "validatingadmissionpolicybindings", binding).await;
    let made = api.post(MAPS, map("odd", json!({}))).await;
    let warning = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p': failed expression: \
                   object.metadata.name != 'odd'";
    assert_eq!((made.status, made.warnings.len()), (201, 1));
    assert!(made.warnings[0].contains(warning), "{made:?}");
}

#[tokio::test(start_paused = true)]
async fn a_policy_mutates_before_anything_is_checked() {
    let api = Api::start().await;
    let spec = json!({"matchConstraints": rules(&["CREATE"], "configmaps"), "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression":
            "Object{metadata: Object.metadata{labels: Object.metadata.labels{made: request.userInfo.username.lowerAscii()}}}"}}]});
    make(&api, "mutatingadmissionpolicies", spec).await;
    make(&api, "mutatingadmissionpolicybindings", json!({"policyName": "p"})).await;
    let refused = api.post(MAPS, map("a", json!({}))).await;
    assert_eq!(refused.status, 422, "a colon is no label: {refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_is_warned_of_too() {
    let api = Api::start().await;
    let refused = api.post(MAPS, json!({"metadata": {"name": "No"}, "odd": 1})).await;
    assert_eq!((refused.status, refused.warnings.len()), (422, 1), "{refused:?}");
    let missing = api.merge(&format!("{MAPS}/none"), json!([])).await;
    assert_eq!(missing.status, 404, "a patch is read where there is something to patch");
}
