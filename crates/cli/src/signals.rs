//! When the user wants it to end.

use tokio::signal::unix::{SignalKind, signal};

/// Ends at Ctrl-C or SIGTERM. The signals are taken from the moment of the call, not of the first poll.
pub(crate) fn ended() -> std::io::Result<impl Future<Output = ()> + Send> {
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
