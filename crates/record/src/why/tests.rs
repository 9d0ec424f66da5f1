use serde_json::json;

use super::*;
use crate::cause::Cause;
use crate::entry::Entry;
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
    let evidence = Evidence { record: Some(record), object: Some(object), descendants: &[] };
    let why = why(&key(), evidence);
    (why.reason, why.line)
}

#[test]
fn a_missing_permission_names_the_rule() {
    let record = failed("apply Deployment prod/web: deployments.apps is forbidden", vec![sent(403)]);
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
    let evidence = Evidence { record: None, object: Some(&going), descendants: &[] };
    assert!(why(&key(), evidence).line.contains("nobody removes the finalizer"));
}

#[test]
fn a_pod_says_why_it_is_not_ready() {
    let check = |status: Value, wanted: &str| {
        let pod = json!({"kind": "Pod", "metadata": {"name": "web-0"}, "status": status});
        let evidence = Evidence { record: None, object: Some(&json!({})), descendants: &[pod] };
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
    assert_eq!(unready_pod(&ready), None);
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
