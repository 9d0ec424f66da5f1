//! The macros that the parser of the `cel` crate lacks: loops with two variables, `optMap`, `optFlatMap` and `sortBy`.

use cel::common::ast::{CallExpr, Expr, IdedExpr};

use crate::issue::Position;
use crate::syntax::{Fold, Id, Literal, Lowering, Node};

/// The name of a loop's accumulator variable.
pub(crate) const RESULT: &str = "@result";
const SORT_INPUT: &str = "@__sortBy_input__";

/// Expands a member call that is a macro. Returns the id of the expansion, or `None` if the call is not a macro.
pub(crate) fn expand(
    lowering: &mut Lowering,
    call_at: (u64, Position),
    target: &IdedExpr,
    call: &CallExpr,
    depth: usize,
) -> Option<Id> {
    let args = call.args.as_slice();
    let mut expansion = Expansion { lowering, call_at, depth: depth + 1 };
    match (call.func_name.as_str(), args.len()) {
        ("all", 3) => expansion.quantifier(target, args, true),
        ("exists", 3) => expansion.quantifier(target, args, false),
        ("existsOne" | "exists_one", 3) => expansion.exists_one(target, args),
        ("transformList" | "transformMap" | "transformMapEntry", 3 | 4) => {
            expansion.transform(target, args, &call.func_name)
        }
        ("optMap", 2) => expansion.opt_map(target, args, true),
        ("optFlatMap", 2) => expansion.opt_map(target, args, false),
        ("sortBy", 2) => expansion.sort_by(target, args),
        _ => None,
    }
}

struct Expansion<'a> {
    lowering: &'a mut Lowering,
    call_at: (u64, Position),
    depth: usize,
}

