//! Reading many objects: pages of one snapshot, filtered by selectors, in the negotiated shape.

use std::sync::Arc;

use evenkeel_schema::field::FieldError;
use evenkeel_store::{Entry, Range, ReadError};
use http::Response;

use super::items::{self, Form, serve};
use super::page::Token;
use super::select::Selection;
use crate::body::Body;
use crate::context::RequestContext;
use crate::conversion::{self, Served};
use crate::decode::go_package;
use crate::encode::{push_number, push_text};
use crate::request::{Accept, ListQuery, Shape, negotiate_for, parse_version};
use crate::status::{Result, Status};
use crate::table::{Printer, TableOptions};
use crate::{Header, ResourceInfo, respond};

/// The number of entries that are read at a time until enough match the selectors.
const CHUNK: usize = 500;

/// The result of a list.
pub(crate) struct Found {
    pub(crate) entries: Vec<Served>,
    pub(crate) revision: u64,
    /// Where the list continues, if there is more.
    next: Option<Token>,
    /// The number of objects that remain, if it is known.
    remaining: Option<usize>,
}

/// Answers a GET of a collection.
pub(crate) async fn list(ctx: &RequestContext<'_>) -> Result<Response<Body>> {
    let accept = negotiate_for(ctx.request, true, ctx.info.is_custom())?;
    let query = ListQuery::parse(&ctx.request.query)?;
    validate(&query)?;
    let selection = Selection::parse(ctx.info, &query.labels, &query.fields)?;
    let found = find(ctx, &query, &selection).await?;
    write_list(ctx, accept, &found)
}

/// Refuses options that cannot be combined.
pub(crate) fn validate(query: &ListQuery) -> Result<()> {
    let mut errors = Vec::new();
    let field = "resourceVersionMatch";
    match query.version_match.as_str() {
        "" => {}
        rule => {
            if query.version.is_empty() {
                errors.push(FieldError::forbidden(
                    field,
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                ));
            }
            if !query.token.is_empty() {
                errors.push(FieldError::forbidden(
                    field,
                    "resourceVersionMatch is forbidden when continue is provided",
                ));
            }
            if rule != "Exact" && rule != "NotOlderThan" {
                errors.push(FieldError::not_supported(field, rule, &["Exact", "NotOlderThan", ""]));
            }
            if rule == "Exact" && query.version == "0" {
                errors.push(FieldError::forbidden(
                    field,
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                ));
            }
        }
    }
    if query.initial_events.is_some() {
        errors.push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    refuse_options(&errors)
}

/// Turns errors of list options into a refusal, if there are any.
pub(crate) fn refuse_options(errors: &[FieldError]) -> Result<()> {
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid("meta.k8s.io", "ListOptions", "", errors)) }
}

/// Reads the selected objects of the collection.
pub(crate) async fn find(
    ctx: &RequestContext<'_>,
    query: &ListQuery,
    selection: &Selection,
) -> Result<Found> {
    let newest = ctx.services.store.sync().await;
    let (at, after) = start(query, newest)?;
    if let (Some(name), None) = (selection.name(), &after)
        && let Some(key) = single_key(ctx, selection, name)
    {
        return find_one(ctx, &key, at, selection, newest).await;
    }
    let prefix = ctx.scope();
    let after = after.map(|it| format!("{prefix}{it}"));
    // A list from the watch cache, requested by `resourceVersion=0`, is not paged.
    let limit = if query.token.is_empty() && query.version == "0" { 0 } else { query.limit };
    collect(ctx, &prefix, after, at, limit, selection).await
}

/// The revision of the list (`None` for the newest), and the key after which it begins.
fn start(query: &ListQuery, newest: u64) -> Result<(Option<u64>, Option<String>)> {
    if !query.token.is_empty() {
        let token = Token::decode(&query.token)?;
        if !query.version.is_empty() && query.version != "0" {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        return Ok((token.revision, Some(token.after)));
    }
    if query.version.is_empty() {
        return Ok((None, None));
    }
    let asked = parse_version(&query.version).map_err(|why| {
        let version = &query.version;
        Status::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: {version:?}: {why}"
        ))
    })?;
    if asked > newest {
        return Err(Status::too_large_resource_version(asked, newest));
    }
    let exact = match query.version_match.as_str() {
        "Exact" => true,
        "" => query.limit > 0 && asked > 0,
        _ => false,
    };
    Ok((exact.then_some(asked), None))
}

