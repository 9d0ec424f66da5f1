//! Servers that are killed between two writes of one operation, and how the next server completes it.
//!
//! A CRD that was stored but whose names were not accepted yet, or whose last custom resource was gone, used
//! to stay that way forever.

use evenkeel_apiserver::{ApiServer, Header};
use evenkeel_env::Env;
use evenkeel_store::{Expect, Op, Options, Range, Store, Write};
use serde_json::{Value, json};

use crate::consequences::{Case, lifecycles, serve, set_up, state};

/// A server with the state of a store at a revision, as one that starts after a crash.
async fn restarted(store: &Store<Header>, at: u64) -> ApiServer {
    let env = Env::seeded(2);
    let page = store.range(&Range { at: Some(at), ..Range::default() }).unwrap();
    let fresh = Store::memory(env.clone(), Options::default());
    let writes = page.entries.iter().map(|entry| {
        let op = Op::Put(entry.value.clone(), entry.header.clone());
        Write { key: entry.key.clone(), expect: Expect::Absent, op }
    });
    for outcome in fresh.write_all(writes.collect()).await {
        outcome.unwrap();
    }
    let server = serve(fresh, &env);
    server.resume().await.unwrap();
    server
}

async fn check(case: &Case) {
    let env = Env::seeded(1);
    let server = serve(Store::memory(env.clone(), Options::default()), &env);
    set_up(&server, case).await;
    let before = server.store().revision();
    let (status, body) = case.write.send(&server).await;
    assert!(status < 300, "{}: {status} {body}", case.name);
    let end = server.store().revision();
    let done = state(&server, case).await;
    for at in before + 1..=end {
        let restarted = restarted(server.store(), at).await;
        let now = state(&restarted, case).await;
        let (cut, writes) = (at - before, end - before);
        let name = case.name;
        assert_eq!(
            now, done,
            "{name}, cut after {cut} of {writes} writes: left {now:#}\ninstead of {done:#}"
        );
        // A second start has nothing left to do.
        let settled = restarted.store().revision();
        restarted.resume().await.unwrap();
        assert_eq!(restarted.store().revision(), settled, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_lifecycle_of_a_definition_goes_on_after_a_crash_at_any_write() {
    for case in lifecycles() {
        check(&case).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_was_marked_to_go_at_once_goes_at_the_next_start() {
    let env = Env::seeded(1);
    let server = serve(Store::memory(env.clone(), Options::default()), &env);
    let case = crate::consequences::cases().into_iter().find(|it| it.name == "delete a pod").unwrap();
    set_up(&server, &case).await;
    let before = server.store().revision();
    case.write.send(&server).await;
    assert_eq!(server.store().revision(), before + 2, "a pod that no node runs is marked, then removed");
    let restarted = restarted(server.store(), before + 1).await;
    assert_eq!(state(&restarted, &case).await, state(&server, &case).await);
}

/// A CRD written by a server that ended before it could accept the names.
#[tokio::test(start_paused = true)]
async fn nothing_is_served_of_a_definition_until_its_names_are_accepted() {
    let case = lifecycles().remove(0);
    let env = Env::seeded(1);
    let server = serve(Store::memory(env.clone(), Options::default()), &env);
    set_up(&server, &case).await;
    let created = server.store().revision() + 1;
    case.write.send(&server).await;
    let restarted = restarted(server.store(), created).await;
    let range = Range { prefix: "/registry/apiextensions.k8s.io/".into(), ..Range::default() };
    let page = restarted.store().range(&range).unwrap();
    let definition: Value = serde_json::from_slice(&page.entries[0].value).unwrap();
    assert_eq!(definition["status"]["acceptedNames"]["kind"], json!("Widget"));
    assert_eq!(definition["status"]["conditions"][1]["status"], json!("True"));
}
