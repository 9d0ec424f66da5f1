//! The files of a new operator.

use std::path::PathBuf;

use serde_json::Value;

use super::License;
use super::names::Names;

/// The Kubernetes version whose types a new operator uses: the default of the crate `evenkeel`, and the one that the
/// embedded cluster serves.
const KUBERNETES: &str = "1.36";

/// The files and their templates. A line that ends with a mark in a comment, such as `[namespaced]` or `[webhook]`, is for
/// operators of that kind only.
const FILES: [(&str, &str); 10] = [
    ("Cargo.toml", include_str!("../../template/Cargo.toml.tmpl")),
    ("src/lib.rs", include_str!("../../template/lib.rs.tmpl")),
    ("src/main.rs", include_str!("../../template/main.rs.tmpl")),
    ("tests/it.rs", include_str!("../../template/tests.rs.tmpl")),
    ("samples/sample.yaml", include_str!("../../template/sample.yaml.tmpl")),
    ("verbs.txt", include_str!("../../template/verbs.txt.tmpl")),
    ("README.md", include_str!("../../template/README.md.tmpl")),
    ("Dockerfile", include_str!("../../template/Dockerfile.tmpl")),
    (".github/workflows/ci.yaml", include_str!("../../template/ci.yaml.tmpl")),
    (".gitignore", include_str!("../../template/gitignore.tmpl")),
];

/// The webhooks of an operator, and their tests, which come after its other tests.
const WEBHOOKS: &str = include_str!("../../template/webhooks.rs.tmpl");
const WEBHOOK_TESTS: &str = include_str!("../../template/webhook_tests.rs.tmpl");

/// The packages that a new operator optimizes in its development profile, as this repository does.
const OPTIMIZED: [&str; 25] = [
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
    "evenkeel-tree",
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
    pub(super) webhook: bool,
    pub(super) license: License,
    /// The path of the crate `evenkeel` in a checkout.
    pub(super) checkout: Option<PathBuf>,
}

impl Choices<'_> {
    /// Returns the paths and contents of all files.
    pub(super) fn files(&self) -> Vec<(&'static str, String)> {
        let mut files: Vec<(&str, String)> =
            FILES.iter().map(|(path, text)| (*path, self.fill(text))).collect();
        if self.webhook {
            files.push(("src/webhooks.rs", self.fill(WEBHOOKS)));
            let tests = files.iter_mut().find(|(path, _)| *path == "tests/it.rs");
            tests.into_iter().for_each(|(_, text)| text.push_str(&self.fill(WEBHOOK_TESTS)));
        }
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
            ("[webhook]", self.webhook),
            ("[plain]", !self.webhook),
            ("[checkout]", self.checkout.is_some()),
            ("[released]", self.checkout.is_none()),
        ];
        for (mark, wanted) in marks {
            if let Some(line) = line.strip_suffix(mark) {
                let line = line.trim_end().trim_end_matches("//").trim_end_matches('#').trim_end();
                return wanted.then(|| format!("{line}\n"));
            }
        }
        Some(format!("{line}\n"))
    }

    /// The folder of the checkout, in which `crates/evenkeel` is.
    fn checkout(&self) -> String {
        let root = self.checkout.as_deref().and_then(|path| path.parent()?.parent());
        root.map(|root| root.display().to_string()).unwrap_or_default()
    }

    fn values(&self) -> [(&'static str, String); 16] {
        let source = match &self.checkout {
            Some(path) => format!("path = {}", toml_text(&path.display().to_string())),
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
            ("plural", self.names.plural()),
            ("version", self.names.version.clone()),
            ("kubernetes", KUBERNETES.to_owned()),
            ("license", license.to_owned()),
            ("rust", env!("CARGO_PKG_RUST_VERSION").to_owned()),
            ("checkout", self.checkout()),
            // Docker reads the paths of `COPY` from JSON, too, in which spaces separate nothing.
            ("checkout_json", Value::String(self.checkout()).to_string()),
            ("source", source),
            ("profile", profile.join("\n")),
            ("sample", sample("cluster")),
            ("made", sample("&cluster")),
        ]
    }
}

