//! Sends the steps of a case and returns the answers.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::pointer;
use crate::server::Server;
use crate::step::{Answers, Step, encode};
use crate::suite::Case;
use crate::symbols::Symbols;
use crate::watch::Watch;

/// How long a `wait` step waits for its condition, unless the step has a timeout.
const WAIT_TIMEOUT_S: f64 = 20.0;
/// How long an `events` step collects events, unless the step has a timeout.
const EVENTS_TIMEOUT_S: f64 = 3.0;
/// The time between two requests of a `wait` step.
const POLL: Duration = Duration::from_millis(100);

/// Replays a case in a new namespace and returns one answer for each step, with symbols in it.
///
/// `namespace` must not exist on the server. When the steps are done, or one has failed, the case's cleanup runs and the
/// namespace is deleted.
pub async fn replay(server: &Server, case: &Case, namespace: &str) -> anyhow::Result<Value> {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    server.call("POST", "/api/v1/namespaces", &Step { body: Some(body.into()), ..Step::default() }).await?;
    let mut run = Run {
        server,
        answers: Answers::new(namespace.to_owned()),
        symbols: Symbols::new(namespace),
        watches: BTreeMap::new(),
    };
    let result = run.steps(case).await;
    run.watches.clear();
    for line in &case.cleanup {
        let line = run.answers.fill_text(line);
        let (method, path) = split(&line)?;
        server.call(method, &encode(path), &Step::default()).await?;
    }
    server.call("DELETE", &format!("/api/v1/namespaces/{namespace}"), &Step::default()).await?;
    result
}

struct Run<'a> {
    server: &'a Server,
    answers: Answers,
    symbols: Symbols,
    watches: BTreeMap<String, Watch>,
}

impl Run<'_> {
    async fn steps(&mut self, case: &Case) -> anyhow::Result<Value> {
        let mut out = Vec::with_capacity(case.steps.len());
        for (number, raw) in case.steps.iter().enumerate() {
            let step = Step::read(&self.answers.fill(raw))
                .with_context(|| format!("{}: step {number} is malformed", case.name))?;
            out.push(self.step(&step).await.with_context(|| format!("{}: step {number}", case.name))?);
        }
        Ok(Value::Array(out))
    }

    async fn step(&mut self, step: &Step) -> anyhow::Result<Value> {
        if let Some(line) = &step.call {
            self.call(line, step).await
        } else if let Some(name) = &step.watch {
            self.watch(name, step).await
        } else if let Some(name) = &step.events {
            self.events(name, step).await
        } else if let Some(line) = &step.wait {
            self.wait(line, step).await
        } else if let Some(seconds) = step.sleep {
            sleep(Duration::from_secs_f64(seconds)).await;
            Ok(json!({}))
        } else {
            bail!("the step has none of call, watch, events, wait and sleep")
        }
    }

    async fn call(&mut self, line: &str, step: &Step) -> anyhow::Result<Value> {
        let (method, path) = split(line)?;
        let answer = self.server.call(method, &encode(path), step).await?;
        self.answers.keep(step.id.as_deref(), &answer["body"]);
        let mut got = self.symbols.apply(&answer);
        got["body"] = step.trim(got["body"].take());
        Ok(got)
    }

    async fn watch(&mut self, name: &str, step: &Step) -> anyhow::Result<Value> {
        let path = step.path.as_deref().context("a watch needs a path")?;
        let watch = Watch::new(self.server.send("GET", &encode(path), step).await?);
        let got = json!({"status": watch.status});
        self.watches.insert(name.to_owned(), watch);
        Ok(got)
    }

    async fn events(&mut self, name: &str, step: &Step) -> anyhow::Result<Value> {
        let watch = self.watches.get_mut(name).with_context(|| format!("no watch is named {name}"))?;
        let timeout = Duration::from_secs_f64(step.timeout.unwrap_or(EVENTS_TIMEOUT_S));
        let events = watch.take(step.count, timeout).await;
        self.answers.keep(step.id.as_deref(), &Value::Array(events.clone()));
        let events: Vec<_> = events.iter().map(|event| step.trim(self.symbols.apply(event))).collect();
        Ok(json!({"events": events}))
    }

    async fn wait(&mut self, line: &str, step: &Step) -> anyhow::Result<Value> {
        let (method, path) = split(line)?;
        let path = encode(path);
        let end = Instant::now() + Duration::from_secs_f64(step.timeout.unwrap_or(WAIT_TIMEOUT_S));
        loop {
            // Sleep before the first request too. In virtual time a request takes no time, so that it would see the
            // state between two writes of one controller, which the recorder was never quick enough to see.
            sleep(POLL).await;
            let answer = self.server.call(method, &path, step).await?;
            let reached = reached(&answer, step);
            if reached || Instant::now() >= end {
                self.answers.keep(step.id.as_deref(), &answer["body"]);
                return Ok(json!({"reached": reached}));
            }
        }
    }
}

fn reached(answer: &Value, step: &Step) -> bool {
    answer["status"] == step.status.unwrap_or(200)
        && step.until.iter().all(|(path, value)| pointer::get(&answer["body"], path) == Some(value))
}

fn split(line: &str) -> anyhow::Result<(&str, &str)> {
    line.split_once(' ').with_context(|| format!("{line:?} is not a method and a path"))
}
