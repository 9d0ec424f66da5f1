//! Metrics in the text format of `/metrics`, as OpenTelemetry's protocol has them. The text is the one list of metrics, so
//! that a collector gets the names, labels and buckets that Prometheus reads.

use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1 as proto;
use opentelemetry_sdk::Resource;

use super::SCOPE;

/// Converts a text, with the times of the first count and of now in nanoseconds since 1970.
pub(super) fn converted(text: &str, resource: &Resource, start: u64, now: u64) -> ResourceMetrics {
    let metrics = families(text).into_iter().filter_map(|family| family.converted(start, now)).collect();
    let attributes = resource.iter().map(|(key, value)| attribute(key.as_str(), &value.as_str())).collect();
    ResourceMetrics {
        resource: Some(proto::Resource { attributes, ..Default::default() }),
        scope_metrics: vec![ScopeMetrics {
            scope: Some(InstrumentationScope { name: SCOPE.to_owned(), ..Default::default() }),
            metrics,
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn attribute(key: &str, value: &str) -> KeyValue {
    let value = AnyValue { value: Some(any_value::Value::StringValue(value.to_owned())) };
    KeyValue { key: key.to_owned(), value: Some(value), ..Default::default() }
}

/// The samples below a `# TYPE` line.
#[derive(Debug, Default)]
struct Family<'a> {
    name: &'a str,
    kind: &'a str,
    help: &'a str,
    samples: Vec<Sample>,
}

/// A line such as `workqueue_depth{name="shop"} 3`.
#[derive(Debug, PartialEq)]
struct Sample {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

fn families(text: &str) -> Vec<Family<'_>> {
    let mut families: Vec<Family<'_>> = Vec::new();
    let mut helped = ("", "");
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            helped = rest.split_once(' ').unwrap_or((rest, ""));
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let help = if helped.0 == name { helped.1 } else { "" };
            families.push(Family { name, kind, help, samples: Vec::new() });
        } else if !line.starts_with('#')
            && let (Some(family), Some(sample)) = (families.last_mut(), sample(line))
        {
            family.samples.push(sample);
        }
    }
    families
}

/// Reads a line. Returns `None` if it is not a sample.
fn sample(line: &str) -> Option<Sample> {
    // An exemplar follows after ` # `, which no label of ours contains unescaped outside of quotes.
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(Sample { name: name.to_owned(), labels, value })
}

/// Reads labels up to the closing brace, and returns what follows.
fn labels(mut text: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        text = text.trim_start_matches(',');
        if let Some(rest) = text.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, rest) = text.split_once("=\"")?;
        let mut value = String::new();
        let mut letters = rest.char_indices();
        let end = loop {
            match letters.next()? {
                (at, '"') => break at,
                (_, '\\') => match letters.next()?.1 {
                    'n' => value.push('\n'),
                    letter => value.push(letter),
                },
                (_, letter) => value.push(letter),
            }
        };
        labels.push((name.to_owned(), value));
        text = &rest[end + 1..];
    }
}

