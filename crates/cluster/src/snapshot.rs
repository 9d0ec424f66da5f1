//! Snapshots: saving the state of a running cluster to a file, and reading such a file.

use std::fs::{self, File};
use std::io::{self, BufReader, Write as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use evenkeel_apiserver::{Header, SNAPSHOT_PATH};
use evenkeel_store::{Backup, BackupError, verify_backup};
use http_body_util::{BodyExt as _, Limited};
use kube::Client;
use kube::client::Body;

use crate::os;

pub use evenkeel_store::BackupSummary as Saved;

/// How much of an error response is read: a Status has some hundred bytes.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

/// A snapshot could not be saved or restored. An incomplete snapshot never gets the name of the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The server cannot be reached.
    #[error("cannot ask the server for a snapshot")]
    Request(#[source] Box<kube::Error>),
    /// The server does not allow this user to take a snapshot, or does not support snapshots.
    #[error("the server refuses the snapshot ({status}): {message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The server's message.
        message: String,
    },
    /// The connection ended before the snapshot was complete.
    #[error("the connection ended before the snapshot was complete")]
    Cut(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A file cannot be read or written.
    #[error("cannot use {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file is not a complete snapshot.
    #[error("cannot use the snapshot {path}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: BackupError,
    },
}

/// Saves the state of the cluster that the client talks to, as of one revision, to a file that only its owner can read.
///
/// The file gets its name once it is complete, checked and durable; an existing file of that name is replaced. The
/// client's user must be allowed to `get` the path `/evenkeel/snapshot`, as members of `system:masters` are.
///
/// # Errors
/// Fails if the server refuses, the connection breaks, or the file cannot be written. No partial file is left behind.
pub async fn save(client: &Client, path: &Path) -> Result<Saved, SnapshotError> {
    let mut body = request(client).await?;
    let mut partial = Partial::create(path)?;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| SnapshotError::Cut(error.into()))?;
        if let Ok(bytes) = frame.into_data() {
            partial = blocking(move || partial.write(&bytes)).await?;
        }
    }
    blocking(move || partial.finish()).await
}

async fn request(client: &Client) -> Result<Body, SnapshotError> {
    let failed = |error| SnapshotError::Request(Box::new(error));
    let request = http::Request::get(SNAPSHOT_PATH).body(Body::empty());
    let request = request.map_err(|error| failed(kube::Error::HttpError(error)))?;
    let response = client.send(request).await.map_err(failed)?;
    if response.status().is_success() {
        return Ok(response.into_body());
    }
    let status = response.status().as_u16();
    let text = Limited::new(response.into_body(), REFUSAL_BYTES_MAX).collect().await;
    let text = text.map(|text| text.to_bytes()).unwrap_or_default();
    Err(SnapshotError::Refused { status, message: message_of(&text) })
}

/// The message of a Status, or the whole text if it is not a Status.
fn message_of(text: &Bytes) -> String {
    let status: Option<serde_json::Value> = serde_json::from_slice(text).ok();
    let message = status.as_ref().and_then(|status| status["message"].as_str());
    message.map_or_else(|| String::from_utf8_lossy(text).trim().to_owned(), str::to_owned)
}

/// Runs work that waits for the disk on a thread where it does not block other tasks.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SnapshotError> + Send + 'static,
) -> Result<T, SnapshotError> {
    let failed = |error| SnapshotError::Cut(Box::new(error));
    tokio::task::spawn_blocking(work).await.map_err(failed)?
}

/// A temporary file next to its target. Dropping it removes the file unless it has been renamed to the target.
struct Partial {
    file: File,
    path: PathBuf,
    target: PathBuf,
}

impl Partial {
    fn create(target: &Path) -> Result<Self, SnapshotError> {
        let refused = |source| SnapshotError::File { path: target.to_owned(), source };
        let Some(name) = target.file_name().filter(|_| !target.is_dir()) else {
            return Err(refused(io::ErrorKind::IsADirectory.into()));
        };
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.partial", std::process::id()));
        let path = target.with_file_name(hidden);
        let file = os::private_file().write(true).create_new(true).open(&path).map_err(refused)?;
        Ok(Self { file, path, target: target.to_owned() })
    }

    fn error(&self, source: io::Error) -> SnapshotError {
        SnapshotError::File { path: self.target.clone(), source }
    }

    fn write(mut self, bytes: &[u8]) -> Result<Self, SnapshotError> {
        self.file.write_all(bytes).map_err(|source| self.error(source))?;
        Ok(self)
    }

    /// Checks what was written, and renames the file to the target.
    fn finish(self) -> Result<Saved, SnapshotError> {
        self.file.sync_all().map_err(|source| self.error(source))?;
        let mut written = BufReader::new(File::open(&self.path).map_err(|source| self.error(source))?);
        let saved = verify_backup(&mut written)
            .map_err(|source| SnapshotError::Damaged { path: self.target.clone(), source })?;
        fs::rename(&self.path, &self.target).map_err(|source| self.error(source))?;
        sync_folder_of(&self.target).map_err(|source| self.error(source))?;
        Ok(saved)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // After a rename there is no file of this name any more, and the error is ignored.
        let _ = fs::remove_file(&self.path);
    }
}

/// Makes the name of a file durable.
fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    os::sync_folder(folder.unwrap_or(Path::new(".")))
}

/// Reads and checks a whole snapshot.
pub(crate) async fn read(path: &Path) -> Result<Backup<Header>, SnapshotError> {
    let path = path.to_owned();
    blocking(move || {
        let file = File::open(&path).map_err(|source| SnapshotError::File { path: path.clone(), source })?;
        Backup::read(&mut BufReader::new(file)).map_err(|source| SnapshotError::Damaged { path, source })
    })
    .await
}
