use serde_json::{Value, json};

use crate::api::Api;

const ACCOUNTS: &str = "/api/v1/namespaces/a/serviceaccounts";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

async fn review(api: &Api, token: &Value, audiences: &[&str]) -> Value {
    let answer = api.post(REVIEWS, json!({"spec": {"token": token, "audiences": audiences}})).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.body["status"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_token_is_good_until_its_account_is_gone() {
    let api = Api::start().await;
    let made = api.post(ACCOUNTS, json!({"metadata": {"name": "robot"}})).await;
    let answer = api.post(&format!("{ACCOUNTS}/robot/token"), json!({"spec": {}})).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(answer.body["metadata"]["uid"], made.body["metadata"]["uid"]);
    assert_eq!(answer.body["spec"]["expirationSeconds"], 3600);
    let token = &answer.body["status"]["token"];
    let status = review(&api, token, &[]).await;
    assert_eq!(status["user"]["username"], "system:serviceaccount:a:robot");
    assert_eq!(status["audiences"], json!(["https://kubernetes.default.svc"]));
    assert!(review(&api, token, &["vault"]).await["authenticated"].is_null());
    let altered = json!(format!("{}x", token.as_str().unwrap()));
    assert!(review(&api, &altered, &[]).await["error"].is_string());
    assert_eq!(api.delete(&format!("{ACCOUNTS}/robot")).await.status, 200);
    let error = review(&api, token, &[]).await["error"].clone();
    assert_eq!(error, "[invalid bearer token, serviceaccounts \"robot\" not found]");
}

#[tokio::test(start_paused = true)]
async fn requests_for_tokens_are_checked() {
    let api = Api::start().await;
    api.post(ACCOUNTS, json!({"metadata": {"name": "robot"}})).await;
    let bound =
        |kind: &str| json!({"spec": {"boundObjectRef": {"kind": kind, "apiVersion": "v1", "name": "x"}}});
    for (account, body, status, message) in [
        ("none", json!({"spec": {}}), 404, "serviceaccounts \"none\" not found"),
        ("robot", bound("Secret"), 404, "secrets \"x\" not found"),
        ("robot", bound("ConfigMap"), 400, "cannot bind token to object of type /v1, Kind=ConfigMap"),
        (
            "robot",
            json!({"spec": {"expirationSeconds": 60}}),
            422,
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 60: \
             may not specify a duration less than 10 minutes",
        ),
    ] {
        let answer = api.post(&format!("{ACCOUNTS}/{account}/token"), body).await;
        assert_eq!((answer.status, answer.body["message"].as_str()), (status, Some(message)));
    }
}

#[tokio::test(start_paused = true)]
async fn others_can_learn_how_to_check_tokens() {
    let api = Api::booted().await;
    let configuration = api.get("/.well-known/openid-configuration").await.body;
    assert_eq!(configuration["issuer"], "https://kubernetes.default.svc");
    assert_eq!(configuration["jwks_uri"], "https://192.0.2.1:6443/openid/v1/jwks");
    assert!(api.get("/openid/v1/jwks").await.body["keys"].is_array());
}
