//! The subresources `pods/exec`, `pods/attach` and `pods/portforward`: connections that are upgraded.

use evenkeel_schema::json::{Value, json};
use evenkeel_streams::{Offer, Refused, Streams, parse_ports};
use http::{Response, StatusCode};

use super::pod;
use crate::body::Body;
use crate::context::RequestContext;
use crate::node_api::{CommandCall, Upgrade};
use crate::status::{Result, Status, quote};

/// Answers a request to `pods/{name}/exec` or `pods/{name}/attach`.
pub(super) async fn command(ctx: &RequestContext<'_>) -> Result<Response<Body>> {
    let query = &ctx.request.query;
    let flag = |name| query.flag(name).unwrap_or(false);
    let executes = ctx.path.subresource == "exec";
    let mut options = json!({});
    for name in ["stdin", "stdout", "stderr", "tty"].into_iter().filter(|name| flag(name)) {
        options[name] = true.into();
    }
    if let Some(container) = query.get("container") {
        options["container"] = container.into();
    }
    let words: Vec<String> = query.all("command").map(str::to_owned).collect();
    if executes {
        options["command"] = json!(words);
    }
    let options =
        pod::admit(ctx, if executes { "PodExecOptions" } else { "PodAttachOptions" }, options).await?;
    // A client that may read pods could open a WebSocket with a GET; running commands takes more.
    ctx.may_create()?;
    let pod = pod::find(ctx)?;
    let container = pod::container(ctx, &pod, options["container"].as_str().unwrap_or_default())?;
    pod::check_node(ctx, &pod)?;
    let offer = Offer::for_command(ctx.request.headers).map_err(refusal)?;
    let streams = streams(&options)?;
    if !pod::status(&pod, &container)["state"]["running"].is_object() {
        return Err(Status::internal(format!(
            "unable to upgrade connection: container not found ({})",
            quote(&container)
        )));
    }
    let words = options["command"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let command = executes.then(|| words.map(str::to_owned).collect());
    let call = CommandCall { pod, container, command };
    let command = pod::nodes(ctx)?.command(call);
    let command = command.ok_or_else(|| {
        pod::not_served(ctx, "its node is simulated and runs no containers, and no handler answers for it")
    })?;
    let answer = offer.answer();
    Ok(upgrade(answer, Upgrade::new(move |io, station| offer.serve_command(io, streams, command, station))))
}

fn streams(options: &Value) -> Result<Streams> {
    let wants = |name: &str| options[name] == true;
    let tty = wants("tty");
    let streams = Streams {
        stdin: wants("stdin"),
        stdout: wants("stdout"),
        // With a terminal, errors are a part of the output.
        stderr: wants("stderr") && !tty,
        tty,
    };
    if streams.stdin || streams.stdout || streams.stderr {
        return Ok(streams);
    }
    Err(Status::bad_request("you must specify at least 1 of stdin, stdout, stderr"))
}

/// Answers a request to `pods/{name}/portforward`.
pub(super) async fn ports(ctx: &RequestContext<'_>) -> Result<Response<Body>> {
    let mut options = json!({});
    let named: Vec<i64> = ctx.request.query.all("ports").filter_map(|port| port.parse().ok()).collect();
    if !named.is_empty() {
        options["ports"] = json!(named);
    }
    pod::admit(ctx, "PodPortForwardOptions", options).await?;
    ctx.may_create()?;
    let pod = pod::find(ctx)?;
    pod::check_node(ctx, &pod)?;
    let offer = Offer::for_ports(ctx.request.headers).map_err(refusal)?;
    let ports = match offer.ports_are_in_query() {
        true => {
            parse_ports(ctx.request.query.all("ports")).map_err(|why| Status::bad_request(why.to_string()))?
        }
        false => Vec::new(),
    };
    let connector = pod::nodes(ctx)?.ports(pod);
    let connector = connector.ok_or_else(|| {
        pod::not_served(
            ctx,
            "its node is simulated and runs no containers, and nothing answers for its ports",
        )
    })?;
    let (answer, name) = (offer.answer(), ctx.path.name.clone().into_owned());
    let serve =
        move |io, station| async move { offer.serve_ports(io, &name, ports, connector, station).await };
    Ok(upgrade(answer, Upgrade::new(serve)))
}

pub(super) fn refusal(refused: Refused) -> Status {
    match refused.code {
        403 => Status::new(403, "Forbidden", refused.message),
        _ => Status::bad_request(refused.message),
    }
}

pub(super) fn upgrade(headers: http::HeaderMap, upgrade: Upgrade) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *response.headers_mut() = headers;
    response.extensions_mut().insert(upgrade);
    response
}
