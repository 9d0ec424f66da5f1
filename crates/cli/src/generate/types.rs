//! `evenkeel generate types`: writes Rust types for existing CustomResourceDefinitions.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use evenkeel_codegen::Crates;

use super::{check, input};
use crate::hint::Hinted;

/// Write Rust types for existing CustomResourceDefinitions.
///
/// The types carry the definition's documentation, limits, defaults and CEL rules. The generated function
/// `definition()` returns the definition that they describe. Whatever cannot be expressed is listed on stderr, and in a
/// comment in the file. `--check` compiles the types and compares their definition with the source.
#[derive(Debug, Args)]
pub(crate) struct Types {
    /// The definitions, in YAML or JSON: files, http(s) URLs, or - for stdin. Each of several definitions gets a
    /// module.
    #[arg(value_name = "FILE|URL|-", required_unless_present = "from_cluster")]
    sources: Vec<String>,
    /// Read a definition from a cluster by its name, for example certificates.cert-manager.io.
    #[arg(long, value_name = "NAME")]
    from_cluster: Vec<String>,
    /// The kubeconfig for --from-cluster [default: as kubectl finds it].
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// The file to write [default: stdout].
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Refer to kube, k8s-openapi, schemars and serde through the crate evenkeel, which exports them.
    #[arg(long)]
    evenkeel: bool,
    /// Compile the types in a temporary crate with cargo, and list where their definition differs from the source.
    #[arg(long, conflicts_with = "evenkeel")]
    check: bool,
}

impl Types {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut objects = Vec::new();
        for source in &self.sources {
            objects.extend(runtime.block_on(input::read(source))?);
        }
        for name in &self.from_cluster {
            objects.push(runtime.block_on(input::from_cluster(name, self.kubeconfig.as_deref()))?);
        }
        let crates = if self.evenkeel { Crates::Evenkeel } else { Crates::Direct };
        let generated = evenkeel_codegen::generate(&objects, crates).with_context(|| {
            Hinted::new(
                "cannot generate types",
                "the input is the CustomResourceDefinition, not one of its objects",
            )
        })?;
        for note in &generated.notes {
            eprintln!("not expressed: {note}");
        }
        if self.check {
            check::check(&objects, &generated)?;
        }
        match &self.output {
            Some(path) => std::fs::write(path, &generated.source)
                .with_context(|| format!("cannot write {}", path.display())),
            None if self.check => Ok(()),
            None => Ok(std::io::stdout().lock().write_all(generated.source.as_bytes())?),
        }
    }
}
