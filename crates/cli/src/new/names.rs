//! The names of a new operator.

use anyhow::bail;
use evenkeel::kube::core::{ApiResource, GroupVersionKind};

/// The longest name, which must be a DNS label in Kubernetes.
const NAME_MAX: usize = 63;

/// Package names that cargo refuses, or that an operator's code uses for something else.
const RESERVED: [&str; 12] = [
    "alloc",
    "build",
    "core",
    "deps",
    "evenkeel",
    "examples",
    "incremental",
    "proc-macro",
    "serde-json",
    "std",
    "test",
    "tests",
];

/// Types that the code of an operator uses by these names.
const TAKEN_KINDS: [&str; 29] = [
    "Action",
    "Admission",
    "Arc",
    "Box",
    "Clone",
    "Client",
    "Cluster",
    "ConfigMap",
    "Controller",
    "Ctx",
    "CustomResource",
    "Debug",
    "Default",
    "Deserialize",
    "FieldErrors",
    "JsonSchema",
    "Manager",
    "NAME",
    "Operation",
    "Operator",
    "Option",
    "Predicate",
    "Result",
    "Serialize",
    "String",
    "Trigger",
    "User",
    "Verdict",
    "Webhook",
];

/// Variables that the code of an operator uses beside the one that is named after the kind.
const TAKEN_VARIABLES: [&str; 7] = ["cluster", "ctx", "errors", "manager", "message", "request", "unchanged"];

/// Keywords of Rust, which can name no crate.
const KEYWORDS: [&str; 51] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static",
    "struct", "super", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual",
    "where", "while", "yield",
];

/// The validated names of an operator and its resource.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) group: String,
    pub(super) version: String,
}

impl Names {
    pub(super) fn new(name: String, kind: String, group: String, version: String) -> anyhow::Result<Self> {
        check_name(&name)?;
        check_kind(&kind)?;
        check_group(&group)?;
        check_version(&version)?;
        Ok(Self { name, kind, group, version })
    }

    /// The name of the crate in Rust code.
    pub(super) fn crate_name(&self) -> String {
        self.name.replace('-', "_")
    }

    /// The name of the resource in URLs and rules, as the derived definition has it.
    pub(super) fn plural(&self) -> String {
        let kind = GroupVersionKind::gvk(&self.group, &self.version, &self.kind);
        ApiResource::from_gvk(&kind).plural
    }

    /// The name of a variable that holds an object.
    pub(super) fn variable(&self) -> String {
        let name = self.kind.to_ascii_lowercase();
        if KEYWORDS.contains(&name.as_str()) || TAKEN_VARIABLES.contains(&name.as_str()) {
            format!("{name}_")
        } else {
            name
        }
    }
}

/// Returns the kind suggested by an operator's name: `WebShop` for `web-shop`.
pub(super) fn kind_of(name: &str) -> String {
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters
            .next()
            .map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
    };
    name.split('-').map(capital).collect()
}

/// Validates the name of an operator, which names a package, a Deployment and a lease.
pub(super) fn check_name(name: &str) -> anyhow::Result<()> {
    let letters = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    let starts = name.starts_with(|first: char| first.is_ascii_lowercase());
    if !letters || !starts || name.ends_with('-') || name.contains("--") || name.len() > NAME_MAX {
        bail!(
            "`{name}` cannot name an operator: a name has lower-case letters, digits and single hyphens, begins with a letter, and has at most {NAME_MAX} characters, for example web-shop"
        );
    }
    if RESERVED.contains(&name) || KEYWORDS.contains(&name) {
        bail!("`{name}` cannot name an operator: Rust uses the name for something else; try {name}-operator");
    }
    Ok(())
}

pub(super) fn check_kind(kind: &str) -> anyhow::Result<()> {
    let letters = kind.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if !letters || !kind.starts_with(|first: char| first.is_ascii_uppercase()) || kind.len() > NAME_MAX {
        bail!(
            "`{kind}` cannot be a kind: a kind has letters and digits, begins with a capital, and has at most {NAME_MAX} characters, for example WebShop"
        );
    }
    if TAKEN_KINDS.contains(&kind) {
        bail!("`{kind}` cannot be the kind: the code of an operator uses the name for something else");
    }
    Ok(())
}

pub(super) fn check_group(group: &str) -> anyhow::Result<()> {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= NAME_MAX
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    if !group.split('.').all(label) || !group.contains('.') {
        bail!(
            "`{group}` cannot be a group: a group is a domain of yours with at least one dot, for example shop.example.com"
        );
    }
    if ["k8s.io", "kubernetes.io"].iter().any(|ours| group == *ours || group.ends_with(&format!(".{ours}"))) {
        bail!(
            "`{group}` cannot be the group: Kubernetes keeps k8s.io and kubernetes.io for its own; choose a domain of yours"
        );
    }
    Ok(())
}

pub(super) fn check_version(version: &str) -> anyhow::Result<()> {
    let number = |text: &str| {
        !text.starts_with('0') && !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let rest = version.strip_prefix('v').unwrap_or_default();
    let known = match rest.split_once("alpha").or_else(|| rest.split_once("beta")) {
        Some((major, minor)) => number(major) && number(minor),
        None => number(rest),
    };
    if known {
        return Ok(());
    }
    bail!("`{version}` cannot be a version: versions look like v1, v1beta1 or v1alpha1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_names_are_taken() {
        for name in ["shop", "web-shop", "a1"] {
            check_name(name).expect(name);
        }
        assert_eq!(kind_of("web-shop2"), "WebShop2");
        check_kind("HTTPRoute").expect("capitals are fine");
        check_group("shop.example.com").expect("it is a domain");
        for version in ["v1", "v2beta10", "v1alpha1"] {
            check_version(version).expect(version);
        }
    }

    #[test]
    fn bad_names_are_refused() {
        for name in
            ["", "Shop", "1shop", "shop-", "a--b", "sh op", "../x", "type", "test", "é", &"a".repeat(64)]
        {
            check_name(name).expect_err(name);
        }
        for kind in ["", "shop", "Web-Shop", "Option", "ConfigMap", "1A"] {
            check_kind(kind).expect_err(kind);
        }
        for group in ["", "example", "Example.com", "a..b", "-a.b", "apps.k8s.io", "k8s.io", "a b.c"] {
            check_group(group).expect_err(group);
        }
        for version in ["", "1", "v", "v0", "v1gamma1", "v1alpha", "v1.2", "V1"] {
            check_version(version).expect_err(version);
        }
    }
}
