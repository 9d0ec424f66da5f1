//! The expansion of `#[evenkeel::test]`.

use proc_macro2::TokenStream as Tokens;
use quote::{ToTokens as _, quote};
use syn::parse::Parser as _;
use syn::punctuated::Punctuated;
use syn::{Error, ItemFn, MetaNameValue, Token};

/// The options of a test. All but the last two are methods of the cluster's builder; `embedded` says why a test cannot
/// run on a real cluster, and `crate` where the façade is found.
const OPTIONS: [&str; 7] = ["seed", "nodes", "controllers", "scheduler", "real_time", "embedded", "crate"];

pub(crate) fn expand(options: Tokens, item: Tokens) -> Result<Tokens, Error> {
    let ItemFn { attrs, vis, mut sig, block } = syn::parse2(item)?;
    let Options { calls, facade, embedded } = Options::parse(options)?;
    let skip = embedded.map(|why| {
        let name = sig.ident.to_string();
        quote! {
            if let Some(skipped) = #facade::testing::skip(::core::concat!(::core::module_path!(), "::", #name), #why) {
                return skipped;
            }
        }
    });
    let inputs = std::mem::take(&mut sig.inputs);
    let body = if sig.asyncness.take().is_some() {
        if inputs.len() > 1 {
            return Err(Error::new_spanned(&inputs, "a test takes a `Cluster`, or nothing"));
        }
        let output = &sig.output;
        let call = if inputs.is_empty() { quote!(|_| body()) } else { quote!(body) };
        quote! {
            async fn body(#inputs) #output #block
            #skip
            #facade::testing::run(#facade::testing::options() #calls, #call)
        }
    } else {
        if skip.is_none() || !inputs.is_empty() || !calls.is_empty() {
            return Err(Error::new_spanned(
                &sig,
                "a test that is given a cluster is an `async fn`; one that makes its clusters itself takes nothing \
                 and has the option `embedded` only",
            ));
        }
        quote! {
            #skip
            #block
        }
    };
    Ok(quote! {
        #(#attrs)*
        #[::core::prelude::v1::test]
        #vis #sig {
            #body
        }
    })
}

struct Options {
    /// Calls of the builder's methods.
    calls: Tokens,
    /// The path of the façade.
    facade: Tokens,
    /// Why the test needs the embedded cluster.
    embedded: Option<Tokens>,
}

impl Options {
    fn parse(tokens: Tokens) -> Result<Self, Error> {
        let pairs = Punctuated::<MetaNameValue, Token![,]>::parse_terminated.parse2(tokens)?;
        let mut options = Self { calls: Tokens::new(), facade: quote!(::evenkeel), embedded: None };
        for MetaNameValue { path, value, .. } in pairs {
            let name = path.get_ident().map(ToString::to_string).unwrap_or_default();
            if !OPTIONS.contains(&name.as_str()) {
                return Err(Error::new_spanned(
                    path,
                    format!("unknown option: it is one of {}", OPTIONS.join(", ")),
                ));
            }
            match name.as_str() {
                "crate" => options.facade = value.into_token_stream(),
                "embedded" => options.embedded = Some(value.into_token_stream()),
                _ => options.calls.extend(quote!(.#path(#value))),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(options: Tokens, item: Tokens) -> String {
        crate::text(expand(options, item))
    }

    #[test]
    fn options_are_calls_on_the_builder() {
        let text = check(
            quote!(nodes = 3, seed = 7),
            quote!(
                async fn a(cluster: Cluster) {}
            ),
        );
        assert!(text.contains(":: evenkeel :: testing :: options () . nodes (3) . seed (7)"), "{text}");
    }

    #[test]
    fn a_test_says_why_it_cannot_run_elsewhere() {
        let text = check(
            quote!(embedded = "an hour passes"),
            quote!(
                async fn a(cluster: Cluster) {}
            ),
        );
        assert!(text.contains("testing :: skip") && text.contains("\"an hour passes\""), "{text}");
    }

    #[test]
    fn a_test_that_makes_its_clusters_itself_may_be_skipped() {
        let text = check(
            quote!(embedded = "a run for each write takes a minute"),
            quote!(
                fn a() {
                    play()
                }
            ),
        );
        assert!(text.contains("testing :: skip") && text.contains("{ play () }"), "{text}");
        assert!(!text.contains("testing :: run"), "{text}");
        let with_nodes = check(
            quote!(embedded = "x", nodes = 2),
            quote!(
                fn a() {}
            ),
        );
        assert!(with_nodes.contains("has the option `embedded` only"), "{with_nodes}");
    }

    #[test]
    fn mistakes_are_told() {
        assert_eq!(
            check(
                quote!(),
                quote!(
                    fn a() {}
                )
            ),
            "a test that is given a cluster is an `async fn`; one that makes its clusters itself takes nothing and has \
             the option `embedded` only"
        );
        assert!(
            check(
                quote!(node = 3),
                quote!(
                    async fn a() {}
                )
            )
            .starts_with("unknown option")
        );
        assert_eq!(
            check(
                quote!(),
                quote!(
                    async fn a(x: A, y: B) {}
                )
            ),
            "a test takes a `Cluster`, or nothing"
        );
    }
}
