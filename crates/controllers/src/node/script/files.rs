//! The files that scripts write: in the file system of their container, which ends with the run, and in volumes.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use evenkeel_tree::Tree;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::machine::WORD_COST;
use crate::kinds::Pod;

/// The most bytes that the files in the volumes of one pod may have. A script that writes more counts as not understood.
const POD_BYTES_MAX: usize = 1 << 20;
/// The most bytes that the files in all directories of one node may have.
const NODE_BYTES_MAX: usize = 16 << 20;
/// The most bytes that the files of all pods and nodes of a cluster may have.
const CLUSTER_BYTES_MAX: usize = 128 << 20;
/// How many bytes a file takes besides its path and its content.
const FILE_COST: usize = 128;

/// Whose files these are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    /// The volumes of the pod with this uid.
    Pod(String),
    /// The directories of the node with this index.
    Node(usize),
}

/// A file: the name of its volume or the path of its directory, and the path within that.
type FileKey = (String, String);

/// The contents of one file over time, each with the time from which it is valid. There are at most two: the present
/// content, and one that a run will write later. `None` means that the file does not exist from that time on.
type History = Vec<(Instant, Option<String>)>;

/// The files in all volumes.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    disks: Mutex<Disks>,
}

#[derive(Debug, Default)]
struct Disks {
    by_owner: BTreeMap<Owner, Disk>,
    /// How many bytes the files of all owners take.
    bytes: usize,
}

/// The files of one owner.
#[derive(Debug, Default)]
struct Disk {
    files: BTreeMap<FileKey, History>,
    /// The files with a later content, by the time at which it replaces the present one.
    replacements: BTreeSet<(Instant, FileKey)>,
    /// How many bytes all these files take.
    bytes: usize,
}

impl Volumes {
    /// Removes the volumes of a pod that is gone.
    pub(crate) fn forget(&self, uid: &str) {
        let mut disks = self.disks.lock();
        if let Some(disk) = disks.by_owner.remove(&Owner::Pod(uid.to_owned())) {
            disks.bytes -= disk.bytes;
        }
    }
}

impl Disks {
    /// Writes a file from a time on, or removes it. Returns `None` if there is no room.
    fn write(&mut self, owner: Owner, key: FileKey, content: Option<String>, now: Instant) -> Option<()> {
        let bytes_max = owner.bytes_max();
        let disk = self.by_owner.entry(owner).or_default();
        let others = self.bytes - disk.bytes;
        let written = disk.write(key, content, now, bytes_max.min(CLUSTER_BYTES_MAX.saturating_sub(others)));
        self.bytes = others + disk.bytes;
        written
    }
}

impl Owner {
    fn bytes_max(&self) -> usize {
        match self {
            Self::Pod(_) => POD_BYTES_MAX,
            Self::Node(_) => NODE_BYTES_MAX,
        }
    }
}

impl Disk {
    fn read(&self, key: &FileKey, now: Instant) -> Option<String> {
        let mut states = self.files.get(key).into_iter().flatten();
        states.rfind(|(since, _)| *since <= now).and_then(|(_, content)| content.clone())
    }

    /// Writes a file from a time on, or removes it. Returns `None` if there is no room.
    fn write(&mut self, key: FileKey, content: Option<String>, now: Instant, bytes_max: usize) -> Option<()> {
        let old = self.files.get(&key);
        // Nobody reads a state that has been replaced by now.
        let kept = old.into_iter().flatten().rfind(|(since, _)| *since <= now);
        let kept = kept.filter(|(_, content)| content.is_some()).cloned();
        let new: History = match (kept, content) {
            (None, None) => Vec::new(),
            (kept, content) => kept.into_iter().chain([(now, content)]).collect(),
        };
        let is_removed = new.last().is_none_or(|(_, content)| content.is_none());
        let bytes_after = |disk: &Self| disk.bytes + cost(&key, &new) - disk.cost_of(&key);
        if !is_removed && bytes_after(self) > bytes_max {
            self.drop_replaced(now);
            if bytes_after(self) > bytes_max {
                return None;
            }
        }
        self.set(key, new);
        Some(())
    }

    fn cost_of(&self, key: &FileKey) -> usize {
        self.files.get(key).map_or(0, |states| cost(key, states))
    }

    fn set(&mut self, key: FileKey, states: History) {
        self.bytes = self.bytes + cost(&key, &states) - self.cost_of(&key);
        if let Some((at, _)) = self.files.get(&key).and_then(|states| states.get(1)) {
            self.replacements.remove(&(*at, key.clone()));
        }
        if let Some((at, _)) = states.get(1) {
            self.replacements.insert((*at, key.clone()));
        }
        match states.is_empty() {
            true => drop(self.files.remove(&key)),
            false => drop(self.files.insert(key, states)),
        }
    }

