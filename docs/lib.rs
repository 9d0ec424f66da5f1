//! The book under `docs/src`: what prepares it for mdBook, and what its tests need to read it; and [`module_graph`], with
//! which a test reads the sources of the workspace.
//!
//! The code of the tutorial is compiled as the crate `site` in `docs/tutorial`; a test compares each block of the page
//! with it.

pub mod module_graph;

use serde_json::Value;

/// The beginning of rustdoc's links to items, which do not work in a book.
const API_LINK: &str = "](crate::";

/// The beginning of links from `docs/src` to the root of the repository.
const OUTSIDE: &str = "](../../";

/// Replaces rustdoc's links to items by their text.
pub fn without_api_links(markdown: &str) -> String {
    let mut out = String::with_capacity(markdown.len());
    let mut rest = markdown;
    while let Some(at) = rest.find(API_LINK) {
        let (before, link) = rest.split_at(at);
        let open = before.rfind('[').unwrap_or(0);
        out.push_str(&before[..open]);
        out.push_str(before[open..].trim_start_matches('['));
        rest = link.split_once(')').map_or("", |(_, after)| after);
    }
    out.push_str(rest);
    out
}

/// Lets links to files outside of the book lead to the repository, because a built book does not contain them.
pub fn with_repository_links(markdown: &str) -> String {
    markdown.replace(OUTSIDE, &format!("]({}/blob/main/", env!("CARGO_PKG_REPOSITORY")))
}

/// Rewrites the links in every chapter of a book, in the form that mdBook passes to preprocessors.
pub fn prepare(book: &mut Value) {
    match book {
        Value::Object(fields) => fields.iter_mut().for_each(|(name, value)| match value {
            Value::String(text) if name == "content" => {
                *text = with_repository_links(&without_api_links(text));
            }
            value => prepare(value),
        }),
        Value::Array(items) => items.iter_mut().for_each(prepare),
        _ => {}
    }
}

/// A fenced block of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The language behind the fence: `rust`, `toml`.
    pub language: String,
    /// The file that the line before the block names in backquotes, if it ends with a colon.
    pub file: Option<String>,
    /// The code.
    pub code: String,
}

/// The fenced blocks of a page, in order.
pub fn blocks(markdown: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut lines = markdown.lines();
    let mut last = "";
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let code: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            let file = last.ends_with(':').then(|| last.rsplit('`').nth(1)).flatten().map(str::to_owned);
            found.push(Block { language: language.to_owned(), file, code: code.join("\n") + "\n" });
        }
        if !line.trim().is_empty() {
            last = line;
        }
    }
    found
}

/// The links of a page, without those in code and in comments.
pub fn links(markdown: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_block = false;
    for line in markdown.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        }
        if in_block {
            continue;
        }
        // What stands in backquotes is code: `vec[0](x)` is no link. A link's text may be code.
        let mut rest = line;
        while let Some(at) = rest.find("](") {
            let after = &rest[at + 2..];
            let Some(end) = after.find(')') else { break };
            found.push(after[..end].to_owned());
            rest = &after[end..];
        }
    }
    found
}

/// The anchors of a page's headings, as mdBook and GitHub name them.
pub fn anchors(markdown: &str) -> Vec<String> {
    let headings = markdown.lines().filter_map(|line| line.strip_prefix('#'));
    let anchor = |heading: &str| {
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn links_to_items_become_what_they_say() {
        let text = "| `a` | [`.b(c)`](crate::B::c), [`d`](crate::D) and [e](other.md) |";
        assert_eq!(without_api_links(text), "| `a` | `.b(c)`, `d` and [e](other.md) |");
        let mut book = json!({"sections": [{"Chapter": {"content": "[x](crate::X)", "sub_items": []}}]});
        prepare(&mut book);
        assert_eq!(book["sections"][0]["Chapter"]["content"], "x");
    }

    #[test]
    fn links_out_of_the_book_lead_to_the_repository() {
        let text = "[map](../../ARCHITECTURE.md#a), [here](concepts.md)";
        let wanted =
            "[map](https://github.com/evenkeel/evenkeel/blob/main/ARCHITECTURE.md#a), [here](concepts.md)";
        assert_eq!(with_repository_links(text), wanted);
    }

    #[test]
    fn a_block_knows_its_file() {
        let found = blocks("Write `src/lib.rs`:\n\n```rust\nfn a() {}\n```\n\ntext\n```sh\nls\n```\n");
        assert_eq!(found[0].file.as_deref(), Some("src/lib.rs"));
        assert_eq!(found[0].code, "fn a() {}\n");
        assert_eq!((found[1].language.as_str(), &found[1].file), ("sh", &None));
    }

    #[test]
    fn links_and_anchors_are_found() {
        assert_eq!(links("a [b](c.md) and [`d`](e.md#f)\n```\n[x](y)\n```\n"), ["c.md", "e.md#f"]);
        assert_eq!(anchors("# A title\n## What `settled()` means\n"), ["a-title", "what-settled-means"]);
    }
}
