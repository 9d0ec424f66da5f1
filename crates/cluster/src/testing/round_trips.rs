//! Converts objects to another version and back, to find fields that a conversion loses.

mod compare;
mod generate;
mod pattern;
mod shrink;

use std::collections::BTreeSet;
use std::fmt;

use evenkeel_env::Env;
use evenkeel_runtime::Object;
use evenkeel_runtime::webhook::Conversion;
use kube::core::CustomResourceExt;
use serde_json::{Value, json};

use super::run::seed;
use compare::Difference;
use generate::{Generator, Presence};

pub use compare::Change;
pub(super) use compare::differences;

/// How many objects are made for each version: one with only the required fields, one with all fields, and the rest at
/// random. A field inside of three optional ones is in one of sixteen random objects on average, so fewer than one in
/// five hundred such fields is in none of them; and the object with all fields contains it in any case.
const OBJECTS: usize = 100;

/// A field that does not survive a conversion to another version and back.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Loss {
    /// The version of the object.
    pub version: String,
    /// The version that the object was converted to and back from.
    pub through: String,
    /// The path of the field, such as `spec.ports[0].name`. Empty if the conversion failed.
    pub field: String,
    /// What happened to the field.
    pub change: Change,
    /// The smallest object found that shows the loss.
    pub before: Value,
    /// The object after both conversions.
    pub after: Value,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, through, field, change, before, after } = self;
        write!(f, "{version} → {through} → {version} {change} {field}\n  before: {before}")?;
        if !after.is_null() {
            write!(f, "\n  after:  {after}")?;
        }
        Ok(())
    }
}

/// Converts objects of every version of a kind to every other version and back, and fails if a field is lost, changed
/// or added. Returns the number of round trips.
///
/// The objects are made at random from the schema of the version, with the seed `EVENKEEL_SEED`. They cover required
/// and optional fields, enums, patterns, formats, limits, lists, maps, int-or-string, and unknown fields where the
/// schema preserves them. CEL rules are not evaluated. Schema defaults are applied, as the API server does.
///
/// ```should_panic
/// use evenkeel_cluster::testing;
/// use evenkeel_runtime::Result;
/// use evenkeel_runtime::webhook::{Conversion, Convertible};
/// # mod v1 {
/// #     use kube::CustomResource;
/// #     use schemars::JsonSchema;
/// #     use serde::{Deserialize, Serialize};
/// #     #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
/// #     #[kube(group = "example.com", version = "v1", kind = "Site", namespaced)]
/// #     pub struct SiteSpec { pub replicas: i32, pub title: Option<String> }
/// # }
/// # mod v2 {
/// #     use kube::CustomResource;
/// #     use schemars::JsonSchema;
/// #     use serde::{Deserialize, Serialize};
/// #     #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
/// #     #[kube(group = "example.com", version = "v2", kind = "Site", namespaced)]
/// #     pub struct SiteSpec { pub servers: i32 }
/// # }
///
/// impl Convertible for v1::Site {
///     type Hub = v2::Site;
///
///     fn into_hub(self) -> Result<v2::Site> {
///         Ok(v2::Site { metadata: self.metadata, spec: v2::SiteSpec { servers: self.spec.replicas } })
///     }
///
///     fn from_hub(hub: v2::Site) -> Result<Self> {
///         let spec = v1::SiteSpec { replicas: hub.spec.servers, title: None };
///         Ok(v1::Site { metadata: hub.metadata, spec })
///     }
/// }
///
/// // panics: v1 → v2 → v1 loses spec.title
/// //   before: {"apiVersion":"example.com/v1",…,"spec":{"replicas":-403,"title":"w3"}}
/// testing::round_trips(&Conversion::<v2::Site>::new().spoke::<v1::Site>());
/// ```
///
/// # Panics
/// Panics if a field differs after a round trip, or if a conversion fails. Shows the smallest object found for each
/// such field.
pub fn round_trips<H>(conversion: &Conversion<H>) -> usize
where
    H: Object<DynamicType = ()> + CustomResourceExt,
{
    let (losses, trips) = travel(conversion);
    let told: Vec<String> = losses.iter().map(Loss::to_string).collect();
    assert!(told.is_empty(), "the conversion of {} is not faithful:\n{}", H::kind(&()), told.join("\n"));
    trips
}

