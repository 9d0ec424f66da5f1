//! A cluster with broken operators, its dashboard, and a kubeconfig for `evenkeel why`: the fixture of `tests/page.sh`.
//!
//! `cargo run -p evenkeel-dashboard --example broken -- KUBECONFIG` prints the link of the dashboard, and what `why` must
//! say about each Site, as JSON.

mod operators;

use std::path::Path;

use evenkeel_cluster::serve::ServeOptions;
use evenkeel_cluster::{Cluster, WebhookAddress};
use evenkeel_dashboard::{Dashboard, Source};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let kubeconfig = std::env::args().nth(1).ok_or("name the kubeconfig to write")?;
    let cluster = Cluster::builder().nodes(1).start().await?;
    let guard = WebhookAddress::url(operators::GUARD);
    let _served = cluster.serve_webhook(guard, tower::service_fn(operators::refuse));
    operators::start(&cluster).await;
    let server = cluster.serve(ServeOptions::default()).await?;
    cluster.serve_record();
    server.write_kubeconfig(Path::new(&kubeconfig))?;
    let dashboard = Dashboard::bind(([127, 0, 0, 1], 0).into(), Source::Cluster(cluster.clone())).await?;
    for expected in operators::EXPECTED {
        let namespace = operators::namespace_of(expected.name);
        let reason = expected.reason.word();
        println!(
            "{}",
            json!({ "name": expected.name, "namespace": namespace, "reason": reason, "parts": expected.parts })
        );
    }
    println!("dashboard: {}", dashboard.one_time_link());
    let serving = tokio::spawn(server.run(std::future::pending()));
    dashboard.run().await;
    serving.await?;
    Ok(())
}
