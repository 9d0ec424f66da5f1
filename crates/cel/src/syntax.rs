//! The parser: turns the text of an expression into a tree of nodes and expands macros.
//!
//! The grammar is that of the `cel` crate, which is generated from the same source as Kubernetes' own, so that syntax
//! errors read the same. All nodes of a tree live in one vector: dropping a tree needs no recursion. A tree is never
//! deeper than [`DEPTH_MAX`].

mod guard;
mod macros;
mod nesting;

use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue, SourceInfo};
use cel::parser::Parser;

use crate::issue::{Issue, Issues, Position, Positions};

pub(crate) use nesting::LEVELS_MAX;

/// How deep a tree may be. The evaluator recurses over the tree, so this bounds the stack that it needs.
const DEPTH_MAX: usize = 300;
/// The stack of the parsing thread. In the debug profile, the generated parser needs up to 150 KiB for a bracket and 20 KiB
/// for an operator of a chain; [`guard`] lets it see at most 250 nested brackets and some 2,000 levels in all.
const STACK_BYTES: usize = 128 << 20;
/// Expressions of at most this depth are parsed on the calling thread, because starting a thread costs more than parsing
/// them. At 150 KiB for a level they take a quarter of a thread's usual stack.
const SHALLOW_LEVELS_MAX: usize = 3;

/// The index of a node in its tree.
pub(crate) type Id = usize;

/// One operation of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    Literal(Literal),
    Ident(Box<str>),
    Select { operand: Id, field: Box<str>, test: bool },
    Call { function: Box<str>, target: Option<Id>, args: Vec<Id> },
    List { items: Vec<Id>, optional: Vec<usize> },
    Map { entries: Vec<Entry> },
    Struct { name: Box<str>, fields: Vec<Member> },
    Fold(Box<Fold>),
}

/// One field of a struct literal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Member {
    pub(crate) name: Box<str>,
    pub(crate) value: Id,
    pub(crate) optional: bool,
}

/// One entry of a map literal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: Id,
    pub(crate) value: Id,
    pub(crate) optional: bool,
}

/// A loop over a list or a map. Every comprehension macro expands to one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fold {
    pub(crate) range: Id,
    pub(crate) var: Box<str>,
    pub(crate) var2: Option<Box<str>>,
    pub(crate) accumulator: Box<str>,
    pub(crate) init: Id,
    pub(crate) condition: Id,
    pub(crate) step: Id,
    pub(crate) result: Id,
}

/// A literal value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Box<str>),
    Bytes(Box<[u8]>),
    /// A type as a value. The checker replaces the type's name by it.
    Type(crate::types::Type),
}

/// The parsed expression.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Tree {
    pub(crate) nodes: Vec<Node>,
    pub(crate) positions: Vec<Position>,
    pub(crate) root: Id,
}

impl Tree {
    pub(crate) fn add(&mut self, position: Position, node: Node) -> Id {
        self.nodes.push(node);
        self.positions.push(position);
        self.nodes.len() - 1
    }

    /// A function call at `position`.
    pub(crate) fn call(&mut self, position: Position, function: &str, args: Vec<Id>) -> Id {
        self.add(position, Node::Call { function: function.into(), target: None, args })
    }

    /// Every call, with its function and arguments, the receiver of a member call excluded.
    pub(crate) fn calls(&self) -> impl Iterator<Item = (Id, &str, &[Id])> {
        self.nodes.iter().enumerate().filter_map(|(id, node)| match node {
            Node::Call { function, args, .. } => Some((id, function.as_ref(), args.as_slice())),
            _ => None,
        })
    }
}

/// Parses an expression and expands its macros.
pub(crate) fn parse(source: &str) -> Result<Tree, Issues> {
    if guard::check(source)? <= SHALLOW_LEVELS_MAX {
        return parse_deep(source);
    }
    // A deep expression would overflow the stack of the calling thread, which would end the process.
    let parsed = std::thread::scope(|scope| {
        let worker =
            std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, || parse_deep(source));
        worker.ok().and_then(|worker| worker.join().ok())
    });
    parsed.unwrap_or_else(|| Err(Issues::internal(source, "expression could not be parsed")))
}

fn parse_deep(source: &str) -> Result<Tree, Issues> {
    let parser = Parser::new().enable_optional_syntax(true).max_recursion_depth(guard::DEPTH_MAX);
    match parser.parse_with_source_info(source) {
        Ok((expr, info)) => {
            let positions = Positions::new(source);
            let mut lowering = Lowering { tree: Tree::default(), info, positions, issues: Vec::new() };
            lowering.tree.root = lowering.node(&expr, 0);
            if lowering.issues.is_empty() && !nesting::is_shallow(&lowering.tree) {
                lowering.issues.push(guard::too_deep());
            }
            match lowering.issues.is_empty() {
                true => Ok(lowering.tree),
                false => Err(Issues::new(source, lowering.issues)),
            }
        }
        Err(errors) => {
            let mut issues: Vec<Issue> = errors.errors.iter().map(issue).collect();
            // The parser also reports errors about its own state after it has reported the syntax error.
            let is_own = |issue: &Issue| issue.message.contains("Context`") || issue.message == "UNKNOWN";
            if !issues.iter().all(is_own) {
                issues.retain(|issue| !is_own(issue));
            }
            Err(Issues::new(source, issues))
        }
    }
}

