//! The expansion of `#[evenkeel::explore]`.

use proc_macro2::TokenStream as Tokens;
use quote::{ToTokens as _, quote};
use syn::parse::Parser as _;
use syn::punctuated::Punctuated;
use syn::{Error, Expr, ExprLit, ItemFn, Lit, MetaNameValue, Token};

/// Options that are methods of the cluster's builder.
const CLUSTER: [&str; 3] = ["nodes", "controllers", "scheduler"];
/// Options that are methods of the exploration.
const EXPLORATION: [&str; 2] = ["keeps", "regressions"];

pub(crate) fn expand(options: Tokens, item: Tokens) -> Result<Tokens, Error> {
    let ItemFn { attrs, vis, mut sig, block } = syn::parse2(item)?;
    let Options { cluster, exploration, facade } = Options::parse(options)?;
    let inputs = std::mem::take(&mut sig.inputs);
    if sig.asyncness.take().is_none() || inputs.len() != 1 {
        return Err(Error::new_spanned(&sig, "a scenario is an `async fn` that takes a `Cluster`"));
    }
    let output = std::mem::replace(&mut sig.output, syn::ReturnType::Default);
    let name = sig.ident.to_string();
    Ok(quote! {
        #(#attrs)*
        #[::core::prelude::v1::test]
        #vis #sig {
            async fn body(#inputs) #output #block
            #facade::testing::explore(::core::concat!(::core::module_path!(), "::", #name), body)
                .options(#facade::testing::options() #cluster)
                #exploration
                .check()
        }
    })
}

struct Options {
    /// Calls of methods of the cluster's builder.
    cluster: Tokens,
    /// Calls of methods of the exploration.
    exploration: Tokens,
    /// The path of the façade crate, `evenkeel` by default.
    facade: Tokens,
}

impl Options {
    fn parse(tokens: Tokens) -> Result<Self, Error> {
        let pairs = Punctuated::<MetaNameValue, Token![,]>::parse_terminated.parse2(tokens)?;
        let mut options =
            Self { cluster: Tokens::new(), exploration: Tokens::new(), facade: quote!(::evenkeel) };
        for MetaNameValue { path, value, .. } in pairs {
            let name = path.get_ident().map(ToString::to_string).unwrap_or_default();
            match name.as_str() {
                "crate" => options.facade = value.into_token_stream(),
                "accept" => {
                    let (finding, reason) = two_parts(&value)
                        .ok_or_else(|| wrong(&value, "a finding is accepted as \"NAME: why\""))?;
                    options.exploration.extend(quote!(.accept(#finding, #reason)));
                }
                "may_differ" => {
                    let (object, field) = two_parts(&value).ok_or_else(|| {
                        wrong(&value, "what may differ is named as \"PLURAL/NAME: .path.of.the.field\"")
                    })?;
                    options.exploration.extend(quote!(.may_differ(#object, #field)));
                }
                name if CLUSTER.contains(&name) => options.cluster.extend(quote!(.#path(#value))),
                name if EXPLORATION.contains(&name) => options.exploration.extend(quote!(.#path(#value))),
                _ => {
                    let known = [&CLUSTER[..], &EXPLORATION[..], &["accept", "may_differ", "crate"]].concat();
                    return Err(Error::new_spanned(
                        path,
                        format!("unknown option: it is one of {}", known.join(", ")),
                    ));
                }
            }
        }
        Ok(options)
    }
}

fn wrong(value: &Expr, why: &str) -> Error {
    Error::new_spanned(value, why)
}

/// Parses a name and what belongs to it, as in `"kept:secrets/web: it is recreated on purpose"`.
fn two_parts(value: &Expr) -> Option<(String, String)> {
    let text = match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => text.value(),
        _ => String::new(),
    };
    let (name, rest) = text.split_once(": ")?;
    (!name.is_empty() && !rest.trim().is_empty()).then(|| (name.to_owned(), rest.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(options: Tokens, item: Tokens) -> String {
        match expand(options, item) {
            Ok(tokens) => tokens.to_string(),
            Err(error) => error.to_string(),
        }
    }

    fn scenario() -> Tokens {
        quote!(
            async fn a_life(cluster: Cluster) -> Result<()> {
                Ok(())
            }
        )
    }

    #[test]
    fn a_scenario_becomes_a_test() {
        let text = check(quote!(nodes = 2, keeps = "apps/deployments"), scenario());
        assert!(text.contains("testing :: explore"), "{text}");
        assert!(text.contains(". nodes (2)") && text.contains(". keeps (\"apps/deployments\")"), "{text}");
        let text = check(quote!(accept = "kept:secrets/web: on purpose"), scenario());
        assert!(text.contains(". accept (\"kept:secrets/web\" , \"on purpose\")"), "{text}");
        let text = check(quote!(may_differ = "services/*: .spec.ports"), scenario());
        assert!(text.contains(". may_differ (\"services/*\" , \".spec.ports\")"), "{text}");
    }

    #[test]
    fn mistakes_are_told() {
        assert!(check(quote!(seed = 7), scenario()).starts_with("unknown option"));
        assert!(check(quote!(accept = "kept"), scenario()).starts_with("a finding is accepted as"));
        assert!(
            check(quote!(may_differ = "services/a"), scenario()).starts_with("what may differ is named as")
        );
        let sync = check(
            quote!(),
            quote!(
                fn a_life(cluster: Cluster) {}
            ),
        );
        assert_eq!(sync, "a scenario is an `async fn` that takes a `Cluster`");
    }
}
