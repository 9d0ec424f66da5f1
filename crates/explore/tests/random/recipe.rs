//! What a random operator is composed of.

use evenkeel_env::Env;

#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    /// The kinds of its children, one or more of each.
    pub(crate) children: Vec<Kind>,
    pub(crate) way: Way,
    pub(crate) status: Status,
    pub(crate) cleanup: Cleanup,
    /// After how many seconds it asks for a later look.
    pub(crate) look: Option<u64>,
    pub(crate) settings: Settings,
    /// Whether a child is made only when the cache shows the one before.
    pub(crate) is_staged: bool,
    /// Whether it has as many members as the spec says, and prunes the others.
    pub(crate) scales: bool,
    /// Whether it makes up a password, keeps it in a Secret and copies it.
    pub(crate) password: bool,
    /// Whether a second controller makes a copy of each child that is a ConfigMap.
    pub(crate) copies: bool,
    pub(crate) mistake: Option<Mistake>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    ConfigMap,
    Secret,
    Service,
    ServiceAccount,
    Deployment,
}

/// How children are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Apply,
    /// Read from the server, change, update.
    Update,
    /// Create if missing, patch if different.
    Patch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    None,
    Phase,
    Generation,
}

/// What a finalizer cleans up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cleanup {
    None,
    /// A ConfigMap without an owner.
    Note,
    /// A bucket outside of the cluster.
    Bucket,
}

/// How the operator learns that the settings which its children have were changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settings {
    None,
    /// By their name.
    Named,
    /// By an index of who uses them.
    Indexed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// Makes no child if the first one is as it should be.
    HalfDone,
    /// Makes what needs cleaning up before it adds the finalizer.
    LateFinalizer,
    /// Removes the finalizer before it cleans up.
    EarlyRelease,
    /// Creates a child once, and fails if it exists already.
    CreateOnly,
    /// Creates a child of a generated name once, and notes that it did afterwards.
    GeneratedName,
    /// Changes children only when it sees the change from one configuration to the next.
    Edge,
    /// Notes the generation before the work, and does not look at a generation that is noted.
    NotedFirst,
    /// Remembers in memory what is left to do.
    InMemory,
    /// Takes any error of a write for success.
    Swallowed,
    /// Makes a new password where the cache shows none.
    Overwritten,
    /// Copies the password before it keeps it.
    ToldFirst,
    /// Reads the settings, and is not woken by their changes.
    Unwatched,
    /// Deletes claims by a view of the spec.
    StaleScale,
    /// Makes a bucket without asking whether there is one, and notes afterwards that it did.
    MadeTwice,
    /// Counts its starts in the status.
    Counter,
}

impl Mistake {
    pub(crate) const ALL: [Self; 15] = [
        Self::HalfDone,
        Self::LateFinalizer,
        Self::EarlyRelease,
        Self::CreateOnly,
        Self::GeneratedName,
        Self::Edge,
        Self::NotedFirst,
        Self::InMemory,
        Self::Swallowed,
        Self::Overwritten,
        Self::ToldFirst,
        Self::Unwatched,
        Self::StaleScale,
        Self::MadeTwice,
        Self::Counter,
    ];
}

impl Recipe {
    pub(crate) fn random(seed: u64) -> Self {
        let env = Env::seeded(seed);
        let one_of = |many: u64| env.random_below(many);
        let flip = || one_of(2) == 1;
        let kind = || match one_of(9) {
            0..=3 => Kind::ConfigMap,
            4 | 5 => Kind::Secret,
            6 => Kind::Service,
            7 => Kind::ServiceAccount,
            _ => Kind::Deployment,
        };
        let children = (0..1 + one_of(3)).map(|_| kind()).collect();
        Self {
            children,
            way: [Way::Apply, Way::Update, Way::Patch][one_of(3) as usize],
            status: [Status::None, Status::Phase, Status::Generation][one_of(3) as usize],
            cleanup: [Cleanup::None, Cleanup::Note, Cleanup::Bucket][one_of(3) as usize],
            look: [None, Some(30), Some(300)][one_of(3) as usize],
            settings: [Settings::None, Settings::Named, Settings::Indexed][one_of(3) as usize],
            is_staged: flip(),
            scales: flip(),
            password: flip(),
            copies: flip(),
            mistake: None,
        }
    }

    /// The operator with this mistake, and with the parts that the mistake is about.
    pub(crate) fn with(mut self, mistake: Mistake) -> Self {
        match mistake {
            Mistake::HalfDone | Mistake::InMemory => {
                self.children = vec![Kind::ConfigMap, Kind::ConfigMap];
            }
            Mistake::Edge => self.children = vec![Kind::ConfigMap],
            Mistake::LateFinalizer | Mistake::EarlyRelease if self.cleanup == Cleanup::None => {
                self.cleanup = Cleanup::Note;
            }
            Mistake::MadeTwice => self.cleanup = Cleanup::Bucket,
            Mistake::NotedFirst => self.status = Status::Generation,
            Mistake::Overwritten | Mistake::ToldFirst => self.password = true,
            Mistake::Unwatched => self.settings = Settings::Named,
            _ => {}
        }
        // Later looks, and events of other children, would mend what these have missed.
        if matches!(mistake, Mistake::NotedFirst | Mistake::Unwatched | Mistake::Swallowed) {
            self.look = None;
        }
        if matches!(mistake, Mistake::HalfDone | Mistake::InMemory | Mistake::Swallowed) {
            self.is_staged = false;
        }
        if mistake == Mistake::Swallowed {
            (self.children, self.status, self.cleanup) = (vec![Kind::ConfigMap], Status::None, Cleanup::None);
            (self.scales, self.password, self.copies) = (false, false, false);
        }
        self.mistake = Some(mistake);
        self
    }

    pub(crate) fn errs(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }
}
