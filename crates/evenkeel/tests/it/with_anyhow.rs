//! A reconcile may return `anyhow::Error`: the prelude does not get in its way, and its errors are understood.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use evenkeel::BoxError;
use evenkeel::error::{Retry, chain, retry_of};
use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::prelude::*;

async fn reconcile(map: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> {
    let data = map.data.as_ref().context("the map has no data").terminal()?;
    ctx.status(&map, data).await?;
    Ok(ctx
        .finalizer(&map, "example.com/a", |_| async { Ok::<_, anyhow::Error>(Action::await_change()) })
        .await?)
}

#[test]
fn a_reconcile_returns_anyhows_result() {
    assert_eq!(Controller::new("anyhow", reconcile).name(), "anyhow");
}

fn port(text: &str) -> Result<u16> {
    Ok(text.parse::<u16>().terminal()?)
}

/// `anyhow` hides the type of an error that has no context when the error is boxed.
#[test]
fn when_to_retry_is_known_through_anyhow() {
    let bare: BoxError = port("x").unwrap_err().into();
    assert_eq!((retry_of(&*bare), chain(&*bare).as_str()), (Retry::Never, "invalid digit found in string"));
    let told: BoxError = port("x").context("read the port").unwrap_err().into();
    assert_eq!(retry_of(&*told), Retry::Never);
    assert_eq!(chain(&*told), "read the port: invalid digit found in string");
    let ten = Duration::from_secs(10);
    let later: BoxError = port("x").retry_after(ten).unwrap_err().into();
    assert_eq!(retry_of(&*later), Retry::After(ten), "the outermost decides");
}
