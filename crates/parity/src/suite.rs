//! A file of cases, and the answers of Kubernetes that were recorded for them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::Value;

use crate::ordered::Ordered;

/// One script, whose steps run in a new namespace.
#[derive(Clone, Debug, Deserialize)]
pub struct Case {
    /// The name, unique in the file.
    pub name: String,
    /// What the case needs beyond the API server, such as `controllers`.
    #[serde(default)]
    pub needs: Vec<String>,
    /// The steps. References to earlier answers are filled in when a step is sent.
    pub steps: Vec<Ordered>,
    /// Requests that are sent at the end, even if a step has failed.
    #[serde(default)]
    pub cleanup: Vec<String>,
}

/// The cases of a file with their recorded answers.
#[derive(Debug)]
pub struct Suite {
    /// The name of the file without its extension.
    pub name: String,
    /// The scripts, in order.
    pub cases: Vec<Case>,
    /// The recorded answers, one for each step, by the name of the case.
    pub golden: BTreeMap<String, Value>,
}

impl Suite {
    /// Reads `cases/NAME.yaml` and `golden/NAME.json`. An unquoted `y` or `n` is a string, as for the tool that recorded
    /// the answers.
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        let name = file.file_stem().context("the file has no name")?.to_string_lossy().into_owned();
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let golden = golden_path(file, &name);
        let answers =
            std::fs::read_to_string(&golden).with_context(|| format!("cannot read {}", golden.display()))?;
        Ok(Self {
            cases: serde_saphyr::from_str_with_options(
                &text,
                serde_saphyr::options! { strict_booleans: true },
            )
            .with_context(|| format!("{} is not a list of cases", file.display()))?,
            golden: serde_json::from_str(&answers)
                .with_context(|| format!("{} is damaged", golden.display()))?,
            name,
        })
    }

    /// Returns the paths of the suites that come with this crate.
    pub fn shipped() -> anyhow::Result<Vec<PathBuf>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
        let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
            .with_context(|| format!("cannot read {}", folder.display()))?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        files.sort();
        Ok(files)
    }
}

fn golden_path(file: &Path, name: &str) -> PathBuf {
    let folder = file.parent().and_then(Path::parent).unwrap_or(Path::new(""));
    folder.join("golden").join(format!("{name}.json"))
}