/// A text as a string of TOML: a literal one, in which backslashes are not escapes, unless it has a quote.
fn toml_text(text: &str) -> String {
    // The escapes of JSON are escapes of TOML's basic strings.
    if text.contains('\'') { Value::String(text.to_owned()).to_string() } else { format!("'{text}'") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files of an operator with these choices.
    fn files(choose: impl FnOnce(&mut Choices<'_>)) -> Vec<(&'static str, String)> {
        let texts = ["web-shop", "WebShop", "shop.example.com", "v1beta1"].map(str::to_owned);
        let [name, kind, group, version] = texts;
        let names = Names::new(name, kind, group, version).expect("the names are good");
        let mut choices = Choices {
            names: &names,
            cluster_scoped: false,
            webhook: false,
            license: License::Apache,
            checkout: None,
        };
        choose(&mut choices);
        choices.files()
    }

    fn file<'a>(files: &'a [(&str, String)], path: &str) -> &'a str {
        files.iter().find(|(name, _)| *name == path).map(|(_, text)| text.as_str()).unwrap_or_default()
    }

    #[test]
    fn nothing_of_the_templates_is_left() {
        for (cluster_scoped, webhook) in [(false, false), (false, true), (true, false), (true, true)] {
            for checkout in [None, Some(PathBuf::from("/a/crates/evenkeel"))] {
                let files = files(|it| {
                    (it.cluster_scoped, it.webhook, it.checkout) = (cluster_scoped, webhook, checkout);
                });
                for (path, text) in files {
                    assert!(!text.contains("{{") && !text.contains("}}\n"), "{path}: {text}");
                    let marks =
                        ["[cluster]", "[namespaced]", "[webhook]", "[plain]", "[checkout]", "[released]"];
                    assert!(marks.iter().all(|mark| !text.contains(mark)), "{path}: {text}");
                }
            }
        }
    }

    #[test]
    fn choices_are_followed() {
        let namespaced = files(|_| ());
        assert!(file(&namespaced, "src/lib.rs").contains("    namespaced,\n"));
        assert!(file(&namespaced, "Cargo.toml").contains("license = \"Apache-2.0\"\n"));
        assert!(file(&namespaced, "LICENSE").contains("Apache License"));
        assert!(!file(&namespaced, "src/lib.rs").contains("ebhook"));
        let cluster = files(|it| (it.cluster_scoped, it.license) = (true, License::None));
        assert!(!file(&cluster, "src/lib.rs").contains("namespaced,"));
        assert!(file(&cluster, "samples/sample.yaml").ends_with("  namespace: default\n"));
        assert!(!file(&cluster, "Cargo.toml").contains("license"));
        assert_eq!(file(&cluster, "LICENSE"), "");
    }

    #[test]
    fn webhooks_come_with_their_server_and_their_tests() {
        let files = files(|it| it.webhook = true);
        assert!(file(&files, "src/lib.rs").contains(".webhook(Webhook::validate(webhooks::check))"));
        assert!(file(&files, "src/webhooks.rs").contains("async fn check(webshop: Arc<WebShop>"));
        assert!(file(&files, "Cargo.toml").contains("features = [\"cli\", \"webhook-server\"]"));
        assert!(file(&files, "tests/it.rs").contains("async fn who_created_it_is_noted"));
    }

    #[test]
    fn an_image_of_a_checkout_is_built_with_the_checkout() {
        let of = |path: &str| files(|it| it.checkout = Some(PathBuf::from(path).join("crates/evenkeel")));
        let files = of("/a b");
        assert!(file(&files, "Cargo.toml").contains("path = '/a b/crates/evenkeel'"));
        assert!(file(&files, "Dockerfile").contains("COPY --from=evenkeel [\".\", \"/a b\"]\n"));
        assert!(file(&files, "README.md").contains("--build-context \"evenkeel=/a b\" ."));
        assert!(file(&of("/it's"), "Cargo.toml").contains("path = \"/it's/crates/evenkeel\""));
    }

    /// The profile is a list by hand, and was not kept in step with the workspace's once.
    #[test]
    fn the_profile_is_that_of_this_repository() {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
        let manifest = std::fs::read_to_string(manifest).expect("the workspace has a manifest");
        let profile = manifest.split("[profile.dev.package]\n").nth(1).expect("it has a profile");
        let lines = profile.lines().take_while(|line| !line.is_empty());
        let mut ours: Vec<&str> =
            lines.map(|line| line.strip_suffix(".opt-level = 1").expect(line)).collect();
        let mut theirs = OPTIMIZED;
        ours.sort_unstable();
        theirs.sort_unstable();
        assert_eq!(theirs.as_slice(), ours);
    }

    #[test]
    fn the_types_are_those_that_the_library_has_by_default() {
        let manifest = include_str!("../../../evenkeel/Cargo.toml");
        let version = KUBERNETES.replace('.', "_");
        assert!(manifest.contains(&format!("default = [\"base\", \"v{version}\"]")));
    }
}
