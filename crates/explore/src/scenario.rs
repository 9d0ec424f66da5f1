//! The exploration of one scenario: its options, and the order of its stages.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel_cluster::testing::{self, TestResult};
use evenkeel_cluster::{Builder, Cluster};
use evenkeel_env::Env;
use futures::future::LocalBoxFuture;
use parking_lot::Mutex;

use crate::compare::MayDiffer;
use crate::coverage::Coverage;
use crate::history::PRECIOUS;
use crate::learn::{Learned, learn};
use crate::oracle::{Finding, Rules, Verdict, is_another_scenario, judge, judge_undisturbed};
use crate::plan::{Class, Plan};
use crate::progress::Progress;
use crate::report::Report;
use crate::run::{Run, Setting, play};
use crate::schedule::schedule;
use crate::script::Script;
use crate::settings::{self, Budget};
use crate::shrink::{shorter, shrink};
use crate::token::Token;
use crate::view::{Invariant, View, When};
use crate::{explain, generate, record};

/// How much time passes at each rest of the runs that learn what depends on times and revisions: longer than the plans
/// delay an operator, by timeouts, retries and the expiry of a lease. What comes about by itself in that time, such as a
/// database that is ready at last, may be there earlier or later in a disturbed run.
const SHIFT: Duration = Duration::from_secs(97);
/// The further undisturbed runs that learn what varies by itself: the seed, relative to the first run, and how much times
/// are shifted.
const OTHERS: [(u64, Option<Duration>); 3] = [(0, Some(SHIFT)), (1, None), (2, Some(SHIFT))];
/// The shortest step that counts as one in which the scenario lets time pass: longer than retries take.
const LONG_STEP: Duration = Duration::from_secs(300);

/// The exploration of one scenario, made by [`explore`], which has an example.
#[must_use = "nothing is explored until `check` or `run` is called"]
pub struct Exploration {
    name: String,
    script: Script,
    budget: Option<Budget>,
    rules: Rules,
    suppressed: Vec<(String, String)>,
    regressions: Vec<Token>,
}

/// Explores a scenario: the steps of an operator's life, from its start to the deletion of the resources that it
/// manages.
///
/// The scenario runs an operator on the cluster that it is given, acts as a user, and waits with `settled()` after each
/// step. It contains no faults. Exploration plays it undisturbed, and then once for each plan of what a real Kubernetes
/// cluster may do to the operator.
///
/// ```
/// use std::sync::Arc;
/// use evenkeel_cluster::Cluster;
/// use evenkeel_runtime::{Action, Controller, Ctx, Result};
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
///
/// async fn reconcile(map: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> {
///     let mut secret = Secret::default();
///     secret.metadata.name = map.metadata.name.clone();
///     ctx.apply(secret).await?;
///     Ok(Action::await_change())
/// }
///
/// async fn a_life(cluster: Cluster) -> kube::Result<()> {
///     cluster.run(|| Controller::new("copy", reconcile).owns::<Secret>());
///     let mut map = ConfigMap::default();
///     map.metadata.name = Some("a".into());
///     cluster.apply(map).await?;
///     cluster.settled().await;
///     cluster.delete::<ConfigMap>("a").await?;
///     cluster.settled().await;
///     Ok(())
/// }
///
/// evenkeel_explore::explore("a_life", a_life).check();
/// ```
pub fn explore<F, R>(name: &str, scenario: impl Fn(Cluster) -> F + Send + Sync + 'static) -> Exploration
where
    F: Future<Output = R> + 'static,
    R: TestResult,
{
    let play = move |cluster: Cluster| -> LocalBoxFuture<'static, Option<String>> {
        let played = scenario(cluster);
        Box::pin(async move { played.await.failure() })
    };
    Exploration {
        name: name.to_owned(),
        script: Script { options: testing::options(), play: Box::new(play), explores_controllers: false },
        budget: None,
        rules: Rules { precious: PRECIOUS.map(str::to_owned).to_vec(), ..Rules::default() },
        suppressed: Vec::new(),
        regressions: Vec::new(),
    }
}

