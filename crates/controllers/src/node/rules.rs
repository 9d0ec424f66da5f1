//! Rules for what containers do, selected by image, labels, namespace and container name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::behaviour::{Behaviour, InvalidWord, PREFIX};
use crate::kinds::Pod;

/// Selects containers by their image, the labels and the namespace of their pod, and their name. Without conditions, it
/// selects all containers.
///
/// ```
/// use evenkeel_controllers::node::rules::Selector;
///
/// let servers = Selector::all().image("docker.io/library/postgres:*").label("app", "db").container("postgres");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    image: Option<String>,
    labels: BTreeMap<String, String>,
    namespace: Option<String>,
    container: Option<String>,
}

impl Selector {
    /// Selects all containers.
    pub fn all() -> Self {
        Self::default()
    }

    /// Restricts the selector to containers with this image. `*` matches any text.
    #[must_use]
    pub fn image(mut self, pattern: impl Into<String>) -> Self {
        self.image = Some(pattern.into());
        self
    }

    /// Restricts the selector to pods with this label.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Restricts the selector to pods in this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Restricts the selector to containers with this name.
    #[must_use]
    pub fn container(mut self, name: impl Into<String>) -> Self {
        self.container = Some(name.into());
        self
    }

    /// Returns whether the selector selects a container of a pod with this namespace and these labels.
    pub fn matches<'a>(
        &self,
        namespace: &str,
        label: impl Fn(&str) -> Option<&'a str>,
        container: &str,
        image: &str,
    ) -> bool {
        self.image.as_deref().is_none_or(|pattern| glob(pattern, image))
            && self.container.as_deref().is_none_or(|name| name == container)
            && self.namespace.as_deref().is_none_or(|wanted| wanted == namespace)
            && self.labels.iter().all(|(key, value)| label(key) == Some(value))
    }
}

/// A rule: selects containers, and says what they do. A rule without conditions selects all containers.
///
/// ```
/// use evenkeel_controllers::node::behaviour::Behaviour;
/// use evenkeel_controllers::node::rules::Rule;
///
/// let broken = Rule::new(Behaviour::new().pull_fails()).image("registry.example/web:*-rc*");
/// let slow = Rule::new(Behaviour::new().ready_after(std::time::Duration::from_secs(5))).label("app", "db");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    selector: Selector,
    behaviour: Behaviour,
}

impl Rule {
    /// Makes a rule for all containers.
    pub fn new(behaviour: Behaviour) -> Self {
        Self { behaviour, ..Self::default() }
    }

    /// Restricts the rule to containers with this image. `*` matches any text.
    #[must_use]
    pub fn image(mut self, pattern: impl Into<String>) -> Self {
        self.selector = self.selector.image(pattern);
        self
    }

    /// Restricts the rule to pods with this label.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.selector = self.selector.label(key, value);
        self
    }

    /// Restricts the rule to pods in this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.selector = self.selector.namespace(namespace);
        self
    }

    /// Restricts the rule to containers with this name.
    #[must_use]
    pub fn container(mut self, name: impl Into<String>) -> Self {
        self.selector = self.selector.container(name);
        self
    }

    /// Reads a rule from a map with the conditions `image`, `labels`, `namespace` and `container`, and with `does`, a map
    /// of [words](super::behaviour).
    ///
    /// # Errors
    /// Fails if there is an unknown member, a member of the wrong type, or an invalid word.
    pub fn from_json(value: &serde_json::Value) -> Result<Self, InvalidRule> {
        let members = value.as_object().ok_or(InvalidRule::Form("a rule is a map"))?;
        let mut rule = Self::default();
        for (name, value) in members {
            let text = || value.as_str().map(str::to_owned).ok_or(InvalidRule::Form("a condition is a text"));
            match name.as_str() {
                "image" => rule.selector.image = Some(text()?),
                "namespace" => rule.selector.namespace = Some(text()?),
                "container" => rule.selector.container = Some(text()?),
                "labels" => rule.selector.labels = texts(value)?,
                "does" => {
                    let words = texts(value)?;
                    let words = words.iter().map(|(word, value)| (word.as_str(), value.as_str()));
                    rule.behaviour = Behaviour::from_words(words)?;
                }
                _ => return Err(InvalidRule::Member(name.clone())),
            }
        }
        Ok(rule)
    }

    fn matches(&self, pod: &Pod, container: &str, image: &str) -> bool {
        self.selector.matches(pod.in_namespace(), |key| pod.label(key), container, image)
    }
}

/// Reads a map of strings. Numbers and booleans are converted to text.
fn texts(value: &serde_json::Value) -> Result<BTreeMap<String, String>, InvalidRule> {
    let members = value.as_object().ok_or(InvalidRule::Form("`labels` and `does` are maps of texts"))?;
    let text = |(name, value): (&String, &serde_json::Value)| match value {
        serde_json::Value::String(text) => Ok((name.clone(), text.clone())),
        serde_json::Value::Number(number) => Ok((name.clone(), number.to_string())),
        serde_json::Value::Bool(value) => Ok((name.clone(), value.to_string())),
        _ => Err(InvalidRule::Form("`labels` and `does` are maps of texts")),
    };
    members.iter().map(text).collect()
}

