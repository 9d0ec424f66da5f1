//! Whether an expression is well typed, and what its calls mean.
//!
//! The inference is that of the language's definition: type parameters are bound by use, `dyn` goes with everything,
//! and each error is said in Kubernetes' words at the place where it shows.

use super::functions::{self, Overload};
use super::issue::{Issue, Issues};
use super::kind::{Kind, Opaque};
use super::literals;
use super::syntax::{Entry, Fold, Id, Literal, Member, Node, Tree};
use super::unify::Bindings;
use super::{JSON_PATCH, OBJECT};

/// An expression that is well typed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Checked {
    pub(super) tree: Tree,
    /// The type of each node.
    pub(super) kinds: Vec<Kind>,
    /// The overloads that each call can mean: more than one where types are not known before the rule runs.
    pub(super) overloads: Vec<Vec<&'static str>>,
    /// The variables that are used.
    pub(super) used: Vec<Box<str>>,
}

impl Checked {
    /// The type of the whole expression.
    pub(super) fn result(&self) -> &Kind {
        &self.kinds[self.tree.root]
    }
}

/// Checks an expression that may use the given variables.
pub(super) fn check(source: &str, tree: Tree, variables: &[(&str, Kind)]) -> Result<Checked, Issues> {
    check_with(source, tree, variables, false)
}

/// The same for an expression that may make the structs of mutations.
pub(super) fn check_with(
    source: &str,
    tree: Tree,
    variables: &[(&str, Kind)],
    structs: bool,
) -> Result<Checked, Issues> {
    let nodes = tree.nodes.len();
    let mut checker = Checker {
        tree,
        kinds: vec![None; nodes],
        overloads: vec![Vec::new(); nodes],
        bindings: Bindings::default(),
        scope: variables.iter().map(|(name, kind)| ((*name).into(), kind.clone())).collect(),
        globals: variables.len(),
        structs,
        used: Vec::new(),
        issues: Vec::new(),
    };
    checker.node(checker.tree.root);
    if !checker.issues.is_empty() {
        return Err(Issues::new(source, checker.issues));
    }
    let Checker { tree, kinds, overloads, bindings, used, .. } = checker;
    let kinds = kinds.into_iter().map(|kind| bindings.resolved(&kind.unwrap_or(Kind::Dyn))).collect();
    let checked = Checked { tree, kinds, overloads, used };
    let issues = literals::check(&checked);
    match issues.is_empty() {
        true => Ok(checked),
        false => Err(Issues::new(source, issues)),
    }
}

struct Checker {
    tree: Tree,
    kinds: Vec<Option<Kind>>,
    overloads: Vec<Vec<&'static str>>,
    bindings: Bindings,
    /// The variables, innermost last; the first `globals` are those of the rule.
    scope: Vec<(Box<str>, Kind)>,
    globals: usize,
    /// Whether the structs of mutations are known.
    structs: bool,
    used: Vec<Box<str>>,
    issues: Vec<Issue>,
}

impl Checker {
    fn fail(&mut self, id: Id, message: impl Into<String>) {
        self.issues.push(Issue { place: self.tree.places[id], message: message.into() });
    }

    fn undeclared(&mut self, id: Id, name: &str) -> Kind {
        self.fail(id, format!("undeclared reference to '{name}' (in container '')"));
        Kind::Error
    }

    /// The type of a node, which is found once: macros may share a node.
    fn node(&mut self, id: Id) -> Kind {
        if let Some(kind) = &self.kinds[id] {
            return kind.clone();
        }
        let node = self.tree.nodes[id].clone();
        let kind = match node {
            Node::Literal(literal) => literal_kind(&literal),
            Node::Ident(name) => self.ident(id, &name),
            Node::Select { operand, field, test } => self.select(id, operand, &field, test),
            Node::Call { function, target, args } => self.call(id, &function, target, &args),
            Node::List { items, optional } => self.list(&items, &optional),
            Node::Map { entries } => self.map(&entries),
            Node::Struct { name, fields } => self.structure(id, &name, &fields),
            Node::Fold(fold) => self.fold(&fold),
        };
        self.kinds[id] = Some(kind.clone());
        kind
    }

    /// A struct; only mutations make some.
    fn structure(&mut self, id: Id, name: &str, fields: &[Member]) -> Kind {
        let known = name == JSON_PATCH || name == OBJECT || name.starts_with("Object.");
        if !self.structs || !known {
            return self.undeclared(id, name);
        }
        for field in fields {
            self.node(field.value);
            let known = matches!(&*field.name, "op" | "path" | "from" | "value");
            if name == JSON_PATCH && !known {
                self.fail(field.value, format!("undefined field '{}'", field.name));
            }
        }
        Kind::structure(name)
    }

    fn ident(&mut self, id: Id, name: &str) -> Kind {
        let plain = name.strip_prefix('.').unwrap_or(name);
        if let Some(at) = self.scope.iter().rposition(|(known, _)| known.as_ref() == plain) {
            if at < self.globals && !self.used.iter().any(|used| used.as_ref() == plain) {
                self.used.push(plain.into());
            }
            let kind = self.scope[at].1.clone();
            self.tree.nodes[id] = Node::Ident(plain.into());
            return kind;
        }
        match type_value(plain) {
            Some(kind) => {
                self.tree.nodes[id] = Node::Literal(Literal::Type(kind.clone()));
                Kind::type_of(kind)
            }
            None => self.undeclared(id, name),
        }
    }

