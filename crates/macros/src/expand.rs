//! What the attribute becomes.

use proc_macro2::TokenStream as Tokens;
use quote::{ToTokens as _, quote};
use syn::parse::Parser as _;
use syn::punctuated::Punctuated;
use syn::{Error, ItemFn, MetaNameValue, Token};

/// The options that are methods of the cluster's builder; then one that says why a test cannot run on a cluster
/// elsewhere, and one that names the façade where it is renamed.
const OPTIONS: [&str; 7] = ["seed", "nodes", "controllers", "scheduler", "real_time", "embedded", "crate"];

pub(crate) fn expand(options: Tokens, item: Tokens) -> Result<Tokens, Error> {
    let ItemFn { attrs, vis, mut sig, block } = syn::parse2(item)?;
    if sig.asyncness.take().is_none() {
        return Err(Error::new_spanned(&sig, "a test on a cluster is an `async fn`"));
    }
    if sig.inputs.len() > 1 {
        return Err(Error::new_spanned(&sig.inputs, "a test takes a `Cluster`, or nothing"));
    }
    let inputs = std::mem::take(&mut sig.inputs);
    let body = if inputs.is_empty() { quote!(|_| body()) } else { quote!(body) };
    let output = &sig.output;
    let Options { calls, facade, embedded } = Options::parse(options)?;
    let skip = embedded.map(|why| {
        let name = sig.ident.to_string();
        quote! {
            if let Some(skipped) = #facade::testing::skip(::core::concat!(::core::module_path!(), "::", #name), #why) {
                return skipped;
            }
        }
    });
    Ok(quote! {
        #(#attrs)*
        #[::core::prelude::v1::test]
        #vis #sig {
            async fn body(#inputs) #output #block
            #skip
            #facade::testing::run(#facade::testing::options() #calls, #body)
        }
    })
}

struct Options {
    /// Calls on the builder.
    calls: Tokens,
    /// The path of the façade.
    facade: Tokens,
    /// Why the test needs the cluster of this process.
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
        match expand(options, item) {
            Ok(tokens) => tokens.to_string(),
            Err(error) => error.to_string(),
        }
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
    fn mistakes_are_told() {
        assert_eq!(
            check(
                quote!(),
                quote!(
                    fn a() {}
                )
            ),
            "a test on a cluster is an `async fn`"
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