/// The key of the only object that a selection by name can match, if the namespace is known.
fn single_key(ctx: &RequestContext<'_>, selection: &Selection, name: &str) -> Option<String> {
    if !ctx.info.namespaced {
        return Some(ctx.info.key("", name));
    }
    let namespace = match &*ctx.path.namespace {
        "" => selection.namespace()?,
        namespace => namespace,
    };
    Some(ctx.info.key(namespace, name))
}

async fn find_one(
    ctx: &RequestContext<'_>,
    key: &str,
    at: Option<u64>,
    selection: &Selection,
    newest: u64,
) -> Result<Found> {
    let entry = match at {
        Some(at) => ctx.services.store.get_at(key, at).map_err(|error| expired(&error, None))?,
        None => ctx.services.store.get(key),
    };
    let entry: Vec<_> = entry.into_iter().collect();
    // Objects whose names do not match need no conversion.
    let named = entry.iter().all(|it| selection.matches_name(&it.header));
    let mut entries = if named { serve(ctx, &entry).await? } else { Vec::new() };
    entries.retain(|it| selection.matches(&it.header, &it.value));
    Ok(Found { entries, revision: at.unwrap_or(newest), next: None, remaining: None })
}

async fn collect(
    ctx: &RequestContext<'_>,
    prefix: &str,
    after: Option<String>,
    at: Option<u64>,
    limit: usize,
    selection: &Selection,
) -> Result<Found> {
    let continued = after.is_some();
    let everything = selection.is_everything();
    let chunk = match (limit, everything) {
        (0, _) => None,
        (limit, true) => Some(limit),
        (limit, false) => Some(limit.max(CHUNK)),
    };
    let mut range = Range { prefix: prefix.to_owned(), after, limit: chunk, at };
    // Selectors apply to the object in the version of the request, in which a webhook may have changed the selected
    // fields. Other conversions change nothing that selectors can see, and are made only for selected objects.
    let converts_first = !everything && conversion::calls_webhook(ctx.info);
    let mut entries: Vec<Arc<Entry<Header>>> = Vec::new();
    loop {
        let token =
            || continued.then(|| range.after.as_deref().unwrap_or_default()[prefix.len()..].to_owned());
        let page = ctx.services.store.range(&range).map_err(|error| expired(&error, token()))?;
        range.at = Some(page.revision);
        let last = page.entries.last().map(|it| it.key.to_string());
        let seen = if converts_first { converted(ctx, &page.entries).await? } else { Vec::new() };
        for (index, entry) in page.entries.iter().enumerate() {
            let shown = if converts_first { seen[index].as_deref() } else { Some(&**entry) };
            if !everything && !shown.is_some_and(|it| selection.matches(&it.header, &it.value)) {
                continue;
            }
            entries.push(entry.clone());
            let left = page.remaining + page.entries.len() - index - 1;
            if limit > 0 && entries.len() == limit && left > 0 {
                let after = entry.key[prefix.len()..].to_owned();
                let next = Token { revision: Some(page.revision), after };
                let remaining = everything.then_some(left);
                let entries = serve(ctx, &entries).await?;
                return Ok(Found { entries, revision: page.revision, next: Some(next), remaining });
            }
        }
        if page.remaining == 0 || last.is_none() {
            let entries = serve(ctx, &entries).await?;
            return Ok(Found { entries, revision: page.revision, next: None, remaining: None });
        }
        range.after = last;
    }
}

/// Returns the objects of a page as selectors see them, with `None` for those with damaged bytes.
async fn converted(ctx: &RequestContext<'_>, entries: &[Arc<Entry<Header>>]) -> Result<Vec<Option<Served>>> {
    let served = ctx.services.converter.served_all(ctx.info, entries).await?;
    Ok(served.into_iter().map(|served| served.ok()).collect())
}

