use serde_json::json;

use crate::api::Api;

const CONFIG_MAPS: &str = "/api/v1/namespaces/a/configmaps";

#[tokio::test(start_paused = true)]
async fn a_list_becomes_rows_and_keeps_its_continuation() {
    let api = Api::start().await;
    for name in ["x", "y", "z"] {
        api.post(CONFIG_MAPS, json!({"metadata": {"name": name}, "data": {"k": "v"}})).await;
    }
    let table = api.table(&format!("{CONFIG_MAPS}?limit=2")).await;
    assert_eq!(
        (table["kind"].as_str(), table["apiVersion"].as_str()),
        (Some("Table"), Some("meta.k8s.io/v1"))
    );
    assert_eq!(table["columnDefinitions"][1]["name"], "Data");
    assert_eq!(table["rows"][0]["cells"], json!(["x", 1, "0s"]));
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(table["metadata"]["remainingItemCount"], 1);
    assert!(table["metadata"]["continue"].is_string());
}

#[tokio::test(start_paused = true)]
async fn rows_carry_as_much_of_the_object_as_is_asked_for() {
    let api = Api::start().await;
    api.post(CONFIG_MAPS, json!({"metadata": {"name": "x"}, "data": {"k": "v"}})).await;
    let object = |table: &serde_json::Value| table["rows"][0]["object"].clone();
    let none = api.table(&format!("{CONFIG_MAPS}?includeObject=None")).await;
    assert!(object(&none).is_null());
    let whole = api.table(&format!("{CONFIG_MAPS}/x?includeObject=Object")).await;
    assert_eq!(object(&whole)["data"], json!({"k": "v"}));
    assert_eq!(whole["metadata"]["resourceVersion"], object(&whole)["metadata"]["resourceVersion"]);
    let refused = api.table(&format!("{CONFIG_MAPS}?includeObject=Some")).await;
    assert_eq!(refused["code"], 400);
}

#[tokio::test(start_paused = true)]
async fn a_watch_has_headings_once() {
    let api = Api::start().await;
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let mut watch = api.watch_as(&format!("{CONFIG_MAPS}?watch=1"), accept).await;
    api.post(CONFIG_MAPS, json!({"metadata": {"name": "x"}})).await;
    api.post(CONFIG_MAPS, json!({"metadata": {"name": "y"}})).await;
    let first = watch.next().await;
    assert_eq!(first["object"]["columnDefinitions"][0]["name"], "Name");
    assert_eq!(first["object"]["rows"][0]["cells"][0], "x");
    let second = watch.next().await;
    assert!(second["object"]["columnDefinitions"].is_null());
    assert_eq!(second["object"]["rows"][0]["cells"][0], "y");
}
