//! Delete options, from the body or the query.

use evenkeel_schema::field::FieldError;
use evenkeel_schema::json::{Value, json};
use evenkeel_schema::{strict_decoding, types};
use serde_json::value::{RawValue, to_raw_value};

use crate::context::RequestContext;
use crate::decode::{self, Media};
use crate::request::number;
use crate::status::{Result, Status, quote};

/// The options of a deletion.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) dry_run: bool,
    /// The values of `dryRun` as sent, for the error about values other than `All`.
    dry_run_values: Vec<String>,
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) propagation_policy: Option<String>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    /// Delete the object even if it cannot be read (`ignoreStoreReadErrorWithClusterBreakingPotential`).
    pub(crate) ignore_read_error: bool,
}

/// The field of the option to delete unreadable objects.
pub(crate) const IGNORE_READ_ERROR: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

impl DeleteOptions {
    /// Parses the body, or the query if there is no body.
    pub(crate) fn parse(ctx: &RequestContext<'_>, body: &[u8]) -> Result<Self> {
        let options = if body.is_empty() { Self::of_query(ctx)? } else { Self::of_body(ctx, body)? };
        options.validate()?;
        Ok(options)
    }

    fn of_query(ctx: &RequestContext<'_>) -> Result<Self> {
        let query = &ctx.request.query;
        let given = |name| Some(query.text(name)).filter(|it| !it.is_empty()).map(str::to_owned);
        Ok(Self {
            grace_period_seconds: number(query, "gracePeriodSeconds")?,
            orphan_dependents: query.flag("orphanDependents"),
            propagation_policy: query.get("propagationPolicy").map(str::to_owned),
            uid: given("uid"),
            resource_version: given("resourceVersion"),
            ignore_read_error: query.flag(IGNORE_READ_ERROR).unwrap_or(false),
            ..Self::dry_run(query.all("dryRun").map(str::to_owned).collect())
        })
    }

    /// Options with nothing but these values of `dryRun`.
    fn dry_run(values: Vec<String>) -> Self {
        Self { dry_run: !values.is_empty(), dry_run_values: values, ..Self::default() }
    }

    fn of_body(ctx: &RequestContext<'_>, body: &[u8]) -> Result<Self> {
        let value = match decode::media(ctx.request.header("content-type"))? {
            Media::Json => decode::parse_json(body, false).map_err(|why| {
                Status::bad_request(format!("couldn't get version/kind; json parse error: {why}"))
            })?,
            Media::Yaml => decode::parse_yaml(body, false).map_err(Status::bad_request)?,
            Media::Protobuf => decode::parse_protobuf("", "v1", "DeleteOptions", body)?,
        };
        check_kind(&value.object)?;
        check_types(&value.object)?;
        if let Some(trail) = ctx.audit {
            trail.note_body(|| recorded(&value.object));
        }
        Ok(Self::of_value(&value.object))
    }