    /// Drops the contents that have been replaced by now, and the files that are gone.
    fn drop_replaced(&mut self, now: Instant) {
        while let Some((at, key)) = self.replacements.pop_first() {
            if at > now {
                self.replacements.insert((at, key));
                break;
            }
            let last = self.files.get(&key).and_then(|states| states.last());
            let last = last.filter(|(_, content)| content.is_some()).cloned();
            self.set(key, last.into_iter().collect());
        }
    }
}

/// Returns how many bytes a file takes, with its present and its later content.
fn cost((volume, path): &FileKey, states: &[(Instant, Option<String>)]) -> usize {
    // The list of replacements has the path of a file with a later content once more.
    let paths = (volume.len() + path.len()) * states.len();
    let contents = states.iter().map(|(_, content)| FILE_COST + content.as_ref().map_or(0, String::len));
    paths + contents.sum::<usize>()
}

/// Where a path leads.
enum Place {
    /// A file in the container.
    Own(String),
    /// A file in a volume.
    In(Owner, FileKey),
}

/// The files as one container sees them in one run.
#[derive(Debug)]
pub(crate) struct Files<'a> {
    volumes: &'a Volumes,
    pod: &'a Pod,
    container: &'a Tree,
    node: usize,
    own: BTreeMap<String, String>,
    /// Whether this run has used a volume, so that another run may find its files there.
    is_shared: Cell<bool>,
    /// Whether nothing is written any more.
    is_frozen: bool,
}

impl<'a> Files<'a> {
    /// The files of a new run of a container on a node.
    pub(crate) fn new(volumes: &'a Volumes, pod: &'a Pod, container: &'a Tree, node: usize) -> Self {
        Self {
            volumes,
            pod,
            container,
            node,
            own: BTreeMap::new(),
            is_shared: Cell::new(false),
            is_frozen: false,
        }
    }

    /// Keeps the files as they are, whatever is written from now on.
    pub(super) fn freeze(&mut self) {
        self.is_frozen = true;
    }

    /// Returns the content of a file at a time; `Some(None)` if it does not exist, `None` if the node does not know.
    pub(super) fn read(&self, path: &str, now: Instant) -> Option<Option<String>> {
        match self.place(path)? {
            Place::Own(path) => Some(self.own.get(&path).cloned()),
            Place::In(owner, key) => {
                self.is_shared.set(true);
                let disks = self.volumes.disks.lock();
                Some(disks.by_owner.get(&owner).and_then(|disk| disk.read(&key, now)))
            }
        }
    }

    /// Writes a file from a time on, or removes it. Returns `None` if the node does not know such files.
    pub(super) fn write(&mut self, path: &str, content: Option<String>, now: Instant) -> Option<()> {
        match self.place(path)? {
            _ if self.is_frozen => {}
            Place::Own(path) => match content {
                Some(content) => drop(self.own.insert(path, content)),
                None => drop(self.own.remove(&path)),
            },
            Place::In(owner, key) => {
                self.is_shared.set(true);
                self.volumes.disks.lock().write(owner, key, content, now)?;
            }
        }
        Some(())
    }

    /// Returns what was written to a file of the container itself.
    pub(super) fn own(&self, path: &str) -> Option<&str> {
        self.own.get(path).map(String::as_str)
    }

    /// Returns what it costs to find a file: one lookup in each mount and each volume.
    pub(super) fn cost_of_finding(&self, path: &str) -> usize {
        let looks = 1 + self.container.list("volumeMounts").len() + self.pod.list("spec/volumes").len();
        looks * WORD_COST + path.len()
    }

    /// Whether a volume was used.
    pub(super) fn is_shared(&self) -> bool {
        self.is_shared.get()
    }

    fn place(&self, path: &str) -> Option<Place> {
        if !path.starts_with('/') || path.split('/').any(|part| part == "..") {
            return None;
        }
        let mounts = self.container.list("volumeMounts").iter();
        let inside = mounts.filter_map(|mount| {
            let at = mount.str("mountPath")?.trim_end_matches('/');
            let rest = path.strip_prefix(at).filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
            Some((at.len(), mount, rest.trim_start_matches('/')))
        });
        let Some((_, mount, rest)) = inside.max_by_key(|(length, _, _)| *length) else {
            return Some(Place::Own(path.to_owned()));
        };
        if mount.has("subPathExpr") {
            return None;
        }
        let name = mount.str("name")?;
        let volume = self.pod.list("spec/volumes").iter().find(|volume| volume.is("name", name))?;
        let file = match mount.str("subPath").filter(|path| !path.is_empty()) {
            Some(sub) => format!("{}/{rest}", sub.trim_matches('/')),
            None => rest.to_owned(),
        };
        let uid = self.pod.metadata.uid.clone().unwrap_or_default();
        if volume.has("emptyDir") {
            return Some(Place::In(Owner::Pod(uid), (name.to_owned(), file)));
        }
        let path = volume.str("hostPath/path")?.trim_end_matches('/').to_owned();
        Some(Place::In(Owner::Node(self.node), (path, file)))
    }
}
