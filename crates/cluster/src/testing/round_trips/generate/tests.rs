use super::*;

/// Generates many objects for a schema.
fn made(schema: &Value) -> Vec<Value> {
    let mut generator = Generator::new(Env::seeded(7));
    let presences = [Presence::Required, Presence::All].into_iter();
    let presences = presences.chain(std::iter::repeat_n(Presence::Random, 60));
    presences.map(|presence| generator.object(schema, presence)).collect()
}

#[test]
fn objects_have_required_fields_and_some_of_the_optional_ones() {
    let schema = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string"}, "title": {"type": "string"}, "size": {"type": "integer", "default": 3},
    }});
    let objects = made(&schema);
    assert!(objects.iter().all(|object| object["name"].is_string() && object["size"].is_i64()));
    assert_eq!(objects[0]["title"], Value::Null);
    assert_eq!(objects[0]["size"], 3);
    assert!(objects[1]["title"].is_string());
    let titled = objects.iter().filter(|object| object["title"].is_string()).count();
    assert!((15..50).contains(&titled), "{titled} of {}", objects.len());
    assert_eq!(made(&schema), objects, "the seed decides");
}

#[test]
fn values_keep_to_their_limits() {
    let schema = json!({"type": "object", "required": ["port", "even", "class", "size", "short", "list", "half"],
    "properties": {
        "port": {"type": "integer", "minimum": 1, "maximum": 65535, "exclusiveMinimum": true},
        "even": {"type": "integer", "minimum": 0, "maximum": 9, "multipleOf": 4},
        "half": {"type": "number", "minimum": 0, "maximum": 1},
        "class": {"type": "string", "enum": ["fast", "cheap"]},
        "size": {"type": "string", "pattern": "^[1-9][0-9]*(Mi|Gi)$", "maxLength": 4},
        "short": {"type": "string", "minLength": 5, "maxLength": 5},
        "list": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "boolean"},
            "x-kubernetes-list-type": "set"},
    }});
    for object in made(&schema) {
        assert!((2..=65535).contains(&object["port"].as_i64().expect("a number")), "{object}");
        assert!([0, 4, 8].contains(&object["even"].as_i64().expect("a number")), "{object}");
        assert!((0.0..=1.0).contains(&object["half"].as_f64().expect("a number")), "{object}");
        assert!(["fast", "cheap"].contains(&object["class"].as_str().expect("a text")), "{object}");
        let size = object["size"].as_str().expect("a text");
        assert!(size.len() <= 4 && (size.ends_with("Mi") || size.ends_with("Gi")), "{object}");
        assert_eq!(object["short"].as_str().map(str::len), Some(5), "{object}");
        let list = object["list"].as_array().expect("a list");
        assert!(list.len() == 1 || (list.len() == 2 && list[0] != list[1]), "{object}");
    }
}

#[test]
fn one_of_several_alternatives_is_there() {
    let schema = json!({"type": "object", "properties": {"disk": {"type": "string"}, "url": {"type": "string"}},
        "oneOf": [{"required": ["disk"]}, {"required": ["url"]}]});
    let objects = made(&schema);
    assert!(objects.iter().all(|object| object["disk"].is_string() != object["url"].is_string()));
    assert!(objects.iter().any(|object| object["disk"].is_string()));
    assert!(objects.iter().any(|object| object["url"].is_string()));
}

#[test]
fn maps_unknown_fields_and_values_of_two_types_are_made() {
    let schema = json!({"type": "object", "required": ["port", "labels", "raw", "items"], "properties": {
        "port": {"x-kubernetes-int-or-string": true},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "items": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"enum": ["a"]}}}},
    }});
    let objects = made(&schema);
    let any = |holds: &dyn Fn(&Value) -> bool| assert!(objects.iter().any(holds), "{objects:#?}");
    any(&|object| object["port"].is_u64());
    any(&|object| object["port"].as_str().is_some_and(|text| text.ends_with('%')));
    any(&|object| object["labels"].as_object().is_some_and(|labels| labels.len() == 2));
    any(&|object| object["raw"].as_object().is_some_and(|raw| !raw.is_empty()));
    assert!(objects.iter().all(|object| object["items"].as_array().is_some_and(|items| items.len() < 2)));
}