    fn select(&mut self, id: Id, operand: Id, field: &str, test: bool) -> Kind {
        if !test
            && let Some(name) = self.qualified(id)
            && let Some(kind) = type_value(&name)
        {
            self.tree.nodes[id] = Node::Literal(Literal::Type(kind.clone()));
            return Kind::type_of(kind);
        }
        let kind = self.field(id, operand, field, false);
        if test { Kind::Bool } else { self.bindings.substituted(&kind) }
    }

    /// The name that a chain of selections spells.
    fn qualified(&self, id: Id) -> Option<String> {
        match &self.tree.nodes[id] {
            Node::Ident(name) => Some(name.to_string()),
            Node::Select { operand, field, test: false } => {
                Some(format!("{}.{field}", self.qualified(*operand)?))
            }
            _ => None,
        }
    }

    fn field(&mut self, id: Id, operand: Id, field: &str, optional: bool) -> Kind {
        let kind = self.node(operand);
        let kind = self.bindings.substituted(&kind);
        let (target, is_optional) = match &kind {
            Kind::Optional(of) => (of.as_ref().clone(), true),
            _ => (kind, false),
        };
        let result = match &target {
            Kind::Map(of) => of.1.clone(),
            Kind::Object(object) => match object.field(field) {
                Some(field) => field.kind(),
                None => {
                    self.fail(id, format!("undefined field '{field}'"));
                    Kind::Error
                }
            },
            Kind::Opaque(opaque) if !matches!(opaque, Opaque::Ip | Opaque::Cidr) => {
                self.fail(id, format!("unexpected failed resolution of '{}'", opaque.name()));
                Kind::Error
            }
            Kind::Param(_) => {
                self.bindings.assign(&Kind::Dyn, &target);
                Kind::Dyn
            }
            Kind::Dyn | Kind::Error => Kind::Dyn,
            other => {
                self.fail(id, format!("type '{other}' does not support field selection"));
                Kind::Dyn
            }
        };
        if is_optional || optional { Kind::optional(result) } else { result }
    }

    fn call(&mut self, id: Id, function: &str, target: Option<Id>, args: &[Id]) -> Kind {
        if function == "_?._" {
            return self.optional_select(id, args);
        }
        for arg in args {
            self.node(*arg);
        }
        let Some(target) = target else {
            return match functions::find(function) {
                Some(overloads) => self.resolve(id, function, overloads, None, args),
                None => self.undeclared(id, function),
            };
        };
        if let Some(prefix) = self.qualified(target) {
            let name = format!("{prefix}.{function}");
            if let Some(overloads) = functions::find(&name) {
                let node = Node::Call { function: name.as_str().into(), target: None, args: args.to_vec() };
                self.tree.nodes[id] = node;
                return self.resolve(id, &name, overloads, None, args);
            }
        }
        self.node(target);
        match functions::find(function) {
            Some(overloads) => self.resolve(id, function, overloads, Some(target), args),
            None => self.undeclared(id, function),
        }
    }

    fn optional_select(&mut self, id: Id, args: &[Id]) -> Kind {
        let &[operand, field] = args else { return Kind::Error };
        let Node::Literal(Literal::String(name)) = self.tree.nodes[field].clone() else {
            self.fail(field, "unsupported optional field selection");
            return Kind::Error;
        };
        self.kinds[field] = Some(Kind::String);
        let kind = self.field(id, operand, &name, true);
        self.overloads[id] = vec!["select_optional_field"];
        self.bindings.substituted(&kind)
    }

    fn resolve(
        &mut self,
        id: Id,
        function: &str,
        overloads: &'static [Overload],
        target: Option<Id>,
        args: &[Id],
    ) -> Kind {
        let given: Vec<Kind> = target.iter().chain(args).map(|arg| self.node(*arg)).collect();
        if matches!(function, "_&&_" | "_||_") {
            return self.logic(id, overloads, args, &given);
        }
        let mut result: Option<Kind> = None;
        for overload in overloads.iter().filter(|it| it.member == target.is_some()) {
            let (wanted, returned) = self.bindings.instance(overload);
            if self.bindings.assign_all(&given, &wanted) {
                self.overloads[id].push(overload.id);
                let returned = self.bindings.substituted(&returned);
                result = Some(match result {
                    Some(known) if known == returned => known,
                    Some(_) => Kind::Dyn,
                    None => returned,
                });
            }
        }
        result.unwrap_or_else(|| {
            let shown: Vec<String> =
                given.iter().map(|kind| self.bindings.resolved(kind).to_string()).collect();
            let signature = match target {
                Some(_) => format!("{}.({})", shown[0], shown[1..].join(", ")),
                None => format!("({})", shown.join(", ")),
            };
            self.fail(id, format!("found no matching overload for '{function}' applied to '{signature}'"));
            Kind::Error
        })
    }

