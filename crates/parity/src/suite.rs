//! A file of cases and the answers that were recorded for them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::Value;

use crate::ordered::Ordered;

/// One script: steps in a namespace of their own.
#[derive(Clone, Debug, Deserialize)]
pub struct Case {
    /// Its name, unique in its file.
    pub name: String,
    /// What a server must have beyond the API for the case to make sense: `controllers`.
    #[serde(default)]
    pub needs: Vec<String>,
    /// The steps, as written: references to earlier answers are filled in when a step is sent.
    pub steps: Vec<Ordered>,
    /// Calls made at the end, whatever happened.
    #[serde(default)]
    pub cleanup: Vec<String>,
}

/// The cases of a file with their recorded answers.
#[derive(Debug)]
pub struct Suite {
    /// The file's name without its ending.
    pub name: String,
    /// The scripts, in order.
    pub cases: Vec<Case>,
    /// For each case by name: one answer for each step.
    pub golden: BTreeMap<String, Value>,
}

impl Suite {
    /// Reads `cases/NAME.yaml` and the `golden/NAME.json` beside its folder. A bare `y` or `n` is a text, as the tool
    /// that recorded the answers reads it.
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
            .with_context(|| format!("{} is no list of cases", file.display()))?,
            golden: serde_json::from_str(&answers)
                .with_context(|| format!("{} is damaged", golden.display()))?,
            name,
        })
    }

    /// The suites that come with this crate.
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
