//! Why controllers woke, taken from what the runtime logs of each reconcile.

use std::fmt::Debug;

use tokio::sync::mpsc::Sender;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// A reconcile that was made, and why.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reconciled {
    pub(crate) controller: String,
    pub(crate) object: String,
    pub(crate) causes: String,
}

/// A layer that hands on every reconcile that the runtime logs.
pub(crate) struct Causes {
    to: Sender<Reconciled>,
}

impl Causes {
    pub(crate) fn new(to: Sender<Reconciled>) -> Self {
        Self { to }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Causes {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        let mut seen = Reconciled::default();
        attributes.record(&mut seen);
        if let Some(span) = ctx.span(id)
            && !seen.controller.is_empty()
        {
            span.extensions_mut().insert(seen);
        }
    }

    fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
        let mut seen = Reconciled::default();
        event.record(&mut seen);
        if seen.causes.is_empty() {
            return;
        }
        let reconcile = ctx.event_scope(event).into_iter().flatten();
        let of_span = reconcile.filter_map(|span| span.extensions().get::<Reconciled>().cloned()).next();
        if let Some(of_span) = of_span {
            // A line that does not fit is not shown: a demo must not slow what it shows.
            let _ = self.to.try_send(Reconciled { causes: seen.causes, ..of_span });
        }
    }
}

impl Visit for Reconciled {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let slot = match field.name() {
            "controller" => &mut self.controller,
            "object" => &mut self.object,
            "causes" => &mut self.causes,
            _ => return,
        };
        *slot = format!("{value:?}");
    }
}
