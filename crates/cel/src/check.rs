//! The type checker: finds the type of every node of an expression, and the overloads of every call.
//!
//! Type inference follows the definition of CEL: the use of a type parameter binds it, and `dyn` is assignable to and
//! from every type. Issues carry the messages of Kubernetes, at the position that Kubernetes reports.

mod functions;
mod literals;
mod unify;

use crate::issue::{Issue, Issues};
use crate::syntax::{Entry, Fold, Id, Literal, Member, Node, Tree};
use crate::types::{JSON_PATCH, OBJECT, Opaque, Type};

use functions::Overload;
use unify::Bindings;

/// An expression that is well typed.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    pub(crate) tree: Tree,
    /// The type of each node.
    pub(crate) types: Vec<Type>,
    /// The overloads that each call may resolve to: more than one if the types of its arguments are known only at run time.
    pub(crate) overloads: Vec<Vec<&'static str>>,
    /// The names of the variables that the expression uses.
    pub(crate) used: Vec<Box<str>>,
}

impl Checked {
    /// The type of the whole expression.
    pub fn result(&self) -> &Type {
        &self.types[self.tree.root]
    }

    /// Whether the expression uses the variable.
    pub fn uses(&self, variable: &str) -> bool {
        self.used.iter().any(|name| **name == *variable)
    }
}

/// Checks an expression that may use the given variables.
pub(crate) fn check(source: &str, tree: Tree, variables: &[(&str, Type)]) -> Result<Checked, Issues> {
    check_with(source, tree, variables, Structs::None)
}

/// Checks an expression of a mutating policy, which may make the structs `Object` and `JSONPatch`.
pub(crate) fn check_mutation(
    source: &str,
    tree: Tree,
    variables: &[(&str, Type)],
) -> Result<Checked, Issues> {
    check_with(source, tree, variables, Structs::Mutation)
}

/// The structs that an expression may make.
#[derive(Clone, Copy, PartialEq)]
enum Structs {
    None,
    /// `Object`, the types beneath it, and `JSONPatch`.
    Mutation,
}

fn check_with(
    source: &str,
    tree: Tree,
    variables: &[(&str, Type)],
    structs: Structs,
) -> Result<Checked, Issues> {
    let nodes = tree.nodes.len();
    let mut checker = Checker {
        tree,
        types: vec![None; nodes],
        overloads: vec![Vec::new(); nodes],
        bindings: Bindings::default(),
        scope: variables.iter().map(|(name, cel_type)| ((*name).into(), cel_type.clone())).collect(),
        globals: variables.len(),
        structs,
        used: Vec::new(),
        issues: Vec::new(),
    };
    checker.node(checker.tree.root);
    if !checker.issues.is_empty() {
        return Err(Issues::new(source, checker.issues));
    }
    let Checker { tree, types, overloads, bindings, used, .. } = checker;
    let types = types.into_iter().map(|cel_type| bindings.resolved(&cel_type.unwrap_or(Type::Dyn))).collect();
    let checked = Checked { tree, types, overloads, used };
    let issues = literals::check(&checked);
    match issues.is_empty() {
        true => Ok(checked),
        false => Err(Issues::new(source, issues)),
    }
}

struct Checker {
    tree: Tree,
    types: Vec<Option<Type>>,
    overloads: Vec<Vec<&'static str>>,
    bindings: Bindings,
    /// The variables in scope, innermost last; the first `globals` are those that the caller declared.
    scope: Vec<(Box<str>, Type)>,
    globals: usize,
    structs: Structs,
    used: Vec<Box<str>>,
    issues: Vec<Issue>,
}

impl Checker {
    fn fail(&mut self, id: Id, message: impl Into<String>) {
        self.issues.push(Issue { position: self.tree.positions[id], message: message.into() });
    }

    fn undeclared(&mut self, id: Id, name: &str) -> Type {
        self.fail(id, format!("undeclared reference to '{name}' (in container '')"));
        Type::Error
    }

    /// Finds the type of a node, once: several parents may share a node that a macro made.
    fn node(&mut self, id: Id) -> Type {
        if let Some(cel_type) = &self.types[id] {
            return cel_type.clone();
        }
        let node = self.tree.nodes[id].clone();
        let cel_type = match node {
            Node::Literal(literal) => literal_type(&literal),
            Node::Ident(name) => self.ident(id, &name),
            Node::Select { operand, field, test } => self.select(id, operand, &field, test),
            Node::Call { function, target, args } => self.call(id, &function, target, &args),
            Node::List { items, optional } => self.list(&items, &optional),
            Node::Map { entries } => self.map(&entries),
            Node::Struct { name, fields } => self.structure(id, &name, &fields),
            Node::Fold(fold) => self.fold(&fold),
        };
        self.types[id] = Some(cel_type.clone());
        cel_type
    }

