//! Secrets. That `stringData` is written into `data` is part of the conversion, not of the defaults (see `prepare`).

use super::{Object, set_text};

pub(super) fn secret(object: &mut Object) {
    set_text(object, "type", "Opaque");
}
