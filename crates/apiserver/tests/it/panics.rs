//! A panic in a part of the server: the request is answered, the panic is counted, and the server goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_apiserver::access::{Attributes, Authorizer, Decision};
use serde_json::json;

use crate::api::Api;

const SECRETS: &str = "/api/v1/namespaces/a/secrets";
const MESSAGE: &str = "This request caused apiserver to panic. Look in the logs for details.";

/// An authorizer that allows everything, but panics while the flag is set.
#[derive(Default)]
struct Broken(AtomicBool);

impl Authorizer for Broken {
    fn authorize(&self, _: &Attributes<'_>) -> Decision {
        assert!(!self.0.load(Ordering::Relaxed), "the authorizer is broken");
        Decision::Allow(String::new())
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_answered_and_counted() {
    let broken = Arc::new(Broken::default());
    let api = Api::with_authorizer(broken.clone()).await;
    assert_eq!(api.post(SECRETS, json!({"metadata": {"name": "s"}})).await.status, 201);
    broken.0.store(true, Ordering::Relaxed);
    let answers = [
        api.get(&format!("{SECRETS}/s")).await,
        api.get(SECRETS).await,
        api.post(SECRETS, json!({"metadata": {"name": "t"}})).await,
        api.delete(&format!("{SECRETS}/s")).await,
    ];
    for answer in answers {
        assert_eq!((answer.status, &answer.body["message"]), (500, &json!(MESSAGE)));
        assert_eq!(answer.body["reason"], "InternalError");
    }
    assert_eq!(api.server().panics(), 4);
    let now = api.get_now(&format!("{SECRETS}/s"));
    assert_eq!((now.status, &now.body["message"]), (500, &json!(MESSAGE)));
    assert_eq!(api.server().panics(), 5);
    assert!(api.server().env().ledger().is_empty(), "a request that panicked holds no work");
    broken.0.store(false, Ordering::Relaxed);
    assert_eq!(api.get(&format!("{SECRETS}/s")).await.status, 200, "the server goes on");
    assert_eq!(api.get(&format!("{SECRETS}/t")).await.status, 404, "nothing was written");
}
