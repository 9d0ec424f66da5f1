//! The macros of Evenkeel: `#[evenkeel::test]`, `#[evenkeel::explore]` and `#[evenkeel::api]`.

mod api;
mod expand;
mod explore;

use proc_macro::TokenStream;
use syn::Error;

/// Lets the derives of an API type find their crates through `evenkeel`.
///
/// Put it above the `#[derive]` of a custom resource's spec, its status and their parts. It tells
/// `kube::CustomResource`, `schemars::JsonSchema`, `serde::Serialize` and `serde::Deserialize` that the crates they
/// need are those that `evenkeel` re-exports, so that an operator need not list them in its `Cargo.toml`. Without it,
/// each type would say so by `#[kube(crates(…))]`, `#[schemars(crate = …)]` and `#[serde(crate = …)]`; where a type
/// does, that is left as it is.
///
/// ```text
/// use evenkeel::prelude::*;
///
/// /// A page of HTML.
/// #[evenkeel::api]
/// #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
/// #[kube(group = "example.com", version = "v1", kind = "Site", namespaced, status = "SiteStatus")]
/// pub struct SiteSpec {
///     pub html: String,
/// }
///
/// #[evenkeel::api]
/// #[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default)]
/// pub struct SiteStatus {
///     pub ready: bool,
/// }
/// ```
///
/// `#[evenkeel::api(crate = path)]` says where `evenkeel` is found, if not at `evenkeel`.
#[proc_macro_attribute]
pub fn api(options: TokenStream, item: TokenStream) -> TokenStream {
    api::expand(options.into(), item.into()).unwrap_or_else(Error::into_compile_error).into()
}

/// A test with a cluster of its own: in this process, on a current-thread runtime with paused time.
///
/// The function is async, takes a `Cluster` or nothing, and returns nothing or a `Result`. Built-in controllers and
/// one simulated node run unless they are switched off. The seed is fixed; `EVENKEEL_SEED` sets another one. A test
/// that fails prints what happened in the cluster.
///
/// A function that is not async makes its clusters itself, as `testing::crash_everywhere` does; it takes nothing, and
/// its only options are `embedded` and `crate`.
///
/// | option | what it sets |
/// |---|---|
/// | `nodes = 3` | the number of simulated nodes; one unless set |
/// | `controllers = false` | no built-in controllers, no scheduler, no nodes |
/// | `scheduler = false` | pods get no nodes |
/// | `seed = 7` | the seed, whatever `EVENKEEL_SEED` says |
/// | `real_time = true` | real time, on a runtime with several threads |
/// | `embedded = "why"` | why the test cannot run on a real cluster |
/// | `crate = path` | where `evenkeel` is found, if not at `::evenkeel` |
///
/// If `EVENKEEL_KUBECONFIG` names a kubeconfig, the test runs on its cluster instead, in a namespace of its own and in
/// real time; a test with the option `embedded` is skipped there.
///
/// ```text
/// #[evenkeel::test]
/// async fn the_deployment_follows(cluster: Cluster) -> kube::Result<()> { Ok(()) }
///
/// #[evenkeel::test(nodes = 3, seed = 7)]
/// async fn pods_are_spread(cluster: Cluster) {}
///
/// #[evenkeel::test(controllers = false)]
/// async fn nothing_else_writes(cluster: Cluster) {}
///
/// #[evenkeel::test(embedded = "a day passes")]
/// async fn certificates_are_renewed(cluster: Cluster) {}
/// ```
#[proc_macro_attribute]
pub fn test(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(options.into(), item.into()).unwrap_or_else(Error::into_compile_error).into()
}

/// Makes a scenario an exploration: a test that plays the scenario undisturbed, and once more for each plan of what a
/// real Kubernetes cluster may do to the operator.
///
/// The function is async, takes a `Cluster`, and returns nothing or a `Result`. It runs an operator, acts as a user,
/// and waits with `settled()` after each step. It contains no faults. The options are those of `#[evenkeel::test]`
/// without `seed`, `real_time` and `embedded`, and these:
///
/// | option | what it sets |
/// |---|---|
/// | `keeps = "apps/deployments"` | a kind whose objects must not be deleted and recreated, as `GROUP/PLURAL`; may be repeated |
/// | `accept = "kept:secrets/web: it is recreated on purpose"` | a finding that is accepted, and the reason; may be repeated |
/// | `may_differ = "services/*: .spec.ports"` | a field of objects that need not equal that of the undisturbed run; may be repeated |
/// | `regressions = "plans.txt"` | a file of the package with tokens, one a line, that are always played |
///
/// `EVENKEEL_EXPLORE=quick`, `full`, a time such as `10m` or a number of plans says how much is explored.
/// `EVENKEEL_PLAN=…` plays one plan again, as a failed exploration prints it.
///
/// ```text
/// #[evenkeel::explore]
/// async fn a_life(cluster: Cluster) -> Result<()> {
///     cluster.run(controller);
///     cluster.apply(home()).await?;
///     cluster.settled().await;
///     cluster.delete::<Site>("home").await?;
///     cluster.settled().await;
///     Ok(())
/// }
/// ```
#[proc_macro_attribute]
pub fn explore(options: TokenStream, item: TokenStream) -> TokenStream {
    explore::expand(options.into(), item.into()).unwrap_or_else(Error::into_compile_error).into()
}

/// The expansion of a macro, or its error, as text.
#[cfg(test)]
fn text(expanded: Result<proc_macro2::TokenStream, Error>) -> String {
    expanded.map_or_else(|error| error.to_string(), |tokens| tokens.to_string())
}
