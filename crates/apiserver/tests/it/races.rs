//! CRDs that change while requests for their custom resources are in progress.
//!
//! A request holds the resource as it was when the request arrived. What followed the request's write used to
//! depend on that: a custom resource that was created late outlived its CRD, and a CRD waited forever for a
//! custom resource that was already gone.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use evenkeel_apiserver::{ApiServer, Header};
use evenkeel_env::Env;
use evenkeel_store::{Options, Range, Store};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::consequences::{Ask, asks_of_everything, lifecycles, serve, set_up};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/a/widgets";

fn ask(method: &'static str, path: &str, body: Value) -> Ask {
    Ask::new(method, path, body)
}

fn delete_definition() -> Ask {
    ask("DELETE", &format!("{DEFINITIONS}/widgets.example.com"), Value::Null)
}

fn widget(finalizers: Value) -> Ask {
    let metadata = json!({"name": "w", "finalizers": finalizers});
    ask("POST", WIDGETS, json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata}))
}

/// A server with the CRD of widgets, and with a webhook that every write waits for.
async fn server_with(asks: &[Ask]) -> ApiServer {
    let env = Env::seeded(1);
    let server = serve(Store::memory(env.clone(), Options::default()), &env);
    let mut case = lifecycles().remove(0);
    case.setup.push(case.write.clone());
    case.setup.extend_from_slice(asks);
    case.setup.push(asks_of_everything());
    set_up(&server, &case).await;
    server
}

/// A request that has begun and is waiting for the webhook.
async fn begun(server: &ApiServer, ask: &Ask) -> Pin<Box<dyn Future<Output = u16>>> {
    let request = server.clone().oneshot(ask.request());
    let mut answer: Pin<Box<dyn Future<Output = u16>>> =
        Box::pin(async move { request.await.unwrap().status().as_u16() });
    let waits = poll_fn(|cx| Poll::Ready(answer.as_mut().poll(cx).is_pending())).await;
    assert!(waits, "the webhook is asked before anything is written");
    answer
}

fn stored(server: &ApiServer, prefix: &str) -> Vec<Value> {
    let page = server.store().range(&Range { prefix: prefix.to_owned(), ..Range::default() }).unwrap();
    page.entries.iter().map(|it| serde_json::from_slice(&it.value).unwrap()).collect()
}

fn all_gone(server: &ApiServer) {
    assert_eq!(stored(server, "/registry/example.com/"), Vec::<Value>::new());
    assert_eq!(stored(server, "/registry/apiextensions.k8s.io/"), Vec::<Value>::new());
    assert!(server.registry().custom().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_is_created_late_does_not_outlive_its_definition() {
    let server = server_with(&[]).await;
    let create = begun(&server, &widget(json!([]))).await;
    delete_definition().send(&server).await;
    create.await;
    all_gone(&server);
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_is_created_while_its_definition_waits_goes_with_it() {
    let held = widget(json!(["example.com/hold"]));
    let server = server_with(&[held]).await;
    let mut late = widget(json!([]));
    late.body["metadata"]["name"] = json!("late");
    let create = begun(&server, &late).await;
    delete_definition().send(&server).await;
    create.await;
    assert_eq!(stored(&server, "/registry/example.com/").len(), 1, "only the one that is held is left");
    let release = ask("PATCH", &format!("{WIDGETS}/w"), json!({"metadata": {"finalizers": null}}));
    assert_eq!(release.send(&server).await.0, 200);
    all_gone(&server);
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_is_released_while_its_definition_is_deleted_lets_it_go() {
    let server = server_with(&[widget(json!(["example.com/hold"]))]).await;
    let patch = json!({"metadata": {"finalizers": null}});
    let release = begun(&server, &ask("PATCH", &format!("{WIDGETS}/w"), patch)).await;
    delete_definition().send(&server).await;
    assert_eq!(release.await, 200);
    all_gone(&server);
}

/// Two CRDs that are stored at the same moment want the same kind: one of them gets it.
#[tokio::test]
async fn one_name_is_given_to_one_definition() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::seeded(1);
    let store: Store<Header> = Store::open(dir.path(), env.clone(), Options::default()).await.unwrap();
    let server = serve(store, &env);
    let widgets = lifecycles().remove(0).write;
    let mut gadgets = widgets.clone();
    gadgets.body["metadata"]["name"] = json!("gadgets.example.com");
    gadgets.body["spec"]["names"]["plural"] = json!("gadgets");
    let (first, second) = futures::join!(widgets.send(&server), gadgets.send(&server));
    assert_eq!((first.0, second.0), (201, 201));
    let definitions = stored(&server, "/registry/apiextensions.k8s.io/");
    let established = |it: &&Value| it["status"]["conditions"][1]["status"] == "True";
    assert_eq!(definitions.iter().filter(established).count(), 1, "{definitions:#?}");
    assert_eq!(server.registry().custom().len(), 1);
}