impl Exploration {
    /// Sets the options of the clusters, instead of those of [`testing::options`]. The seed in the options is ignored.
    pub fn options(mut self, options: Builder) -> Self {
        self.script.options = options;
        self
    }

    /// Sets how much to explore, instead of what `EVENKEEL_EXPLORE` says.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Also explores the built-in controllers of the cluster, as one operator.
    pub fn controllers(mut self) -> Self {
        self.script.explores_controllers = true;
        self
    }

    /// Adds a kind, as `GROUP/PLURAL`, whose objects must not be deleted and recreated. PersistentVolumeClaims,
    /// StatefulSets and Secrets are always checked.
    pub fn keeps(mut self, kind: &str) -> Self {
        self.rules.precious.push(kind.to_owned());
        self
    }

    /// Names a part of the state that may differ from the undisturbed run: an object as `PLURAL/NAME`, where a `*` at the
    /// end stands for any ending, and the path of a field as findings show it. An empty path stands for the whole object,
    /// which may also be missing.
    ///
    /// ```
    /// # use evenkeel_cluster::Cluster;
    /// # async fn a_life(cluster: Cluster) -> kube::Result<()> { cluster.settled().await; Ok(()) }
    /// // Ports are given out in the order in which resources are seen.
    /// evenkeel_explore::explore("a_life", a_life).may_differ("services/*", ".spec.ports").check();
    /// ```
    pub fn may_differ(mut self, object: &str, path: &str) -> Self {
        self.rules.may_differ.push(MayDiffer { object: object.to_owned(), path: path.to_owned() });
        self
    }

    /// Adds an invariant that must hold at every revision of every run.
    ///
    /// ```
    /// # use evenkeel_cluster::Cluster;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// # async fn a_life(cluster: Cluster) -> kube::Result<()> { cluster.settled().await; Ok(()) }
    ///
    /// evenkeel_explore::explore("a_life", a_life)
    ///     .always("there are few ConfigMaps", |world| world.list::<ConfigMap>().len() < 10)
    ///     .check();
    /// ```
    pub fn always(mut self, name: &str, holds: impl Fn(&View) -> bool + Send + Sync + 'static) -> Self {
        let invariant = Invariant { name: name.to_owned(), when: When::Always, holds: Box::new(holds) };
        self.rules.invariants.push(invariant);
        self
    }

    /// Adds an invariant that must hold at one revision of every run at least.
    pub fn eventually(mut self, name: &str, holds: impl Fn(&View) -> bool + Send + Sync + 'static) -> Self {
        let invariant = Invariant { name: name.to_owned(), when: When::Eventually, holds: Box::new(holds) };
        self.rules.invariants.push(invariant);
        self
    }

    /// Accepts a finding by its name, such as `kept:secrets/web`, or all findings of an oracle, such as `kept`. The
    /// report repeats the reason.
    pub fn accept(mut self, finding: &str, reason: &str) -> Self {
        self.suppressed.push((finding.to_owned(), reason.to_owned()));
        self
    }

    /// Plays the plans in a file first, whatever the budget. The file has one token a line, as a failed exploration
    /// prints it; empty lines and lines that begin with `#` are ignored. The path is relative to the package.
    ///
    /// # Panics
    /// Panics if the file cannot be read, or if a token is malformed or of another version.
    pub fn regressions(mut self, path: &str) -> Self {
        let folder = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
        let text = std::fs::read_to_string(folder.join(path));
        let text = text.unwrap_or_else(|error| panic!("{path} cannot be read: {error}"));
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        self.regressions.extend(
            lines.map(|line| line.parse::<Token>().unwrap_or_else(|error| panic!("{path}: {line}: {error}"))),
        );
        self
    }

