//! Certificates from files, which are read again when they change.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Identity, Shown};

/// How often the files are read: controller-runtime's value. A kubelet replaces the files of a mounted Secret within
/// about a minute.
const READ_EVERY: Duration = Duration::from_secs(10);

/// The contents of `tls.crt` and `tls.key`.
type Files = (Vec<u8>, Vec<u8>);

/// Presents the certificate in the folder until told to stop. `what` names the server in log lines.
pub(crate) async fn keep(folder: PathBuf, what: &'static str, shown: Shown, stop: CancellationToken) {
    let mut seen: Option<Files> = None;
    loop {
        load(&folder, what, &mut seen, &shown).await;
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(READ_EVERY) => {}
        }
    }
}

/// Loads the files if they have changed. If the new files cannot be used, the last certificate stays: they may be half
/// written.
async fn load(folder: &Path, what: &str, seen: &mut Option<Files>, shown: &Shown) {
    let path = folder.to_owned();
    let read = tokio::task::spawn_blocking(move || read(&path)).await;
    let files = match read {
        Ok(Ok(files)) => files,
        Ok(Err(problem)) => return report(shown, what, problem),
        Err(error) => return report(shown, what, error.to_string()),
    };
    if seen.as_ref() == Some(&files) {
        return;
    }
    match Identity::from_pem(&files.0, &files.1) {
        Ok(identity) => {
            shown.show(identity);
            tracing::info!(folder = %folder.display(), "loaded the certificate of the {what}");
            *seen = Some(files);
        }
        Err(error) => report(shown, what, format!("{}: {error}", folder.display())),
    }
}

fn read(folder: &Path) -> Result<Files, String> {
    let read = |name: &str| {
        let path = folder.join(name);
        std::fs::read(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    Ok((read("tls.crt")?, read("tls.key")?))
}

fn report(shown: &Shown, what: &str, problem: String) {
    tracing::warn!(problem, "cannot load the certificate of the {what}");
    shown.note(Some(problem));
}
