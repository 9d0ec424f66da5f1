//! Everything that depends on the operating system: permissions of files and folders, syncing of folders, and the
//! limit of open files. Systems other than Unix get a portable fallback.

pub(crate) use imp::{open_files_max, private_file, private_folder, sync_folder};

#[cfg(unix)]
mod imp {
    use std::fs::{DirBuilder, File, OpenOptions};
    use std::io;
    use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
    use std::path::Path;

    use rustix::process::{Resource, getrlimit};

    /// Options for opening a file that, if it is created, only its owner can read and write.
    pub(crate) fn private_file() -> OpenOptions {
        let mut options = OpenOptions::new();
        options.mode(0o600);
        options
    }

    /// A builder of folders that only their owner can enter.
    pub(crate) fn private_folder() -> DirBuilder {
        let mut builder = DirBuilder::new();
        builder.mode(0o700);
        builder
    }

    /// Makes the names in a folder durable.
    pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }

    /// How many files this process may have open. `None` if there is no limit.
    pub(crate) fn open_files_max() -> Option<u64> {
        getrlimit(Resource::Nofile).current
    }
}

#[cfg(not(unix))]
mod imp {
    use std::fs::{DirBuilder, OpenOptions};
    use std::io;
    use std::path::Path;

    /// Options for opening a file. The permissions are those of the folder.
    pub(crate) fn private_file() -> OpenOptions {
        OpenOptions::new()
    }

    /// A builder of folders. The permissions are those of the folder above.
    pub(crate) fn private_folder() -> DirBuilder {
        DirBuilder::new()
    }

    /// Does nothing: a folder cannot be opened and synced on systems other than Unix.
    pub(crate) fn sync_folder(_: &Path) -> io::Result<()> {
        Ok(())
    }

    /// How many files this process may have open. Other systems than Unix have no such limit.
    pub(crate) fn open_files_max() -> Option<u64> {
        None
    }
}