    /// Reads options that are part of another object.
    pub(crate) fn of_value(value: &Value) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let dry_run = value["dryRun"].as_array().into_iter().flatten();
        Self {
            grace_period_seconds: value["gracePeriodSeconds"].as_i64(),
            orphan_dependents: value["orphanDependents"].as_bool(),
            propagation_policy: text(&value["propagationPolicy"]),
            uid: text(&value["preconditions"]["uid"]),
            resource_version: text(&value["preconditions"]["resourceVersion"]),
            ignore_read_error: value[IGNORE_READ_ERROR] == true,
            ..Self::dry_run(dry_run.map(|it| it.as_str().unwrap_or_default().to_owned()).collect())
        }
    }

    /// Adds the query's `dryRun` to options from a body. If both are set, they must agree.
    pub(crate) fn join_dry_run<'a>(&mut self, query: impl Iterator<Item = &'a str>) -> Result<()> {
        let query: Vec<&str> = query.collect();
        if query.is_empty() || self.dry_run_values == query {
            return Ok(());
        }
        if self.dry_run_values.is_empty() {
            self.dry_run = true;
            return Ok(());
        }
        Err(Status::server_error(format!(
            "Non-matching dry-run options in request and content: [{}] and [{}]",
            query.join(" "),
            self.dry_run_values.join(" ")
        )))
    }

    /// Refuses invalid options and invalid combinations.
    pub(crate) fn validate(&self) -> Result<()> {
        let mut errors = Vec::new();
        if let Some(policy) = &self.propagation_policy {
            if self.orphan_dependents.is_some() {
                let why = "orphanDependents and deletionPropagation cannot be both set";
                errors.push(FieldError::invalid("propagationPolicy", policy.as_str(), why));
            }
            let known = ["Foreground", "Background", "Orphan", "nil"];
            if !known[..3].contains(&policy.as_str()) {
                errors.push(FieldError::not_supported("propagationPolicy", policy.as_str(), &known));
            }
        }
        if self.dry_run_values.iter().any(|it| it != "All") {
            errors.push(FieldError::not_supported("dryRun", json!(self.dry_run_values), &["All"]));
        }
        if errors.is_empty() {
            return Ok(());
        }
        Err(Status::invalid("meta.k8s.io", "DeleteOptions", "", &errors))
    }

    /// Refuses options that cannot be combined with `ignoreStoreReadErrorWithClusterBreakingPotential`, since
    /// an unreadable object is deleted unconditionally.
    pub(super) fn validate_ignored_read_error(&self) -> Result<()> {
        let given = [
            (!self.dry_run_values.is_empty(), "dryRun"),
            (self.propagation_policy.is_some(), "propagationPolicy"),
            (self.orphan_dependents.is_some(), "orphanDependents"),
            (self.grace_period_seconds.is_some(), "gracePeriodSeconds"),
            (self.uid.is_some() || self.resource_version.is_some(), "preconditions"),
        ];
        let beside = |other: &str| {
            let why = format!("cannot be set together with .{other}");
            FieldError::invalid(IGNORE_READ_ERROR, true, why)
        };
        let errors: Vec<_> =
            given.into_iter().filter(|(given, _)| *given).map(|(_, other)| beside(other)).collect();
        match errors.is_empty() {
            true => Ok(()),
            false => Err(Status::invalid("meta.k8s.io", "DeleteOptions", "", &errors)),
        }
    }

    /// Whether neither `propagationPolicy` nor the older `orphanDependents` is set.
    pub(crate) fn says_nothing_of_dependents(&self) -> bool {
        self.orphan_dependents.is_none() && self.propagation_policy.is_none()
    }
}

/// The options as the audit log records them: with kind and apiVersion.
fn recorded(options: &Value) -> Option<Box<RawValue>> {
    let mut options = options.as_object()?.clone();
    options.entry("kind").or_insert_with(|| "DeleteOptions".into());
    options.entry("apiVersion").or_insert_with(|| "v1".into());
    to_raw_value(&options).ok()
}

/// Refuses values of the wrong type.
fn check_types(value: &Value) -> Result<()> {
    if value.is_array() {
        return Err(Status::bad_request(
            "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { \
             APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }",
        ));
    }
    let schema = types::builtin_type("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions");
    let refusal =
        schema.and_then(|schema| strict_decoding::decode_value(schema, "DeleteOptions", value).refusal);
    refusal.map_or(Ok(()), |why| Err(Status::bad_request(why)))
}

fn check_kind(value: &Value) -> Result<()> {
    let kind = value["kind"].as_str().unwrap_or("DeleteOptions");
    let version = value["apiVersion"].as_str().unwrap_or("v1");
    if matches!(kind, "" | "DeleteOptions") {
        return Ok(());
    }
    Err(Status::bad_request(format!(
        "no kind {} is registered for version {} in scheme \
         \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\"",
        quote(kind),
        quote(version)
    )))
}
