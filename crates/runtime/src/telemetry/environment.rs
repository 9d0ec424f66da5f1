//! The variables by which OpenTelemetry is set up everywhere (OTEL_EXPORTER_OTLP_ENDPOINT and its like), read without a
//! global state.

use std::time::Duration;

/// How often metrics are sent unless OTEL_METRIC_EXPORT_INTERVAL is set: the specification's default.
const INTERVAL: Duration = Duration::from_secs(60);
/// How long an answer of the collector may take unless OTEL_EXPORTER_OTLP_TIMEOUT is set: the specification's default.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The environment asks for something that this library does not do, or cannot be read.
///
/// ```
/// use evenkeel_runtime::telemetry::TelemetryError;
///
/// fn hint(error: &TelemetryError) -> String {
///     format!("{error}; see OpenTelemetry's page about environment variables")
/// }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TelemetryError {
    /// A variable has a value that is not supported.
    #[error("{variable}={value}: {why}")]
    Variable {
        /// The name of the variable.
        variable: String,
        /// Its value.
        value: String,
        /// What is supported.
        why: &'static str,
    },
    /// The exporter of spans cannot be made.
    #[error("cannot send spans to {endpoint}")]
    Exporter {
        /// The URL of the collector.
        endpoint: String,
        /// Why.
        source: opentelemetry_otlp::ExporterBuildError,
    },
}

/// What the environment asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The name of the service, if the environment has one.
    pub(super) service: Option<String>,
    /// Where spans go.
    pub(super) traces: Option<String>,
    /// Where metrics go.
    pub(super) metrics: Option<Push>,
}

/// Where and how metrics are sent.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Push {
    pub(super) endpoint: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) interval: Duration,
    pub(super) timeout: Duration,
}

/// Headers may be credentials.
impl std::fmt::Debug for Push {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Push")
            .field("endpoint", &self.endpoint)
            .field("interval", &self.interval)
            .finish_non_exhaustive()
    }
}

impl Wanted {
    /// Reads the environment. `None` if it names no collector, or disables OpenTelemetry.
    pub(super) fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, TelemetryError> {
        let environment =
            Environment { variable: |name: &str| variable(name).filter(|value| !value.trim().is_empty()) };
        if environment.get("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let traces = environment.endpoint("TRACES", "v1/traces")?;
        let metrics = match environment.endpoint("METRICS", "v1/metrics")? {
            None => None,
            Some(endpoint) => Some(Push {
                endpoint,
                headers: environment.headers()?,
                interval: environment.milliseconds(&["OTEL_METRIC_EXPORT_INTERVAL"], INTERVAL)?,
                timeout: environment.milliseconds(
                    &["OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"],
                    TIMEOUT,
                )?,
            }),
        };
        let wanted = Self { service: environment.service(), traces, metrics };
        Ok((wanted.traces.is_some() || wanted.metrics.is_some()).then_some(wanted))
    }
}

struct Environment<F> {
    variable: F,
}

impl<F: Fn(&str) -> Option<String>> Environment<F> {
    fn get(&self, name: &str) -> Option<String> {
        (self.variable)(name).map(|value| value.trim().to_owned())
    }

    /// The first of these variables that is set.
    fn first<const N: usize>(&self, names: [String; N]) -> Option<(String, String)> {
        names.into_iter().find_map(|name| self.get(&name).map(|value| (name, value)))
    }

