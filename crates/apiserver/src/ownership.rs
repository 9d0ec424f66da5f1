//! Who owns which fields: the adapter to the field-set engine.

use serde_json::Value;

use crate::call::Call;

/// Notes in the new object's managedFields what this writer changed.
pub(crate) fn track(_: &Call<'_>, _: &mut Value, _: Option<&Value>) {}
