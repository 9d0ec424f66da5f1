//! Converts moments of a cluster to record entries, which operators, the command line and the dashboard share.

use std::time::Duration;

use evenkeel_record::{Entry, Sent, WebhookCall};

use super::describe::{name_in, review_summary};
use super::record::{Exchange, Moment, Outcome};

impl Moment {
    /// Returns the moment as an entry of a record. Returns `None` for reconciles, which the operators' flight recorders
    /// contain in full detail, and for requests without a response.
    pub fn entry(&self) -> Option<Entry> {
        match self {
            Self::Request(exchange) => Some(Entry::Request(sent(exchange)?)),
            Self::Webhook(call) => Some(Entry::Webhook(WebhookCall {
                at: micros(call.at),
                by: call.by.to_string(),
                path: call.path.split('?').next().unwrap_or_default().to_owned(),
                what: review_summary(&call.body).unwrap_or_default(),
                code: answer(&call.outcome)?.0,
                took: micros(call.took),
            })),
            Self::Reconcile(_) => None,
            Self::Disturbance { at, what } => {
                Some(Entry::Disturbance { at: micros(*at), what: what.clone() })
            }
        }
    }
}

fn sent(exchange: &Exchange) -> Option<Sent> {
    let (code, wrote, fault) = answer(&exchange.outcome)?;
    let mut sent = Sent {
        at: micros(exchange.at),
        by: exchange.by.to_string(),
        verb: exchange.verb.to_owned(),
        code,
        took: micros(exchange.took),
        revision: wrote.unwrap_or_default(),
        error: fault.map(str::to_owned),
        ..Sent::default()
    };
    let Some(target) = exchange.target() else {
        sent.resource = exchange.path.split('?').next().unwrap_or_default().to_owned();
        return Some(sent);
    };
    sent.group = target.group.to_string();
    sent.resource = target.resource.to_string();
    sent.subresource = target.subresource.to_string();
    sent.namespace = Some(target.namespace.to_string()).filter(|namespace| !namespace.is_empty());
    sent.name = target.name.to_string();
    if sent.name.is_empty() && sent.verb == "create" {
        sent.name = name_in(&exchange.body).unwrap_or_default().into_owned();
    }
    Some(sent)
}

/// Returns the status code, the written revision, and the injected fault.
fn answer(outcome: &Outcome) -> Option<(u16, Option<u64>, Option<&str>)> {
    match outcome {
        Outcome::Pending => None,
        Outcome::Answered { status, wrote, fault } => Some((*status, *wrote, fault.as_deref())),
        Outcome::Lost { wrote, fault } => Some((0, *wrote, Some(fault))),
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
