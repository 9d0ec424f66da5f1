//! The operator's ways out of its process in production: HTTP on the cluster's network, and a folder for backups.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tower::service_fn;

use crate::backup::{BackupError, Http, Place};

/// The largest HTTP response, in bytes. That of an exporter has some hundred kilobytes.
const ANSWER_MAX_BYTES: usize = 8 << 20;

/// An HTTP client that reaches Services by their names, if the operator runs in the cluster.
pub(crate) fn http() -> Http {
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    Http::new(service_fn(move |request: Request<Bytes>| {
        let client = client.clone();
        async move {
            let (parts, body) = client.request(request.map(Full::new)).await?.into_parts();
            let body =
                Limited::new(body, ANSWER_MAX_BYTES).collect().await.map_err(|error| error.to_string())?;
            Ok(Response::from_parts(parts, body.to_bytes()))
        }
    }))
}

/// A folder in which each database has one file with its last dump, such as a mounted volume.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Keeps backups in this folder, which must exist.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    async fn write(&self, file: &Path, dump: &str) -> std::io::Result<()> {
        // The old dump is replaced only by a whole new one.
        let part = file.with_extension("part");
        tokio::fs::write(&part, dump).await?;
        tokio::fs::rename(&part, file).await
    }
}

impl Place for Folder {
    async fn keep(&self, database: &str, dump: &str) -> Result<(), BackupError> {
        let file = self.0.join(format!("{}.sql", database.replace('/', ".")));
        self.write(&file, dump).await.map_err(|error| BackupError(format!("{}: {error}", file.display())))
    }
}
