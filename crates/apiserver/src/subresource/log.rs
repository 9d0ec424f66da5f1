//! The subresource `pods/log`: what a container has printed, and prints.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel_env::Env;
use evenkeel_schema::field::FieldError;
use evenkeel_schema::json::Value;
use evenkeel_store::Store;
use evenkeel_streams::Offer;
use futures::{Stream, StreamExt as _};
use http::{Response, StatusCode};
use jiff::{SignedDuration, Timestamp};

use super::{pod, stream};
use crate::body::Body;
use crate::context::RequestContext;
use crate::node_api::{ContainerLog, LogLine, NodeApi, Upgrade};
use crate::request::number;
use crate::status::{Result, Status, quote};
use crate::{Header, respond, storage};

/// The options of a request.
#[derive(Clone, Debug, Default)]
struct LogOptions {
    follow: bool,
    previous: bool,
    timestamps: bool,
    since_seconds: Option<i64>,
    since_time: Option<Timestamp>,
    tail_lines: Option<i64>,
    limit_bytes: Option<i64>,
}

/// Answers a GET of `pods/{name}/log`.
pub(super) fn answer(ctx: &RequestContext<'_>) -> Result<Response<Body>> {
    let options = LogOptions::parse(ctx)?;
    let pod = pod::find(ctx)?;
    let container = pod::container(ctx, &pod, ctx.request.query.text("container"))?;
    if !pod::has_node(&pod) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        return Ok(response);
    }
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    let key = format!("{}{node}", crate::registry::storage_prefix("", "nodes"));
    if ctx.services.store.get(&key).is_none() {
        // Kubernetes looks the node up in the name of the pods.
        return Err(Status::not_found("", "pods", node));
    }
    check_run(&pod, &container, options.previous)?;
    let follower = Follower {
        nodes: pod::nodes(ctx)?.clone(),
        store: ctx.services.store.clone(),
        env: ctx.services.env.clone(),
        key: ctx.key(),
        uid: pod["metadata"]["uid"].clone(),
        restarts: restarts(&pod, &container),
        printer: Printer::new(&options, ctx.services.env.now()),
        previous: options.previous,
        container,
        ended: false,
    };
    if let Some(offer) = Offer::for_text(ctx.request.headers).map_err(stream::refusal)? {
        let answer = offer.answer();
        let text = if options.follow { follower.stream().boxed() } else { follower.once().boxed() };
        return Ok(stream::upgrade(answer, Upgrade::new(move |io, _| offer.serve_text(io, text))));
    }
    if options.follow {
        return Ok(respond::text_stream(follower.stream()));
    }
    let mut follower = follower;
    Ok(respond::text_lazily(std::iter::once_with(move || follower.look().0)))
}

impl LogOptions {
    fn parse(ctx: &RequestContext<'_>) -> Result<Self> {
        let query = &ctx.request.query;
        let flag = |name| query.flag(name).unwrap_or(false);
        let since_time = match query.text("sinceTime") {
            "" => None,
            text => Some(text.parse().map_err(|_| {
                let layout = "2006-01-02T15:04:05Z07:00";
                let text = quote(text);
                Status::bad_request(format!(
                    "parsing time {text} as {}: cannot parse {text} as \"2006\"",
                    quote(layout)
                ))
            })?),
        };
        let options = Self {
            follow: flag("follow"),
            previous: flag("previous"),
            timestamps: flag("timestamps"),
            since_seconds: number(query, "sinceSeconds")?,
            since_time,
            tail_lines: number(query, "tailLines")?,
            limit_bytes: number(query, "limitBytes")?,
        };
        let errors = options.errors(query.get("stream"));
        match errors.is_empty() {
            true => Ok(options),
            false => Err(Status::invalid("", "PodLogOptions", &ctx.path.name, &errors)),
        }
    }

    fn errors(&self, stream: Option<&str>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let Some(lines) = self.tail_lines.filter(|it| *it < 0) {
            errors.push(FieldError::invalid("tailLines", lines, "must be greater than or equal to 0"));
        }
        let mut positive = |field: &str, value: Option<i64>| {
            if let Some(value) = value.filter(|it| *it < 1) {
                errors.push(FieldError::invalid(field, value, "must be greater than 0"));
            }
        };
        positive("limitBytes", self.limit_bytes);
        if self.since_seconds.is_some() && self.since_time.is_some() {
            let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.push(FieldError::forbidden("", why));
        } else {
            positive("sinceSeconds", self.since_seconds);
        }
        if stream.is_some() {
            errors.push(FieldError::forbidden("stream", "may not be specified"));
        }
        errors
    }
}

