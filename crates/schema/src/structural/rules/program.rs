//! One rule, compiled.

use std::sync::Arc;

use super::check::{self, Checked};
use super::cost;
use super::kind::{Declaration, Kind};
use super::syntax;
use crate::structural::definition::field_path;
use crate::types::{Schema, Validation};

pub(super) const SELF: &str = "self";
pub(super) const OLD_SELF: &str = "oldSelf";

/// What became of a rule.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Compiled {
    /// The rule as it was written.
    pub(super) source: Validation,
    /// The field below the value that a failure is about.
    pub(super) field: Option<String>,
    /// The program, or why there is none; nothing for an empty rule.
    pub(super) rule: Option<Result<Program, String>>,
    /// The same for the expression of the message.
    pub(super) message: Option<Result<Program, String>>,
}

/// An expression that can be run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Program {
    pub(super) checked: Checked,
    /// The most that a run can cost.
    pub(super) cost_max: u64,
}

impl Program {
    pub(super) fn uses_old_self(&self) -> bool {
        self.checked.used.iter().any(|name| name.as_ref() == OLD_SELF)
    }
}

impl Compiled {
    pub(super) fn program(&self) -> Option<&Program> {
        self.rule.as_ref().and_then(|rule| rule.as_ref().ok())
    }

    pub(super) fn uses_old_self(&self) -> bool {
        self.program().is_some_and(Program::uses_old_self)
    }
}

/// Compiles a rule about values of this declaration.
pub(super) fn compile(rule: &Validation, schema: &Schema, declared: &Arc<Declaration>) -> Compiled {
    let field = field_path::find(schema, &rule.field_path, true).ok().map(|(path, _)| path);
    let field = field.filter(|path| !path.is_empty());
    let source = rule.clone();
    if rule.rule.trim().is_empty() {
        return Compiled { source, field, rule: None, message: None };
    }
    let kind = declared.kind();
    let old = match rule.optional_old_self {
        Some(true) => Kind::optional(kind.clone()),
        _ => kind.clone(),
    };
    let variables = [(SELF, kind), (OLD_SELF, old)];
    let program = expression(&rule.rule, &variables, declared, &Kind::Bool)
        .map_err(|problem| problem.text("", "cel expression must evaluate to a bool"));
    let message = match program.is_ok() && !rule.message_expression.is_empty() {
        true => Some(expression(&rule.message_expression, &variables, declared, &Kind::String).map_err(
            |problem| problem.text("messageExpression ", "messageExpression must evaluate to a string"),
        )),
        false => None,
    };
    Compiled { source, field, rule: Some(program), message }
}

/// Why an expression is no program.
enum Problem {
    Compilation(String),
    Result,
}

impl Problem {
    fn text(self, prefix: &str, wrong_result: &str) -> String {
        match self {
            Problem::Compilation(issues) => format!("{prefix}compilation failed: {issues}"),
            Problem::Result => wrong_result.to_owned(),
        }
    }
}

fn expression(
    source: &str,
    variables: &[(&str, Kind)],
    declared: &Declaration,
    wanted: &Kind,
) -> Result<Program, Problem> {
    let failed = |issues: super::issue::Issues| Problem::Compilation(issues.to_string());
    let tree = syntax::parse(source).map_err(failed)?;
    let checked = check::check(source, tree, variables).map_err(failed)?;
    if checked.result() != wanted {
        return Err(Problem::Result);
    }
    let cost_max = cost::estimate(&checked, declared);
    Ok(Program { checked, cost_max })
}
