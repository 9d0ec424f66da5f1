//! The files of a new operator.

use std::path::PathBuf;

use super::License;
use super::names::Names;

/// The Kubernetes version of a new operator's types, which is the version that the embedded cluster serves.
const KUBERNETES: &str = "1.36";

/// The files and their templates. A line that ends with `[namespaced]`, `[cluster]` or `[license]` in a comment is for
/// operators of that kind only.
const FILES: [(&str, &str); 10] = [
    ("Cargo.toml", include_str!("../../template/Cargo.toml.tmpl")),
    (".cargo/config.toml", include_str!("../../template/config.toml.tmpl")),
    ("src/lib.rs", include_str!("../../template/lib.rs.tmpl")),
    ("src/main.rs", include_str!("../../template/main.rs.tmpl")),
    ("tests/it.rs", include_str!("../../template/tests.rs.tmpl")),
    ("samples/sample.yaml", include_str!("../../template/sample.yaml.tmpl")),
    ("README.md", include_str!("../../template/README.md.tmpl")),
    ("Dockerfile", include_str!("../../template/Dockerfile.tmpl")),
    (".github/workflows/ci.yaml", include_str!("../../template/ci.yaml.tmpl")),
    (".gitignore", include_str!("../../template/gitignore.tmpl")),
];

/// The packages that a new operator optimizes in its development profile, as this repository does.
const OPTIMIZED: [&str; 24] = [
    "bytes",
    "form_urlencoded",
    "futures-util",
    "hashbrown",
    "http",
    "indexmap",
    "k8s-openapi",
    "kube-client",
    "kube-core",
    "memchr",
    "regex-automata",
    "serde_core",
    "serde_json",
    "sha2",
    "tokio",
    "tower",
    "evenkeel-env",
    "evenkeel-request-info",
    "evenkeel-store",
    "evenkeel-scalars",
    "evenkeel-cel",
    "evenkeel-schema",
    "evenkeel-apiserver",
    "evenkeel-cluster",
];

/// The choices of the user.
pub(super) struct Choices<'a> {
    pub(super) names: &'a Names,
    pub(super) cluster_scoped: bool,
    pub(super) license: License,
    /// The path of the crate `evenkeel` in a checkout.
    pub(super) checkout: Option<PathBuf>,
}

impl Choices<'_> {
    /// Returns the paths and contents of all files.
    pub(super) fn files(&self) -> Vec<(&'static str, String)> {
        let mut files: Vec<(&str, String)> =
            FILES.iter().map(|(path, text)| (*path, self.fill(text))).collect();
        match self.license {
            License::Apache => {
                files.push(("LICENSE", include_str!("../../template/LICENSE-APACHE").to_owned()))
            }
            License::Mit => files.push(("LICENSE", include_str!("../../template/LICENSE-MIT").to_owned())),
            License::None => {}
        }
        files
    }

    fn fill(&self, template: &str) -> String {
        let mut text: String = template.lines().filter_map(|line| self.line(line)).collect();
        for (placeholder, value) in self.values() {
            text = text.replace(&format!("{{{{{placeholder}}}}}"), &value);
        }
        text
    }

    /// The line without its mark, if it is for this operator.
    fn line(&self, line: &str) -> Option<String> {
        let marks = [
            ("[namespaced]", !self.cluster_scoped),
            ("[cluster]", self.cluster_scoped),
            ("[license]", self.license != License::None),
        ];
        for (mark, wanted) in marks {
            if let Some(line) = line.strip_suffix(mark) {
                let line = line.trim_end().trim_end_matches("//").trim_end_matches('#').trim_end();
                return wanted.then(|| format!("{line}\n"));
            }
        }
        Some(format!("{line}\n"))
    }

    fn values(&self) -> [(&'static str, String); 12] {
        let source = match &self.checkout {
            // A literal TOML string, in which backslashes are not escapes.
            Some(path) => format!("path = '{}'", path.display()),
            None => format!("version = \"{}\"", env!("CARGO_PKG_VERSION")),
        };
        let license = if self.license == License::Mit { "MIT" } else { "Apache-2.0" };
        let profile: Vec<String> = OPTIMIZED.iter().map(|name| format!("{name}.opt-level = 1")).collect();
        let sample =
            |reference: &str| if self.cluster_scoped { format!("{reference}, ") } else { String::new() };
        [
            ("name", self.names.name.clone()),
            ("crate", self.names.crate_name()),
            ("Kind", self.names.kind.clone()),
            ("kind", self.names.variable()),
            ("group", self.names.group.clone()),
            ("version", self.names.version.clone()),
            ("kubernetes", KUBERNETES.to_owned()),
            ("license", license.to_owned()),
            ("source", source),
            ("profile", profile.join("\n")),
            ("sample", sample("cluster")),
            ("made", sample("&cluster")),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(cluster_scoped: bool, license: License) -> Vec<(&'static str, String)> {
        let texts = ["web-shop", "WebShop", "shop.example.com", "v1beta1"].map(str::to_owned);
        let [name, kind, group, version] = texts;
        let names = Names::new(name, kind, group, version).expect("the names are good");
        Choices { names: &names, cluster_scoped, license, checkout: None }.files()
    }

    #[test]
    fn nothing_of_the_templates_is_left() {
        for cluster_scoped in [false, true] {
            for (path, text) in files(cluster_scoped, License::Mit) {
                assert!(!text.contains("{{") && !text.contains("}}\n"), "{path}: {text}");
                assert!(!text.contains("[cluster]") && !text.contains("[namespaced]"), "{path}: {text}");
            }
        }
    }

    #[test]
    fn choices_are_followed() {
        let file = |files: &[(&str, String)], path: &str| {
            files.iter().find(|(name, _)| *name == path).map(|(_, text)| text.clone()).unwrap_or_default()
        };
        let namespaced = files(false, License::Apache);
        assert!(file(&namespaced, "src/lib.rs").contains("    namespaced,\n"));
        assert!(file(&namespaced, "Cargo.toml").contains("license = \"Apache-2.0\"\n"));
        assert!(file(&namespaced, "LICENSE").contains("Apache License"));
        let cluster = files(true, License::None);
        assert!(!file(&cluster, "src/lib.rs").contains("namespaced,"));
        assert!(file(&cluster, "samples/sample.yaml").ends_with("  namespace: default\n"));
        assert!(!file(&cluster, "Cargo.toml").contains("license"));
        assert_eq!(file(&cluster, "LICENSE"), "");
    }
}
