//! From the text of an expression to a tree of nodes.
//!
//! The grammar is that of the `cel` crate, which is generated from the same source as the one of Kubernetes, so that
//! the syntax errors read the same. The tree is kept in one vector: it is never deeper than [`DEPTH_MAX`], and
//! freeing it needs no recursion.

use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue, SourceInfo};
use cel::parser::Parser;

use super::guard;
use super::issue::{Issue, Issues, Place};
use super::macros;
use super::nesting;

/// How deep a tree may be: what the evaluator needs of a thread's stack grows with it.
const DEPTH_MAX: usize = 300;
/// The stack of the thread that parses. The generated parser needs up to 150 KiB for a bracket in the debug profile, of which
/// [`guard`] lets it see 250, and 20 KiB for an operator of a chain, of which it lets it see some 2,000 levels in all.
const STACK_BYTES: usize = 128 << 20;
/// What is no deeper is parsed where it is, since a thread costs more than the smallest expressions: at 150 KiB for a level it
/// takes a quarter of the stack that threads have.
const SHALLOW_LEVELS_MAX: usize = 3;

/// A node's place in its tree.
pub(super) type Id = usize;

/// What is to be computed.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
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
pub(super) struct Member {
    pub(super) name: Box<str>,
    pub(super) value: Id,
    pub(super) optional: bool,
}

/// One entry of a map literal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Entry {
    pub(super) key: Id,
    pub(super) value: Id,
    pub(super) optional: bool,
}

/// A loop over a list or a map, which every comprehension macro becomes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fold {
    pub(super) range: Id,
    pub(super) var: Box<str>,
    pub(super) var2: Option<Box<str>>,
    pub(super) accumulator: Box<str>,
    pub(super) init: Id,
    pub(super) condition: Id,
    pub(super) step: Id,
    pub(super) result: Id,
}

/// A value that is written in the expression.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Box<str>),
    Bytes(Box<[u8]>),
    /// A type as a value; the checker puts it in the place of its name.
    Type(super::kind::Kind),
}

/// The parsed expression.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    pub(super) places: Vec<Place>,
    pub(super) root: Id,
}

impl Tree {
    pub(super) fn add(&mut self, place: Place, node: Node) -> Id {
        self.nodes.push(node);
        self.places.push(place);
        self.nodes.len() - 1
    }

    /// A function call at `place`.
    pub(super) fn call(&mut self, place: Place, function: &str, args: Vec<Id>) -> Id {
        self.add(place, Node::Call { function: function.into(), target: None, args })
    }

    /// Every call, with its function and arguments; the target of a member call is not among them.
    pub(super) fn calls(&self) -> impl Iterator<Item = (Id, &str, &[Id])> {
        self.nodes.iter().enumerate().filter_map(|(id, node)| match node {
            Node::Call { function, args, .. } => Some((id, function.as_ref(), args.as_slice())),
            _ => None,
        })
    }
}

/// Parses an expression and expands its macros.
pub(super) fn parse(source: &str) -> Result<Tree, Issues> {
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
            let mut lowering = Lowering { tree: Tree::default(), info, source, issues: Vec::new() };
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
            // What the parser says of itself where it already said what is wrong with the text.
            let is_own = |issue: &Issue| issue.message.contains("Context`") || issue.message == "UNKNOWN";
            if !issues.iter().all(is_own) {
                issues.retain(|issue| !is_own(issue));
            }
            Err(Issues::new(source, issues))
        }
    }
}

/// An error of the parser, in the words and at the place of the one that Kubernetes uses.
fn issue(error: &cel::ParseError) -> Issue {
    let line = usize::try_from(error.pos.0).unwrap_or(1).max(1);
    let mut column = usize::try_from(error.pos.1 - 1).unwrap_or(0);
    let mut message = error.msg.clone();
    if message == "unsupported syntax: '`'" {
        column += 1;
    }
    // Where nothing may follow but the end, only the end is named.
    if let Some((what, _)) = message.split_once(" expecting {<EOF>,") {
        message = format!("{what} expecting <EOF>");
    }
    Issue { place: Place { line, column }, message }
}

/// Turns the parser's tree into ours.
pub(super) struct Lowering<'a> {
    pub(super) tree: Tree,
    info: SourceInfo,
    source: &'a str,
    pub(super) issues: Vec<Issue>,
}

impl Lowering<'_> {
    pub(super) fn place(&self, id: u64) -> Place {
        self.info.offset_for(id).map_or(Place::START, |(start, _)| Place::of(self.source, start as usize))
    }

    pub(super) fn fail(&mut self, id: u64, message: impl Into<String>) {
        let issue = Issue { place: self.place(id), message: message.into() };
        self.issues.push(issue);
    }

    pub(super) fn node(&mut self, expr: &IdedExpr, depth: usize) -> Id {
        let place = self.place(expr.id);
        if depth > DEPTH_MAX {
            if self.issues.is_empty() {
                self.issues.push(guard::too_deep());
            }
            return self.tree.add(place, Node::Literal(Literal::Null));
        }
        let node = self.kind(expr, place, depth + 1);
        match node {
            Ok(node) => self.tree.add(place, node),
            Err(id) => id,
        }
    }

    /// The node of an expression; a macro gives the id of what it became instead.
    fn kind(&mut self, expr: &IdedExpr, place: Place, depth: usize) -> Result<Node, Id> {
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
                    && let Some(id) = macros::expand(self, (expr.id, place), target, call, depth)
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
                self.check_variable(&fold.iter_var, place);
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

    /// The variable of a loop may not have the name of what the loop collects into.
    fn check_variable(&mut self, name: &str, place: Place) {
        if matches!(name, macros::RESULT | "__result__") {
            // The variable follows the bracket of the call, which is the call's place.
            let place = Place { column: place.column + 1, ..place };
            let message = "iteration variable overwrites accumulator variable".to_owned();
            self.issues.push(Issue { place, message });
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
