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

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::super::{Validity, issue};
    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);

    /// A certificate with its key.
    fn made() -> (String, String) {
        let day = SignedDuration::from_hours(24);
        let issued = issue(("s", "ca"), &["op.ops.svc".to_owned()], Validity::from(NOW, day, day)).unwrap();
        (issued.certificate, issued.key)
    }

    fn chain(certificate: &str) -> Option<Vec<rustls::pki_types::CertificateDer<'static>>> {
        Some(super::super::certificates(certificate.as_bytes()).unwrap())
    }

    /// Certificate and key are written one after the other. Between the two, the old pair is shown.
    #[tokio::test(start_paused = true)]
    async fn files_are_read_again_when_they_change() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        let (shown, stop) = (Shown::default(), CancellationToken::new());
        let keeping = tokio::spawn(keep(folder.path().to_owned(), "webhooks", shown.clone(), stop.clone()));
        let read = || tokio::time::sleep(READ_EVERY * 2);
        read().await;
        assert!(shown.check(NOW).unwrap_err().contains("cannot read"), "{:?}", shown.check(NOW));

        let (old, new) = (made(), made());
        write("tls.crt", &old.0);
        write("tls.key", &old.1);
        read().await;
        assert_eq!((shown.chain(NOW), shown.check(NOW)), (chain(&old.0), Ok(())));
        for half in [&new.0[..new.0.len() / 2], new.0.as_str()] {
            write("tls.crt", half);
            read().await;
            assert_eq!(shown.chain(NOW), chain(&old.0), "what is half written is not used");
        }
        write("tls.key", &new.1);
        read().await;
        assert_eq!(shown.chain(NOW), chain(&new.0));
        stop.cancel();
        keeping.await.unwrap();
    }
}
