//! Reading one object.

use std::cell::RefCell;
use std::sync::Arc;

use evenkeel_store::Entry;
use http::Response;

use super::list::type_name;
use crate::body::Body;
use crate::call::Call;
use crate::encode::Shown;
use crate::request::{Accept, Shape, negotiate_for, parse_version};
use crate::status::{Result, Status};
use crate::table::{Printer, TableOptions};
use crate::{Header, faces, respond};

/// Answers a GET of one object.
pub(crate) async fn get(call: &Call<'_>) -> Result<Response<Body>> {
    let accept = negotiate_for(call.request, false, call.info.is_custom())?;
    wait(call).await?;
    newest(call, accept)
}

/// The same where nothing is to be waited for.
pub(crate) fn get_now(call: &Call<'_>) -> Result<Response<Body>> {
    newest(call, negotiate_for(call.request, false, call.info.is_custom())?)
}

thread_local! {
    /// Where the keys of reads are written: none outlives its read.
    static KEY: RefCell<String> = const { RefCell::new(String::new()) };
}
/// A text for keys that has grown beyond this is given back.
const KEY_MAX_BYTES: usize = 4096;

fn newest(call: &Call<'_>, accept: Accept) -> Result<Response<Body>> {
    let seen = KEY.with_borrow_mut(|key| {
        key.clear();
        key.shrink_to(KEY_MAX_BYTES);
        call.info.write_key(&call.path.namespace, &call.path.name, key);
        call.server.store().look(key, |entry| {
            // Converting takes its time: it is not done while writes wait.
            let as_is = entry.header.damage.is_none() && faces::is_stored_face(call.info, entry);
            as_is.then(|| Shown::stored(entry, entry.revision)).ok_or_else(|| entry.clone())
        })
    });
    let shown = match seen.ok_or_else(|| call.not_found())? {
        Ok(shown) => shown,
        Err(entry) => faces::show(call.info, &entry, entry.revision)?,
    };
    respond_object(call, 200, accept, shown)
}

/// The object that the path names, as new as the request demands.
pub(crate) async fn find(call: &Call<'_>) -> Result<Arc<Entry<Header>>> {
    wait(call).await?;
    call.server.store().get(&call.key()).ok_or_else(|| call.not_found())
}

/// Waits until the store is as new as the request demands.
async fn wait(call: &Call<'_>) -> Result<()> {
    let version = call.request.query.text("resourceVersion");
    if version.is_empty() {
        call.server.store().catch_up().await;
    } else {
        let newest = call.server.store().sync().await;
        let asked = parse_version(version).map_err(|why| {
            Status::server_error(format!("resourceVersion: Invalid value: {version:?}: {why}"))
        })?;
        if asked > newest {
            return Err(Status::too_large_resource_version(asked, newest));
        }
    }
    Ok(())
}

/// An answer that is one object, in the shape that was negotiated.
pub(crate) fn respond_object(
    call: &Call<'_>,
    code: u16,
    accept: Accept,
    shown: Shown,
) -> Result<Response<Body>> {
    if accept == Accept::JSON {
        return Ok(respond::json(code, shown.body()));
    }
    let mut out = Vec::with_capacity(shown.len());
    match accept.shape {
        Shape::Object => shown.write(&mut out),
        Shape::Metadata { beta } => shown.write_metadata(&mut out, beta),
        Shape::MetadataList { .. } => {
            return Err(Status::not_acceptable(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list ({})",
                type_name(call.info, false)
            )));
        }
        Shape::Table { beta } => {
            let options = TableOptions::of(call, beta)?;
            out = Printer::of(call.info).single(shown.to_value(), true, options).to_string().into_bytes();
        }
    }
    respond::formatted(code, accept.format, out)
}