    /// Checks a struct literal, which only mutating policies may use.
    fn structure(&mut self, id: Id, name: &str, fields: &[Member]) -> Type {
        let known = name == JSON_PATCH || name == OBJECT || name.starts_with("Object.");
        if self.structs == Structs::None || !known {
            return self.undeclared(id, name);
        }
        for field in fields {
            self.node(field.value);
            let known = matches!(&*field.name, "op" | "path" | "from" | "value");
            if name == JSON_PATCH && !known {
                self.fail(field.value, format!("undefined field '{}'", field.name));
            }
        }
        Type::structure(name)
    }

    fn ident(&mut self, id: Id, name: &str) -> Type {
        let plain = name.strip_prefix('.').unwrap_or(name);
        if let Some(at) = self.scope.iter().rposition(|(known, _)| known.as_ref() == plain) {
            if at < self.globals && !self.used.iter().any(|used| used.as_ref() == plain) {
                self.used.push(plain.into());
            }
            let cel_type = self.scope[at].1.clone();
            self.tree.nodes[id] = Node::Ident(plain.into());
            return cel_type;
        }
        match type_value(plain) {
            Some(cel_type) => {
                self.tree.nodes[id] = Node::Literal(Literal::Type(cel_type.clone()));
                Type::type_of(cel_type)
            }
            None => self.undeclared(id, name),
        }
    }

    fn select(&mut self, id: Id, operand: Id, field: &str, test: bool) -> Type {
        if !test
            && let Some(name) = self.qualified(id)
            && let Some(cel_type) = type_value(&name)
        {
            self.tree.nodes[id] = Node::Literal(Literal::Type(cel_type.clone()));
            return Type::type_of(cel_type);
        }
        let cel_type = self.field(id, operand, field, false);
        if test { Type::Bool } else { self.bindings.substituted(&cel_type) }
    }

    /// The qualified name that a chain of field selections spells, such as `net.IP`.
    fn qualified(&self, id: Id) -> Option<String> {
        match &self.tree.nodes[id] {
            Node::Ident(name) => Some(name.to_string()),
            Node::Select { operand, field, test: false } => {
                Some(format!("{}.{field}", self.qualified(*operand)?))
            }
            _ => None,
        }
    }