    /// Explores, and panics with an explanation if something is found. If `EVENKEEL_PLAN` is set, plays only that plan.
    ///
    /// # Panics
    /// Panics if something is found, or if a setting is malformed.
    pub fn check(self) {
        if std::env::var_os(testing::KUBECONFIG).is_some() {
            println!("remote: skipped {}: exploration needs the embedded cluster", self.name);
            return;
        }
        let report = self.run();
        assert!(report.is_clean(), "{report}");
        println!("{report}");
    }

    /// Explores, and returns what was found. If `EVENKEEL_PLAN` is set, plays only that plan.
    ///
    /// # Panics
    /// Panics if a setting is malformed.
    pub fn run(&self) -> Report {
        let token = settings::token();
        let seed = token.as_ref().map_or_else(testing::seed, |token| token.seed);
        let budget = self.budget.unwrap_or_else(Budget::from_environment);
        let clock = Env::system();
        let began = clock.now();
        let mut report = Report { name: self.name.clone(), budget, ..Report::default() };
        let learned = match self.learn(seed) {
            Ok(learned) => learned,
            Err(finding) => {
                report.explanations.push(format!("undisturbed, {}: {}", finding.oracle, finding.what));
                report.findings.push(*finding);
                report.records = record::write(&report, None);
                return report;
            }
        };
        let replays = token.is_some();
        let plans = match token {
            Some(token) => vec![token.plan],
            None => {
                let schedule = schedule(&learned, generate::singles(&learned), budget.plans());
                (report.made, report.equivalent, report.dead) =
                    (schedule.made, schedule.equivalent, schedule.dead);
                // A regression that was found with another seed belongs to another run; its plan is still worth
                // playing.
                let kept = self.regressions.iter().map(|token| token.plan.clone());
                kept.chain(schedule.plans).collect()
            }
        };
        let in_time = || {
            let spent = clock.now().duration_since(began);
            budget.time().is_none_or(|time| Duration::try_from(spent).is_ok_and(|spent| spent < time))
        };
        let found = self.play_all(seed, &plans, &learned, &mut report, &in_time);
        if let Some((plan, finding)) = found {
            let finding = match replays {
                true => finding.0,
                false => self.shrunk(seed, plan, finding, &learned),
            };
            report.explanations.push(explain::explanation(&finding, &learned, &self.name));
            report.findings.push(finding);
        }
        report.took = Duration::try_from(clock.now().duration_since(began)).unwrap_or_default();
        report.records = record::write(&report, Some(&learned));
        report
    }

    /// Plays the scenario undisturbed, with this seed and others, and learns from it.
    fn learn(&self, seed: u64) -> Result<Learned, Box<Finding>> {
        let undisturbed = Plan::default();
        let mut first = play(&self.script, seed, &undisturbed, Setting::default());
        // Nobody misses the Events that the cluster itself sends, unless somebody reads them.
        let without_events = self.rules.invariants.is_empty() && !first.reads_events();
        if without_events {
            let setting = Setting { without_events, ..Setting::default() };
            first = play(&self.script, seed, &undisturbed, setting);
        }
        if let Some(verdict) = judge_undisturbed(&first, &self.rules) {
            return Err(Box::new(finding(verdict, undisturbed, seed, first.timeline)));
        }
        let other = |(more, shift)| {
            let setting = Setting { shift, without_events, ..Setting::default() };
            play(&self.script, seed.wrapping_add(more), &undisturbed, setting)
        };
        let others: Vec<Run> = OTHERS.into_iter().map(other).collect();
        // An operator that is stopped while the scenario lets time pass may rightly do less, or more, than one that runs.
        let longest = longest_step(&first).filter(|longest| *longest >= LONG_STEP);
        let later = longest.map(|longest| other((0, Some(longest))));
        Ok(Learned { without_events, ..learn(&first, &others, later.as_ref()) })
    }

