//! The number of connections that the limit of open files allows.

use crate::os;

/// The most connections, whatever the limit of open files. Each takes some 50 KiB with its TLS buffers, 400 MiB in all.
/// A developer's machine has far fewer clients.
const CONNECTIONS_MAX: u64 = 8192;
/// How many files are left to the journal, its checkpoints, webhooks, logs and the operators in this process. Each of
/// them opens a few.
const OTHER_FILES: u64 = 512;

/// How many connections this process can have open. Each is a file.
pub(crate) fn connections_max() -> usize {
    let limit = os::open_files_max().unwrap_or(u64::MAX);
    usize::try_from(connections_of(limit)).unwrap_or(usize::MAX)
}

/// The number of connections for a limit of open files: half of a small limit, all but [`OTHER_FILES`] of a large one.
fn connections_of(files: u64) -> u64 {
    (files / 2).max(files.saturating_sub(OTHER_FILES)).min(CONNECTIONS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_left_for_others() {
        assert_eq!(
            [0, 256, 1024, 4096, 20_000, u64::MAX].map(connections_of),
            [0, 128, 512, 3584, 8192, 8192]
        );
    }
}