/// The error for a revision that is no longer available. A continued list may go on without its snapshot.
fn expired(error: &ReadError, after: Option<String>) -> Status {
    match (error, after) {
        (ReadError::Future { asked, newest }, _) => Status::too_large_resource_version(*asked, *newest),
        (_, Some(after)) => {
            let message = "The provided continue parameter is too old to display a consistent list result. \
                You can start a new list without the continue parameter, or use the continue token in this response \
                to retrieve the remainder of the results. Continuing with the provided token results in an \
                inconsistent list - objects that were created, modified, or deleted between the time the first chunk \
                was returned and now may show up in the list.";
            Status { token: Token { revision: None, after }.encode(), ..Status::expired(message) }
        }
        (_, None) => Status::expired("The resourceVersion for the provided list is too old."),
    }
}

/// Builds a response with a list.
pub(crate) fn write_list(ctx: &RequestContext<'_>, accept: Accept, found: &Found) -> Result<Response<Body>> {
    let items = &found.entries;
    let mut out = Vec::new();
    let form = match accept.shape {
        Shape::Table { beta } => {
            let options = TableOptions::of(ctx.request, beta, ctx.services.env.now())?;
            let objects: Vec<_> = items.iter().map(|item| item.encoded(item.revision).to_value()).collect();
            found.write_metadata(&mut out, false);
            let metadata = serde_json::from_slice(&out).map_err(Status::internal)?;
            let table = Printer::of(ctx.info).table(&objects, metadata, true, options);
            return respond::formatted(200, accept.format, table.to_string());
        }
        Shape::Object => {
            let custom = ctx.info.is_custom();
            write_head(&mut out, &ctx.info.list_kind, &ctx.info.api_version(), found, custom);
            if custom { Form::Object } else { Form::Untyped }
        }
        Shape::MetadataList { beta } => {
            let version = if beta { "meta.k8s.io/v1beta1" } else { "meta.k8s.io/v1" };
            write_head(&mut out, "PartialObjectMetadataList", version, found, false);
            if items.is_empty() {
                // In Go, the list of items is nil here.
                out.truncate(out.len() - 1);
                out.extend_from_slice(b"null}");
                return respond::formatted(200, accept.format, out);
            }
            Form::Metadata { beta }
        }
        Shape::Metadata { .. } => {
            return Err(Status::not_acceptable(format!(
                "you requested PartialObjectMetadata, but the requested object is a list ({})",
                type_name(ctx.info, true)
            )));
        }
    };
    respond::formatted(200, accept.format, items::body(out, items.clone(), form))
}

fn write_head(out: &mut Vec<u8>, kind: &str, version: &str, found: &Found, custom: bool) {
    out.extend_from_slice(b"{\"kind\":");
    push_text(out, kind);
    out.extend_from_slice(b",\"apiVersion\":");
    push_text(out, version);
    out.extend_from_slice(b",\"metadata\":");
    found.write_metadata(out, custom);
    out.extend_from_slice(b",\"items\":[");
}

impl Found {
    /// Returns the list as the response to a delete-collection request, which has no continue token.
    pub(crate) fn deleted(self) -> Self {
        Self { next: None, remaining: None, ..self }
    }

    /// Writes the list's metadata.
    pub(crate) fn write_metadata(&self, out: &mut Vec<u8>, custom: bool) {
        out.extend_from_slice(b"{\"resourceVersion\":\"");
        push_number(out, self.revision);
        out.push(b'"');
        match &self.next {
            Some(next) => {
                out.extend_from_slice(b",\"continue\":");
                push_text(out, &next.encode());
            }
            // Lists of custom resources have the field even if it is empty.
            None if custom => out.extend_from_slice(b",\"continue\":\"\""),
            None => {}
        }
        if let Some(remaining) = self.remaining {
            out.extend_from_slice(b",\"remainingItemCount\":");
            push_number(out, remaining as u64);
        }
        out.push(b'}');
    }
}

/// The name of the Go type behind a resource, which some errors contain.
pub(crate) fn type_name(info: &ResourceInfo, list: bool) -> String {
    if info.is_custom() {
        return format!("*unstructured.Unstructured{}", if list { "List" } else { "" });
    }
    let kind = if list { &info.list_kind } else { &info.kind };
    format!("*{}.{kind}", go_package(&info.group))
}