    /// Plays plans on all cores, and returns the first one, in plan order, in which something is found.
    fn play_all(
        &self,
        seed: u64,
        plans: &[Plan],
        learned: &Learned,
        report: &mut Report,
        in_time: &(dyn Fn() -> bool + Sync),
    ) -> Option<(Plan, (Finding, Option<usize>))> {
        let (next, best) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
        let results = Mutex::new((report, None::<(usize, (Finding, Option<usize>))>));
        let progress = Progress::new(&self.name, plans.len());
        let setting = learned.setting();
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(plans.len().max(1));
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    loop {
                        let at = next.fetch_add(1, Ordering::SeqCst);
                        // Plans after one with a finding need not be played.
                        if at >= plans.len() || at > best.load(Ordering::SeqCst) || !in_time() {
                            return;
                        }
                        let run = play(&self.script, seed, &plans[at], setting);
                        let verdict = judge(&run, &plans[at], learned, &self.rules);
                        progress.step();
                        let mut results = results.lock();
                        tell(results.0, &plans[at], &run, learned);
                        let Some(verdict) = verdict else { continue };
                        let rest = verdict.rest;
                        let finding = finding(verdict, plans[at].clone(), seed, run.timeline);
                        if let Some((name, reason)) = self.is_suppressed(&finding) {
                            results.0.suppressed.push((name, reason));
                        } else if results.1.as_ref().is_none_or(|(found, _)| at < *found) {
                            best.fetch_min(at, Ordering::SeqCst);
                            results.1 = Some((at, (finding, rest)));
                        }
                    }
                });
            }
        });
        let (report, found) = results.into_inner();
        report.suppressed.sort();
        report.suppressed.dedup();
        let played = plans.iter().take(next.load(Ordering::SeqCst)).flat_map(|plan| &plan.strikes);
        report.coverage = Coverage::of(played, learned);
        found.map(|(at, finding)| (plans[at].clone(), finding))
    }

    fn is_suppressed(&self, finding: &Finding) -> Option<(String, String)> {
        let (name, oracle) = (finding.name(), finding.oracle.name());
        let accepted = self.suppressed.iter().find(|(accepted, _)| *accepted == name || accepted == oracle);
        accepted.map(|(_, reason)| (name.clone(), reason.clone()))
    }

    /// Shrinks a finding to its smallest plan and its shortest scenario.
    fn shrunk(&self, seed: u64, plan: Plan, found: (Finding, Option<usize>), learned: &Learned) -> Finding {
        let (mut least, rest) = (found.0, Cell::new(found.1));
        let oracle = least.oracle;
        let setting = learned.setting();
        let mut is_found = |smaller: &Plan| {
            let run = play(&self.script, seed, smaller, setting);
            match judge(&run, smaller, learned, &self.rules) {
                Some(verdict) if verdict.oracle == oracle => {
                    rest.set(verdict.rest);
                    least = finding(verdict, smaller.clone(), seed, run.timeline);
                    true
                }
                _ => false,
            }
        };
        let plan = shrink(plan, &mut is_found);
        // The last rest comes after the scenario.
        let rests = learned.rests.len() - 1;
        if plan.until.is_none()
            && let Some(rest) = rest.get()
        {
            shorter(&plan, rest, rests).iter().any(&mut is_found);
        }
        least
    }
}

/// Returns how much virtual time the longest step of a run took.
fn longest_step(run: &Run) -> Option<Duration> {
    let times = run.played.checkpoints.iter().map(|it| it.after);
    let steps = times.clone().zip(times.skip(1)).map(|(from, to)| to.saturating_sub(from));
    steps.max()
}

/// Adds a run to the report.
fn tell(report: &mut Report, plan: &Plan, run: &Run, learned: &Learned) {
    let class: Class = plan.class();
    *report.played.entry(class).or_default() += 1;
    if run.failed_disturbed || plan.moves_a_clock() || is_another_scenario(run, plan, learned) {
        report.inconclusive += 1;
    }
    if run.played.struck == 0 {
        report.missed += 1;
    }
}

fn finding(verdict: Verdict, plan: Plan, seed: u64, timeline: Vec<String>) -> Finding {
    let Verdict { oracle, object, what, .. } = verdict;
    Finding { oracle, object, what, plan, seed, timeline }
}