/// Refuses the log of a run that never took place, as a kubelet does.
fn check_run(pod: &Value, container: &str, previous: bool) -> Result<()> {
    let name = quote(pod["metadata"]["name"].as_str().unwrap_or_default());
    let status = pod::status(pod, container);
    let container = quote(container);
    let state = &status["state"];
    // A container that was removed for a restart of all containers has left no log.
    let has_ended_before = status["lastState"]["terminated"]["containerID"].is_string();
    let why = if status.is_null() {
        format!("container {container} in pod {name} is not available")
    } else if previous {
        if has_ended_before {
            return Ok(());
        }
        format!("previous terminated container {container} in pod {name} not found")
    } else if state["running"].is_object() || state["terminated"].is_object() || has_ended_before {
        return Ok(());
    } else {
        let waits = format!("container {container} in pod {name} is waiting to start");
        match state["waiting"]["reason"].as_str() {
            Some("ErrImagePull") => format!("{waits}: image can't be pulled"),
            Some("ImagePullBackOff") => format!("{waits}: trying and failing to pull image"),
            Some(reason) => format!("{waits}: {reason}"),
            None => format!("{waits} - no logs yet"),
        }
    };
    Err(Status::bad_request(why))
}

fn restarts(pod: &Value, container: &str) -> i64 {
    pod::status(pod, container)["restartCount"].as_i64().unwrap_or_default()
}

/// Follows what one run of a container prints.
struct Follower {
    nodes: Arc<dyn NodeApi>,
    store: Store<Header>,
    env: Env,
    /// The key of the pod in the store.
    key: String,
    uid: Value,
    container: String,
    /// The number of restarts that the run had before it.
    restarts: i64,
    previous: bool,
    printer: Printer,
    ended: bool,
}

/// What happens next to a followed log.
enum Next {
    /// The run has ended, or the client has received as much as it asked for.
    End,
    /// The next line may come at this time, if it is known, or after a change.
    Wait(Option<Timestamp>),
}

impl Follower {
    /// Looks at the log, and returns what is new in it.
    fn look(&mut self) -> (Bytes, Next) {
        let entry = self.store.get(&self.key);
        let pod: Option<Value> = entry.and_then(|entry| storage::read(&entry).ok());
        let Some(pod) = pod.filter(|pod| pod["metadata"]["uid"] == self.uid) else {
            return (Bytes::new(), Next::End);
        };
        // The run that is followed may have become the previous one.
        let later = restarts(&pod, &self.container) - self.restarts;
        let (previous, runs) = match later {
            0 => (self.previous, pod::status(&pod, &self.container)["state"]["running"].is_object()),
            1 if !self.previous => (true, false),
            _ => return (Bytes::new(), Next::End),
        };
        let ContainerLog { lines, next_at } = self.nodes.log(&pod, &self.container, previous);
        let text = self.printer.print(&lines);
        let goes_on = runs && !previous && !self.printer.is_full();
        (text, if goes_on { Next::Wait(next_at) } else { Next::End })
    }

    /// What has been printed until now.
    fn once(mut self) -> impl Stream<Item = Bytes> + Send {
        futures::stream::once(async move { self.look().0 })
    }

