//! The files that scripts write: in the file system of their container, which ends with the run, and in volumes.

use std::cell::Cell;
use std::collections::BTreeMap;

use evenkeel_tree::Tree;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::kinds::Pod;

/// How many bytes the files of one volume may have. What is beyond is not written.
const BYTES_MAX: usize = 1 << 20;

/// A volume that scripts can write to.
#[derive(Clone, Debug)]
enum Volume {
    /// Of a pod, by its uid and the name of the volume.
    Pod(String, String),
    /// A directory of a node.
    Host(usize, String),
}

/// The states of one file with the times from which on they hold; `None` where it does not exist.
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
    /// By the uid of the pod and the name of the volume.
    pods: BTreeMap<String, BTreeMap<String, Directory>>,
    /// By the node and the path of the directory.
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
    /// Whether a volume was used, in which another run may find what this one left.
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
            _ if self.is_frozen => {}
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
