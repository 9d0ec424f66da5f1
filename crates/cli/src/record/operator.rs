//! One place that serves a record: an operator, or an API server with operators in its process.

use anyhow::Context as _;
use evenkeel::cluster::RECORD_PATH;
use evenkeel::kube::Client;
use evenkeel_dashboard::Feed;
use evenkeel_record::Record;
use futures::stream::BoxStream;
use futures::{AsyncBufReadExt as _, StreamExt as _};

use crate::hint::Hinted;

/// The header for the credentials of a client that comes through the API server's proxy, which removes `Authorization`.
const FORWARDED: &str = "x-evenkeel-authorization";

/// One place that serves a record.
#[derive(Clone)]
pub(crate) struct Operator {
    /// How messages call the operator.
    pub(crate) name: String,
    client: Client,
    /// The path of the record.
    path: String,
    /// The bearer token that is sent through a proxy.
    token: Option<String>,
}

impl Operator {
    /// The operators in the process of an API server.
    pub(super) fn api_server(client: Client) -> Self {
        Self { name: "the API server".to_owned(), client, path: RECORD_PATH.to_owned(), token: None }
    }

    /// The operator that this client connects to.
    pub(super) fn at(address: &str, client: Client) -> Self {
        Self { name: address.to_owned(), client, path: RECORD_PATH.to_owned(), token: None }
    }

    /// The operator behind a Service, whose proxy is at this path.
    pub(super) fn behind(name: &str, client: Client, proxy: &str, token: Option<String>) -> Self {
        Self { name: name.to_owned(), client, path: format!("{proxy}{RECORD_PATH}"), token }
    }

    /// Reads the record.
    pub(super) async fn record(&self) -> anyhow::Result<Record> {
        let text = self.client.request_text(self.request("")?).await.with_context(|| {
            Hinted::new(
                "cannot read the record",
                "its user needs permission to `get` the path /debug/evenkeel",
            )
        })?;
        let mut record = Record::read(text.as_bytes())?;
        if record.name.is_empty() {
            record.name.clone_from(&self.name);
        }
        Ok(record)
    }

    fn request(&self, below: &str) -> anyhow::Result<http::Request<Vec<u8>>> {
        let mut request = http::Request::get(format!("{}{below}", self.path));
        if let Some(token) = &self.token {
            request = request.header(FORWARDED, format!("Bearer {token}"));
        }
        Ok(request.body(Vec::new())?)
    }
}

impl Feed for Operator {
    fn follow(&self) -> BoxStream<'static, Record> {
        let operator = self.clone();
        let lines = async move {
            let request = operator.request("/stream").ok()?;
            let stream = operator.client.request_stream(request).await;
            Some(stream.inspect_err(|error| tracing::warn!(%error, "cannot follow the record")).ok()?.lines())
        };
        let lines = futures::stream::once(lines).filter_map(std::future::ready).flatten();
        let records = lines.filter_map(|line| {
            let record =
                line.ok().and_then(|line| Record::read(line.strip_prefix("data: ")?.as_bytes()).ok());
            std::future::ready(record)
        });
        records.boxed()
    }
}
