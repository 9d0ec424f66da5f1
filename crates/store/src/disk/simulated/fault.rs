//! Faults of a simulated disk, and when they happen.

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

    /// Whether the call can need disk space.
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

/// Which pieces and names that are not durable survive a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tear {
    /// No pieces and no names survive.
    Nothing,
    /// All pieces and names survive.
    Everything,
    /// The contents of files survive, but no names.
    Contents,
    /// The names and lengths survive, but no contents: files read as zeros.
    Names,
    /// Each piece and each name survives with a probability of one half.
    Random(u64),
}

/// A fault of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The machine crashes before the call has done anything.
    CrashBefore(Tear),
    /// The machine crashes after the call has done its work, before it returns.
    CrashAfter(Tear),
    /// The process is killed after the call has done its work.
    Kill,
    /// The call fails with an input/output error. The seed decides what a write has written by then, and what a sync has made
    /// durable.
    InputOutput(u64),
    /// The call fails because the disk is full.
    NoSpace(u64),
    /// The call fails because the process has too many open files.
    TooManyFiles,
    /// The call panics.
    Panic,
}

impl Fault {
    /// Whether this fault can happen to a call of this kind.
    pub(crate) fn concerns(self, call: Call) -> bool {
        match self {
            Self::NoSpace(_) => call.takes_room(),
            Self::TooManyFiles => call.opens(),
            _ => true,
        }
    }

    /// Returns the error of the call, if it fails with one.
    pub(crate) fn error(self) -> Option<io::Error> {
        // The standard library has no `ErrorKind` for EIO.
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

/// The faults of one process, and whether the disk lies about syncs.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaultPlan {
    /// Faults by the number of the call, from zero.
    pub(crate) faults: Vec<(usize, Fault)>,
    /// From this call on, every call that needs a file descriptor fails.
    pub(crate) too_many_files_from: Option<usize>,
    /// From this call on, every call that needs disk space fails.
    pub(crate) full_from: Option<usize>,
    /// How many bytes all files together may have. A write takes what is left and fails.
    pub(crate) room: Option<usize>,
    /// Every sync of a file fails.
    pub(crate) fails_to_sync: bool,
    /// The sync with this number succeeds but does nothing.
    pub(crate) lies_at: Option<usize>,
    /// Syncs of files succeed but do nothing.
    pub(crate) lies_about_files: bool,
    /// Syncs of directories succeed but do nothing.
    pub(crate) lies_about_names: bool,
}

impl FaultPlan {
    /// A plan with one fault.
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
        self.faults.is_empty() && lasting == [None, None] && self.room.is_none() && !self.fails_to_sync
    }

    /// Returns the fault of a call.
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
