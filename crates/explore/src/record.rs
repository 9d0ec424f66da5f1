//! Writes the results of an exploration for machines and browsers: JSON, JUnit XML, and a page for each finding.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::learn::Learned;
use crate::oracle::Finding;
use crate::report::Report;

/// The folder of the records, within the target folder.
const FOLDER: &str = "evenkeel-explore";
/// The style sheet of the page. The page needs no script.
const STYLE: &str = "body{font:14px/1.5 system-ui,sans-serif;margin:2em;max-width:110em}pre{background:#f4f4f4;padding:1em;\
overflow:auto}td{vertical-align:top;padding:0 1em 0 0;font:12px/1.5 ui-monospace,monospace;white-space:pre-wrap}\
tr.parts td{background:#fff3c4}tr.fault td{background:#ffd9d9}h1{font-size:1.4em}";

/// Returns the folder for the records, below the target folder that contains the test's binary.
fn folder() -> Option<PathBuf> {
    let exe = std::env::current_exe().ok()?;
    let deps = exe.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "deps"))?;
    Some(deps.parent()?.parent()?.join(FOLDER))
}

/// Writes the records of an exploration and returns their paths. Returns none if the folder cannot be written.
pub(crate) fn write(report: &Report, learned: Option<&Learned>) -> Vec<PathBuf> {
    let Some(folder) = folder() else { return Vec::new() };
    let name =
        report.name.replace("::", ".").replace(|it: char| !it.is_ascii_alphanumeric() && it != '.', "_");
    let mut files = vec![
        (format!("{name}.json"), json(report).to_string()),
        (format!("{name}.junit.xml"), junit(report)),
    ];
    if let (Some(learned), Some(finding)) = (learned, report.findings.first()) {
        files.push((format!("{name}.html"), page(report, finding, learned)));
    }
    let written = |(name, text): (String, String)| save(&folder, &name, &text);
    files.into_iter().filter_map(written).collect()
}

/// Writes a file and returns its path, or `None` on failure: an unwritable record must not fail the test.
fn save(folder: &Path, name: &str, text: &str) -> Option<PathBuf> {
    std::fs::create_dir_all(folder).ok()?;
    let path = folder.join(name);
    std::fs::write(&path, text).ok()?;
    Some(path)
}

/// The report as JSON.
pub(crate) fn json(report: &Report) -> Value {
    let findings = report.findings.iter().map(|finding| {
        json!({
            "name": finding.name(), "oracle": finding.oracle.name(), "object": finding.object,
            "what": finding.what, "token": finding.token(), "timeline": finding.timeline,
        })
    });
    let played = report.played.iter().map(|(class, runs)| (class.to_string(), Value::from(*runs)));
    json!({
        "name": report.name, "budget": report.budget.to_string(), "made": report.made, "runs": report.runs(),
        "equivalent": report.equivalent, "inconclusive": report.inconclusive, "missed": report.missed,
        "seconds": report.took.as_secs_f64(), "played": played.collect::<serde_json::Map<_, _>>(),
        "dead": report.dead,
        "writes": report.coverage.writes.0, "writesCrashed": report.coverage.writes.1,
        "requests": report.coverage.requests.0, "requestsFailed": report.coverage.requests.1,
        "changes": report.coverage.views.0, "changesSeenLate": report.coverage.views.1,
        "kindsWatched": report.coverage.triggers.0, "kindsHeld": report.coverage.triggers.1,
        "findings": findings.collect::<Vec<_>>(),
        "suppressed": report.suppressed.iter().map(|(name, why)| json!({"name": name, "reason": why})).collect::<Vec<_>>(),
    })
}

/// The report as JUnit XML: one case for each class of plans, and one for each finding.
pub(crate) fn junit(report: &Report) -> String {
    let (name, failures) = (escaped(&report.name), report.findings.len());
    let tests = report.played.len() + failures;
    let seconds = report.took.as_secs_f64();
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"{name}\" tests=\"{tests}\" failures=\"{failures}\" time=\"{seconds:.3}\">\n"
    );
    for (class, runs) in &report.played {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  <testcase classname=\"{name}\" name=\"{class}: {runs} plans\"/>");
    }
    for (finding, explanation) in report.findings.iter().zip(&report.explanations) {
        let (case, what, text) = (escaped(&finding.name()), escaped(&finding.what), escaped(explanation));
        let _ = writeln!(
            out,
            "  <testcase classname=\"{name}\" name=\"{case}\"><failure message=\"{what}\">{text}</failure></testcase>"
        );
    }
    out.push_str("</testsuite>\n");
    out
}

/// Renders a page about a finding: its explanation, and both timelines side by side.
fn page(report: &Report, finding: &Finding, learned: &Learned) -> String {
    let same = learned.timeline.iter().zip(&finding.timeline).take_while(|(a, b)| a == b).count();
    let rows = learned.timeline.len().max(finding.timeline.len());
    let mut table = String::new();
    for at in 0..rows {
        let line = |lines: &[String]| lines.get(at).map(|line| escaped(line)).unwrap_or_default();
        let (undisturbed, disturbed) = (line(&learned.timeline), line(&finding.timeline));
        let is_fault = disturbed.contains("  test  ") || disturbed.contains("(injected)");
        let class = if at == same {
            "parts"
        } else if is_fault {
            "fault"
        } else {
            ""
        };
        let _ = writeln!(table, "<tr class=\"{class}\"><td>{undisturbed}</td><td>{disturbed}</td></tr>");
    }
    let (name, title) = (escaped(&report.name), escaped(&finding.name()));
    let text = report.explanations.first().map(|text| escaped(text)).unwrap_or_default();
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{name}: {title}</title><style>{STYLE}</style>\
         <h1>{name}: {title}</h1><pre>{text}</pre><h2>Both runs</h2>\
         <p>The runs part at the yellow line. Red lines are what the plan did.</p>\
         <table><tr><th>undisturbed</th><th>in this run</th></tr>\n{table}</table></html>\n"
    )
}

fn escaped(text: &str) -> String {
    // XML has no way to write most control characters.
    let text = text.replace(|it: char| it.is_control() && !matches!(it, '\n' | '\t'), "\u{fffd}");
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::Oracle;
    use crate::plan::{Class, Plan};

    #[test]
    fn a_finding_is_a_failed_case() {
        let mut report = Report { name: "a_life".into(), ..Report::default() };
        report.played.insert(Class::Crash, 7);
        report.findings.push(Finding {
            oracle: Oracle::Rest,
            object: String::new(),
            what: "1 < 2".into(),
            plan: Plan::default(),
            seed: 3,
            timeline: vec![],
        });
        report.explanations.push("why & how\u{1b}".into());
        let xml = junit(&report);
        assert!(xml.contains("tests=\"2\" failures=\"1\""), "{xml}");
        assert!(xml.contains("name=\"crash: 7 plans\""), "{xml}");
        assert!(xml.contains("<failure message=\"1 &lt; 2\">why &amp; how\u{fffd}</failure>"), "{xml}");
        assert_eq!(json(&report)["findings"][0]["token"], "3.3.");
    }
}
