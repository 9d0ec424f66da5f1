//! What `why` says about operators with one mistake each, from the command line's evidence, in virtual time.

#[path = "../../examples/broken/operators.rs"]
mod operators;

use std::time::Duration;

use evenkeel_cluster::{Cluster, WebhookAddress};
use evenkeel_dashboard::evidence;
use evenkeel_record::Key;
use operators::{EXPECTED, Expected};

/// How long the mistakes may take to show.
const LIMIT: Duration = Duration::from_secs(120);

/// The line about a Site, or what is wrong with it.
async fn check(cluster: &Cluster, kinds: &[evidence::Kind], expected: &Expected) -> Result<String, String> {
    let Expected { name, reason, parts } = expected;
    let namespace = Some(operators::namespace_of(name).to_owned());
    let key = Key { kind: "site".into(), namespace, name: (*name).into() };
    let kind = evidence::called(kinds, &key.kind).ok_or("no Sites are served")?;
    let found = evidence::find(&cluster.client(), kinds, kind, &key).await.map_err(|error| error.to_string())?;
    let why = found.why(&evidence::canonical(&key, kind), Some(&cluster.record()));
    let mut rest = why.line.as_str();
    for part in *parts {
        let Some((_, after)) = rest.split_once(part) else {
            return Err(format!("{name}: no {part:?} in {:?} ({:?})", why.line, why.reason));
        };
        rest = after;
    }
    let one_line = !why.line.contains('\n');
    match why.reason == *reason && one_line {
        true => Ok(why.line),
        false => Err(format!("{name}: the reason is {:?}, not {reason:?}: {}", why.reason, why.line)),
    }
}

#[tokio::test(start_paused = true)]
async fn each_mistake_is_explained_in_one_line() {
    let cluster = Cluster::builder().nodes(1).seed(1).start().await.unwrap();
    let guard = WebhookAddress::url(operators::GUARD);
    let _served = cluster.serve_webhook(guard, tower::service_fn(operators::refuse));
    operators::start(&cluster).await;
    let kinds = evidence::kinds(&cluster.client()).await.unwrap();
    let begun = tokio::time::Instant::now();
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let mut wrong = Vec::new();
        for expected in &EXPECTED {
            wrong.extend(check(&cluster, &kinds, expected).await.err());
        }
        if wrong.is_empty() {
            return;
        }
        assert!(begun.elapsed() < LIMIT, "{}", wrong.join("\n"));
    }
}
