use evenkeel_store::{Op, Range};

use super::*;
use crate::access::{Attributes, Authorizer as _, Decision, Target};
use crate::header::encode_object;
use crate::{Rbac, User};

fn count(store: &Store<Header>, group: &str, plural: &str) -> usize {
    store.count(&storage_prefix(group, plural))
}

#[tokio::test(start_paused = true)]
async fn everything_is_there_after_boot() {
    let store = memory(&Env::seeded(1), Options::default()).await;
    assert_eq!(count(&store, "", "namespaces"), 4);
    assert_eq!(count(&store, "", "services"), 1);
    assert_eq!(count(&store, "rbac.authorization.k8s.io", "clusterroles"), 69);
    assert_eq!(count(&store, "rbac.authorization.k8s.io", "clusterrolebindings"), 50);
    assert_eq!(count(&store, "rbac.authorization.k8s.io", "roles"), 7);
    assert_eq!(count(&store, "rbac.authorization.k8s.io", "rolebindings"), 7);
    assert_eq!(count(&store, "apiregistration.k8s.io", "apiservices"), 21);
    assert_eq!(count(&store, "flowcontrol.apiserver.k8s.io", "flowschemas"), 11);
    assert_eq!(count(&store, "flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"), 8);
    assert_eq!(count(&store, "scheduling.k8s.io", "priorityclasses"), 2);
}

#[tokio::test(start_paused = true)]
async fn clusters_in_virtual_time_share_their_beginning_and_part_ways() {
    let first = memory(&Env::seeded(1), Options::default()).await;
    let second = memory(&Env::seeded(2), Options::default()).await;
    let key = format!("{}default", storage_prefix("", "namespaces"));
    assert!(std::sync::Arc::ptr_eq(&first.get(&key).unwrap(), &second.get(&key).unwrap()));
    first.write(Write { key: key.as_str().into(), expect: Expect::Any, op: Op::Delete }).await.unwrap();
    assert!(first.get(&key).is_none() && second.get(&key).is_some());
    assert_eq!(first.revision(), second.revision() + 1);
}

#[tokio::test]
async fn a_second_start_makes_nothing_twice() {
    let env = Env::system();
    let store = memory(&env, Options::default()).await;
    let revision = store.revision();
    prepare(&store, &env).await.unwrap();
    assert_eq!(store.revision(), revision);
    let uids: std::collections::BTreeSet<String> =
        store.range(&Range::default()).unwrap().entries.iter().map(|it| it.header.uid.to_string()).collect();
    assert_eq!(uids.len() as u64, revision - 1);
}

#[tokio::test(start_paused = true)]
async fn the_bootstrap_roles_say_who_may_do_what() {
    let rbac = Rbac::new(memory(&Env::seeded(1), Options::default()).await);
    let alice = User::new("alice", ["system:authenticated"]);
    let allowed = |user: &User, verb: &str, target| {
        matches!(rbac.authorize(&Attributes { user, verb, target }), Decision::Allow(_))
    };
    assert!(allowed(&alice, "get", Target::Path("/apis/apps")));
    assert!(allowed(&User::anonymous(), "get", Target::Path("/version")));
    assert!(!allowed(&User::anonymous(), "get", Target::Path("/api")));
    assert!(!allowed(&alice, "get", Target::Path("/metrics")));
    assert!(
        rbac.role("ClusterRole", "edit", "").unwrap().len()
            > rbac.role("ClusterRole", "view", "").unwrap().len()
    );
    assert_eq!(rbac.role("ClusterRole", "admin", "").unwrap().len(), 29);
}

#[tokio::test(start_paused = true)]
async fn the_endpoints_follow_the_address() {
    let store = memory(&Env::seeded(1), Options::default()).await;
    advertise(&store, "10.1.2.3", 16443).await.unwrap();
    let entry = store.get(&format!("{}default/kubernetes", storage_prefix("", "endpoints"))).unwrap();
    let object: Value = serde_json::from_slice(&entry.value).unwrap();
    assert_eq!(object["subsets"][0]["addresses"][0]["ip"], "10.1.2.3");
    assert!(!entry.header.uid.is_empty());
    let revision = store.revision();
    advertise(&store, "10.1.2.3", 16443).await.unwrap();
    assert_eq!(store.revision(), revision);
}

#[tokio::test(start_paused = true)]
async fn everything_is_stored_as_a_write_would_store_it() {
    let store = memory(&Env::seeded(1), Options::default()).await;
    for entry in store.range(&Range::default()).unwrap().entries {
        let object: Value = serde_json::from_slice(&entry.value).unwrap();
        let (bytes, header) = encode_object(&object);
        assert_eq!(bytes, entry.value, "{}", entry.key);
        assert_eq!(header, entry.header, "{}", entry.key);
    }
}

/// Writes rely on this: they skip fields that have not changed since the object was stored.
#[tokio::test(start_paused = true)]
async fn everything_is_stored_in_its_normal_form_with_its_defaults() {
    let store = memory(&Env::seeded(1), Options::default()).await;
    advertise(&store, "10.1.2.3", 6443).await.unwrap();
    for entry in store.range(&Range::default()).unwrap().entries {
        let object: Value = serde_json::from_slice(&entry.value).unwrap();
        let (api_version, kind) = (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
        let (group, version) = evenkeel_schema::api_resources::split_api_version(api_version);
        let mut settled = object.clone();
        evenkeel_schema::normalize::normalize(group, version, kind, &mut settled);
        evenkeel_schema::defaults::apply(group, version, kind, &mut settled);
        assert_eq!(object, settled, "{}", entry.key);
    }
}
