//! Values that an operator makes up, such as passwords and tokens.
//!
//! They differ between undisturbed runs with different seeds, so they cannot be compared between runs. But in every
//! correct run, the same ones stay unchanged from rest to rest, and the same ones are equal to each other.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::compare::{Varying, paths_within};
use crate::state::{KeyParts, World};

/// The shortest value that counts as made up. Shorter ones, such as revisions, may be equal by chance.
const SHORTEST: usize = 8;
/// How many digits in a row count as a time. Two values with a time in them are equal if they were made at the same
/// moment, which no operator promises.
const DIGITS_OF_A_TIME: usize = 8;

/// A value in a state: the key of its object, and the path in it.
pub(crate) type Place = (String, String);

/// What is true of made-up values in all undisturbed runs, for each rest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values {
    /// The places in the data of objects whose value has not changed since the rest before.
    pub(crate) steady: Vec<BTreeSet<Place>>,
    /// The places with equal values.
    pub(crate) equal: Vec<Vec<BTreeSet<Place>>>,
}

impl Values {
    /// Learns from the states of undisturbed runs at their rests, and from what varies between them at each rest.
    pub(crate) fn learn(runs: &[Vec<World>], varying: &[Varying]) -> Self {
        let mut values = Self::default();
        let mut before: Vec<BTreeMap<Place, String>> = Vec::new();
        for (rest, varying) in varying.iter().enumerate() {
            let worlds: Vec<&World> = runs.iter().filter_map(|worlds| worlds.get(rest)).collect();
            if worlds.len() < runs.len() {
                break;
            }
            let now: Vec<BTreeMap<Place, String>> =
                worlds.into_iter().map(|world| made_up(world, varying)).collect();
            values.steady.push(steady(&before, &now));
            values.equal.push(equal(&now));
            before = now;
        }
        values
    }
}

/// The value at a place, as text; that of a Secret is decoded.
pub(crate) fn value_at(world: &World, (key, path): &Place) -> Option<String> {
    let object = world.objects.get(key)?;
    let mut found = None;
    paths_within(object, &mut |at, value| {
        if at == path {
            found = value.as_str().map(|text| plain(key, at, text));
        }
    });
    found
}

/// All values of a state that vary between undisturbed runs.
fn made_up(world: &World, varying: &Varying) -> BTreeMap<Place, String> {
    let mut all = BTreeMap::new();
    for (key, object) in &world.objects {
        if !varying.has_object(key) {
            continue;
        }
        paths_within(object, &mut |path, value| {
            if let Value::String(text) = value
                && varying.has_path(key, path)
            {
                all.insert((key.clone(), path.to_owned()), plain(key, path, text));
            }
        });
    }
    all
}

/// The text of a value. The data of a Secret is in base64.
fn plain(key: &str, path: &str, text: &str) -> String {
    let is_encoded = KeyParts::of(key).kind() == "/secrets" && path.starts_with(".data.");
    let decoded = is_encoded.then(|| STANDARD.decode(text).ok()).flatten();
    decoded.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_else(|| text.to_owned())
}

/// The places in the data of objects whose value was the same at the rest before, in each run.
fn steady(before: &[BTreeMap<Place, String>], now: &[BTreeMap<Place, String>]) -> BTreeSet<Place> {
    let Some(first) = now.first().filter(|_| before.len() == now.len()) else { return BTreeSet::new() };
    let is_steady = |place: &Place| {
        let is_data = place.1.starts_with(".data.");
        is_data && before.iter().zip(now).all(|(before, now)| before.get(place) == now.get(place))
    };
    first.keys().filter(|place| is_steady(place)).cloned().collect()
}

/// The places whose values are equal in each run.
fn equal(now: &[BTreeMap<Place, String>]) -> Vec<BTreeSet<Place>> {
    let Some(first) = now.first() else { return Vec::new() };
    let mut groups: BTreeMap<Vec<&String>, BTreeSet<Place>> = BTreeMap::new();
    for place in first.keys() {
        let values: Vec<&String> = now.iter().filter_map(|values| values.get(place)).collect();
        if values.len() == now.len() && values.iter().all(|value| is_made_up(value)) {
            groups.entry(values).or_default().insert(place.clone());
        }
    }
    groups.into_values().filter(|places| places.len() > 1).collect()
}

/// Whether a value is long enough, and free of times and uids, so that two equal values are not a coincidence.
fn is_made_up(value: &str) -> bool {
    let digits = |part: &str| part.len() >= DIGITS_OF_A_TIME;
    let is_scrubbed = value.contains("(time)") || value.contains("(uid)");
    value.len() >= SHORTEST && !is_scrubbed && !value.split(|it: char| !it.is_ascii_digit()).any(digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::Arc;

    const SECRET: &str = "/registry/core/secrets/default/a";
    const MAP: &str = "/registry/core/configmaps/default/b";

    fn world(password: &str, copy: &str) -> World {
        let encoded = STANDARD.encode(password);
        let secret = json!({"data": {"password": encoded, "fixed": "Zml4ZWQ="}});
        let map = json!({"data": {"copy": copy, "number": password.len().to_string()}});
        let objects = [(SECRET.to_owned(), Arc::new(secret)), (MAP.to_owned(), Arc::new(map))];
        World { objects: objects.into() }
    }

    fn place(key: &str, path: &str) -> Place {
        (key.to_owned(), path.to_owned())
    }

    fn learned(runs: &[Vec<World>]) -> Values {
        let rests = runs[0].len();
        let varying: Vec<Varying> =
            (0..rests).map(|at| Varying::learn(&runs[0][at], runs[1..].iter().map(|run| &run[at]))).collect();
        Values::learn(runs, &varying)
    }

    #[test]
    fn a_password_is_steady_and_equal_to_its_copy() {
        let run = |password: &str| vec![world(password, password), world(password, password)];
        let values = learned(&[run("xkqpwmznvb"), run("ytrewqlkjh")]);
        assert!(values.steady[0].is_empty(), "there is no rest before the first one");
        assert!(values.steady[1].contains(&place(SECRET, ".data.password")));
        assert!(!values.steady[1].contains(&place(SECRET, ".data.fixed")), "it does not vary");
        let both = BTreeSet::from([place(SECRET, ".data.password"), place(MAP, ".data.copy")]);
        assert_eq!(values.equal[1], [both]);
        assert_eq!(
            value_at(&run("ytrewqlkjh")[0], &place(SECRET, ".data.password")).as_deref(),
            Some("ytrewqlkjh")
        );
    }

    #[test]
    fn a_password_that_is_rotated_is_not_steady() {
        let run = |one: &str, two: &str| vec![world(one, one), world(two, two)];
        let values = learned(&[run("xkqpwmznvb", "ppppwmznvb"), run("ytrewqlkjh", "ytrewqlkjh")]);
        assert!(values.steady[1].is_empty(), "{values:?}");
    }

    #[test]
    fn times_and_short_values_are_equal_by_chance() {
        for value in ["1767225600", "run-1767225600", "214", "(time) and more"] {
            assert!(!is_made_up(value), "{value}");
        }
        assert!(is_made_up("x7f2k9q8m4"));
    }
}
