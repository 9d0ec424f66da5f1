//! The variables that expressions of policies and match conditions may use, with their types.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_cel::{Declaration, OpaqueType, Shape, Type, compile};

/// The structs of `request` and `namespaceObject`: a name, and its fields with their types. `s` is a string, `i` an int, `b` a
/// bool, `t` a timestamp, `d` dyn, `[` a list, `{` a map from strings, `@` a struct above.
const STRUCTS: &str = "\
GroupVersionKind group:s version:s kind:s
GroupVersionResource group:s version:s resource:s
UserInfo username:s uid:s groups:[s extra:{[s
AdmissionRequest kind:@GroupVersionKind resource:@GroupVersionResource subResource:s requestKind:@GroupVersionKind \
requestResource:@GroupVersionResource requestSubResource:s name:s namespace:s operation:s userInfo:@UserInfo dryRun:b options:d
NamespaceSpec finalizers:[s
NamespaceCondition status:s type:s lastTransitionTime:t message:s reason:s
NamespaceStatus conditions:[@NamespaceCondition phase:s
NamespaceMetadata name:s generateName:s namespace:s labels:{s annotations:{s UID:s creationTimestamp:t \
deletionGracePeriodSeconds:i deletionTimestamp:t generation:i resourceVersion:s finalizers:[s
Namespace metadata:@NamespaceMetadata spec:@NamespaceSpec status:@NamespaceStatus
";

type Structs = BTreeMap<&'static str, Arc<Declaration>>;

/// The variables of an expression and their types.
#[derive(Debug, Clone)]
pub(crate) struct Environment {
    types: Vec<(&'static str, Type)>,
    /// The policy's own variables defined so far, or `None` if expressions cannot use any.
    variables: Option<BTreeMap<String, Arc<Declaration>>>,
}

impl Environment {
    /// Returns the variables of match conditions. `params` says whether there is a parameter object.
    pub(crate) fn of_conditions(params: bool) -> Self {
        let structs = structs();
        let of = |name: &str| structs.get(name).map_or(Type::Dyn, |it| it.cel_type());
        let mut types = vec![
            ("object", Type::Dyn),
            ("oldObject", Type::Dyn),
            ("request", of("AdmissionRequest")),
            ("namespaceObject", of("Namespace")),
            ("authorizer", Type::Opaque(OpaqueType::Authorizer)),
        ];
        types.extend(params.then_some(("params", Type::Dyn)));
        Self { types, variables: None }
    }

    /// Returns the variables of a policy's expressions. `named` says whether the policy defines variables of its own.
    pub(crate) fn of_policy(params: bool, named: bool) -> Self {
        Self { variables: named.then(BTreeMap::new), ..Self::of_conditions(params) }
    }

    /// Returns the variables of device selectors.
    pub(crate) fn of_devices() -> Self {
        Self { types: vec![("device", Type::Dyn)], variables: None }
    }

    /// Defines a variable of the policy, with the type of its expression.
    pub(crate) fn define(&mut self, name: &str, source: &str) {
        let found = compile(source, &self.types()).map_or(Type::Dyn, |checked| checked.result().clone());
        if let Some(variables) = &mut self.variables {
            variables.insert(name.to_owned(), simple(found));
        }
    }

    /// All variables with their types.
    pub(super) fn types(&self) -> Vec<(&'static str, Type)> {
        let mut types = self.types.clone();
        if let Some(variables) = &self.variables {
            types.push(("variables", object("kubernetes.variables", variables.clone()).cel_type()));
        }
        types
    }
}

fn structs() -> Structs {
    let mut structs = Structs::new();
    for line in STRUCTS.lines() {
        let mut words = line.split_whitespace();
        let Some(name) = words.next() else { continue };
        let fields = words.filter_map(|word| word.split_once(':'));
        let fields = fields.map(|(field, kind)| (field.to_owned(), declared(&structs, kind)));
        let made = object(&format!("kubernetes.{name}"), fields.collect());
        structs.insert(name, made);
    }
    structs
}

fn declared(structs: &Structs, kind: &str) -> Arc<Declaration> {
    let mut letters = kind.chars();
    match letters.next() {
        Some('s') => simple(Type::String),
        Some('i') => simple(Type::Int),
        Some('b') => simple(Type::Bool),
        Some('t') => simple(Type::Timestamp),
        Some('[') => shaped(Shape::List(declared(structs, letters.as_str())), ""),
        Some('{') => {
            let value = declared(structs, letters.as_str()).cel_type();
            simple(Type::map(Type::String, value))
        }
        Some('@') => structs.get(letters.as_str()).cloned().unwrap_or_else(|| simple(Type::Dyn)),
        _ => simple(Type::Dyn),
    }
}

fn object(name: &str, fields: BTreeMap<String, Arc<Declaration>>) -> Arc<Declaration> {
    shaped(Shape::Object(fields), name)
}

fn simple(kind: Type) -> Arc<Declaration> {
    shaped(Shape::Simple(kind), "")
}

fn shaped(shape: Shape, name: &str) -> Arc<Declaration> {
    Arc::new(Declaration { shape, name: name.to_owned(), elements_max: 0, bytes_min: 1 })
}

#[cfg(test)]
mod tests {
    use super::super::expression::{Expected, check_expression};
    use super::*;

    #[test]
    fn the_request_has_known_fields() {
        let check =
            |source: &str| check_expression(source, &Environment::of_conditions(false), Expected::Bool);
        assert_eq!(check("request.dryRun"), Ok(()));
        assert_eq!(check("request.userInfo.extra['a'][0] == 'b'"), Ok(()));
        assert!(check("request.bogus == 1").unwrap_err().contains("undefined field 'bogus'"));
        assert!(check("params.x == 1").unwrap_err().contains("undeclared reference to 'params'"));
        assert!(check("variables.x == 1").unwrap_err().contains("undeclared reference to 'variables'"));
        assert_eq!(check("authorizer.requestResource.check('get').allowed()"), Ok(()));
        assert!(
            check("authorizer.group('a').check('get').allowed()").is_err(),
            "a group alone cannot be checked"
        );
    }

    #[test]
    fn variables_have_the_types_of_their_expressions() {
        let mut environment = Environment::of_policy(false, true);
        environment.define("yes", "true");
        assert_eq!(check_expression("variables.yes", &environment, Expected::Bool), Ok(()));
        let problem = check_expression("variables.no", &environment, Expected::Bool).unwrap_err();
        assert!(problem.contains("undefined field 'no'"), "{problem}");
    }
}
