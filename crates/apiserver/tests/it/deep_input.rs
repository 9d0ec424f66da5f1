//! Requests with thousands of levels of nesting, in every media type and every part of a request. The server
//! must refuse each on half the stack of its threads: a stack overflow would end the test's process.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::api::Api;

const LEVELS: [usize; 3] = [1_000, 10_000, 100_000];
const STACK_BYTES: usize = 1024 * 1024;
const MAPS: &str = "/api/v1/namespaces/a/configmaps";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn on_small_stack<F: Future<Output = ()> + 'static>(test: fn(Api) -> F) {
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(async { test(Api::start().await).await });
    };
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run).unwrap().join().unwrap();
}

/// Builds a text of nested levels from its opening, middle and closing parts.
fn text(levels: usize, open: &str, middle: &str, close: &str) -> String {
    format!("{}{middle}{}", open.repeat(levels), close.repeat(levels))
}

#[test]
fn bodies() {
    on_small_stack(|api| async move {
        assert_eq!(api.post(MAPS, json!({"metadata": {"name": "c"}})).await.status, 201);
        let path = format!("{MAPS}/c");
        for levels in LEVELS {
            let json =
                format!("{{\"metadata\":{{\"name\":\"c\"}},\"data\":{}}}", text(levels, "{\"a\":", "1", "}"));
            let lists = text(levels, "[", "", "]");
            for body in [json.as_str(), lists.as_str(), &"{\"a\":".repeat(levels)] {
                let body = body.as_bytes();
                for media in ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"] {
                    assert_eq!(
                        api.post_raw(MAPS, media, body).await.status,
                        400,
                        "{levels} levels of {media}"
                    );
                }
                for media in
                    ["json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml"]
                {
                    let media = format!("application/{media}");
                    let refused = api.patch(&format!("{path}?fieldManager=m"), &media, body.to_vec()).await;
                    assert_eq!(refused.status, 400, "{levels} levels of {media}: {refused:?}");
                }
            }
        }
    });
}

/// Documents that nest by indentation, brackets, keys, and anchors that refer to each other.
#[test]
fn yaml() {
    on_small_stack(|api| async move {
        for levels in LEVELS {
            // The indentation grows with the depth: a thousand levels take half a megabyte.
            let block: String =
                (0..levels.min(1_500)).map(|level| format!("{}a:\n", " ".repeat(level))).collect();
            let anchors: String = (1..levels / 100)
                .map(|n| format!("v{n}: &v{n} {}\n", text(100, "[", &format!("*v{}", n - 1), "]")))
                .collect();
            for body in [
                block,
                format!("v0: &v0 [1]\n{anchors}"),
                text(levels, "- ", "1", ""),
                text(levels, "? ", "1", ""),
                text(levels, "{a: ", "1", "}"),
                text(levels, "[", "1", "]"),
                text(levels, "!!seq [", "1", "]"),
                "&a ".repeat(levels),
                "!t ".repeat(levels),
            ] {
                let refused = api.post_raw(MAPS, "application/yaml", body.as_bytes()).await;
                assert_eq!(refused.status, 400, "{levels} levels: {}", &body[..40.min(body.len())]);
            }
        }
    });
}

#[test]
fn tokens() {
    on_small_stack(|api| async move {
        for levels in LEVELS {
            for part in [text(levels, "[", "", "]"), text(levels, "{\"iss\":", "1", "}")] {
                let part = URL_SAFE_NO_PAD.encode(part);
                let review = json!({"spec": {"token": format!("{part}.{part}.{part}")}});
                let answer = api.post("/apis/authentication.k8s.io/v1/tokenreviews", review).await;
                assert_ne!(answer.body["status"]["authenticated"], true);
            }
        }
    });
}

#[test]
fn queries() {
    on_small_stack(|api| async move {
        for levels in LEVELS {
            for text in [text(levels, "a%20in%20(", "b", ")"), "!".repeat(levels), "a,".repeat(levels)] {
                for option in ["labelSelector", "fieldSelector", "continue"] {
                    // HTTP refuses longer paths.
                    if text.len() < 60_000 {
                        let _ = api.get(&format!("{MAPS}?{option}={text}")).await;
                    }
                }
            }
        }
    });
}

/// Printer columns with nested paths, and CRDs with nested schemas.
#[test]
fn definitions() {
    on_small_stack(|api| async move {
        for levels in [10, 1_000, 10_000] {
            for (number, path) in [
                ".a".repeat(levels),
                "..a".repeat(levels),
                text(levels, ".a[?(@", "==1", ")]"),
                text(levels, ".a[?(@.b'", "==1", "')]"),
                text(levels, "[", "0", "]"),
                text(levels, "['", "a", "']"),
                text(levels, "{", "", "}"),
                "[0,1]".repeat(levels),
            ]
            .into_iter()
            .enumerate()
            {
                let plural = format!("c{levels}x{number}s");
                let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
                let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                    "additionalPrinterColumns": [{"name": "c", "type": "string", "jsonPath": path}]});
                let definition = json!({"metadata": {"name": format!("{plural}.x.io")}, "spec": {"group": "x.io",
                    "scope": "Namespaced", "names": {"plural": plural, "kind": format!("C{levels}x{number}")},
                    "versions": [version]}});
                if api.post(DEFINITIONS, definition).await.status != 201 {
                    continue;
                }
                let nested = (0..100).fold(json!([{"a": 1}]), |inner, _| json!({"a": inner, "b": [1]}));
                let mut object = json!({"metadata": {"name": "o"}, "apiVersion": "x.io/v1", "a": nested});
                object["kind"] = format!("C{levels}x{number}").into();
                let collection = format!("/apis/x.io/v1/namespaces/a/{plural}");
                assert_eq!(api.post(&collection, object).await.status, 201);
                assert_eq!(api.table(&collection).await["kind"], "Table");
            }
        }
        for levels in [10, 50, 100] {
            let schema = (0..levels)
                .fold(json!({"type": "string"}), |inner: Value, _| json!({"type": "array", "items": inner}));
            let schema = json!({"type": "object", "properties": {"spec": schema}});
            let version =
                json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
            let definition = json!({"metadata": {"name": format!("s{levels}s.y.io")}, "spec": {"group": "y.io",
                "scope": "Namespaced", "names": {"plural": format!("s{levels}s"), "kind": format!("S{levels}")},
                "versions": [version]}});
            let made = api.post(DEFINITIONS, definition).await;
            assert!(matches!(made.status, 201 | 422), "{levels} levels: {made:?}");
        }
        for path in ["/openapi/v2", "/openapi/v3/apis/y.io/v1", "/openapi/v3/apis/x.io/v1"] {
            assert_eq!(api.get(path).await.status, 200, "{path}");
        }
    });
}
