//! The format versions of the data directory, and which of them this version of Evenkeel can use.
//!
//! The first line of the file `FORMAT` is `evenkeel-store N`. Further lines are for people: a version that writes another
//! format names itself there.

/// The format that this version writes.
const CURRENT: u32 = 1;
/// The oldest format that this version reads. When it is raised, [`RETIRED`] gets an entry for each format dropped.
const OLDEST: u32 = 1;
/// Formats that this version no longer reads, each with the last release that reads it and writes a later one.
const RETIRED: [(u32, &str); 0] = [];
const NAME: &str = "evenkeel-store";

/// Returns the text of the `FORMAT` file that this version writes.
pub(crate) fn text() -> String {
    format!("{NAME} {CURRENT}\n")
}

/// Checks the text of a `FORMAT` file. The error says why this version cannot use the directory, and which version can.
pub(crate) fn check(text: &[u8]) -> Result<(), String> {
    let version = env!("CARGO_PKG_VERSION");
    let text = String::from_utf8_lossy(text);
    let (first, rest) = text.trim_end().split_once('\n').unwrap_or((text.trim_end(), ""));
    let number = first.strip_prefix(NAME).map(str::trim_start).and_then(|number| number.parse::<u32>().ok());
    let rest = if rest.is_empty() { String::new() } else { format!(" ({})", rest.replace('\n', ", ")) };
    match number {
        None => Err(format!("its FORMAT file says {first:?}, which no version of Evenkeel writes")),
        Some(number) if number > CURRENT => Err(format!(
            "a newer version of Evenkeel has written it, in format {number}{rest}; Evenkeel {version} reads formats \
             {OLDEST} to {CURRENT}: use the version that wrote it, or a later one"
        )),
        Some(number) if number < OLDEST => Err(format!(
            "it is in format {number}, and Evenkeel {version} reads formats {OLDEST} to {CURRENT}: {}",
            who_reads(number)
        )),
        Some(_) => Ok(()),
    }
}

fn who_reads(number: u32) -> String {
    match RETIRED.iter().find(|(retired, _)| *retired == number) {
        Some((_, release)) => format!("open it once with Evenkeel {release}, which writes a later one"),
        None => "no release of Evenkeel has written this format".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_version_writes_it_reads() {
        assert_eq!(check(text().as_bytes()), Ok(()));
        assert_eq!(check(b"evenkeel-store 1\nwritten by Evenkeel 0.1.0\n"), Ok(()));
    }

    #[test]
    fn other_formats_are_refused_and_the_error_says_who_can_read_them() {
        let why = check(b"evenkeel-store 2\nwritten by Evenkeel 3.1.0\n").unwrap_err();
        assert!(
            why.contains("newer version") && why.contains("format 2 (written by Evenkeel 3.1.0)"),
            "{why}"
        );
        assert!(why.contains("reads formats 1 to 1: use the version that wrote it"), "{why}");
        let why = check(b"evenkeel-store 0\n").unwrap_err();
        assert!(why.contains("format 0") && why.contains("no release"), "{why}");
        for text in ["", "evenkeel-store", "evenkeel-store -1", "PG_VERSION 17"] {
            let why = check(text.as_bytes()).unwrap_err();
            assert!(why.contains("no version of Evenkeel writes"), "{why}");
        }
    }
}
