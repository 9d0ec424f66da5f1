use serde_json::json;

use super::*;
use crate::cause::Cause;
use crate::entry::{Entry, Outcome, Sent};
use crate::record::Watch;

fn key() -> Key {
    Key { kind: "site".into(), namespace: Some("prod".into()), name: "web".into() }
}

fn failed(error: &str, requests: Vec<Sent>) -> Record {
    let reconcile = Reconcile {
        controller: "site".into(),
        kind: "Site".into(),
        namespace: Some("prod".into()),
        name: "web".into(),
        attempt: 3,
        outcome: Outcome::Failed,
        error: Some(error.into()),
        requests,
        again: Some(40_000),
        ..Reconcile::default()
    };
    Record { entries: vec![Entry::Reconcile(Box::new(reconcile))], ..Record::default() }
}

fn sent(code: u16) -> Sent {
    Sent {
        verb: "apply".into(),
        group: "apps".into(),
        resource: "deployments".into(),
        name: "web".into(),
        namespace: Some("prod".into()),
        code,
        ..Sent::default()
    }
}

fn line(record: &Record, object: &Value) -> (Reason, String) {
    let evidence = Evidence { record: Some(record), object: Some(object), ..Evidence::default() };
    let why = why(&key(), evidence);
    (why.reason, why.line)
}

#[test]
fn a_missing_permission_names_the_rule() {
    let user =
        "User \"system:serviceaccount:ops:site\" cannot patch resource \"deployments\" in API group \"apps\"";
    let record = failed(&format!("deployments.apps \"web\" is forbidden: {user}"), vec![sent(403)]);
    let said = "site may not patch deployments.apps in namespace prod: give its role this rule (tried 4 times, next in 40 ms)";
    assert_eq!(line(&record, &json!({})), (Reason::Forbidden, said.into()));
}

#[test]
fn a_webhook_is_quoted() {
    let record = failed("apply: admission webhook \"a.b.c\" denied the request: no\nway", vec![sent(403)]);
    let said = "site is refused `apply deployments/web in prod`: admission webhook \"a.b.c\" denied the request: no way (tried 4 times, next in 40 ms)";
    assert_eq!(line(&record, &json!({})), (Reason::Webhook, said.into()));
}

#[test]
fn a_finalizer_says_who_should_remove_it() {
    let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}});
    let (reason, said) = line(&failed("no route to the backup", vec![]), &going);
    assert_eq!(reason, Reason::Finalizer);
    assert!(said.ends_with("waits for the finalizer a/b: site fails to clean up: no route to the backup (tried 4 times, next in 40 ms)"), "{said}");
    let evidence = Evidence { object: Some(&going), ..Evidence::default() };
    assert!(why(&key(), evidence).line.contains("nobody removes the finalizer"));
}

