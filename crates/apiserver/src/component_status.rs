//! ComponentStatuses: the health of the control plane's components, which is not stored.

use evenkeel_schema::json::{Value, json};
use http::Response;

use crate::body::Body;
use crate::context::RequestContext;
use crate::encode::EncodedObject;
use crate::read::respond_object;
use crate::request::Shape;
use crate::request::negotiate;
use crate::respond;
use crate::status::{Details, Result, Status};
use crate::table::{Printer, TableOptions};

/// The components of a Kubernetes control plane. They run in this process, so they are healthy as long as it
/// answers.
const PARTS: [&str; 3] = ["scheduler", "controller-manager", "etcd-0"];

/// Answers a get or list of ComponentStatuses.
pub(crate) fn answer(ctx: &RequestContext<'_>) -> Result<Response<Body>> {
    let name = &*ctx.path.name;
    let accept = negotiate(ctx.request, name.is_empty())?;
    if name.is_empty() {
        let parts: Vec<Value> = PARTS.map(part).to_vec();
        let list = match accept.shape {
            Shape::Table { beta } => Printer::of(ctx.info).table(
                &parts,
                json!({}),
                true,
                TableOptions::of(ctx.request, beta, ctx.services.env.now())?,
            ),
            _ => json!({"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": parts}),
        };
        return respond::formatted(200, accept.format, list.to_string().into_bytes());
    }
    if !PARTS.contains(&name) {
        let details = Details::of("", "componentstatus", name);
        let message = format!("componentstatus {name:?} not found");
        return Err(Status::new(404, "NotFound", message).with(details));
    }
    let mut shown = part(name);
    shown["kind"] = "ComponentStatus".into();
    shown["apiVersion"] = "v1".into();
    respond_object(ctx, 200, accept, EncodedObject::encode(&shown, 0))
}

fn part(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "conditions": [{"type": "Healthy", "status": "True", "message": "ok"}],
    })
}