/// Why a rule cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRule {
    /// A part of the rule has the wrong type.
    #[error("{0}")]
    Form(&'static str),
    /// Rules have no such member.
    #[error("a rule has no {0:?}, only image, labels, namespace, container and does")]
    Member(String),
    /// A word or value is not in the vocabulary.
    #[error(transparent)]
    Word(#[from] InvalidWord),
}

/// The rules of a cluster's nodes. Clones share one set of rules. A change takes effect at once, also for running
/// containers.
#[derive(Clone, Default)]
pub struct Rules {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    rules: Arc<[Rule]>,
    /// Called after each change.
    listeners: Vec<Listener>,
}

/// Called after a change of the rules.
type Listener = Arc<dyn Fn() + Send + Sync>;

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.shared.lock().rules.iter()).finish()
    }
}

/// Two handles are equal if they share one set of rules.
impl PartialEq for Rules {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl Eq for Rules {}

impl Rules {
    /// Adds a rule, which precedes earlier rules.
    pub fn add(&self, rule: Rule) {
        self.change(|rules| rules.iter().cloned().chain([rule]).collect());
    }

    /// Removes all rules.
    pub fn clear(&self) {
        self.change(|_| Arc::new([]));
    }

    fn change(&self, change: impl FnOnce(&[Rule]) -> Arc<[Rule]>) {
        let listeners = {
            let mut shared = self.shared.lock();
            shared.rules = change(&shared.rules);
            shared.listeners.clone()
        };
        // Listeners take locks of their own.
        listeners.iter().for_each(|listener| listener());
    }

    /// Calls a function after each change.
    pub(crate) fn listen(&self, listener: impl Fn() + Send + Sync + 'static) {
        self.shared.lock().listeners.push(Arc::new(listener));
    }

    /// Returns the behaviours of the containers of a pod, by its annotations and the rules.
    pub(crate) fn behaviours<'a>(&self, pod: &'a Pod) -> Behaviours<'a> {
        let (mut of_all, mut of_one, mut invalid) = (Behaviour::default(), BTreeMap::new(), Vec::new());
        let words = pod.metadata.annotations.iter().flatten();
        for (word, value) in words.filter_map(|(key, value)| Some((key.strip_prefix(PREFIX)?, value))) {
            let set = match word.split_once('.') {
                None => of_all.set(word, value),
                Some((word, name)) => of_one.entry(name).or_insert_with(Behaviour::default).set(word, value),
            };
            invalid.extend(set.err());
        }
        Behaviours { pod, rules: self.shared.lock().rules.clone(), of_all, of_one, invalid }
    }
}

/// The behaviours of the containers of a pod. The annotations are read once, because there may be many containers.
#[derive(Debug)]
pub(crate) struct Behaviours<'a> {
    pod: &'a Pod,
    rules: Arc<[Rule]>,
    /// What annotations for all containers say, and those for one container, by its name.
    of_all: Behaviour,
    of_one: BTreeMap<&'a str, Behaviour>,
    /// The annotations that are invalid.
    pub(crate) invalid: Vec<InvalidWord>,
}

impl Behaviours<'_> {
    /// Returns the behaviour of a container.
    pub(crate) fn of(&self, container: &str, image: &str) -> Behaviour {
        let annotated = match self.of_one.get(container) {
            Some(own) => own.clone().over(&self.of_all),
            None => self.of_all.clone(),
        };
        let rules = self.rules.iter().rev().filter(|rule| rule.matches(self.pod, container, image));
        rules.fold(annotated, |behaviour, rule| behaviour.over(&rule.behaviour))
    }
}

/// Whether a text matches a pattern in which `*` matches any text.
fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::tests::pod;
    use serde_json::json;

    #[test]
    fn a_pattern_matches_the_whole_image() {
        for (pattern, image, matches) in [
            ("nginx", "nginx", true),
            ("nginx", "nginx:1", false),
            ("nginx:*", "nginx:1.29", true),
            ("*/web:*-rc*", "registry.example:5000/a/web:2-rc1", true),
            ("*/web:*-rc*", "registry.example/web:2", false),
            ("*", "", true),
            ("a*a", "a", false),
        ] {
            assert_eq!(glob(pattern, image), matches, "{pattern} {image}");
        }
    }

    #[test]
    fn the_annotation_of_a_container_counts_before_all_else() {
        let rules = Rules::default();
        rules.add(Rule::new(Behaviour::new().exit_code(1).never_ready()).image("i:*"));
        rules.add(Rule::new(Behaviour::new().exit_code(2)).label("app", "a").container("c"));
        let one = pod(json!({"metadata": {"labels": {"app": "a"}, "annotations": {
            "node.evenkeel.dev/exit-code.d": "4", "node.evenkeel.dev/run-for": "x"}}}));
        let behaviours = rules.behaviours(&one);
        assert_eq!(behaviours.of("c", "i:1"), Behaviour::new().exit_code(2).never_ready());
        assert_eq!(behaviours.of("d", "i:1"), Behaviour::new().exit_code(4).never_ready());
        assert_eq!(behaviours.invalid.len(), 1);
        rules.clear();
        assert_eq!(rules.behaviours(&one).of("c", "i:1"), Behaviour::default());
    }

    #[test]
    fn a_rule_is_read_from_a_file() {
        let rule = json!({"image": "i:*", "labels": {"a": "b"}, "does": {"exit-code": 3, "run-for": "2s"}});
        let expected = Rule::new(Behaviour::new().exit_code(3).run_for(std::time::Duration::from_secs(2)));
        assert_eq!(Rule::from_json(&rule), Ok(expected.image("i:*").label("a", "b")));
        let wrong = Rule::from_json(&json!({"images": "i"})).unwrap_err().to_string();
        assert_eq!(wrong, "a rule has no \"images\", only image, labels, namespace, container and does");
        assert!(Rule::from_json(&json!({"does": {"exit-code": "x"}})).is_err());
    }
}
