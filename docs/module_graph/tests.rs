use std::collections::BTreeMap;

use super::*;

/// A crate from its files, with paths from `src`.
fn graph(files: &[(&str, &str)]) -> ModuleGraph {
    let files: BTreeMap<PathBuf, &str> =
        files.iter().map(|(path, source)| (Path::new("src").join(path), *source)).collect();
    let load = |path: &Path| match files.get(path) {
        Some(source) => Ok((*source).to_owned()),
        None => Err(io::Error::new(io::ErrorKind::NotFound, path.display().to_string())),
    };
    ModuleGraph::from_sources(Path::new("src/lib.rs"), load).unwrap()
}

/// The uses between modules below the root: `a>b`.
fn check(files: &[(&str, &str)], expected: &str) {
    let graph = graph(files);
    let found: BTreeSet<String> = graph
        .edges
        .iter()
        .filter_map(|edge| {
            let (from, to) = edge.ends();
            let (from, to) = (from?, to?);
            (from != to).then(|| format!("{from}>{to}"))
        })
        .collect();
    assert_eq!(found.into_iter().collect::<Vec<_>>().join(" "), expected, "{files:?}");
}

const LIB: (&str, &str) = ("lib.rs", "mod a; mod b; mod c;");

#[test]
fn a_use_is_an_edge() {
    check(&[LIB, ("a.rs", "use crate::b::X;"), ("b.rs", ""), ("c.rs", "")], "a>b");
    check(&[LIB, ("a.rs", "use crate::{b, c::{self, d::E}};"), ("b.rs", ""), ("c.rs", "")], "a>b a>c");
    check(&[LIB, ("a.rs", "use super::{b::{x, y as z}, c::*};"), ("b.rs", ""), ("c.rs", "")], "a>b a>c");
    check(&[LIB, ("a.rs", "use std::b; use ::b::c; use serde::{b, c};"), ("b.rs", ""), ("c.rs", "")], "");
}

#[test]
fn a_path_in_code_is_an_edge() {
    check(&[LIB, ("a.rs", "fn f() { crate::b::g(); }"), ("b.rs", ""), ("c.rs", "")], "a>b");
    check(
        &[LIB, ("a.rs", "fn f(x: super::b::X) -> crate::c::Y<u8> {}"), ("b.rs", ""), ("c.rs", "")],
        "a>b a>c",
    );
    check(&[LIB, ("a.rs", "macro_rules! m { () => { $crate::b::g() } }"), ("b.rs", ""), ("c.rs", "")], "a>b");
    check(
        &[LIB, ("a.rs", "pub(in crate::b) fn f() -> impl Sized + use<'_> {}"), ("b.rs", ""), ("c.rs", "")],
        "",
    );
    check(
        &[
            LIB,
            ("a.rs", "// crate::b\n/// [`crate::b`]\nconst B: &str = \"crate::b\";"),
            ("b.rs", ""),
            ("c.rs", ""),
        ],
        "",
    );
}

#[test]
fn a_reexport_leads_to_the_module_of_the_item() {
    let lib = ("lib.rs", "mod a; mod b; mod c; pub use b::{X, y as z}; pub(crate) use c::*;");
    check(&[lib, ("a.rs", "use crate::X;"), ("b.rs", ""), ("c.rs", "")], "a>b");
    check(&[lib, ("a.rs", "use crate::z;"), ("b.rs", ""), ("c.rs", "")], "a>b");
    check(&[lib, ("a.rs", "use crate::W;"), ("b.rs", ""), ("c.rs", "pub struct W;")], "a>c");
    check(&[lib, ("a.rs", "use crate::W;"), ("b.rs", ""), ("c.rs", "pub use crate::b::W;")], "a>b c>b");
    let lib = ("lib.rs", "mod a; mod b; mod c; pub struct X;");
    check(&[lib, ("a.rs", "use crate::X;"), ("b.rs", ""), ("c.rs", "")], "");
    check(&[LIB, ("a.rs", "pub use self::X; use crate::a::X;"), ("b.rs", ""), ("c.rs", "")], "");
}

