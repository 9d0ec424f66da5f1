//! Sends the steps of a case and keeps what came back.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::pointer::{self, trim};
use crate::server::Server;
use crate::step::{Answers, Step, encode};
use crate::suite::Case;
use crate::symbols::Symbols;
use crate::watch::Watch;

/// How long a step waits for its condition unless it says otherwise.
const WAIT_TIMEOUT_S: f64 = 20.0;
/// How long a step collects events unless it says otherwise.
const EVENTS_TIMEOUT_S: f64 = 3.0;
/// How long between two looks at what is waited for.
const POLL: Duration = Duration::from_millis(100);

/// Replays a case in a fresh namespace and gives one answer for each step, with symbols.
///
/// `namespace` must be new to the server. It is deleted in the end, and the case's cleanup is done, also when a step
/// fails.
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
            bail!("the step is of no known form")
        }
    }

    async fn call(&mut self, line: &str, step: &Step) -> anyhow::Result<Value> {
        let (method, path) = split(line)?;
        let answer = self.server.call(method, &encode(path), step).await?;
        self.answers.keep(step.id.as_deref(), &answer["body"]);
        let mut got = self.symbols.apply(&answer);
        got["body"] = trim(got["body"].take(), step);
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
        let events: Vec<_> = events.iter().map(|event| trim(self.symbols.apply(event), step)).collect();
        Ok(json!({"events": events}))
    }

    async fn wait(&mut self, line: &str, step: &Step) -> anyhow::Result<Value> {
        let (method, path) = split(line)?;
        let path = encode(path);
        let end = Instant::now() + Duration::from_secs_f64(step.timeout.unwrap_or(WAIT_TIMEOUT_S));
        loop {
            // Before the first look, too: in virtual time a request takes no time, and would see what stands between
            // two writes of one controller, which nobody was quick enough to see when the answers were recorded.
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
    line.split_once(' ').with_context(|| format!("{line:?} is no method and path"))
}
