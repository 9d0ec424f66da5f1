//! Certificates from files, read again when they change.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::webhook::tls::{Identity, Shown};

/// How often the files are read: controller-runtime's number. A kubelet replaces the files of a mounted Secret within about
/// a minute.
const READ_EVERY: Duration = Duration::from_secs(10);

/// The contents of `tls.crt` and `tls.key`.
type Files = (Vec<u8>, Vec<u8>);

/// Shows the certificate in the folder until told to stop.
pub(super) async fn keep(folder: PathBuf, shown: Shown, stop: CancellationToken) {
    let mut seen: Option<Files> = None;
    loop {
        load(&folder, &mut seen, &shown).await;
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(READ_EVERY) => {}
        }
    }
}

/// Loads the files if they differ from those that were seen last. Files that cannot be used leave the last certificate in
/// place: they may be half written.
async fn load(folder: &Path, seen: &mut Option<Files>, shown: &Shown) {
    let path = folder.to_owned();
    let read = tokio::task::spawn_blocking(move || read(&path)).await;
    let files = match read {
        Ok(Ok(files)) => files,
        Ok(Err(problem)) => return report(shown, problem),
        Err(error) => return report(shown, error.to_string()),
    };
    if seen.as_ref() == Some(&files) {
        return;
    }
    match Identity::from_pem(&files.0, &files.1) {
        Ok(identity) => {
            shown.show(identity);
            tracing::info!(folder = %folder.display(), "loaded the certificate of the webhooks");
            *seen = Some(files);
        }
        Err(error) => report(shown, format!("{}: {error}", folder.display())),
    }
}

fn read(folder: &Path) -> Result<Files, String> {
    let read = |name: &str| {
        let path = folder.join(name);
        std::fs::read(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    Ok((read("tls.crt")?, read("tls.key")?))
}

fn report(shown: &Shown, problem: String) {
    tracing::warn!(problem, "cannot load the certificate of the webhooks");
    shown.note(Some(problem));
}
