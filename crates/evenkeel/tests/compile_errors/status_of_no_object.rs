//! The status is that of an object.
//~ is not a Kubernetes object whose kind is known at compile time
//~ expected an object: `&K` or `&Arc<K>`

use evenkeel::prelude::*;

pub async fn tell(ctx: &Ctx) {
    let _ = ctx.status(&"site", "ready").await;
}