    /// Where a signal goes; `None` if nowhere.
    fn endpoint(&self, signal: &str, path: &str) -> Result<Option<String>, TelemetryError> {
        let exporter = format!("OTEL_{signal}_EXPORTER");
        match self.get(&exporter).as_deref() {
            None | Some("otlp") => {}
            Some("none") => return Ok(None),
            Some(value) => return Err(refused(&exporter, value, "only `otlp` and `none` are supported")),
        }
        let own = format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT");
        let found = match (self.get(&own), self.get("OTEL_EXPORTER_OTLP_ENDPOINT")) {
            (Some(endpoint), _) => (own, endpoint),
            (None, Some(base)) => {
                ("OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(), format!("{}/{path}", base.trim_end_matches('/')))
            }
            (None, None) => return Ok(None),
        };
        let protocol =
            [format!("OTEL_EXPORTER_OTLP_{signal}_PROTOCOL"), "OTEL_EXPORTER_OTLP_PROTOCOL".to_owned()];
        if let Some((name, value)) = self.first(protocol).filter(|(_, value)| value != "http/protobuf") {
            return Err(refused(
                &name,
                &value,
                "only `http/protobuf` is supported, which collectors receive at port 4318",
            ));
        }
        let (variable, endpoint) = found;
        let is_http = endpoint
            .parse::<http::Uri>()
            .is_ok_and(|uri| uri.scheme_str() == Some("http") && uri.host().is_some());
        match is_http {
            true => Ok(Some(endpoint)),
            false => Err(refused(&variable, &endpoint, "only URLs that begin with http:// are supported")),
        }
    }

    /// OTEL_SERVICE_NAME, or else `service.name` of OTEL_RESOURCE_ATTRIBUTES.
    fn service(&self) -> Option<String> {
        let attributes = || {
            let attributes = self.get("OTEL_RESOURCE_ATTRIBUTES")?;
            let (_, name) = attributes
                .split(',')
                .filter_map(|pair| pair.split_once('='))
                .find(|(key, _)| key.trim() == "service.name")?;
            Some(name.trim().to_owned())
        };
        self.get("OTEL_SERVICE_NAME").or_else(attributes)
    }

    /// The headers of requests with metrics: `key=value,key=value`, with escapes as in URLs.
    fn headers(&self) -> Result<Vec<(String, String)>, TelemetryError> {
        let names = ["OTEL_EXPORTER_OTLP_METRICS_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"].map(str::to_owned);
        let Some((variable, headers)) = self.first(names) else { return Ok(Vec::new()) };
        // The value may be a credential: it is not shown.
        let unreadable = || refused(&variable, "…", "the headers must look like `name=value,name=value`");
        let pairs = headers.split(',').filter(|pair| !pair.trim().is_empty());
        pairs
            .map(|pair| {
                let (name, value) = pair.split_once('=').ok_or_else(unreadable)?;
                let (name, value) = (name.trim().to_owned(), unescaped(value.trim()));
                let valid =
                    http::HeaderName::try_from(&name).is_ok() && http::HeaderValue::try_from(&value).is_ok();
                valid.then_some((name, value)).ok_or_else(unreadable)
            })
            .collect()
    }

    fn milliseconds(&self, names: &[&str], usual: Duration) -> Result<Duration, TelemetryError> {
        let Some((name, value)) = names.iter().find_map(|name| Some((name, self.get(name)?))) else {
            return Ok(usual);
        };
        match value.parse::<u64>() {
            Ok(number @ 1..) => Ok(Duration::from_millis(number)),
            _ => Err(refused(name, &value, "it must be a positive number of milliseconds")),
        }
    }
}

fn refused(variable: &str, value: &str, why: &'static str) -> TelemetryError {
    TelemetryError::Variable { variable: variable.to_owned(), value: value.to_owned(), why }
}

/// Replaces the escapes of URLs, such as `%20`. Text that is not a valid escape stays.
fn unescaped(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<Wanted>, String> {
        let get = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        Wanted::read(get).map_err(|error| error.to_string())
    }

    const BASE: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/");

    #[test]
    fn without_a_collector_nothing_is_sent() {
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]), Ok(None));
        assert_eq!(read(&[BASE, ("OTEL_SDK_DISABLED", "TRUE")]), Ok(None));
        assert_eq!(
            read(&[BASE, ("OTEL_TRACES_EXPORTER", "none"), ("OTEL_METRICS_EXPORTER", "none")]),
            Ok(None)
        );
    }

    #[test]
    fn both_signals_go_to_the_collector_unless_one_has_a_place_of_its_own() {
        let wanted = read(&[BASE]).unwrap().unwrap();
        assert_eq!(wanted.traces.as_deref(), Some("http://collector:4318/v1/traces"));
        let push = wanted.metrics.unwrap();
        assert_eq!(
            (push.endpoint.as_str(), push.interval, push.timeout),
            ("http://collector:4318/v1/metrics", INTERVAL, TIMEOUT)
        );
        let own =
            [BASE, ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://m/x"), ("OTEL_TRACES_EXPORTER", "none")];
        let wanted = read(&own).unwrap().unwrap();
        assert_eq!((wanted.traces, wanted.metrics.unwrap().endpoint), (None, "http://m/x".into()));
    }

    #[test]
    fn names_headers_and_times_are_read() {
        let service =
            |variables: &[(&str, &str)]| read(&[&[BASE][..], variables].concat()).unwrap().unwrap().service;
        let attributes = ("OTEL_RESOURCE_ATTRIBUTES", "a=b, service.name = shop ,c=d");
        assert_eq!(service(&[]), None);
        assert_eq!(service(&[attributes]).as_deref(), Some("shop"));
        assert_eq!(service(&[attributes, ("OTEL_SERVICE_NAME", "store")]).as_deref(), Some("store"));
        let told = read(&[
            BASE,
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc, x-tenant=1%"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "100"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "200"),
        ]);
        let push = told.unwrap().unwrap().metrics.unwrap();
        let headers =
            [("authorization", "Bearer abc"), ("x-tenant", "1%")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(push.headers, headers);
        assert_eq!((push.interval.as_millis(), push.timeout.as_millis()), (100, 200));
    }

    #[test]
    fn what_is_not_supported_is_an_error_that_says_so() {
        let refused = |name, value| read(&[BASE, (name, value)]).unwrap_err();
        assert!(refused("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc").contains("only `http/protobuf` is supported"));
        assert!(refused("OTEL_METRICS_EXPORTER", "prometheus").contains("only `otlp` and `none`"));
        assert!(refused("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://x").contains("http://"));
        assert!(refused("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector").contains("http://"));
        assert!(refused("OTEL_METRIC_EXPORT_INTERVAL", "0").contains("positive number of milliseconds"));
        let told = refused("OTEL_EXPORTER_OTLP_HEADERS", "planted-secret");
        assert!(told.contains("name=value") && !told.contains("planted"), "{told}");
        let wanted = read(&[BASE, ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=planted-secret")]);
        assert!(!format!("{wanted:?}").contains("planted"), "{wanted:?}");
    }
}
