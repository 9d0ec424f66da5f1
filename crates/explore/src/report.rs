//! The report: what an exploration did and found.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::coverage::Coverage;
use crate::oracle::Finding;
use crate::plan::Class;
use crate::settings::Budget;

/// The result of an exploration. Printing it shows the findings with their explanations.
///
/// ```
/// # use evenkeel_cluster::Cluster;
/// # async fn a_life(cluster: Cluster) -> kube::Result<()> { cluster.settled().await; Ok(()) }
/// let report = evenkeel_explore::explore("a_life", a_life).run();
/// assert!(report.is_clean(), "{report}");
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// The name of the scenario.
    pub name: String,
    /// How much the exploration was allowed to do.
    pub budget: Budget,
    /// How many plans were made.
    pub made: usize,
    /// How many plans were not made because another one strikes at the same point.
    pub equivalent: usize,
    /// How many views were left out because they show a deleted object of the scenario as existing.
    pub dead: usize,
    /// How many plans were played, by class.
    pub played: BTreeMap<Class, usize>,
    /// How many runs could not be compared with the undisturbed one, because a step of the scenario failed or had
    /// another effect while the operator was stopped or behind.
    pub inconclusive: usize,
    /// How many plans never struck, because the run ended or took another course first.
    pub missed: usize,
    /// How much of the undisturbed run the plans have disturbed.
    pub coverage: Coverage,
    /// How long the exploration took.
    pub took: Duration,
    /// The findings, each shrunk to its smallest plan.
    pub findings: Vec<Finding>,
    /// The findings that the user accepted: their names, and the reasons.
    pub suppressed: Vec<(String, String)>,
    /// The explanation of each finding.
    pub explanations: Vec<String>,
    /// The files that were written: JSON, JUnit XML, and a page for each finding.
    pub records: Vec<PathBuf>,
}

impl Report {
    /// The number of plans that were played.
    pub fn runs(&self) -> usize {
        self.played.values().sum()
    }

    /// Whether nothing was found.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.runs();
        let seconds = self.took.as_secs_f64();
        let rate = if seconds > 0.0 { runs as f64 / seconds } else { 0.0 };
        writeln!(
            f,
            "explored {} ({}): {runs} of {} plans in {seconds:.1} s, {rate:.0} runs a second",
            self.name, self.budget, self.made
        )?;
        let classes: Vec<String> =
            self.played.iter().map(|(class, runs)| format!("{class} {runs}")).collect();
        writeln!(f, "  played: {}", classes.join(", "))?;
        writeln!(
            f,
            "  left out: {} by the budget, {} for the same point, {} as views of the dead; not compared: {}; did not strike: {}",
            self.made.saturating_sub(runs),
            self.equivalent,
            self.dead,
            self.inconclusive,
            self.missed
        )?;
        writeln!(f, "  covered: {}", self.coverage)?;
        for (name, reason) in &self.suppressed {
            writeln!(f, "  suppressed: {name}: {reason}")?;
        }
        for explanation in &self.explanations {
            writeln!(f, "\n{explanation}")?;
        }
        let page = self.records.iter().find(|path| path.extension().is_some_and(|it| it == "html"));
        page.iter().try_for_each(|page| writeln!(f, "both runs side by side: {}", page.display()))?;
        Ok(())
    }
}
