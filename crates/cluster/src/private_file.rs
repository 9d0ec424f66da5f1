//! Files that only their owner can read, replaced atomically: after a crash they have the old or the new content.

use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::path::Path;

use crate::os;

/// The steps of replacing a file.
trait Steps {
    /// Creates a file that only its owner can read, writes it and syncs it.
    fn write_new(&self, path: &Path, text: &str) -> io::Result<()>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a folder durable.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

/// The file system of this machine.
struct Disk;

impl Steps for Disk {
    fn write_new(&self, path: &Path, text: &str) -> io::Result<()> {
        let mut file = os::private_file().write(true).create_new(true).open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        os::sync_folder(folder)
    }
}

/// Writes a file that only its owner can read. An existing file is replaced atomically. When this returns, the file
/// survives a crash of the machine.
pub(crate) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    replace(&Disk, path, text)
}

/// Creates a folder and its parents, and makes their names durable.
pub(crate) fn create_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let above = parent(folder);
    create_folder(above)?;
    match DirBuilder::new().create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
        made => made?,
    }
    Disk.sync_folder(above)
}

fn replace(steps: &impl Steps, path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    // An earlier process with the same id may have left a file behind.
    let _ = steps.remove(&temporary);
    let renamed = steps.write_new(&temporary, text).and_then(|()| steps.rename(&temporary, path));
    if let Err(error) = renamed {
        let _ = steps.remove(&temporary);
        return Err(error);
    }
    // The name belongs to the folder, which is synced separately: without this, a crash can undo the rename.
    steps.sync_folder(parent(path))
}

/// The parent folder of a path; the current folder for a bare name.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// The file system, with a log of its steps, of which one can fail.
    #[derive(Default)]
    struct Noted {
        steps: RefCell<Vec<&'static str>>,
        fails: Option<&'static str>,
    }

    impl Noted {
        fn step(&self, step: &'static str, real: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
            self.steps.borrow_mut().push(step);
            if self.fails == Some(step) { Err(io::ErrorKind::StorageFull.into()) } else { real() }
        }
    }

    impl Steps for Noted {
        fn write_new(&self, path: &Path, text: &str) -> io::Result<()> {
            self.step("write and sync", || Disk.write_new(path, text))
        }

        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            self.step("rename", || Disk.rename(from, to))
        }

        fn remove(&self, path: &Path) -> io::Result<()> {
            self.step("remove", || Disk.remove(path))
        }

        fn sync_folder(&self, folder: &Path) -> io::Result<()> {
            self.step("sync folder", || Disk.sync_folder(folder))
        }
    }

    #[test]
    fn the_folder_is_synced_after_the_rename_and_the_file_before() {
        let folder = tempfile::tempdir().unwrap();
        let noted = Noted::default();
        replace(&noted, &folder.path().join("ca.key"), "secret").unwrap();
        assert_eq!(*noted.steps.borrow(), ["remove", "write and sync", "rename", "sync folder"]);
    }

    #[test]
    fn whatever_step_fails_the_file_is_whole_and_nothing_is_left_behind() {
        for fails in ["write and sync", "rename", "sync folder"] {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("ca.key");
            write_private(&file, "old").unwrap();
            let noted = Noted { fails: Some(fails), ..Noted::default() };
            assert!(replace(&noted, &file, "new").is_err(), "{fails}");
            let content = fs::read_to_string(&file).unwrap();
            assert_eq!(content, if fails == "sync folder" { "new" } else { "old" }, "{fails}");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{fails}");
        }
    }

    #[test]
    fn only_the_owner_can_read_it_and_its_folders_are_made() {
        let folder = tempfile::tempdir().unwrap();
        let pki = folder.path().join("a/b");
        create_folder(&pki).unwrap();
        create_folder(&pki).unwrap();
        let file = pki.join("ca.key");
        write_private(&file, "secret").unwrap();
        #[cfg(unix)]
        assert_eq!(std::os::unix::fs::MetadataExt::mode(&fs::metadata(&file).unwrap()) & 0o777, 0o600);
    }
}
