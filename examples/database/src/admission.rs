//! The webhooks: what is refused before it is stored, and what is filled in.
//!
//! The schema checks a spec alone; a webhook also knows the previous spec and the user. The operator does not rely on
//! its webhooks: it makes the same checks again, for databases that were written while the webhooks were not installed.

use std::sync::Arc;

use evenkeel::Result;
use evenkeel::kube::ResourceExt;
use evenkeel::webhook::{Admission, FieldErrors, Operation, Verdict};

use crate::children::VERSIONS;
use crate::storage::bytes;
use crate::{Database, DatabaseSpec};

/// The annotation with the user who asked for a database.
pub const REQUESTED_BY: &str = "example.com/requested-by";

/// Notes who asked for a database, and keeps the note.
pub(crate) async fn note_requester(mut database: Database, request: Admission<Database>) -> Result<Database> {
    let noted = match (request.operation(), request.old()) {
        (Operation::Create, _) => request.user().username.clone(),
        (_, old) => old.and_then(|old| old.annotations().get(REQUESTED_BY).cloned()),
    };
    match noted {
        Some(user) => drop(database.annotations_mut().insert(REQUESTED_BY.to_owned(), user)),
        None => drop(database.annotations_mut().remove(REQUESTED_BY)),
    }
    Ok(database)
}

/// Refuses a spec that cannot be fulfilled.
pub(crate) async fn check(database: Arc<Database>, request: Admission<Database>) -> Result<Verdict> {
    let mut errors = FieldErrors::default();
    let old = request.old().map(|old| &old.spec);
    check_version(&database.spec, old, &mut errors);
    if let Some(old) = old {
        check_change(&database.spec, old, &mut errors);
    }
    Ok(errors.into())
}

/// The version must be supported, unless it was so before, and cannot go back: a server does not read newer data.
fn check_version(new: &DatabaseSpec, old: Option<&DatabaseSpec>, errors: &mut FieldErrors) {
    let version = new.version.as_str();
    if old.is_some_and(|old| old.version == version) {
        return;
    }
    if !VERSIONS.contains(&version) {
        errors.not_supported("spec.version", version, VERSIONS);
        return;
    }
    let number = |version: &str| version.parse::<u32>().unwrap_or(0);
    if let Some(old) = old.filter(|old| number(version) < number(&old.version)) {
        errors.invalid("spec.version", version, format!("cannot go back from {}", old.version));
    }
}

/// Storage does not shrink, and what is used only at the first start does not change.
fn check_change(new: &DatabaseSpec, old: &DatabaseSpec, errors: &mut FieldErrors) {
    if bytes(&new.storage) < bytes(&old.storage) {
        errors.invalid("spec.storage", &new.storage, format!("cannot shrink from {}", old.storage));
    }
    if new.storage_class != old.storage_class {
        errors.invalid("spec.storageClass", &new.storage_class, "field is immutable");
    }
    if new.database_name != old.database_name {
        errors.invalid("spec.databaseName", &new.database_name, "field is immutable");
    }
}