    fn logic(&mut self, id: Id, overloads: &'static [Overload], args: &[Id], given: &[Kind]) -> Kind {
        let mut wrong = false;
        for (arg, kind) in args.iter().zip(given) {
            if !self.bindings.assign(kind, &Kind::Bool) {
                let kind = self.bindings.substituted(kind);
                self.fail(*arg, format!("expected type 'bool' but found '{kind}'"));
                wrong = true;
            }
        }
        self.overloads[id] = overloads.iter().map(|overload| overload.id).collect();
        if wrong { Kind::Error } else { Kind::Bool }
    }

    /// The type of what may be absent, or an error where it is not optional at all.
    fn unwrapped(&mut self, id: Id, kind: Kind) -> Kind {
        match kind {
            Kind::Optional(of) => of.as_ref().clone(),
            Kind::Dyn => Kind::Dyn,
            other => {
                self.fail(id, format!("expected type 'optional_type({other})' but found '{other}'"));
                other
            }
        }
    }

    fn list(&mut self, items: &[Id], optional: &[usize]) -> Kind {
        let mut joined = None;
        for (index, item) in items.iter().enumerate() {
            let mut kind = self.node(*item);
            if optional.contains(&index) {
                kind = self.unwrapped(*item, kind);
            }
            joined = Some(self.join(joined, kind));
        }
        Kind::list(joined.unwrap_or_else(|| self.bindings.fresh()))
    }

    fn map(&mut self, entries: &[Entry]) -> Kind {
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            let key = self.node(entry.key);
            keys = Some(self.join(keys, key));
            let mut value = self.node(entry.value);
            if entry.optional {
                value = self.unwrapped(entry.value, value);
            }
            values = Some(self.join(values, value));
        }
        let key = keys.unwrap_or_else(|| self.bindings.fresh());
        Kind::map(key, values.unwrap_or_else(|| self.bindings.fresh()))
    }

    fn join(&mut self, known: Option<Kind>, kind: Kind) -> Kind {
        match known {
            None => kind,
            Some(known) if self.bindings.assign(&known, &kind) => known.most_general(kind),
            Some(_) => Kind::Dyn,
        }
    }

    fn fold(&mut self, fold: &Fold) -> Kind {
        let range = self.node(fold.range);
        let accumulated = self.node(fold.init);
        let range = self.bindings.substituted(&range);
        self.scope.push((fold.accumulator.clone(), accumulated.clone()));
        let (first, second) = self.variables(fold, &range);
        self.scope.push((fold.var.clone(), first));
        let inner = usize::from(fold.var2.is_some());
        if let Some(name) = &fold.var2 {
            self.scope.push((name.clone(), second));
        }
        self.node(fold.condition);
        self.expect(fold.condition, &Kind::Bool);
        self.node(fold.step);
        self.expect(fold.step, &accumulated);
        self.scope.truncate(self.scope.len() - 1 - inner);
        let result = self.node(fold.result);
        self.scope.pop();
        self.bindings.substituted(&result)
    }

    /// The types of the variables of a loop: items, or keys, or both.
    fn variables(&mut self, fold: &Fold, range: &Kind) -> (Kind, Kind) {
        let two = fold.var2.is_some();
        match range {
            Kind::List(of) if two => (Kind::Int, of.as_ref().clone()),
            Kind::List(of) => (of.as_ref().clone(), Kind::Dyn),
            Kind::Map(of) => (of.0.clone(), of.1.clone()),
            Kind::Dyn | Kind::Error | Kind::Param(_) => {
                self.bindings.assign(&Kind::Dyn, range);
                (Kind::Dyn, Kind::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.fail(fold.range, message);
                (Kind::Error, Kind::Error)
            }
        }
    }

    fn expect(&mut self, id: Id, wanted: &Kind) {
        let kind = self.node(id);
        if !self.bindings.assign(wanted, &kind) {
            let (wanted, kind) = (self.bindings.substituted(wanted), self.bindings.substituted(&kind));
            self.fail(id, format!("expected type '{wanted}' but found '{kind}'"));
        }
    }
}

/// The type that a name stands for as a value.
fn type_value(name: &str) -> Option<Kind> {
    Some(match name {
        "list" => Kind::list(Kind::Dyn),
        "map" => Kind::map(Kind::Dyn, Kind::Dyn),
        "type" => Kind::type_of(Kind::Dyn),
        "optional_type" => Kind::optional(Kind::Dyn),
        "dyn" => return None,
        // The objects of Kubernetes' libraries have no name that expressions could use.
        name if name.starts_with("kubernetes.") => return None,
        name => functions::type_named(name)?,
    })
}

fn literal_kind(literal: &Literal) -> Kind {
    match literal {
        Literal::Null => Kind::Null,
        Literal::Bool(_) => Kind::Bool,
        Literal::Int(_) => Kind::Int,
        Literal::Uint(_) => Kind::Uint,
        Literal::Double(_) => Kind::Double,
        Literal::String(_) => Kind::String,
        Literal::Bytes(_) => Kind::Bytes,
        Literal::Type(kind) => Kind::type_of(kind.clone()),
    }
}
