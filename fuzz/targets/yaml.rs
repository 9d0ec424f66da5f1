//! Fuzzes YAML bodies of creates and applies. A stored object is printed as YAML that parses to the same
//! object.
#![no_main]

use evenkeel_fuzz::run;

const YAML: &str = "application/yaml";

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    run(|api| async move {
        for collection in ["/api/v1/namespaces/a/configmaps", "/apis/x.io/v1/namespaces/a/trees"] {
            let Some(made) = api.send("POST", collection, YAML, bytes).await else { return };
            if made.status != 201 {
                continue;
            }
            let made = made.json().expect("an object is no stream").expect("an object is JSON");
            let path = format!("{collection}/{}", made["metadata"]["name"].as_str().unwrap_or_default());
            let shown = api.send_with("GET", &path, &[("accept", YAML)], b"").await;
            // Validation refuses names that a path cannot contain.
            let shown = shown.expect("a name needs no escapes");
            assert_eq!(shown.status, 200, "{path}");
            let text = shown.body.expect("an object is no stream");
            let again = api.send("PUT", &path, YAML, &text).await.expect("the path was taken before");
            let told = again.json().expect("an object is no stream").expect("an object is JSON");
            assert_eq!(again.status, 200, "{told}\n{}", String::from_utf8_lossy(&text));
            assert_eq!(told["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"], "{told}");
        }
        let apply = "application/apply-patch+yaml";
        api.send("PATCH", "/api/v1/namespaces/a/configmaps/c?fieldManager=f&force=true", apply, bytes).await;
        api.check_alive().await;
    });
});