    fn stream(self) -> impl Stream<Item = Bytes> + Send {
        futures::stream::unfold(self, |mut follower| async {
            let text = follower.next().await?;
            Some((text, follower))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        while !self.ended {
            // Whatever happens after these two begin is noticed below.
            let printed = self.nodes.log_change();
            let mut changes = self.store.watch(&self.key, self.store.revision()).ok()?;
            let (text, next) = self.look();
            let at = match next {
                Next::End => {
                    self.ended = true;
                    None
                }
                Next::Wait(at) => at,
            };
            if !text.is_empty() {
                return Some(text);
            }
            if self.ended {
                return None;
            }
            let wait = at.map(|at| Duration::try_from(at.duration_since(self.env.now())).unwrap_or_default());
            tokio::select! {
                biased;
                () = printed => {}
                // An error means that the store is closed. The next round notices that.
                _ = changes.next() => {}
                () = sleep(wait) => {}
            }
        }
        None
    }
}

async fn sleep(length: Option<Duration>) {
    match length {
        // A moment later than the line, because time is not passed in smaller steps.
        Some(length) => tokio::time::sleep(length + Duration::from_millis(1)).await,
        None => std::future::pending().await,
    }
}

/// Chooses lines and writes them, each of them once.
struct Printer {
    timestamps: bool,
    since: Timestamp,
    /// How many lines of the first look are printed; `None` for all.
    tail: Option<usize>,
    /// How many bytes may still be printed.
    room: usize,
    /// The time of the last line that was seen, and how many lines of that time were seen.
    seen: (Timestamp, usize),
}

impl Printer {
    fn new(options: &LogOptions, now: Timestamp) -> Self {
        let ago = options.since_seconds.map(|seconds| now.checked_sub(SignedDuration::from_secs(seconds)));
        let ago = ago.map(|ago| ago.unwrap_or(Timestamp::MIN));
        let count = |number: i64| usize::try_from(number).unwrap_or(usize::MAX);
        Self {
            timestamps: options.timestamps,
            since: ago.or(options.since_time).unwrap_or(Timestamp::MIN),
            tail: options.tail_lines.map(count),
            room: options.limit_bytes.map_or(usize::MAX, count),
            seen: (Timestamp::MIN, 0),
        }
    }

    /// Whether no more may be printed.
    fn is_full(&self) -> bool {
        self.room == 0
    }

    fn print(&mut self, lines: &[LogLine]) -> Bytes {
        let (last, count) = self.seen;
        let mut skipped = 0;
        let new: Vec<&LogLine> = lines
            .iter()
            .filter(|line| {
                let old = line.at < last || line.at == last && skipped < count;
                skipped += usize::from(line.at == last && old);
                !old
            })
            .collect();
        for line in &new {
            self.seen = if line.at == self.seen.0 { (line.at, self.seen.1 + 1) } else { (line.at, 1) };
        }
        let first = self.tail.take().map_or(0, |tail| new.len().saturating_sub(tail));
        let mut text = String::new();
        for line in new[first..].iter().filter(|line| line.at >= self.since) {
            if self.timestamps {
                text.push_str(&format!("{:.9} ", line.at));
            }
            text.push_str(&line.text);
            text.push('\n');
            if text.len() >= self.room {
                break;
            }
        }
        let mut text = text.into_bytes();
        text.truncate(self.room);
        self.room -= text.len();
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(second: i64, text: &str) -> LogLine {
        LogLine { at: Timestamp::from_second(second).unwrap(), text: text.to_owned() }
    }

    fn print(options: LogOptions, looks: &[&[LogLine]]) -> Vec<String> {
        let mut printer = Printer::new(&options, Timestamp::from_second(100).unwrap());
        looks.iter().map(|lines| String::from_utf8(printer.print(lines).to_vec()).unwrap()).collect()
    }

    #[test]
    fn each_line_is_printed_once() {
        let (a, b, c, d) = (line(1, "a"), line(2, "b"), line(2, "c"), line(3, "d"));
        let looks: [&[LogLine]; 4] = [
            &[a.clone(), b.clone()],
            &[a.clone(), b.clone(), c.clone()],
            &[b.clone(), c.clone(), d.clone()],
            &[d],
        ];
        assert_eq!(print(LogOptions::default(), &looks), ["a\nb\n", "c\n", "d\n", ""]);
        let tail = LogOptions { tail_lines: Some(1), ..Default::default() };
        assert_eq!(print(tail, &looks), ["b\n", "c\n", "d\n", ""]);
        let none = LogOptions { tail_lines: Some(0), ..Default::default() };
        assert_eq!(print(none, &looks), ["", "c\n", "d\n", ""]);
        let since = LogOptions { since_seconds: Some(98), ..Default::default() };
        assert_eq!(print(since, &looks), ["b\n", "c\n", "d\n", ""]);
        let limited = LogOptions { limit_bytes: Some(5), ..Default::default() };
        assert_eq!(print(limited, &looks), ["a\nb\n", "c", "", ""]);
    }

    #[test]
    fn timestamps_have_nine_digits() {
        let options = LogOptions { timestamps: true, ..Default::default() };
        assert_eq!(print(options, &[&[line(1, "a")]]), ["1970-01-01T00:00:01.000000000Z a\n"]);
    }
}
