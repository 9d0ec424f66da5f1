//! Everything that depends on the operating system: the signals that end a command, and the limit of open files.
//! Systems other than Unix get a portable fallback.

pub(crate) use imp::{raise_open_files_limit, shutdown_signal};

#[cfg(unix)]
mod imp {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use tokio::signal::unix::{SignalKind, signal};

    /// The limit to ask for if there is no hard limit. macOS reports no hard limit, but accepts no more than this.
    const WITHOUT_HARD_LIMIT: u64 = 10_240;
    /// A lower limit is too small for a server with clients and a journal.
    const FEW: u64 = 1024;

    /// Completes at Ctrl-C or SIGTERM. Signals are caught from the call on, not only from the first poll.
    pub(crate) fn shutdown_signal() -> std::io::Result<impl Future<Output = ()> + Send> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        Ok(async move {
            tokio::select! {
                biased;
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        })
    }

    /// Raises the limit of open files to the hard limit of this user. Each connection is an open file, and so is each
    /// segment of the journal, while shells set a low limit for the sake of old programs.
    pub(crate) fn raise_open_files_limit() {
        let before = getrlimit(Resource::Nofile);
        let wanted = before.maximum.unwrap_or(WITHOUT_HARD_LIMIT);
        let raised = match before.current {
            Some(current) if current < wanted => {
                setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: before.maximum })
            }
            _ => Ok(()),
        };
        if let Err(error) = raised {
            tracing::warn!(%error, wanted, "cannot raise the limit of open files");
        }
        match getrlimit(Resource::Nofile).current {
            Some(files) if files < FEW => {
                tracing::warn!(files, "the limit of open files is low: few clients can connect");
            }
            files => tracing::info!(?files, "limit of open files"),
        }
    }
}

#[cfg(not(unix))]
mod imp {
    /// Completes at Ctrl-C.
    pub(crate) fn shutdown_signal() -> std::io::Result<impl Future<Output = ()> + Send> {
        Ok(async {
            if let Err(error) = tokio::signal::ctrl_c().await {
                tracing::warn!(%error, "cannot catch Ctrl-C");
                std::future::pending::<()>().await;
            }
        })
    }

    /// Does nothing: there is no limit of open files to raise.
    pub(crate) fn raise_open_files_limit() {}
}