#[test]
fn what_lies_deeper_is_a_part_of_its_module() {
    let deep = [LIB, ("a.rs", "mod d;"), ("a/d.rs", "use super::super::b; use super::X; use super::Y;")];
    check(&[&deep[..], &[("b.rs", ""), ("c.rs", "")]].concat(), "a>b");
    let deep =
        [LIB, ("a.rs", "mod d; use crate::c::Y;"), ("a/d.rs", "use super::Y;"), ("b.rs", ""), ("c.rs", "")];
    check(&deep, "a>c");
    check(&[LIB, ("a.rs", "mod d { use super::super::b::X; }"), ("b.rs", ""), ("c.rs", "")], "a>b");
    check(&[LIB, ("a/mod.rs", "mod d;"), ("a/d.rs", "use crate::b;"), ("b.rs", ""), ("c.rs", "")], "a>b");
}

#[test]
fn code_for_tests_does_not_count() {
    let check = |source| check(&[LIB, ("a.rs", source), ("b.rs", ""), ("c.rs", "")], "a>c");
    check("#[cfg(test)] mod tests { use crate::b; fn f() {} } use crate::c;");
    check("#[cfg(test)] mod tests; use crate::c;");
    check("#[cfg(test)] use crate::b::{X, Y}; use crate::c;");
    check(
        "#[cfg(test)] #[allow(x)] pub(crate) fn f<A, B>(a: crate::b::A) -> [u8; 2] { crate::b::g() } use crate::c;",
    );
    check("struct S { #[cfg(test)] x: crate::b::X, y: crate::c::Y }");
    check("#[cfg(all(test, unix))] impl crate::b::X {} use crate::c;");
    check("#[cfg(not(test))] use crate::c::X;");
    check("#[cfg(any(test, feature = \"x\"))] use crate::c::X;");
    check("use crate::c; mod d { #![cfg(test)] use crate::b; }");
}

#[test]
fn a_cycle_is_seen_and_named() {
    let cycles = |files: &[(&str, &str)]| -> Vec<String> {
        graph(files).cycles().iter().map(ToString::to_string).collect()
    };
    assert!(cycles(&[LIB, ("a.rs", "use crate::b;"), ("b.rs", "use crate::c;"), ("c.rs", "")]).is_empty());
    let two = cycles(&[LIB, ("a.rs", "\nuse crate::b::X;"), ("b.rs", "use crate::a::Y;"), ("c.rs", "")]);
    assert_eq!(
        two,
        ["2 modules reach each other: a, b\n    a uses b in src/a.rs:2\n    b uses a in src/b.rs:1"]
    );
    let knot =
        cycles(&[LIB, ("a.rs", "use crate::b;"), ("b.rs", "use crate::{a, c};"), ("c.rs", "use crate::a;")]);
    assert_eq!(knot.len(), 1);
    assert!(knot[0].starts_with("3 modules reach each other: a, b, c\n    a uses b"), "{knot:?}");
    let lib = ("lib.rs", "mod a; mod b; mod c; pub use a::A;");
    assert_eq!(cycles(&[lib, ("a.rs", "use crate::b;"), ("b.rs", "use crate::A;"), ("c.rs", "")]).len(), 1);
    let deep =
        [LIB, ("a.rs", "mod d;"), ("a/d.rs", "use crate::b;"), ("b.rs", "use crate::a;"), ("c.rs", "")];
    assert_eq!(cycles(&deep).len(), 1);
}

#[test]
fn an_order_is_held() {
    let graph = graph(&[LIB, ("a.rs", "use crate::b;"), ("b.rs", "use crate::c;"), ("c.rs", "")]);
    assert_eq!(graph.against(&["c", "b", "a"]), None);
    assert_eq!(graph.against(&["b", "c", "a"]).as_deref(), Some("b uses c in src/b.rs:1"));
    assert_eq!(graph.top_level().into_iter().collect::<Vec<_>>(), ["a", "b", "c"]);
}