impl Family<'_> {
    /// The metric of the protocol. `None` without samples.
    fn converted(&self, start: u64, now: u64) -> Option<Metric> {
        let first = self.samples.first()?;
        let cumulative = AggregationTemporality::Cumulative.into();
        let (name, data) = match self.kind {
            "histogram" => {
                let data_points = self.histograms(start, now);
                let histogram = Histogram { data_points, aggregation_temporality: cumulative };
                (self.name, metric::Data::Histogram(histogram))
            }
            "counter" => {
                let data_points = self.numbers(start, now);
                let sum = Sum { data_points, aggregation_temporality: cumulative, is_monotonic: true };
                // With its suffix `_total`, as at `/metrics`.
                (first.name.as_str(), metric::Data::Sum(sum))
            }
            _ => (self.name, metric::Data::Gauge(Gauge { data_points: self.numbers(0, now) })),
        };
        let description = self.help.trim_end_matches('.').to_owned();
        Some(Metric { name: name.to_owned(), description, data: Some(data), ..Default::default() })
    }

    fn numbers(&self, start: u64, now: u64) -> Vec<NumberDataPoint> {
        let created = |sample: &&Sample| !sample.name.ends_with("_created");
        let point = |sample: &Sample| NumberDataPoint {
            attributes: sample.labels.iter().map(|(name, value)| attribute(name, value)).collect(),
            start_time_unix_nano: start,
            time_unix_nano: now,
            value: Some(number_data_point::Value::AsDouble(sample.value)),
            ..Default::default()
        };
        self.samples.iter().filter(created).map(point).collect()
    }

    /// A point for each set of labels, without `le`. The buckets are not cumulative, unlike those of the text.
    fn histograms(&self, start: u64, now: u64) -> Vec<HistogramDataPoint> {
        let mut points: Vec<(Vec<(String, String)>, HistogramDataPoint)> = Vec::new();
        for sample in &self.samples {
            let (bound, labels): (Vec<_>, Vec<_>) =
                sample.labels.iter().cloned().partition(|(name, _)| name == "le");
            let at = points.iter().position(|(known, _)| *known == labels).unwrap_or_else(|| {
                let attributes = labels.iter().map(|(name, value)| attribute(name, value)).collect();
                let (start_time_unix_nano, time_unix_nano) = (start, now);
                let point = HistogramDataPoint {
                    attributes,
                    start_time_unix_nano,
                    time_unix_nano,
                    ..Default::default()
                };
                points.push((labels, point));
                points.len() - 1
            });
            let point = &mut points[at].1;
            match sample.name.strip_prefix(self.name) {
                Some("_sum") => point.sum = Some(sample.value),
                Some("_count") => point.count = sample.value as u64,
                Some("_bucket") => {
                    let below: u64 = point.bucket_counts.iter().sum();
                    point.bucket_counts.push((sample.value as u64).saturating_sub(below));
                    let bound = bound.first().and_then(|(_, bound)| bound.parse::<f64>().ok());
                    point.explicit_bounds.extend(bound.filter(|bound| bound.is_finite()));
                }
                _ => {}
            }
        }
        points.into_iter().map(|(_, point)| point).collect()
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::family::Family as Labelled;
    use prometheus_client::metrics::gauge::Gauge as Level;
    use prometheus_client::metrics::histogram::Histogram as Spread;
    use prometheus_client::registry::Registry;

    use super::*;

    fn metrics(registry: &Registry) -> Vec<Metric> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        let resource = Resource::builder_empty().with_service_name("shop").build();
        let mut converted = converted(&text, &resource, 1, 2);
        assert_eq!(converted.resource.unwrap().attributes, [attribute("service.name", "shop")]);
        converted.scope_metrics.remove(0).metrics
    }

    #[test]
    fn counters_gauges_and_histograms_keep_their_names_labels_and_buckets() {
        let mut registry = Registry::default();
        let counts = Labelled::<Vec<(String, String)>, Counter>::default();
        let strange = "a \"b\", c\\d {e} # f\ng";
        counts.get_or_create(&vec![("by".into(), strange.into()), ("of".into(), "x".into())]).inc_by(3);
        registry.register("made", "What was made", counts);
        let level: Level = Level::default();
        level.set(-7);
        registry.register("level", "How high", level);
        let spread = Spread::new([0.5, 1.0, 2.0]);
        [0.1, 0.7, 0.8, 9.0].into_iter().for_each(|value| spread.observe(value));
        registry.register("took_seconds", "How long", spread);

        let all = metrics(&registry);
        let names: Vec<_> =
            all.iter().map(|metric| (metric.name.as_str(), metric.description.as_str())).collect();
        assert_eq!(
            names,
            [("made_total", "What was made"), ("level", "How high"), ("took_seconds", "How long")]
        );
        let Some(metric::Data::Sum(sum)) = &all[0].data else { panic!("{all:?}") };
        let point = &sum.data_points[0];
        assert!(sum.is_monotonic);
        assert_eq!(point.attributes, [attribute("by", strange), attribute("of", "x")]);
        assert_eq!(point.value, Some(number_data_point::Value::AsDouble(3.0)));
        assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (1, 2));
        let Some(metric::Data::Gauge(gauge)) = &all[1].data else { panic!("{all:?}") };
        assert_eq!(gauge.data_points[0].value, Some(number_data_point::Value::AsDouble(-7.0)));
        let Some(metric::Data::Histogram(histogram)) = &all[2].data else { panic!("{all:?}") };
        let point = &histogram.data_points[0];
        assert_eq!((point.count, point.explicit_bounds.as_slice()), (4, [0.5, 1.0, 2.0].as_slice()));
        assert_eq!(point.bucket_counts, [1, 2, 0, 1]);
        assert!((point.sum.unwrap() - 10.6).abs() < 1e-9);
    }

    #[test]
    fn what_is_no_metric_is_left_out() {
        let text = "# EOF\nno type 1\n# TYPE a gauge\na{ 1\na nothing\na{b=\"c\"} 2 # {d=\"e\"} 3\n# TYPE b counter\n";
        let families = families(text);
        let read = Sample { name: "a".into(), labels: vec![("b".into(), "c".into())], value: 2.0 };
        assert_eq!(families[0].samples, [read]);
        assert!(families[1].converted(0, 0).is_none());
    }
}
