//! Random parts of a Pod: maps, sets, keyed and atomic lists, nested in each other, small enough to collide
//! often.

use evenkeel_schema::json::{Map, Value, json};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;

fn word() -> impl Strategy<Value = String> {
    prop_oneof![Just("a"), Just("b"), Just("c")].prop_map(str::to_owned)
}

fn words() -> impl Strategy<Value = Value> {
    btree_map(word(), word(), 1..3).prop_map(|map| json!(map))
}

/// An object with the fields that are `Some`.
fn object(fields: Vec<(&str, Option<Value>)>) -> Value {
    let given = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(given.collect::<Map>())
}

/// A keyed list with unique keys, in random order.
fn keyed(key: &'static str, fields: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let items = btree_map(word(), fields, 1..3).prop_map(move |items| {
        let item = |(name, mut item): (String, Value)| {
            item[key] = name.into();
            item
        };
        items.into_iter().map(item).collect::<Vec<_>>()
    });
    items.prop_shuffle().prop_map(Value::from)
}

fn env() -> impl Strategy<Value = Value> {
    keyed("name", option::of(word()).prop_map(|value| object(vec![("value", value.map(Value::from))])))
}

fn ports() -> impl Strategy<Value = Value> {
    let port = (80..83_u16, any::<bool>());
    btree_set(port, 1..3).prop_map(|ports| {
        let port = |(number, udp): (u16, bool)| {
            json!({"containerPort": number, "protocol": if udp { "UDP" } else { "TCP" }})
        };
        ports.into_iter().map(port).collect()
    })
}

fn container() -> impl Strategy<Value = Value> {
    let args = vec(word(), 1..3).prop_map(|args| json!(args));
    let fields = (option::of(word()), option::of(args), option::of(env()), option::of(ports()));
    fields.prop_map(|(image, args, env, ports)| {
        object(vec![("image", image.map(Value::from)), ("args", args), ("env", env), ("ports", ports)])
    })
}

/// Volumes with one source each: a patch that changes the source must remove the other one.
fn volumes() -> impl Strategy<Value = Value> {
    let source = prop_oneof![
        word().prop_map(|medium| json!({"emptyDir": {"medium": medium}})),
        word().prop_map(|name| json!({"configMap": {"name": name}})),
    ];
    keyed("name", source)
}

/// A random part of a Pod, with volumes.
pub(crate) fn pod_with_volumes() -> impl Strategy<Value = Value> {
    (pod(), option::of(volumes())).prop_map(|(mut pod, volumes)| {
        if let Some(volumes) = volumes {
            pod["spec"]["volumes"] = volumes;
        }
        pod
    })
}

fn tolerations() -> impl Strategy<Value = Value> {
    vec(word().prop_map(|key| json!({"key": key, "operator": "Exists"})), 1..3).prop_map(Value::from)
}

/// A random part of a Pod. It always has a container, so that the spec is never empty.
pub(crate) fn pod() -> impl Strategy<Value = Value> {
    let finalizers = btree_set(word(), 1..3).prop_map(|names| {
        names.into_iter().map(|name| Value::from(format!("example.com/{name}"))).collect::<Value>()
    });
    let metadata = (option::of(words()), option::of(words()), option::of(finalizers));
    let spec =
        (keyed("name", container()), option::of(words()), option::of(tolerations()), option::of(word()));
    (metadata, spec).prop_map(
        |((labels, annotations, finalizers), (containers, selector, tolerations, host))| {
            json!({
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": object(vec![
                    ("name", Some("p".into())),
                    ("labels", labels),
                    ("annotations", annotations),
                    ("finalizers", finalizers),
                ]),
                "spec": object(vec![
                    ("containers", Some(containers)),
                    ("nodeSelector", selector),
                    ("tolerations", tolerations),
                    ("hostname", host.map(Value::from)),
                ]),
            })
        },
    )
}
