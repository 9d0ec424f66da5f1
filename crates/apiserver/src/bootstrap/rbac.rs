//! The roles and bindings in `facts/rbac.txt`, whose first lines explain its format.
//!
//! Roles and bindings are most of a new cluster's objects, and the first cluster of every process waits for
//! them. Therefore they are encoded directly from the file, without a JSON tree in between.

use evenkeel_env::Env;
use evenkeel_store::{Expect, Write};

use crate::Header;
use crate::header::Plain;
use crate::registry::storage_prefix;
use crate::storage::StorableObject;

const FACTS: &str = include_str!("../../facts/rbac.txt");
const API_VERSION: &str = "rbac.authorization.k8s.io/v1";
const GROUP: &str = "rbac.authorization.k8s.io";
const LABEL: (&str, &str) = ("kubernetes.io/bootstrapping", "rbac-defaults");
const ANNOTATION: (&str, &str) = ("rbac.authorization.kubernetes.io/autoupdate", "true");

/// A role or a binding.
struct Object {
    /// `Role` or `RoleBinding`, with the prefix `Cluster` if it is cluster-scoped.
    kind: &'static str,
    /// The plural name of the resource.
    plural: &'static str,
    namespace: &'static str,
    name: &'static str,
    /// The aggregated cluster role that collects this role's rules.
    to: Option<&'static str>,
    content: Content,
}

enum Content {
    /// The lines of the role's rules, and whether the role is aggregated from others.
    Role(Vec<&'static str>, bool),
    /// The role that is bound, and the subjects.
    Binding(&'static str, Vec<&'static str>),
}

/// The writes that create the roles and bindings.
pub(super) fn writes(env: &Env, now: &str) -> Vec<Write<Header>> {
    let (roles, bindings) = objects();
    bindings.iter().chain(&roles).map(|object| object.write(env, now)).collect()
}

/// Parses the file into roles, aggregated ones included, and bindings.
fn objects() -> (Vec<Object>, Vec<Object>) {
    let (mut roles, mut bindings) = (Vec::new(), Vec::new());
    for line in FACTS.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ').filter(|word| !word.is_empty());
        match (words.next(), words.next()) {
            (Some("role"), Some(name)) => roles.push(Object::role(name, words, false)),
            (Some("gather"), Some(name)) => roles.push(Object::role(name, words, true)),
            (Some("bind"), Some(name)) => bindings.extend(Object::binding(name, words)),
            _ => {
                if let Some(Object { content: Content::Role(rules, _), .. }) = roles.last_mut() {
                    rules.push(line.trim());
                }
            }
        }
    }
    gather(&mut roles);
    (roles, bindings)
}

impl Object {
    fn role(name: &'static str, rest: impl Iterator<Item = &'static str>, gathers: bool) -> Self {
        let (mut namespace, mut to) = ("", None);
        let mut rest = rest;
        while let (Some(word), Some(value)) = (rest.next(), rest.next()) {
            match word {
                "in" => namespace = value,
                _ => to = Some(value),
            }
        }
        let (kind, plural) = match namespace {
            "" => ("ClusterRole", "clusterroles"),
            _ => ("Role", "roles"),
        };
        Self { kind, plural, namespace, name, to, content: Content::Role(Vec::new(), gathers) }
    }

    fn binding(name: &'static str, mut rest: impl Iterator<Item = &'static str>) -> Option<Self> {
        let role = rest.next()?;
        let mut subjects: Vec<&str> = rest.collect();
        let mut namespace = "";
        if let ["in", inside, ..] = subjects.as_slice() {
            namespace = inside;
            subjects.drain(..2);
        }
        let (kind, plural) = match namespace {
            "" => ("ClusterRoleBinding", "clusterrolebindings"),
            _ => ("RoleBinding", "rolebindings"),
        };
        Some(Self { kind, plural, namespace, name, to: None, content: Content::Binding(role, subjects) })
    }

