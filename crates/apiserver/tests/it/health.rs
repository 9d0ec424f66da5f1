//! The health endpoints, above all when the journal fails: they used to say `ok` regardless.

use evenkeel_env::Env;
use evenkeel_store::simulation::SimulatedDisk;
use serde_json::{Value, json};

use crate::api::Api;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn on(disk: &SimulatedDisk) -> Api {
    let store = disk.open(Env::system(), evenkeel_store::Options::default()).await.unwrap();
    evenkeel_apiserver::bootstrap::prepare(&store, &Env::system()).await.unwrap();
    Api::of(store)
}

async fn create(api: &Api, name: &str) -> u16 {
    api.post(CONFIG_MAPS, json!({"metadata": {"name": name}})).await.status
}

/// The status code and the text of a path.
async fn ask(api: &Api, path: &str) -> (u16, String) {
    let answer = api.get(path).await;
    (answer.status, answer.body.as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_failed_journal_fails_health_and_only_the_single_check_says_why() {
    let disk = SimulatedDisk::new();
    let api = on(&disk).await;
    for group in ["healthz", "livez", "readyz"] {
        assert_eq!(ask(&api, &format!("/{group}")).await, (200, "ok".to_owned()));
        assert_eq!(ask(&api, &format!("/{group}/etcd")).await, (200, "ok".to_owned()));
    }
    disk.fail_to_sync();
    assert_eq!(create(&api, "one").await, 500);
    for group in ["healthz", "livez", "readyz"] {
        let (status, text) = ask(&api, &format!("/{group}")).await;
        assert_eq!(status, 500, "{group}");
        assert!(text.contains("[+]ping ok\n"), "a failure is always verbose: {text}");
        assert!(text.contains("[-]etcd failed: reason withheld\n"), "{text}");
        assert!(text.ends_with(&format!("{group} check failed\n")), "{text}");
        assert_eq!(
            ask(&api, &format!("/{group}?exclude=etcd&exclude=etcd-readiness")).await.0,
            200,
            "{group}"
        );
        let (status, text) = ask(&api, &format!("/{group}/etcd")).await;
        assert_eq!(status, 500);
        assert!(text.starts_with("internal server error: Input/output error"), "{text}");
        assert_eq!(ask(&api, &format!("/{group}/ping")).await.0, 200);
    }
    assert!(ask(&api, "/readyz").await.1.contains("[-]etcd-readiness failed: reason withheld\n"));
    let anonymous = api.act("system:anonymous", "GET", "/readyz/etcd", Value::Null).await;
    assert_eq!(anonymous.status, 403, "the reason takes a permission");
    disk.recover();
    assert_eq!(create(&api, "two").await, 500, "a failed sync is final");
    assert_eq!(ask(&api, "/livez").await.0, 500);
}

#[tokio::test]
async fn a_full_disk_fails_health_until_a_write_succeeds() {
    let disk = SimulatedDisk::new();
    let api = on(&disk).await;
    disk.fill();
    assert_eq!(create(&api, "one").await, 500);
    assert_eq!(ask(&api, "/readyz").await.0, 500);
    assert_eq!(api.get(CONFIG_MAPS).await.status, 200, "what is stored can be read");
    disk.recover();
    assert_eq!(create(&api, "one").await, 201);
    assert_eq!(ask(&api, "/readyz").await, (200, "ok".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn checks_that_cannot_be_excluded_are_named() {
    let api = Api::booted().await;
    let (status, text) = ask(&api, "/livez?verbose&exclude=log&exclude=nothing&exclude=etcd-readiness").await;
    assert_eq!(status, 200);
    assert!(text.contains("[+]log excluded: ok\n"), "{text}");
    let warning =
        "warn: some health checks cannot be excluded: no matches for \"etcd-readiness\",\"nothing\"\n";
    assert!(text.ends_with(&format!("{warning}livez check passed\n")), "{text}");
}
