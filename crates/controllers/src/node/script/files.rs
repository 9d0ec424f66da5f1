//! The files that scripts write: in the file system of their container, which ends with the run, and in volumes.

use std::cell::Cell;
use std::collections::BTreeMap;

use evenkeel_tree::Tree;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::kinds::Pod;

/// How many bytes the files of one volume may have. A write beyond this limit is dropped.
const BYTES_MAX: usize = 1 << 20;

/// A volume that scripts can write to.
#[derive(Clone, Debug)]
enum Volume {
    /// A volume of a pod: the uid of the pod, and the name of the volume.
    Pod(String, String),
    /// A directory of a node: the index of the node, and the path.
    Host(usize, String),
}

/// The contents of one file over time, each with the time from which on the file has it. `None` means that the file does
/// not exist from then on.
type History = Vec<(Instant, Option<String>)>;

/// The files in all volumes.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    shared: Mutex<Shared>,
}

/// The files of one volume, by their path in it.
type Directory = BTreeMap<String, History>;

#[derive(Debug, Default)]
struct Shared {
    /// The volumes of pods, by the uid of the pod and the name of the volume.
    pods: BTreeMap<String, BTreeMap<String, Directory>>,
    /// The directories of nodes, by the index of the node and the path.
    hosts: BTreeMap<(usize, String), Directory>,
}

impl Shared {
    fn directory(&mut self, volume: Volume) -> &mut Directory {
        match volume {
            Volume::Pod(uid, name) => self.pods.entry(uid).or_default().entry(name).or_default(),
            Volume::Host(node, path) => self.hosts.entry((node, path)).or_default(),
        }
    }
}

impl Volumes {
    /// Removes the volumes of a pod that is gone.
    pub(crate) fn forget(&self, uid: &str) {
        self.shared.lock().pods.remove(uid);
    }
}

/// Where a path leads.
enum Place {
    /// A file in the container.
    Own(String),
    /// A file in a volume.
    In(Volume, String),
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
}

impl<'a> Files<'a> {
    /// The files of a new run of a container on a node.
    pub(crate) fn new(volumes: &'a Volumes, pod: &'a Pod, container: &'a Tree, node: usize) -> Self {
        Self { volumes, pod, container, node, own: BTreeMap::new(), is_shared: Cell::new(false) }
    }

    /// Returns the content of a file at a time; `Some(None)` if it does not exist, `None` if the node does not know.
    pub(super) fn read(&self, path: &str, now: Instant) -> Option<Option<String>> {
        match self.place(path)? {
            Place::Own(path) => Some(self.own.get(&path).cloned()),
            Place::In(volume, path) => {
                self.is_shared.set(true);
                let mut shared = self.volumes.shared.lock();
                let history = shared.directory(volume).get(&path);
                let states = history.into_iter().flatten().filter(|(since, _)| *since <= now);
                Some(states.max_by_key(|(since, _)| *since).and_then(|(_, content)| content.clone()))
            }
        }
    }

    /// Writes a file from a time on, or removes it. Returns `None` if the node does not know such files.
    pub(super) fn write(&mut self, path: &str, content: Option<String>, now: Instant) -> Option<()> {
        match self.place(path)? {
            Place::Own(path) => match content {
                Some(content) => drop(self.own.insert(path, content)),
                None => drop(self.own.remove(&path)),
            },
            Place::In(volume, path) => {
                self.is_shared.set(true);
                let mut shared = self.volumes.shared.lock();
                let files = shared.directory(volume);
                let bytes = |files: &Directory| -> usize {
                    files.values().flatten().map(|(_, content)| content.as_ref().map_or(1, String::len)).sum()
                };
                if bytes(files) + content.as_ref().map_or(0, String::len) > BYTES_MAX {
                    return None;
                }
                let history = files.entry(path).or_default();
                history.retain(|(since, _)| *since <= now);
                // Nobody reads a state that has been replaced by now.
                if history.len() > 1 {
                    history.drain(..history.len() - 1);
                }
                history.push((now, content));
            }
        }
        Some(())
    }

    /// Returns what was written to a file of the container itself.
    pub(super) fn own(&self, path: &str) -> Option<&str> {
        self.own.get(path).map(String::as_str)
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
            return Some(Place::In(Volume::Pod(uid, name.to_owned()), file));
        }
        let path = volume.str("hostPath/path")?.trim_end_matches('/').to_owned();
        Some(Place::In(Volume::Host(self.node, path), file))
    }
}
