//! Bounds the nesting depth of JSON trees, and with it every recursion over a user's tree.
//!
//! Most functions of this crate recurse over JSON trees, and so do `serde_json`'s parser, `clone` and `drop`. A tree that is
//! deep enough overflows the stack, which ends the process. So depth is bounded where trees are made; the functions that
//! walk them afterwards need no bound of their own.
//!
//! | input | what recurses over it | what bounds it |
//! |---|---|---|
//! | JSON bodies, webhook answers, stored bytes | `json::Tree`, `strict_decoding::decode`, the scanner of syntax errors | `serde_json`'s limit of 127 levels; the scanner has the same limit |
//! | YAML bodies | `serde_saphyr` | its budget of nesting levels, then [`check`] on the result |
//! | protobuf bodies | `protobuf::Decoder` | its own limit of message levels, then [`check`] on the result; JSON inside of it has `serde_json`'s limit |
//! | JSON patch | `patch::json` | every `add`, `copy`, `move` and `replace` is checked by [`fits`] before the value is placed |
//! | merge patch, strategic merge patch | `patch::merge`, `patch::strategic` | the result is no deeper than the deeper of object and patch, both of which were parsed |
//! | server-side apply, managed fields | `managed_fields`, `fieldset` | object and configuration were parsed; the field set of a tree is [`MANAGED_LEVELS`] deeper than the tree |
//! | `fieldsV1` of a request | `fieldset::FieldSet` | it is part of a parsed object; keys and values inside of its names are parsed by `serde_json` |
//! | defaults of definitions, conversion between versions | `structural::default`, `structural::prune` | a default is part of a stored definition, which nests deeper than the object that gets the default |
//! | schemas of definitions | `structural::compile`, `structural::definition`, CEL declarations, OpenAPI documents | a schema is part of a stored definition |
//! | CEL expressions | the parser of the `cel` crate, `check`, `cost` and `eval` of `evenkeel_cel` | `syntax::guard` of `evenkeel_cel` on the text, then the depth of the lowered tree |
//! | CEL values and their types | `value` and `types` of `evenkeel_cel`, printing, `admission::mutating_policy` | `syntax::nesting` of `evenkeel_cel` on the tree; variables of policies are measured when they are computed |
//! | label and field selectors | `selector::parse` | the parsers are iterative: selectors do not nest |
//! | JSONPath of printer columns | `table::jsonpath` | the parser is iterative but for filters, which do not nest; evaluation walks a stored object |
//! | bearer tokens | `authenticate::jwt` | `serde_json`'s limit on each part |
//! | YAML of `yaml::apply`, `apply_yaml` and the command line | `serde_saphyr`; the code that walks the documents | `evenkeel_runtime::yaml`, with the number of [`DEPTH_MAX`] |
//! | commands of containers | the shell's parser and interpreter of simulated nodes | their own limits: 20 levels of brackets, 20 calls, and a bound on what a script costs |
//! | certificate requests | `certificate_request` | the reader knows the levels of a request and does not recurse |
//! | kubeconfigs | `serde_saphyr` in `kube` | its default of 64 levels |
//! | audit policies | the reader of YAML bodies | as YAML bodies |
//! | definitions that become Rust types | `evenkeel_codegen` | [`check`] before anything walks them |
//! | records of operators, plans of explorations | the parser of `serde_json` | its limit; their types do not nest, and tokens of plans are flat |
//! | reviews that an operator's webhooks answer | `serde_json`, the patch of `evenkeel_runtime::webhook` | `serde_json`'s limit |
//! | anything that is stored or returned | every later reader | [`check`] when the object is sealed |
//!
//! `tests/it/depth.rs` of this crate, `tests/it/deep_input.rs` of the API server and the tests of `evenkeel_runtime::yaml`
//! feed each input with thousands of levels on a small stack.

use crate::json::Value;

/// How many levels of lists and maps a stored object may have, its managed fields included.
///
/// `serde_json` refuses to parse more than 127 levels. Readers wrap objects: a list adds two levels, a watch event one, a
/// table of whole objects three, an admission review two, and an audit event another one around any of these. That leaves
/// 123; the rest is a margin for clients with wrappers of their own.
pub const DEPTH_MAX: usize = 120;

/// How many levels `managedFields` adds to those of the tree that it describes: the object, its metadata, the list, the
/// entry, and the field set of the innermost map.
pub const MANAGED_LEVELS: usize = 5;

/// A tree has more than [`DEPTH_MAX`] levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("exceeded max depth: objects may be nested {DEPTH_MAX} levels deep, their managed fields included")]
pub struct TooDeep;

/// Checks that a tree has no more levels than may be stored.
pub fn check(value: &Value) -> Result<(), TooDeep> {
    if fits(value, DEPTH_MAX) { Ok(()) } else { Err(TooDeep) }
}

/// Whether a tree has at most `levels` levels of lists and maps. The recursion stops at that depth, however deep the tree is.
///
/// ```
/// use evenkeel_schema::depth::fits;
/// use evenkeel_schema::json::json;
/// assert!(fits(&json!("text"), 0));
/// assert!(fits(&json!({"a": [1]}), 2));
/// assert!(!fits(&json!({"a": [1]}), 1));
/// ```
pub fn fits(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels > 0 && items.iter().all(|item| fits(item, levels - 1)),
        Value::Object(map) => levels > 0 && map.values().all(|value| fits(value, levels - 1)),
        _ => true,
    }
}