/// Converts an error of the parser to the wording and the position that Kubernetes' parser has.
fn issue(error: &cel::ParseError) -> Issue {
    let line = usize::try_from(error.pos.0).unwrap_or(1).max(1);
    let mut column = usize::try_from(error.pos.1 - 1).unwrap_or(0);
    let mut message = error.msg.clone();
    if message == "unsupported syntax: '`'" {
        column += 1;
    }
    // If the expression may end here, Kubernetes names only the end of input as expected.
    if let Some((what, _)) = message.split_once(" expecting {<EOF>,") {
        message = format!("{what} expecting <EOF>");
    }
    Issue { position: Position { line, column }, message }
}

/// Converts the parser's tree to ours.
pub(crate) struct Lowering {
    pub(crate) tree: Tree,
    info: SourceInfo,
    positions: Positions,
    pub(crate) issues: Vec<Issue>,
}

impl Lowering {
    pub(crate) fn position(&self, id: u64) -> Position {
        let offset = self.info.offset_for(id);
        offset.map_or(Position::START, |(start, _)| self.positions.of(start as usize))
    }

    pub(crate) fn fail(&mut self, id: u64, message: impl Into<String>) {
        let issue = Issue { position: self.position(id), message: message.into() };
        self.issues.push(issue);
    }

    pub(crate) fn node(&mut self, expr: &IdedExpr, depth: usize) -> Id {
        let position = self.position(expr.id);
        if depth > DEPTH_MAX {
            if self.issues.is_empty() {
                self.issues.push(guard::too_deep());
            }
            return self.tree.add(position, Node::Literal(Literal::Null));
        }
        let node = self.lower(expr, position, depth + 1);
        match node {
            Ok(node) => self.tree.add(position, node),
            Err(id) => id,
        }
    }

    /// Converts an expression to a node. A macro has added its nodes already: then the error holds the id of its expansion.
    fn lower(&mut self, expr: &IdedExpr, position: Position, depth: usize) -> Result<Node, Id> {
        Ok(match &expr.expr {
            Expr::Unspecified => Node::Literal(Literal::Null),
            Expr::Literal(literal) => Node::Literal(lower_literal(literal)),
            Expr::Ident(name) => Node::Ident(name.as_str().into()),
            Expr::Select(select) => Node::Select {
                operand: self.node(&select.operand, depth),
                field: select.field.as_str().into(),
                test: select.test,
            },
            Expr::Call(call) => {
                if let Some(target) = &call.target
                    && let Some(id) = macros::expand(self, (expr.id, position), target, call, depth)
                {
                    return Err(id);
                }
                let target = call.target.as_ref().map(|target| self.node(target, depth));
                let args = call.args.iter().map(|arg| self.node(arg, depth)).collect();
                Node::Call { function: call.func_name.as_str().into(), target, args }
            }
            Expr::List(list) => Node::List {
                items: list.elements.iter().map(|item| self.node(item, depth)).collect(),
                optional: list.optional_indices.clone(),
            },
            Expr::Map(map) => {
                let mut entries = Vec::with_capacity(map.entries.len());
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        let (key, value) = (self.node(&entry.key, depth), self.node(&entry.value, depth));
                        entries.push(Entry { key, value, optional: entry.optional });
                    }
                }
                Node::Map { entries }
            }
            Expr::Struct(message) => {
                let mut fields = Vec::with_capacity(message.entries.len());
                for entry in &message.entries {
                    if let EntryExpr::StructField(field) = &entry.expr {
                        let value = self.node(&field.value, depth);
                        let name = field.field.as_str().into();
                        fields.push(Member { name, value, optional: field.optional });
                    }
                }
                Node::Struct { name: message.type_name.as_str().into(), fields }
            }
            Expr::Comprehension(fold) => {
                self.check_variable(&fold.iter_var, position);
                Node::Fold(Box::new(Fold {
                    range: self.node(&fold.iter_range, depth),
                    var: fold.iter_var.as_str().into(),
                    var2: fold.iter_var2.as_deref().map(Into::into),
                    accumulator: fold.accu_var.as_str().into(),
                    init: self.node(&fold.accu_init, depth),
                    condition: self.node(&fold.loop_cond, depth),
                    step: self.node(&fold.loop_step, depth),
                    result: self.node(&fold.result, depth),
                }))
            }
        })
    }

    /// Reports a loop variable that has the name of the loop's accumulator.
    fn check_variable(&mut self, name: &str, position: Position) {
        if matches!(name, macros::RESULT | "__result__") {
            // A call's position is its opening bracket; the variable follows it.
            let position = Position { column: position.column + 1, ..position };
            let message = "iteration variable overwrites accumulator variable".to_owned();
            self.issues.push(Issue { position, message });
        }
    }
}

fn lower_literal(literal: &LiteralValue) -> Literal {
    match literal {
        LiteralValue::Boolean(value) => Literal::Bool(*value.inner()),
        LiteralValue::Bytes(value) => Literal::Bytes(value.inner().into()),
        LiteralValue::Double(value) => Literal::Double(*value.inner()),
        LiteralValue::Int(value) => Literal::Int(*value.inner()),
        LiteralValue::Null => Literal::Null,
        LiteralValue::String(value) => Literal::String(value.inner().into()),
        LiteralValue::UInt(value) => Literal::Uint(*value.inner()),
    }
}
