//! Turns descriptions into doc comments.

/// The most spaces at the start of a line of Markdown: four would make it a code block, which `cargo test` would
/// compile.
const INDENT_MAX: usize = 3;

/// Returns the lines of a doc comment for a description. The text reads the same, but is escaped so that it contains no
/// doc tests, headings or direction marks.
pub(crate) fn lines(description: &str) -> Vec<String> {
    let mut fenced = false;
    let lines = description.trim().lines().map(|line| {
        let line: String = line.chars().filter(|letter| !is_direction(*letter)).collect();
        let text = line.trim();
        let indent = (line.len() - line.trim_start().len()).min(INDENT_MAX);
        let indent = if line.starts_with('\t') { 0 } else { indent };
        // rustdoc reads a fence without a language as Rust.
        if text.starts_with("```") || text.starts_with("~~~") {
            fenced = !fenced;
            let fence = &text[..3];
            return if fenced { format!("{fence}text") } else { fence.to_owned() };
        }
        format!("{}{text}", " ".repeat(indent))
    });
    let mut lines: Vec<String> = lines.collect();
    if fenced {
        lines.push("```".to_owned());
    }
    if let Some(first) = lines.first_mut().filter(|first| first.starts_with('#')) {
        first.insert(0, '\\');
    }
    lines
}

/// Whether schemars turns these lines back into `description`.
pub(crate) fn reads_back(lines: &[String], description: &str) -> bool {
    let ascii = |letter: char| letter.is_ascii_whitespace();
    lines.join("\n").trim_matches(ascii) == description
}

/// Whether the character is a control character, or changes the direction of the text after it, which the compiler refuses
/// in comments.
pub(crate) fn is_direction(letter: char) -> bool {
    matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || (letter.is_control() && letter != '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(description: &str, expected: &[&str], same: bool) {
        let lines = lines(description);
        assert_eq!(lines, expected);
        assert_eq!(reads_back(&lines, description), same);
    }

    #[test]
    fn a_description_becomes_a_comment() {
        check("One.\n\nTwo.\n - item", &["One.", "", "Two.", " - item"], true);
    }

    #[test]
    fn nothing_becomes_a_test_or_a_title() {
        check("# Title", &["\\# Title"], false);
        check("See:\n\n    let x = 1;", &["See:", "", "   let x = 1;"], false);
        check("See:\n```\ncode\n```\nend", &["See:", "```text", "code", "```", "end"], false);
        check("```open", &["```text", "```"], false);
        check("a\u{202e}b\r\nc", &["ab", "c"], false);
    }
}
