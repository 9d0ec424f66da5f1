//! The expansion of `#[evenkeel::api]`: attributes that tell derives where their crates are.

use proc_macro2::TokenStream as Tokens;
use quote::{ToTokens as _, quote};
use syn::parse::Parser as _;
use syn::punctuated::Punctuated;
use syn::{Attribute, DeriveInput, Error, Meta, MetaNameValue, Path, Token, parse_quote};

pub(crate) fn expand(options: Tokens, item: Tokens) -> Result<Tokens, Error> {
    let facade = facade(options)?;
    let mut item: DeriveInput = syn::parse2(item)?;
    let derives = derives(&item.attrs)?;
    let derived = |names: &[&str]| derives.iter().any(|name| names.contains(&name.as_str()));
    if !derived(&["CustomResource", "JsonSchema", "Serialize", "Deserialize"]) {
        return Err(Error::new_spanned(
            &item.ident,
            "nothing to do: put `#[evenkeel::api]` above the `#[derive(…)]` of CustomResource, JsonSchema, Serialize or \
             Deserialize",
        ));
    }
    if derived(&["CustomResource"]) {
        let kube = item.attrs.iter_mut().find(|attribute| attribute.path().is_ident("kube"));
        let Some(kube) = kube else {
            return Err(Error::new_spanned(
                &item.ident,
                "`CustomResource` needs `#[kube(group = …, version = …, kind = …)]`",
            ));
        };
        add_crates(kube, &facade)?;
    }
    if derived(&["JsonSchema"]) && !names_crate(&item.attrs, "schemars")? {
        let path = text(&facade, "schemars");
        item.attrs.push(parse_quote!(#[schemars(crate = #path)]));
    }
    if derived(&["Serialize", "Deserialize"]) && !names_crate(&item.attrs, "serde")? {
        let path = text(&facade, "serde");
        item.attrs.push(parse_quote!(#[serde(crate = #path)]));
    }
    Ok(item.into_token_stream())
}

/// The path of the façade: `evenkeel`, or the option `crate`.
fn facade(options: Tokens) -> Result<Path, Error> {
    let pairs = Punctuated::<MetaNameValue, Token![,]>::parse_terminated.parse2(options)?;
    let mut facade: Path = parse_quote!(evenkeel);
    for MetaNameValue { path, value, .. } in pairs {
        if !path.is_ident("crate") {
            return Err(Error::new_spanned(path, "unknown option: the only one is `crate`"));
        }
        facade = syn::parse2(value.into_token_stream())?;
    }
    Ok(facade)
}

/// The last segments of all derived paths: `Serialize` of `serde::Serialize`.
fn derives(attributes: &[Attribute]) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("derive")) {
        let paths = attribute.parse_args_with(Punctuated::<Path, Token![,]>::parse_terminated)?;
        names.extend(
            paths.iter().filter_map(|path| path.segments.last()).map(|segment| segment.ident.to_string()),
        );
    }
    Ok(names)
}

/// Whether a type says itself where the crate of a derive is, by `#[serde(crate = …)]`.
fn names_crate(attributes: &[Attribute], derive: &str) -> Result<bool, Error> {
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident(derive)) {
        if metas(attribute)?.iter().any(|meta| meta.path().is_ident("crate")) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Adds `crates(…)` to a `#[kube(…)]` that has none.
fn add_crates(kube: &mut Attribute, facade: &Path) -> Result<(), Error> {
    let metas = metas(kube)?;
    if metas.iter().any(|meta| meta.path().is_ident("crates")) {
        return Ok(());
    }
    let [kube_path, core, openapi, schemars, serde, json] =
        ["kube", "kube::core", "k8s_openapi", "schemars", "serde", "serde_json"]
            .map(|name| text(facade, name));
    *kube = parse_quote!(#[kube(
        #metas,
        crates(
            kube = #kube_path,
            kube_core = #core,
            k8s_openapi = #openapi,
            schemars = #schemars,
            serde = #serde,
            serde_json = #json
        )
    )]);
    Ok(())
}

/// The arguments of an attribute, without a comma at the end.
fn metas(attribute: &Attribute) -> Result<Punctuated<Meta, Token![,]>, Error> {
    let mut metas = attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)?;
    metas.pop_punct();
    Ok(metas)
}

/// A path below the façade, as the text that derives take.
fn text(facade: &Path, name: &str) -> String {
    let facade = quote!(#facade).to_string().replace(' ', "");
    format!("{facade}::{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(options: Tokens, item: Tokens) -> String {
        crate::text(expand(options, item))
    }

    #[test]
    fn each_derive_is_told_where_its_crate_is() {
        let spec = check(
            quote!(),
            quote! {
                #[derive(CustomResource, serde::Serialize, Clone)]
                #[kube(group = "a", namespaced,)]
                struct Spec {}
            },
        );
        assert!(
            spec.contains(r#"# [kube (group = "a" , namespaced , crates (kube = "evenkeel::kube" ,"#),
            "{spec}"
        );
        assert!(spec.contains(r#"serde_json = "evenkeel::serde_json")"#), "{spec}");
        assert!(spec.contains(r#"# [serde (crate = "evenkeel::serde")]"#), "{spec}");
        assert!(!spec.contains("schemars (crate"), "it derives no schema: {spec}");
    }

    #[test]
    fn what_a_type_says_itself_stays() {
        let part = check(
            quote!(crate = a::b),
            quote! {
                #[derive(JsonSchema, Deserialize)]
                #[serde(crate = "mine", rename_all = "camelCase")]
                struct Part {}
            },
        );
        assert_eq!(part.matches("serde (crate").count(), 1, "{part}");
        assert!(part.contains(r#"# [schemars (crate = "a::b::schemars")]"#), "{part}");
        let spec = check(
            quote!(),
            quote! {
                #[derive(CustomResource)]
                #[kube(group = "a", crates(kube_core = "mine"))]
                struct Spec {}
            },
        );
        assert_eq!(spec.matches("crates (").count(), 1, "{spec}");
    }

    #[test]
    fn mistakes_are_told() {
        let below = check(
            quote!(),
            quote!(
                struct Spec {}
            ),
        );
        assert!(below.starts_with("nothing to do: put `#[evenkeel::api]` above"), "{below}");
        let bare = check(
            quote!(),
            quote!(
                #[derive(CustomResource)]
                struct Spec {}
            ),
        );
        assert!(bare.contains("needs `#[kube(group"), "{bare}");
        assert!(check(quote!(x = 1), quote!()).starts_with("unknown option"));
    }
}
