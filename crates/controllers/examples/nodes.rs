//! Adds a scheduler, one simulated node and volumes to the cluster of the current kubeconfig, which has no machines:
//! `cargo run -p evenkeel-controllers --example nodes`. `just real` runs it with kube-apiserver, so that the pods of the
//! examples become ready there.

use evenkeel_controllers::NodeOptions;
use evenkeel_runtime::{Env, Manager};
use kube::Client;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (client, env) = (Client::try_default().await?, Env::system());
    let manager = Manager::new(client).with_env(env.clone());
    evenkeel_controllers::nodes(&env, &NodeOptions::count(1))(manager).run().await?;
    Ok(())
}
