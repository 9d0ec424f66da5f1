//! Comparing what a test found with a file of the project.

use std::path::PathBuf;

use crate::settings;

/// Asserts that a file of the package has this text, such as the recorded
/// [`Verbs`](evenkeel_runtime::manifests::Verbs) of an operator. With `EVENKEEL_UPDATE=1` it writes the file instead.
/// The path is relative to the package. On a remote cluster nothing is compared, because operators watch a single
/// namespace there and use other verbs.
///
/// # Panics
/// Panics if the texts differ, and shows both.
pub fn assert_file(path: &str, found: &impl ToString) {
    if settings::kubeconfig().is_some() {
        println!("remote: not compared with {path}");
        return;
    }
    let file = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default().join(path);
    let found = found.to_string();
    if settings::update().unwrap_or_else(|error| panic!("{error}")) {
        std::fs::write(&file, found).expect("the file can be written");
        return;
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == found,
        "{path} is not what was found (EVENKEEL_UPDATE=1 writes it)\nkept:\n{kept}\nfound:\n{found}"
    );
}

/// The values as strings, for an assertion with a readable difference.
pub fn lines<T: ToString>(things: &[T]) -> Vec<String> {
    things.iter().map(T::to_string).collect()
}