impl Expansion<'_> {
    fn add(&mut self, node: Node) -> Id {
        self.lowering.tree.add(self.call_at.1, node)
    }

    fn ident(&mut self, name: &str) -> Id {
        self.add(Node::Ident(name.into()))
    }

    fn literal(&mut self, literal: Literal) -> Id {
        self.add(Node::Literal(literal))
    }

    fn call(&mut self, function: &str, args: Vec<Id>) -> Id {
        self.lowering.tree.call(self.call_at.1, function, args)
    }

    fn member(&mut self, function: &str, target: Id, args: Vec<Id>) -> Id {
        self.add(Node::Call { function: function.into(), target: Some(target), args })
    }

    fn node(&mut self, expr: &IdedExpr) -> Id {
        self.lowering.node(expr, self.depth)
    }

    /// The names of a loop's two variables. The error holds a placeholder node, so that the rest of the expression is checked too.
    fn variables(&mut self, args: &[IdedExpr]) -> Result<(Box<str>, Box<str>), Id> {
        let (first, second) = (self.variable(&args[0])?, self.variable(&args[1])?);
        if first == second {
            return Err(self.refuse(args[1].id, format!("duplicate variable name: {first}")));
        }
        for (name, arg) in [(&first, &args[0]), (&second, &args[1])] {
            if matches!(name.as_ref(), RESULT | "__result__") {
                return Err(self.refuse(arg.id, "iteration variable overwrites accumulator variable"));
            }
        }
        Ok((first, second))
    }

    fn variable(&mut self, arg: &IdedExpr) -> Result<Box<str>, Id> {
        match &arg.expr {
            Expr::Ident(name) => Ok(name.as_str().into()),
            _ => Err(self.refuse(arg.id, "argument must be a simple name")),
        }
    }

    fn refuse(&mut self, at: u64, message: impl Into<String>) -> Id {
        self.lowering.fail(at, message);
        self.literal(Literal::Null)
    }

    /// Adds a loop with two variables, whose value is its accumulator.
    fn fold(&mut self, range: Id, vars: (Box<str>, Box<str>), parts: [Id; 4]) -> Id {
        let [init, condition, step, result] = parts;
        self.add(Node::Fold(Box::new(Fold {
            range,
            var: vars.0,
            var2: Some(vars.1),
            accumulator: RESULT.into(),
            init,
            condition,
            step,
            result,
        })))
    }

    fn quantifier(&mut self, target: &IdedExpr, args: &[IdedExpr], all: bool) -> Option<Id> {
        let range = self.node(target);
        let vars = match self.variables(args) {
            Ok(vars) => vars,
            Err(id) => return Some(id),
        };
        let init = self.literal(Literal::Bool(all));
        let mut condition = self.ident(RESULT);
        if !all {
            condition = self.call("!_", vec![condition]);
        }
        let condition = self.call("@not_strictly_false", vec![condition]);
        let (accumulator, predicate) = (self.ident(RESULT), self.node(&args[2]));
        let step = self.call(if all { "_&&_" } else { "_||_" }, vec![accumulator, predicate]);
        let result = self.ident(RESULT);
        Some(self.fold(range, vars, [init, condition, step, result]))
    }

    fn exists_one(&mut self, target: &IdedExpr, args: &[IdedExpr]) -> Option<Id> {
        let range = self.node(target);
        let vars = match self.variables(args) {
            Ok(vars) => vars,
            Err(id) => return Some(id),
        };
        let init = self.literal(Literal::Int(0));
        let condition = self.literal(Literal::Bool(true));
        let predicate = self.node(&args[2]);
        let (accumulator, one) = (self.ident(RESULT), self.literal(Literal::Int(1)));
        let more = self.call("_+_", vec![accumulator, one]);
        let same = self.ident(RESULT);
        let step = self.call("_?_:_", vec![predicate, more, same]);
        let (accumulator, one) = (self.ident(RESULT), self.literal(Literal::Int(1)));
        let result = self.call("_==_", vec![accumulator, one]);
        Some(self.fold(range, vars, [init, condition, step, result]))
    }

    fn transform(&mut self, target: &IdedExpr, args: &[IdedExpr], function: &str) -> Option<Id> {
        let range = self.node(target);
        let vars = match self.variables(args) {
            Ok(vars) => vars,
            Err(id) => return Some(id),
        };
        let filter = (args.len() == 4).then(|| self.node(&args[2]));
        let transform = self.node(&args[args.len() - 1]);
        let accumulator = self.ident(RESULT);
        let (init, mut step) = match function {
            "transformList" => {
                let init = self.add(Node::List { items: Vec::new(), optional: Vec::new() });
                let item = self.add(Node::List { items: vec![transform], optional: Vec::new() });
                (init, self.call("_+_", vec![accumulator, item]))
            }
            "transformMap" => {
                let key = self.ident(&vars.0);
                let init = self.add(Node::Map { entries: Vec::new() });
                (init, self.call("cel.@mapInsert", vec![accumulator, key, transform]))
            }
            _ => {
                let init = self.add(Node::Map { entries: Vec::new() });
                (init, self.call("cel.@mapInsert", vec![accumulator, transform]))
            }
        };
        if let Some(filter) = filter {
            let same = self.ident(RESULT);
            step = self.call("_?_:_", vec![filter, step, same]);
        }
        let condition = self.literal(Literal::Bool(true));
        let result = self.ident(RESULT);
        Some(self.fold(range, vars, [init, condition, step, result]))
    }

    /// Binds a name to a value inside of one expression, by a loop without iterations whose accumulator has that name.
    fn bind(&mut self, name: &str, value: Id, result: Id) -> Id {
        let range = self.add(Node::List { items: Vec::new(), optional: Vec::new() });
        let condition = self.literal(Literal::Bool(false));
        let step = self.ident(name);
        self.add(Node::Fold(Box::new(Fold {
            range,
            var: "#unused".into(),
            var2: None,
            accumulator: name.into(),
            init: value,
            condition,
            step,
            result,
        })))
    }

    fn opt_map(&mut self, target: &IdedExpr, args: &[IdedExpr], wrap: bool) -> Option<Id> {
        let name = match &args[0].expr {
            Expr::Ident(name) => name.clone(),
            _ => {
                let function = if wrap { "optMap()" } else { "optFlatMap()" };
                return Some(
                    self.refuse(args[0].id, format!("{function} variable name must be a simple identifier")),
                );
            }
        };
        let tested = self.node(target);
        let condition = self.member("hasValue", tested, Vec::new());
        // Both uses share the target's node: copying it would double the tree with every macro of a chain.
        let value = self.member("value", tested, Vec::new());
        let mapped = self.node(&args[1]);
        let mut some = self.bind(&name, value, mapped);
        if wrap {
            some = self.call("optional.of", vec![some]);
        }
        let none = self.call("optional.none", Vec::new());
        Some(self.call("_?_:_", vec![condition, some, none]))
    }

    fn sort_by(&mut self, target: &IdedExpr, args: &[IdedExpr]) -> Option<Id> {
        let input = self.node(target);
        let name = match self.variable(&args[0]) {
            Ok(name) => name,
            Err(id) => return Some(id),
        };
        let range = self.ident(SORT_INPUT);
        let init = self.add(Node::List { items: Vec::new(), optional: Vec::new() });
        let condition = self.literal(Literal::Bool(true));
        let key = self.node(&args[1]);
        let item = self.add(Node::List { items: vec![key], optional: Vec::new() });
        let accumulator = self.ident(RESULT);
        let step = self.call("_+_", vec![accumulator, item]);
        let result = self.ident(RESULT);
        let keys = self.add(Node::Fold(Box::new(Fold {
            range,
            var: name,
            var2: None,
            accumulator: RESULT.into(),
            init,
            condition,
            step,
            result,
        })));
        let list = self.ident(SORT_INPUT);
        let sorted = self.member("@sortByAssociatedKeys", list, vec![keys]);
        Some(self.bind(SORT_INPUT, input, sorted))
    }
}
