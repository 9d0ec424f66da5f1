//! A store on a simulated disk: for tests of what a failing disk means to a store's users, and for fuzz targets that
//! make up the bytes of its files.

use std::path::Path;
use std::sync::Arc;

use evenkeel_env::Env;

use crate::disk::simulated::{Plan, Simulated};
use crate::disk::{self, frame};
use crate::{Header, OpenError, Options, Store};

/// Where a simulated data directory is.
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
    disk: Simulated,
}

impl Default for SimulatedDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl SimulatedDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self { disk: Simulated::new(Plan::default()) }
    }

    /// Puts a file into the data directory.
    pub fn put(&self, name: &str, bytes: Vec<u8>) {
        self.disk.put(&Path::new(DIR).join(name), bytes);
    }

    /// Opens the store, as [`Store::open`] does.
    pub async fn open<H: Header>(&self, env: Env, options: Options) -> Result<Store<H>, OpenError> {
        let files = Arc::new(self.disk.clone());
        Ok(Store::on(disk::open_on(files, Path::new(DIR), env, options).await?))
    }

    /// Lets every sync fail from now on.
    pub fn fail_to_sync(&self) {
        self.disk.plan(Plan { fails_to_sync: true, ..Plan::default() });
    }

    /// Lets every write run out of room from now on.
    pub fn fill(&self) {
        self.disk.plan(Plan { full_from: Some(0), ..Plan::default() });
    }

    /// Lets everything succeed again.
    pub fn recover(&self) {
        self.disk.plan(Plan::default());
    }
}

/// A frame with this body, as the files hold them: its length and its checksum are right, whatever the body is.
pub fn frame(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len());
    frame::append(&mut out, |frame| frame.extend_from_slice(body));
    out
}
