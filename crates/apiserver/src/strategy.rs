//! The differences between kinds, as data.
//!
//! No kind has a handler of its own. Where a kind differs from others, its [`Strategy`] says so. The
//! strategies of all built-in kinds are in one table, the only place that names kinds; a test checks that
//! (`tests/it/kind_names.rs`). A resource looks up its strategy once, when it is registered.
//!
//! Fields that the server sets in objects of built-in kinds are the task of [`evenkeel_schema::prepare`], and
//! the rules for their content are in [`evenkeel_schema::validate`].

mod table;

/// How a kind differs from others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Strategy {
    /// Whether a PUT creates an object that does not exist.
    pub(crate) allow_create_on_update: bool,
    /// Whether a PUT without a resource version is accepted.
    pub(crate) allow_unconditional_update: bool,
    /// Whether the response to a deletion is the deleted object instead of a Status.
    pub(crate) returns_deleted_object: bool,
    /// Whether dependents are orphaned if the client names no propagation policy.
    pub(crate) orphans_dependents: bool,
    /// Whether the garbage collector ignores objects as owners, so that deletions ignore the propagation policy.
    pub(crate) ignores_dependents: bool,
    /// How objects are deleted.
    pub(crate) deletion: Deletion,
    /// The warning about a deletion whose client names no propagation policy.
    pub(crate) deletion_warning: Option<&'static str>,
    /// The names of objects that the system needs, which nobody may delete by name.
    pub(crate) undeletable: &'static [&'static str],
    /// The warning that is sent with every response, for a resource that is deprecated.
    pub(crate) deprecation: Option<&'static str>,
    /// Whether objects define resources that the server serves.
    pub(crate) declares_resources: bool,
    /// Whether the server allocates addresses and ports for objects.
    pub(crate) allocates_addresses: bool,
    /// Whether an object may be created without a name, which the server then generates.
    pub(crate) generates_missing_name: bool,
    /// Whether the server records the creating user in the spec.
    pub(crate) records_requester: bool,
    /// Whether clients may write `data` as plain text in `stringData`.
    pub(crate) has_string_data: bool,
    /// Whether a new object without labels gets the labels of its pod template.
    pub(crate) takes_template_labels: bool,
    /// Whether `spec.selector` is a map of labels instead of a LabelSelector.
    pub(crate) selects_by_label_map: bool,
    /// Whether objects run on the node that `spec.nodeName` names.
    pub(crate) runs_on_node: bool,
    /// The API group in error messages about invalid objects, if it is not the resource's own.
    pub(crate) error_group: Option<&'static str>,
    /// The API group and version in which objects are stored, if they differ from the served ones.
    pub(crate) storage_version: Option<(&'static str, &'static str)>,
    /// The served version that needs a conversion, and the conversion.
    pub(crate) conversion: Option<(&'static str, Conversion)>,
    /// The condition that the server itself reports after a write.
    pub(crate) report: Option<Report>,
    /// How requests are answered if objects of the resource are not stored.
    pub(crate) unstored: Option<Unstored>,
}

/// How objects of a kind are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deletion {
    /// At once, unless the object has finalizers.
    Immediate,
    /// After a grace period, in which the node stops the containers.
    Graceful,
    /// After the contents of the namespace are deleted.
    NamespaceContents,
    /// After the custom resources of the CRD are deleted.
    CustomResources,
}

/// A conversion between the served and the stored version of a built-in kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conversion {
    Event,
    HorizontalPodAutoscaler,
}

/// A condition that the server itself reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// Whether the API that the object announces is available.
    Availability,
    /// Whether the priority level exists that the object refers to.
    Reference,
    /// The objects that refer to this priority level.
    Referenced,
}

/// A resource whose objects are answered but never stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unstored {
    Binding,
    ComponentStatus,
    LocalSubjectAccessReview,
    SelfSubjectAccessReview,
    SelfSubjectReview,
    SelfSubjectRulesReview,
    SubjectAccessReview,
    TokenReview,
}

impl Strategy {
    /// The strategy of custom resources.
    pub(crate) const CUSTOM: Self = Self {
        allow_create_on_update: false,
        allow_unconditional_update: false,
        returns_deleted_object: false,
        orphans_dependents: false,
        ignores_dependents: false,
        deletion: Deletion::Immediate,
        deletion_warning: None,
        undeletable: &[],
        deprecation: None,
        declares_resources: false,
        allocates_addresses: false,
        generates_missing_name: false,
        records_requester: false,
        has_string_data: false,
        takes_template_labels: false,
        selects_by_label_map: false,
        runs_on_node: false,
        error_group: None,
        storage_version: None,
        conversion: None,
        report: None,
        unstored: None,
    };

    /// The strategy of built-in kinds without special rules.
    pub(crate) const BUILT_IN: Self = Self { allow_unconditional_update: true, ..Self::CUSTOM };

    /// The strategy of a built-in kind.
    pub(crate) fn of(group: &str, kind: &str) -> &'static Self {
        let own = table::STRATEGIES.iter().find(|it| it.0 == group && it.1 == kind);
        own.map_or(&Self::BUILT_IN, |(_, _, strategy)| strategy)
    }
}

impl Default for &'static Strategy {
    fn default() -> Self {
        &Strategy::CUSTOM
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_schema::api_resources;

    use super::*;

    #[test]
    fn every_strategy_is_that_of_a_kind_and_stands_once() {
        for (at, (group, kind, strategy)) in table::STRATEGIES.iter().enumerate() {
            let known = api_resources::resources().iter().any(|it| it.group == *group && it.kind == *kind);
            assert!(known, "{group}/{kind} is not a built-in kind");
            assert_ne!(*strategy, Strategy::BUILT_IN, "{group}/{kind} has nothing of its own");
            let again = table::STRATEGIES[at + 1..].iter().any(|it| it.0 == *group && it.1 == *kind);
            assert!(!again, "{group}/{kind} stands twice");
        }
    }

    #[test]
    fn what_can_only_be_created_is_not_stored() {
        for resource in api_resources::resources() {
            let unstored = Strategy::of(resource.group, resource.kind).unstored;
            let is_answered = unstored.is_some_and(|it| it != Unstored::ComponentStatus);
            assert_eq!(resource.verbs == ["create"], is_answered, "{}", resource.kind);
        }
    }
}