#[test]
fn a_pod_says_why_it_is_not_ready() {
    let check = |status: Value, wanted: &str| {
        let pod = json!({"kind": "Pod", "metadata": {"name": "web-0"}, "status": status});
        let evidence = Evidence { object: Some(&json!({})), descendants: &[pod], ..Evidence::default() };
        assert_eq!(
            why(&key(), evidence).line,
            format!("waits for the pod web-0, which is not ready: {wanted}")
        );
    };
    let unscheduled = json!({"conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}]});
    check(unscheduled, "it is not scheduled: Unschedulable: 0/1 nodes");
    let waiting = json!({"containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]});
    check(waiting, "its container main waits: ImagePullBackOff");
    let gate =
        json!({"conditions": [{"type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady"}]});
    check(gate, "ReadinessGatesNotReady");
    let ready = json!({"kind": "Pod", "metadata": {"name": "a"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    assert_eq!(unready_pod(&ready, &[]), None);
}

/// A quota, pod security and a terminating namespace answer with the status code of a missing permission, which the
/// user was then told to grant.
#[test]
fn what_admission_refuses_is_no_missing_permission() {
    let quota = "pods \"web-0\" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2";
    let said =
        format!("site is refused `apply deployments/web in prod`: {quota} (tried 4 times, next in 40 ms)");
    let mut refused = sent(403);
    refused.error = Some(quota.into());
    assert_eq!(line(&failed("cannot make the pod", vec![refused]), &json!({})), (Reason::Refused, said));
    let down = "Internal error occurred: failed calling webhook \"a.b.c\": connection refused";
    let (reason, said) = line(&failed(down, vec![sent(500)]), &json!({}));
    assert_eq!(reason, Reason::Webhook);
    assert!(said.contains(": failed calling webhook \"a.b.c\": connection refused (tried"), "{said}");
}

#[test]
fn a_conflict_names_the_other_writers() {
    let conflict = "Operation cannot be fulfilled on deployments.apps \"web\": the object has been modified";
    let mut record = failed(conflict, vec![sent(409)]);
    let (reason, alone) = line(&record, &json!({}));
    assert_eq!(reason, Reason::Conflict);
    assert!(
        alone
            .starts_with("the writes of site conflict, last `apply deployments/web in prod`: another client"),
        "{alone}"
    );
    let other = Sent { by: "scaler".into(), revision: 7, ..sent(200) };
    record.entries.insert(0, Entry::Request(other));
    let (_, both) = line(&record, &json!({}));
    assert!(both.contains(": scaler writes it too (tried 4 times"), "{both}");
}

#[test]
fn deletions_say_what_they_wait_for() {
    let check = |object: Value, descendants: &[Value], wanted: &str| {
        let evidence = Evidence { object: Some(&object), descendants, ..Evidence::default() };
        let why = why(&key(), evidence);
        assert_eq!((why.reason, why.line.as_str()), (Reason::Finalizer, wanted));
    };
    let since = "2026-01-01T00:00:00Z";
    let namespace = json!({"kind": "Namespace", "metadata": {"name": "a", "deletionTimestamp": since}, "status": {"conditions": [
        {"type": "NamespaceDeletionContentFailure", "status": "False", "message": "All content successfully deleted"},
        {"type": "NamespaceContentRemaining", "status": "True", "message": "Some resources are remaining: sites. has 1"},
        {"type": "NamespaceFinalizersRemaining", "status": "True", "message": "Some content has finalizers remaining: a/b in 1"},
    ]}});
    check(
        namespace,
        &[],
        "deletion, asked for at 2026-01-01T00:00:00Z, waits for the namespace to be empty: Some content has finalizers remaining: a/b in 1",
    );
    let pod = json!({"kind": "Pod", "metadata": {"name": "a", "deletionTimestamp": since}, "spec": {"nodeName": "n"}});
    check(
        pod.clone(),
        &[],
        "deletion, due at 2026-01-01T00:00:00Z, waits for the node n to stop the pod's containers",
    );
    let site = json!({"kind": "Site", "metadata": {"name": "a", "deletionTimestamp": since, "finalizers": ["foregroundDeletion"]}});
    check(
        site,
        &[pod],
        "deletion, asked for at 2026-01-01T00:00:00Z, waits for the finalizer foregroundDeletion: the garbage collector waits for the end of Pod a",
    );
}

#[test]
fn events_say_what_no_status_says() {
    let pod = json!({"kind": "Pod", "metadata": {"name": "web-0", "uid": "u"}, "status": {
        "conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}],
        "containerStatuses": [{"name": "main", "ready": false, "state": {"waiting": {"reason": "ContainerCreating"}}}]}});
    let event = json!({"involvedObject": {"uid": "u"}, "reason": "FailedMount", "message": "configmap \"a\" not found"});
    let mut running = pod.clone();
    running["status"]["containerStatuses"][0]["state"] = json!({"running": {}});
    let probe = json!({"involvedObject": {"uid": "u"}, "reason": "Unhealthy", "message": "Readiness probe failed: 503"});
    let claim = json!({"kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "status": {"phase": "Pending"}});
    let unbound = json!({"involvedObject": {"kind": "PersistentVolumeClaim", "name": "data"}, "reason": "ProvisioningFailed", "message": "no class"});
    let check = |object: &Value, event: Value, wanted: &str| {
        let events = [event];
        let evidence = Evidence { object: Some(object), events: &events, ..Evidence::default() };
        assert_eq!(why(&key(), evidence).line, wanted);
    };
    let waits = "waits for the pod web-0, which is not ready: its container main";
    check(&pod, event, &format!("{waits} waits: FailedMount: configmap \"a\" not found"));
    check(&running, probe, &format!("{waits} is not ready: Unhealthy: Readiness probe failed: 503"));
    check(&claim, unbound, "PersistentVolumeClaim data is not bound: ProvisioningFailed: no class");
}

#[test]
fn a_bad_condition_of_a_descendant_says_more_than_that_of_its_owner() {
    let site = json!({"kind": "Site", "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Waiting"}]}});
    let set = json!({"kind": "ReplicaSet", "metadata": {"name": "web-1"}, "status": {"conditions": [
        {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota: small"}]}});
    let good = json!({"kind": "Deployment", "metadata": {"name": "web"}, "status": {"conditions": [
        {"type": "Progressing", "status": "False", "reason": "Paused"}, {"type": "Stalled", "status": "False"}]}});
    let check = |descendants: &[Value], wanted: &str| {
        let evidence = Evidence { object: Some(&site), descendants, ..Evidence::default() };
        assert_eq!(why(&key(), evidence).line, wanted);
    };
    check(std::slice::from_ref(&good), "its condition Ready is not true: Waiting");
    check(
        &[good, set],
        "waits for ReplicaSet web-1, whose condition ReplicaFailure is true: FailedCreate: exceeded quota: small",
    );
}

#[test]
fn a_watch_of_another_operator_is_not_blamed() {
    let mut record = failed("", vec![]);
    record.entries.clear();
    let controller = |name: &str, kind: &str| crate::Controller {
        name: name.into(),
        operator: name.into(),
        kind: kind.into(),
        ..crate::Controller::default()
    };
    record.controllers = vec![controller("other", "Other")];
    let failing = |operator: &str| Watch {
        source: "Pod".into(),
        operator: operator.into(),
        state: WatchState::Failing,
        error: Some("gone".into()),
        ..Watch::default()
    };
    let own = Watch { source: "Site.example.com".into(), operator: "site".into(), ..Watch::default() };
    record.watches = vec![failing("other"), own];
    assert_eq!(line(&record, &json!({})).0, Reason::Unseen);
    record.watches.push(failing("site"));
    assert_eq!(line(&record, &json!({})).0, Reason::Watch);
}

#[test]
fn a_watch_of_another_operator_for_the_same_kind_is_not_blamed_once_the_object_is_reconciled() {
    let mut record = failed("", vec![]);
    if let Some(Entry::Reconcile(reconcile)) = record.entries.first_mut() {
        reconcile.outcome = Outcome::Done;
    }
    let controller = |name: &str| crate::Controller {
        name: name.into(),
        operator: name.into(),
        kind: "Site".into(),
        ..crate::Controller::default()
    };
    record.controllers = vec![controller("site")];
    let watch = |operator: &str, source: &str, state: WatchState| Watch {
        source: source.into(),
        operator: operator.into(),
        state,
        error: Some("gone".into()),
        ..Watch::default()
    };
    let healthy = |operator: &str| watch(operator, "Site.example.com", WatchState::default());
    let failing = |operator: &str| watch(operator, "Absent.example.com", WatchState::Failing);
    record.watches = vec![healthy("site"), healthy("other"), failing("other")];
    assert_eq!(line(&record, &json!({})).0, Reason::Fine);
    record.watches.push(failing("site"));
    assert_eq!(line(&record, &json!({})).0, Reason::Watch);
}

#[test]
fn what_is_right_is_said_to_be() {
    let mut record = failed("", vec![]);
    if let Some(Entry::Reconcile(reconcile)) = record.entries.first_mut() {
        reconcile.outcome = Outcome::Done;
        reconcile.causes = vec![Cause::object("Site", Some("prod"), "web", "created")];
    }
    record.taken = 2_000_000;
    let said = "site reconciled it 2.0 s ago without an error, because of Site prod/web created";
    assert_eq!(line(&record, &json!({})), (Reason::Fine, said.into()));
    record.watches.push(Watch {
        source: "Pod".into(),
        state: WatchState::Failing,
        error: Some("list: pods is forbidden".into()),
        ..Watch::default()
    });
    assert_eq!(line(&record, &json!({})).0, Reason::Forbidden);
    let nothing = Evidence::default();
    assert_eq!(why(&key(), nothing).line, "there is no site prod/web");
}
