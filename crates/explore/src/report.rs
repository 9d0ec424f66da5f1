//! What an exploration did and found.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::coverage::Coverage;
use crate::oracle::Finding;
use crate::plan::Class;
use crate::settings::Budget;

/// What an exploration did and found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// The name of the scenario.
    pub name: String,
    /// The budget.
    pub budget: Budget,
    /// How many plans were made.
    pub made: usize,
    /// How many plans were not made because another one strikes at the same point.
    pub equivalent: usize,
    /// How many views were not made because they show an object of the scenario as living that is gone.
    pub dead: usize,
    /// How many plans were played, by class.
    pub played: BTreeMap<Class, usize>,
    /// How many runs could not be compared with the undisturbed one: the scenario's own steps failed or had another
    /// effect while the operator was away or behind.
    pub inconclusive: usize,
    /// How many plans did not strike: the run ended or went another way before.
    pub missed: usize,
    /// What the plans have covered of the undisturbed run.
    pub coverage: Coverage,
    /// How long it took.
    pub took: Duration,
    /// What was found, shrunk to the least plan.
    pub findings: Vec<Finding>,
    /// What was found and is suppressed: the name of the finding, and the reason.
    pub suppressed: Vec<(String, String)>,
    /// The explanation of each finding.
    pub explanations: Vec<String>,
    /// The files that were written: JSON, JUnit XML, and a page for a finding.
    pub records: Vec<PathBuf>,
}

impl Report {
    /// How many runs were made for plans.
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