    fn field(&mut self, id: Id, operand: Id, field: &str, optional: bool) -> Type {
        let cel_type = self.node(operand);
        let cel_type = self.bindings.substituted(&cel_type);
        let (target, is_optional) = match &cel_type {
            Type::Optional(of) => (of.as_ref().clone(), true),
            _ => (cel_type, false),
        };
        let result = match &target {
            Type::Map(of) => of.1.clone(),
            Type::Object(object) => match object.field(field) {
                Some(field) => field.cel_type(),
                None => {
                    self.fail(id, format!("undefined field '{field}'"));
                    Type::Error
                }
            },
            Type::Opaque(Opaque::Authorizer) if field == "requestResource" => {
                Type::Opaque(Opaque::ResourceCheck)
            }
            Type::Opaque(opaque) if !matches!(opaque, Opaque::Ip | Opaque::Cidr) => {
                self.fail(id, format!("unexpected failed resolution of '{}'", opaque.name()));
                Type::Error
            }
            Type::Param(_) => {
                self.bindings.assign(&Type::Dyn, &target);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            other => {
                self.fail(id, format!("type '{other}' does not support field selection"));
                Type::Dyn
            }
        };
        if is_optional || optional { Type::optional(result) } else { result }
    }

    fn call(&mut self, id: Id, function: &str, target: Option<Id>, args: &[Id]) -> Type {
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
            let known = self.structs == Structs::Mutation || name != "jsonpatch.escapeKey";
            if let Some(overloads) = functions::find(&name).filter(|_| known) {
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

    fn optional_select(&mut self, id: Id, args: &[Id]) -> Type {
        let &[operand, field] = args else { return Type::Error };
        let Node::Literal(Literal::String(name)) = self.tree.nodes[field].clone() else {
            self.fail(field, "unsupported optional field selection");
            return Type::Error;
        };
        self.types[field] = Some(Type::String);
        let cel_type = self.field(id, operand, &name, true);
        self.overloads[id] = vec!["select_optional_field"];
        self.bindings.substituted(&cel_type)
    }

    fn resolve(
        &mut self,
        id: Id,
        function: &str,
        overloads: &'static [Overload],
        target: Option<Id>,
        args: &[Id],
    ) -> Type {
        let given: Vec<Type> = target.iter().chain(args).map(|arg| self.node(*arg)).collect();
        if matches!(function, "_&&_" | "_||_") {
            return self.logic(id, overloads, args, &given);
        }
        let mut result: Option<Type> = None;
        for overload in overloads.iter().filter(|it| it.member == target.is_some()) {
            let (wanted, returned) = self.bindings.instance(overload);
            if self.bindings.assign_all(&given, &wanted) {
                self.overloads[id].push(overload.id);
                let returned = self.bindings.substituted(&returned);
                result = Some(match result {
                    Some(known) if known == returned => known,
                    Some(_) => Type::Dyn,
                    None => returned,
                });
            }
        }
        result.unwrap_or_else(|| {
            let shown: Vec<String> =
                given.iter().map(|cel_type| self.bindings.resolved(cel_type).to_string()).collect();
            let signature = match target {
                Some(_) => format!("{}.({})", shown[0], shown[1..].join(", ")),
                None => format!("({})", shown.join(", ")),
            };
            self.fail(id, format!("found no matching overload for '{function}' applied to '{signature}'"));
            Type::Error
        })
    }

    fn logic(&mut self, id: Id, overloads: &'static [Overload], args: &[Id], given: &[Type]) -> Type {
        let mut wrong = false;
        for (arg, cel_type) in args.iter().zip(given) {
            if !self.bindings.assign(cel_type, &Type::Bool) {
                let cel_type = self.bindings.substituted(cel_type);
                self.fail(*arg, format!("expected type 'bool' but found '{cel_type}'"));
                wrong = true;
            }
        }
        self.overloads[id] = overloads.iter().map(|overload| overload.id).collect();
        if wrong { Type::Error } else { Type::Bool }
    }

    /// The type of the value inside of an optional; reports an issue if the type is not optional.
    fn unwrapped(&mut self, id: Id, cel_type: Type) -> Type {
        match cel_type {
            Type::Optional(of) => of.as_ref().clone(),
            Type::Dyn => Type::Dyn,
            other => {
                self.fail(id, format!("expected type 'optional_type({other})' but found '{other}'"));
                other
            }
        }
    }

    fn list(&mut self, items: &[Id], optional: &[usize]) -> Type {
        let mut joined = None;
        for (index, item) in items.iter().enumerate() {
            let mut cel_type = self.node(*item);
            if optional.contains(&index) {
                cel_type = self.unwrapped(*item, cel_type);
            }
            joined = Some(self.join(joined, cel_type));
        }
        Type::list(joined.unwrap_or_else(|| self.bindings.fresh()))
    }

    fn map(&mut self, entries: &[Entry]) -> Type {
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
        Type::map(key, values.unwrap_or_else(|| self.bindings.fresh()))
    }

    fn join(&mut self, known: Option<Type>, cel_type: Type) -> Type {
        match known {
            None => cel_type,
            Some(known) if self.bindings.assign(&known, &cel_type) => known.most_general(cel_type),
            Some(_) => Type::Dyn,
        }
    }

    fn fold(&mut self, fold: &Fold) -> Type {
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
        self.expect(fold.condition, &Type::Bool);
        self.node(fold.step);
        self.expect(fold.step, &accumulated);
        self.scope.truncate(self.scope.len() - 1 - inner);
        let result = self.node(fold.result);
        self.scope.pop();
        self.bindings.substituted(&result)
    }

    /// The types of a loop's two variables: the index and the item of a list, or the key and the value of a map.
    fn variables(&mut self, fold: &Fold, range: &Type) -> (Type, Type) {
        let two = fold.var2.is_some();
        match range {
            Type::List(of) if two => (Type::Int, of.as_ref().clone()),
            Type::List(of) => (of.as_ref().clone(), Type::Dyn),
            Type::Map(of) => (of.0.clone(), of.1.clone()),
            Type::Dyn | Type::Error | Type::Param(_) => {
                self.bindings.assign(&Type::Dyn, range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.fail(fold.range, message);
                (Type::Error, Type::Error)
            }
        }
    }

    fn expect(&mut self, id: Id, wanted: &Type) {
        let cel_type = self.node(id);
        if !self.bindings.assign(wanted, &cel_type) {
            let (wanted, cel_type) =
                (self.bindings.substituted(wanted), self.bindings.substituted(&cel_type));
            self.fail(id, format!("expected type '{wanted}' but found '{cel_type}'"));
        }
    }
}

/// The type that a name denotes where it is used as a value, such as `int` in `type(x) == int`.
fn type_value(name: &str) -> Option<Type> {
    Some(match name {
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "type" => Type::type_of(Type::Dyn),
        "optional_type" => Type::optional(Type::Dyn),
        "dyn" => return None,
        // Expressions cannot name the types of Kubernetes' own libraries.
        name if name.starts_with("kubernetes.") => return None,
        name => functions::type_named(name)?,
    })
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
        Literal::Type(cel_type) => Type::type_of(cel_type.clone()),
    }
}
