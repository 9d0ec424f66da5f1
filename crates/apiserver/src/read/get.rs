//! Reading one object.

use std::cell::RefCell;
use std::sync::Arc;

use evenkeel_store::Entry;
use http::Response;

use super::list::type_name;
use crate::body::Body;
use crate::context::RequestContext;
use crate::encode::EncodedObject;
use crate::request::{Accept, Shape, negotiate_for, parse_version};
use crate::status::{Result, Status};
use crate::table::{Printer, TableOptions};
use crate::{Header, conversion, respond};

/// Answers a GET of one object.
pub(crate) async fn get(ctx: &RequestContext<'_>) -> Result<Response<Body>> {
    let accept = negotiate_for(ctx.request, false, ctx.info.is_custom())?;
    wait(ctx).await?;
    let served = match find_newest(ctx)? {
        Ok(encoded) => encoded,
        Err(entry) => ctx.services.converter.served(ctx.info, &entry).await?.encoded(entry.revision),
    };
    respond_object(ctx, 200, accept, served)
}

/// Answers a GET of one object from the current state, without waiting. Not for resources that a webhook converts.
pub(crate) fn get_now(ctx: &RequestContext<'_>) -> Result<Response<Body>> {
    let accept = negotiate_for(ctx.request, false, ctx.info.is_custom())?;
    let encoded = match find_newest(ctx)? {
        Ok(encoded) => encoded,
        Err(entry) => {
            let served = conversion::served_now(ctx.info, &entry)?;
            let served = served.ok_or_else(|| Status::internal("a conversion has to wait for a webhook"))?;
            served.encoded(entry.revision)
        }
    };
    respond_object(ctx, 200, accept, encoded)
}

thread_local! {
    /// A reusable buffer for keys, so that a read allocates none.
    static KEY: RefCell<String> = const { RefCell::new(String::new()) };
}
/// The capacity above which the buffer is shrunk before use.
const KEY_MAX_BYTES: usize = 4096;

/// Finds the object that the path names. Returns it encoded if it is served in its stored form, and as stored
/// otherwise.
fn find_newest(ctx: &RequestContext<'_>) -> Result<std::result::Result<EncodedObject, Arc<Entry<Header>>>> {
    let seen = KEY.with_borrow_mut(|key| {
        key.clear();
        key.shrink_to(KEY_MAX_BYTES);
        ctx.info.write_key(&ctx.path.namespace, &ctx.path.name, key);
        ctx.services.store.look(key, |entry| {
            // Conversion is too slow for this closure, during which writes wait.
            let as_is = entry.header.damage.is_none() && conversion::is_stored_as_served(ctx.info, entry);
            as_is.then(|| EncodedObject::stored(entry, entry.revision)).ok_or_else(|| entry.clone())
        })
    });
    seen.ok_or_else(|| ctx.not_found())
}

/// The stored object that the path names, as new as the request demands.
pub(crate) async fn find(ctx: &RequestContext<'_>) -> Result<Arc<Entry<Header>>> {
    wait(ctx).await?;
    ctx.services.store.get(&ctx.key()).ok_or_else(|| ctx.not_found())
}

/// Waits until the store is as new as the request demands.
async fn wait(ctx: &RequestContext<'_>) -> Result<()> {
    let version = ctx.request.query.text("resourceVersion");
    if version.is_empty() {
        ctx.services.store.catch_up().await;
    } else {
        let newest = ctx.services.store.sync().await;
        let asked = parse_version(version).map_err(|why| {
            Status::server_error(format!("resourceVersion: Invalid value: {version:?}: {why}"))
        })?;
        if asked > newest {
            return Err(Status::too_large_resource_version(asked, newest));
        }
    }
    Ok(())
}

/// Builds a response with one object in the negotiated shape.
pub(crate) fn respond_object(
    ctx: &RequestContext<'_>,
    code: u16,
    accept: Accept,
    encoded: EncodedObject,
) -> Result<Response<Body>> {
    if accept == Accept::JSON {
        return Ok(respond::json(code, encoded.body()));
    }
    let mut out = Vec::with_capacity(encoded.len());
    match accept.shape {
        Shape::Object => encoded.write(&mut out),
        Shape::Metadata { beta } => encoded.write_metadata(&mut out, beta),
        Shape::MetadataList { .. } => {
            return Err(Status::not_acceptable(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list ({})",
                type_name(ctx.info, false)
            )));
        }
        Shape::Table { beta } => {
            let options = TableOptions::of(ctx.request, beta, ctx.services.env.now())?;
            out = Printer::of(ctx.info).single(encoded.to_value(), true, options).to_string().into_bytes();
        }
    }
    respond::formatted(code, accept.format, out)
}
