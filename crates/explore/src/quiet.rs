//! Hides the panics of explored runs from the output, because they are reported as findings.

use std::cell::Cell;
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

static INSTALLED: Once = Once::new();

/// Runs `play` without printing the panics of this thread.
pub(crate) fn quietly<R>(play: impl FnOnce() -> R) -> R {
    INSTALLED.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                loud(panic);
            }
        }));
    });
    let before = QUIET.replace(true);
    let result = play();
    QUIET.set(before);
    result
}
