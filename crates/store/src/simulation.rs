//! A store on a simulated disk, for tests with a failing disk and for fuzz targets that generate the bytes of its files.

use std::path::Path;
use std::sync::Arc;

use evenkeel_env::Env;

use crate::disk::simulated::{FaultPlan, SimulatedFiles};
use crate::disk::{self, frame};
use crate::{Header, OpenError, Options, Store};

/// The path of the simulated data directory.
const DIR: &str = "/data";

/// A disk in memory that holds one data directory.
///
/// ```
/// # use evenkeel_store::simulation::SimulatedDisk;
/// # use evenkeel_store::{Expect, Op, Store, Write};
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let disk = SimulatedDisk::new();
/// let store: Store<()> = disk.open(Default::default(), Default::default()).await.unwrap();
/// disk.fail_to_sync();
/// let put = Write { key: "/a".into(), expect: Expect::Any, op: Op::Put("x".into(), ()) };
/// assert!(store.write(put).await.is_err());
/// assert!(store.journal_failure().is_some());
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct SimulatedDisk {
    disk: SimulatedFiles,
}

impl Default for SimulatedDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl SimulatedDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self { disk: SimulatedFiles::new(FaultPlan::default()) }
    }

    /// Writes a file to the data directory.
    pub fn put(&self, name: &str, bytes: Vec<u8>) {
        self.disk.put(&Path::new(DIR).join(name), bytes);
    }

    /// Opens the store, as [`Store::open`] does.
    pub async fn open<H: Header>(&self, env: Env, options: Options) -> Result<Store<H>, OpenError> {
        let files = Arc::new(self.disk.clone());
        Ok(Store::on(disk::open_on(files, Path::new(DIR), env, options).await?))
    }

    /// Makes every sync fail from now on.
    pub fn fail_to_sync(&self) {
        self.disk.plan(FaultPlan { fails_to_sync: true, ..FaultPlan::default() });
    }

    /// Makes every write fail for lack of room from now on.
    pub fn fill(&self) {
        self.disk.plan(FaultPlan { full_from: Some(0), ..FaultPlan::default() });
    }

    /// Makes all calls succeed again.
    pub fn recover(&self) {
        self.disk.plan(FaultPlan::default());
    }
}

/// Returns a frame with this body, as in the files. Length and checksum are right, whatever the body is.
pub fn frame(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len());
    frame::append(&mut out, |frame| frame.extend_from_slice(body));
    out
}
