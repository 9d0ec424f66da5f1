//! What goes wrong on a simulated disk, and when.

use std::io;

/// One kind of call on the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Call {
    CreateDir,
    OpenDir,
    List,
    Read,
    Length,
    Create,
    Open,
    Write,
    SetLen,
    Reserve,
    Sync,
    SyncDir,
    Rename,
    Remove,
    Lock,
}

impl Call {
    /// Whether the call needs a file descriptor of its own.
    pub(crate) fn opens(self) -> bool {
        matches!(self, Self::OpenDir | Self::List | Self::Read | Self::Create | Self::Open | Self::Lock)
    }

    /// Whether the call can need room on the disk.
    pub(crate) fn takes_room(self) -> bool {
        matches!(
            self,
            Self::Create
                | Self::Write
                | Self::SetLen
                | Self::Reserve
                | Self::Sync
                | Self::SyncDir
                | Self::Rename
        )
    }
}

/// Which of the pieces and names that are not durable a crash leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tear {
    /// None of them.
    Nothing,
    /// All of them.
    Everything,
    /// The contents of files, but no name.
    Contents,
    /// The names, but no contents: files have their lengths, and zeros in them.
    Names,
    /// Each by a throw of a coin.
    Random(u64),
}

/// What happens at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The machine stops before the call has done anything.
    CrashBefore(Tear),
    /// The machine stops after the call has done its work, before the process hears of it.
    CrashAfter(Tear),
    /// The process stops after the call has done its work.
    Kill,
    /// The call fails: the disk cannot do it. What a write has written by then, and what a sync has made durable, is
    /// thrown by the seed.
    InputOutput(u64),
    /// The call fails: the disk is full.
    NoSpace(u64),
    /// The call fails: the process has too many files open.
    TooManyFiles,
    /// The call panics.
    Panic,
}

impl Fault {
    /// Whether this can happen to a call of this kind.
    pub(crate) fn concerns(self, call: Call) -> bool {
        match self {
            Self::NoSpace(_) => call.takes_room(),
            Self::TooManyFiles => call.opens(),
            _ => true,
        }
    }

    /// The error that the call gives; none if it gives none.
    pub(crate) fn error(self) -> Option<io::Error> {
        // EIO has no kind of its own in the standard library.
        const EIO: i32 = 5;
        const EMFILE: i32 = 24;
        const ENOSPC: i32 = 28;
        let code = match self {
            Self::InputOutput(_) => EIO,
            Self::NoSpace(_) => ENOSPC,
            Self::TooManyFiles => EMFILE,
            Self::CrashBefore(_) | Self::CrashAfter(_) | Self::Kill | Self::Panic => return None,
        };
        Some(io::Error::from_raw_os_error(code))
    }
}

/// Which calls of one process go wrong, and how honest the disk is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// Faults by the number of the call, the first being zero.
    pub(crate) faults: Vec<(usize, Fault)>,
    /// From this call on, every call that needs a file descriptor fails.
    pub(crate) too_many_files_from: Option<usize>,
    /// From this call on, every write and reservation of room fails.
    pub(crate) full_from: Option<usize>,
    /// Every sync of a file fails.
    pub(crate) fails_to_sync: bool,
    /// The sync that is this call says that it succeeded, and does nothing.
    pub(crate) lies_at: Option<usize>,
    /// Syncs of files say that they succeeded, and do nothing.
    pub(crate) lies_about_files: bool,
    /// Syncs of directories say that they succeeded, and do nothing.
    pub(crate) lies_about_names: bool,
}

impl Plan {
    /// A plan in which one call goes wrong.
    pub(crate) fn of(at: usize, fault: Fault) -> Self {
        Self { faults: vec![(at, fault)], ..Self::default() }
    }

    /// Whether a sync of a file does nothing.
    pub(crate) fn lies_about_file(&self, number: usize) -> bool {
        self.lies_about_files || self.lies_at == Some(number)
    }

    /// Whether no call fails.
    pub(crate) fn is_sound(&self) -> bool {
        let lasting = [self.too_many_files_from, self.full_from];
        self.faults.is_empty() && lasting == [None, None] && !self.fails_to_sync
    }

    /// What happens at a call.
    pub(crate) fn fault(&self, number: usize, call: Call) -> Option<Fault> {
        let planned = self.faults.iter().find(|(at, fault)| *at == number && fault.concerns(call));
        let reached = |from: Option<usize>| from.is_some_and(|from| number >= from);
        let lasting = if reached(self.too_many_files_from) && call.opens() {
            Some(Fault::TooManyFiles)
        } else if reached(self.full_from) && matches!(call, Call::Write | Call::Reserve | Call::Create) {
            Some(Fault::NoSpace(number as u64))
        } else if self.fails_to_sync && call == Call::Sync {
            Some(Fault::InputOutput(number as u64))
        } else {
            None
        };
        planned.map(|(_, fault)| *fault).or(lasting)
    }
}
