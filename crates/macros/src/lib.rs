//! `#[evenkeel::test]`.

mod expand;

use proc_macro::TokenStream;
use syn::Error;

/// A test with a cluster of its own: in process, on a current-thread runtime with paused time.
///
/// The function is async, takes a `Cluster` or nothing, and returns nothing or a `Result`. Built-in controllers and
/// one simulated node run unless switched off. The seed is fixed; `EVENKEEL_SEED` gives another one. When the test
/// fails, what happened in the cluster is shown.
///
/// | option | what it sets |
/// |---|---|
/// | `nodes = 3` | the number of simulated nodes; one unless set |
/// | `controllers = false` | no built-in controllers, no scheduler, no nodes |
/// | `scheduler = false` | pods get no nodes |
/// | `seed = 7` | the seed, whatever `EVENKEEL_SEED` says |
/// | `real_time = true` | real time, on a runtime with several threads |
/// | `embedded = "why"` | why it cannot run on a cluster elsewhere |
/// | `crate = path` | where `evenkeel` is found, if not at `::evenkeel` |
///
/// Where `EVENKEEL_KUBECONFIG` names a cluster, the test runs there instead, in a namespace of its own and in real
/// time. One that cannot says why at its declaration, by `embedded`, and is skipped there.
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
