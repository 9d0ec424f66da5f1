//! A module uses only modules of its own layer and of the layers below: the table in `lib.rs` is the truth.

use std::collections::BTreeMap;
use std::path::Path;

/// The layer of each module, counted from the top, as the table in the documentation of `lib.rs` lists them.
fn layers(lib: &str) -> BTreeMap<String, usize> {
    let rows = lib.lines().filter_map(|line| line.strip_prefix("//! | ")?.split(" | ").nth(1));
    let rows = rows.filter(|modules| modules.starts_with('`'));
    let mut layers = BTreeMap::new();
    for (layer, modules) in rows.enumerate() {
        for module in modules.split(", ") {
            let before = layers.insert(module.trim_matches('`').to_owned(), layer);
            assert_eq!(before, None, "{module} stands in two layers");
        }
    }
    layers
}

/// The module that `lib.rs` exports each name from.
fn exports(lib: &str) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    for line in lib.lines() {
        let Some((module, names)) = line.strip_prefix("pub use ").and_then(|it| it.split_once("::")) else {
            continue;
        };
        for name in names.trim_matches([';', '{', '}']).split(", ") {
            exports.insert(name.to_owned(), module.to_owned());
        }
    }
    exports
}

/// The first segments of all paths that begin with `crate::`.
fn references(code: &str) -> Vec<String> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for (at, prefix) in code.match_indices("crate::") {
        let rest = &code[at + prefix.len()..];
        let Some(group) = rest.strip_prefix('{') else {
            found.push(rest.chars().take_while(|c| is_word(*c)).collect());
            continue;
        };
        // The names at the beginning of the group and after its commas, but not those of groups within.
        let (mut depth, mut is_first, mut name) = (1, true, String::new());
        for c in group.chars() {
            depth += i32::from(c == '{') - i32::from(c == '}');
            match c {
                _ if is_word(c) && is_first && depth == 1 => name.push(c),
                _ if c.is_whitespace() => is_first &= name.is_empty(),
                ',' if depth == 1 => {
                    found.push(std::mem::take(&mut name));
                    is_first = true;
                }
                _ => is_first = false,
            }
            if depth == 0 {
                break;
            }
        }
        found.push(name);
    }
    found.retain(|name| !name.is_empty());
    found
}

#[test]
fn a_module_uses_no_module_of_a_layer_above() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let lib = std::fs::read_to_string(root.join("lib.rs")).unwrap();
    let (layers, exports) = (layers(&lib), exports(&lib));
    for module in lib.lines().filter_map(|line| line.trim_start_matches("pub ").strip_prefix("mod ")) {
        let module = module.trim_end_matches(';');
        assert!(layers.contains_key(module), "`{module}` stands in no layer of the table in lib.rs");
    }
    let mut upward = Vec::new();
    for (file, code) in crate::kind_names::sources() {
        let own = file.split('/').next().unwrap_or_default().trim_end_matches(".rs");
        for name in references(&code) {
            let used = exports.get(&name).unwrap_or(&name);
            if let (Some(layer), Some(below)) = (layers.get(own), layers.get(used))
                && below < layer
            {
                upward.push(format!("{file} uses {used}"));
            }
        }
    }
    assert!(upward.is_empty(), "these modules reach into a layer above their own: {upward:#?}");
}

#[test]
fn references_to_other_modules_are_seen() {
    let code = "use crate::access::{Rule, Target};\nuse crate::{Header, decode::{self, Media}, write};\ncrate::crd::x()";
    assert_eq!(references(code), ["access", "Header", "decode", "write", "crd"]);
    let table = "//! | layer | modules |\n//! |---|---|\n//! | top | `a`, `b` | x |\n//! | low | `c` | y |\n";
    let layers = layers(table);
    assert_eq!((layers["a"], layers["b"], layers["c"]), (0, 0, 1));
    assert_eq!(exports("pub use c::{X, Y};\npub use d::Z;")["Y"], "c");
}
