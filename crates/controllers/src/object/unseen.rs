//! A field that controllers do not see, for `tests/fields.py`: a test of the effect of a field fails without it.
//!
//! The environment variable `EVENKEEL_UNSEEN_FIELD` names the field by its type, such as `PodSpec.nodeSelector`. Only builds
//! with debug assertions read it.

#[cfg(not(debug_assertions))]
pub(super) fn without_unseen(_kind: Option<&str>, fields: evenkeel_tree::Tree) -> evenkeel_tree::Tree {
    fields
}

#[cfg(debug_assertions)]
pub(super) use debug::without_unseen;

#[cfg(debug_assertions)]
mod debug {
    use std::sync::OnceLock;

    use evenkeel_schema::types::{Schema, builtin};
    use evenkeel_tree::{Text, Tree};

    /// The kinds in whose specs fields are hidden.
    const KINDS: [(&str, &str, &str); 12] = [
        ("apps", "v1", "Deployment"),
        ("apps", "v1", "ReplicaSet"),
        ("", "v1", "ReplicationController"),
        ("apps", "v1", "StatefulSet"),
        ("apps", "v1", "DaemonSet"),
        ("batch", "v1", "Job"),
        ("batch", "v1", "CronJob"),
        ("", "v1", "Pod"),
        ("", "v1", "PersistentVolumeClaim"),
        ("", "v1", "Service"),
        ("autoscaling", "v2", "HorizontalPodAutoscaler"),
        ("policy", "v1", "PodDisruptionBudget"),
    ];

    /// A step on the way to a field.
    #[derive(Clone, Debug)]
    enum Step {
        Field(String),
        /// Every item of a list, or every value of a map.
        Each,
    }

    /// The ways to the unseen field, each with the kind of object in which it leads there.
    type Ways = Vec<(&'static str, Vec<Step>)>;

    pub(in super::super) fn without_unseen(kind: Option<&str>, fields: Tree) -> Tree {
        static WAYS: OnceLock<Ways> = OnceLock::new();
        let ways = WAYS.get_or_init(|| {
            let name = evenkeel_env::setting::<String>("EVENKEEL_UNSEEN_FIELD");
            name.ok().flatten().map_or_else(Ways::new, |name| ways(&name))
        });
        let known = |it: &str| kind.is_none_or(|kind| kind == it);
        ways.iter().filter(|(kind, _)| known(kind)).fold(fields, |fields, (_, way)| without(&fields, way))
    }

    fn ways(name: &str) -> Ways {
        let (owner, field) = name.split_once('.').expect("a field is named as Type.field");
        let mut all = Ways::new();
        for (group, version, kind) in KINDS {
            let spec = builtin(group, version, kind).and_then(|kind| kind.field("spec"));
            let mut found = Vec::new();
            let mut way = vec![Step::Field("spec".to_owned())];
            spec.into_iter().for_each(|spec| search(spec, (owner, field), &mut way, &mut found));
            all.extend(found.into_iter().map(|way| (kind, way)));
        }
        assert!(!all.is_empty(), "no workload kind has the field {name}");
        all
    }

    /// Collects the ways from a value to all fields of this name of values of this type.
    fn search(schema: &Schema, wanted: (&str, &str), way: &mut Vec<Step>, found: &mut Vec<Vec<Step>>) {
        let is_owner = schema.type_name().is_some_and(|name| name.rsplit('.').next() == Some(wanted.0));
        let resolved = schema.resolve();
        for (name, field) in resolved.fields().iter() {
            way.push(Step::Field(name.to_owned()));
            if is_owner && name == wanted.1 {
                found.push(way.clone());
            }
            search(field, wanted, way, found);
            way.pop();
        }
        for inner in resolved.items().into_iter().chain(resolved.values()) {
            way.push(Step::Each);
            search(inner, wanted, way, found);
            way.pop();
        }
    }

    fn without(tree: &Tree, way: &[Step]) -> Tree {
        let Some((step, rest)) = way.split_first() else { return Tree::Null };
        match (step, tree) {
            (Step::Field(name), Tree::Map(map)) if map.get(name).is_some() => Tree::map(
                map.iter()
                    .map(|(key, value)| match key == name {
                        true => (Text::from(key), without(value, rest)),
                        false => (Text::from(key), value.clone()),
                    })
                    .collect(),
            ),
            (Step::Each, Tree::Map(map)) => {
                Tree::map(map.iter().map(|(key, value)| (Text::from(key), without(value, rest))).collect())
            }
            (Step::Each, Tree::List(list)) => {
                list.iter().map(|item| without(item, rest)).collect::<Vec<_>>().into()
            }
            _ => tree.clone(),
        }
    }
}