    fn write(&self, env: &Env, now: &str) -> Write<Header> {
        let label = self.to.map(aggregation_label);
        let mut labels = vec![LABEL];
        labels.extend(label.as_deref().map(|label| (label, "true")));
        let object = Plain {
            api_version: API_VERSION,
            kind: self.kind,
            namespace: self.namespace,
            name: self.name,
            uid: &env.uid(),
            created: now,
            labels: &labels,
            annotations: &[ANNOTATION],
        };
        let storable = StorableObject::plain(&object, |out| self.content.print(self, out));
        let mut key = storage_prefix(GROUP, self.plural);
        if !self.namespace.is_empty() {
            key.push_str(self.namespace);
            key.push('/');
        }
        key.push_str(self.name);
        Write { key: key.into(), expect: Expect::Absent, op: storable.into_op() }
    }
}

impl Content {
    /// Writes the fields after the metadata, in canonical order. Nothing in the file needs escaping.
    fn print(&self, object: &Object, out: &mut String) {
        match self {
            Self::Role(rules, gathers) => {
                print_list(out, r#""rules":"#, rules.iter().copied(), print_rule);
                if *gathers {
                    out.push_str(r#","aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{""#);
                    out.push_str(&aggregation_label(object.name));
                    out.push_str(r#"":"true"}}]}"#);
                }
            }
            Self::Binding(role, subjects) => {
                let kind = object.kind.trim_end_matches("Binding");
                if !subjects.is_empty() {
                    print_list(out, r#""subjects":"#, subjects.iter().copied(), print_subject);
                    out.push(',');
                }
                out.extend([
                    r#""roleRef":{"apiGroup":""#,
                    GROUP,
                    r#"","kind":""#,
                    kind,
                    r#"","name":""#,
                    role,
                    "\"}",
                ]);
            }
        }
    }
}

/// Collects the rules of aggregated roles, as the aggregation controller would, until nothing changes.
fn gather(roles: &mut [Object]) {
    let mut order: Vec<usize> = (0..roles.len()).collect();
    order.sort_by_key(|at| roles[*at].name);
    loop {
        let mut changed = false;
        for &at in &order {
            let Content::Role(old, true) = &roles[at].content else { continue };
            let mut rules: Vec<&str> = Vec::new();
            for from in order.iter().map(|from| &roles[*from]).filter(|it| it.to == Some(roles[at].name)) {
                let Content::Role(more, _) = &from.content else { continue };
                for rule in more {
                    if !rules.contains(rule) {
                        rules.push(rule);
                    }
                }
            }
            changed |= rules != *old;
            roles[at].content = Content::Role(rules, true);
        }
        if !changed {
            return;
        }
    }
}

/// Writes a field whose value is a list.
fn print_list<'a>(
    out: &mut String,
    member: &str,
    items: impl Iterator<Item = &'a str>,
    print: impl Fn(&mut String, &'a str),
) {
    out.push_str(member);
    out.push('[');
    for (at, item) in items.enumerate() {
        if at > 0 {
            out.push(',');
        }
        print(out, item);
    }
    out.push(']');
}

fn print_rule(out: &mut String, line: &str) {
    let words = |member: &str, word: &str, out: &mut String| {
        print_list(out, member, word.split(','), |out, it| {
            out.extend(["\"", if it == "core" { "" } else { it }, "\""]);
        });
    };
    let mut parts = line.split(' ');
    let (verbs, groups, resources) = (parts.next(), parts.next(), parts.next());
    let resources = resources.unwrap_or_default();
    out.push('{');
    words(r#""verbs":"#, verbs.unwrap_or_default(), out);
    match groups.unwrap_or_default() {
        "url" => words(r#","nonResourceURLs":"#, resources, out),
        groups => {
            words(r#","apiGroups":"#, groups, out);
            words(r#","resources":"#, resources, out);
            if let Some(names) = parts.next() {
                words(r#","resourceNames":"#, names, out);
            }
        }
    }
    out.push('}');
}

fn print_subject(out: &mut String, text: &str) {
    let (kind, name) = text.split_once(':').unwrap_or_default();
    let group = |kind| [r#"{"kind":""#, kind, r#"","apiGroup":""#, GROUP, r#"","name":""#, name, "\"}"];
    match kind {
        "user" => out.extend(group("User")),
        "group" => out.extend(group("Group")),
        _ => out.extend([r#"{"kind":"ServiceAccount","name":""#, name, r#"","namespace":"kube-system"}"#]),
    }
}

fn aggregation_label(role: &str) -> String {
    format!("rbac.authorization.k8s.io/aggregate-to-{role}")
}