/// Returns the losses for which [`round_trips`] would fail, for tests of a conversion that is known to lose something.
pub fn round_trip_losses<H>(conversion: &Conversion<H>) -> Vec<Loss>
where
    H: Object<DynamicType = ()> + CustomResourceExt,
{
    travel(conversion).0
}

/// A version of a kind with its schema.
struct Version {
    name: String,
    schema: Value,
}

fn travel<H>(conversion: &Conversion<H>) -> (Vec<Loss>, usize)
where
    H: Object<DynamicType = ()> + CustomResourceExt,
{
    let crd = conversion.crd().unwrap_or_else(|error| panic!("the versions do not fit together: {error}"));
    let version = |version: &_| -> Option<Version> {
        let version = serde_json::to_value(version).ok()?;
        let name = version["name"].as_str()?.to_owned();
        Some(Version { name, schema: version["schema"]["openAPIV3Schema"].clone() })
    };
    let versions: Vec<Version> = crd.spec.versions.iter().filter_map(version).collect();
    let types = json!({ "group": crd.spec.group, "kind": crd.spec.names.kind });
    let (mut losses, mut trips) = (Vec::new(), 0);
    for from in &versions {
        let objects = objects(from, &types);
        for through in versions.iter().filter(|through| through.name != from.name) {
            let convert =
                |object: &Value, to: &str| conversion.convert(object, to).map_err(|error| error.to_string());
            let trip = Trip { from, through: &through.name, convert: &convert };
            losses.extend(trip.losses(&objects));
            trips += objects.len();
        }
    }
    (losses, trips)
}

fn objects(version: &Version, types: &Value) -> Vec<Value> {
    let mut generator = Generator::new(Env::seeded(seed()));
    let presence = |at| match at {
        0 => Presence::Required,
        1 => Presence::All,
        _ => Presence::Random,
    };
    let (group, kind) = (types["group"].as_str().unwrap_or_default(), &types["kind"]);
    let object = |at| {
        let mut object = generator.object(&version.schema, presence(at));
        object["apiVersion"] = format!("{group}/{}", version.name).into();
        object["kind"] = kind.clone();
        object["metadata"] = generator.metadata(presence(at));
        object
    };
    (0..OBJECTS).map(object).collect()
}

/// A conversion from one version to another and back.
struct Trip<'a> {
    from: &'a Version,
    through: &'a str,
    convert: &'a dyn Fn(&Value, &str) -> Result<Value, String>,
}

impl Trip<'_> {
    /// Returns one loss for each field, with the smallest object that shows it.
    fn losses(&self, objects: &[Value]) -> Vec<Loss> {
        let (mut known, mut losses) = (BTreeSet::new(), Vec::new());
        for object in objects {
            for difference in self.differences(object) {
                if known.insert(difference.kind()) {
                    losses.push(self.smallest(object, &difference));
                }
            }
        }
        losses
    }

    fn there_and_back(&self, object: &Value) -> Result<Value, String> {
        let converted = (self.convert)(object, self.through)?;
        (self.convert)(&converted, &self.from.name)
    }

    fn differences(&self, object: &Value) -> Vec<Difference> {
        match self.there_and_back(object) {
            Ok(after) => differences(object, &after),
            Err(why) => vec![Difference { field: String::new(), change: Change::Failed(why) }],
        }
    }

    fn smallest(&self, object: &Value, difference: &Difference) -> Loss {
        let kind = difference.kind();
        let find = |object: &Value| self.differences(object).into_iter().find(|found| found.kind() == kind);
        let before = shrink::smallest(object, &self.from.schema, |object| find(object).is_some());
        let found = find(&before).unwrap_or_else(|| difference.clone());
        Loss {
            version: self.from.name.clone(),
            through: self.through.to_owned(),
            field: found.field,
            change: found.change,
            after: self.there_and_back(&before).unwrap_or_default(),
            before,
        }
    }
}
