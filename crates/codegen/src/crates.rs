//! The crates that generated code refers to.

/// Where generated code finds `kube`, `k8s_openapi`, `schemars`, `serde` and `serde_json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Crates {
    /// The crates are dependencies of the crate that contains the generated code.
    #[default]
    Direct,
    /// The crates are re-exported by `evenkeel`, in versions that fit together.
    Evenkeel,
}

impl Crates {
    /// The path before the name of one of the crates.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Direct => "",
            Self::Evenkeel => "evenkeel::",
        }
    }

    /// The attribute that tells derives where the crates are.
    pub(crate) fn attribute(self) -> Option<String> {
        (self == Self::Evenkeel).then(|| "#[evenkeel::api]".to_owned())
    }

    /// The dependencies that generated code needs, for its header.
    pub(crate) fn needs(self) -> &'static str {
        match self {
            Self::Direct => "kube (derive), k8s-openapi, schemars, serde and serde_json",
            Self::Evenkeel => "evenkeel",
        }
    }
}
