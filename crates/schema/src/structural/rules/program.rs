//! Compiles one rule.

use std::sync::Arc;

use evenkeel_cel::{Checked, Declaration, Issues, Type, compile as compile_expression, estimate_cost};

use crate::structural::definition::field_path;
use crate::types::{Schema, Validation};

pub(super) const SELF: &str = "self";
pub(super) const OLD_SELF: &str = "oldSelf";

/// A compiled rule.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Compiled {
    /// The rule as written in the definition.
    pub(super) source: Validation,
    /// The field that a failure reports, relative to the rule's value.
    pub(super) field: Option<String>,
    /// The program, or why the rule does not compile; `None` for an empty rule.
    pub(super) rule: Option<Result<Program, String>>,
    /// The program of `messageExpression`, or why it does not compile; `None` if there is no such expression.
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
        self.checked.uses(OLD_SELF)
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

/// Compiles a rule on values that `schema` describes and `declared` declares.
pub(super) fn compile(rule: &Validation, schema: &Schema, declared: &Arc<Declaration>) -> Compiled {
    let field = field_path::find(schema, &rule.field_path, true).ok().map(|(path, _)| path);
    let field = field.filter(|path| !path.is_empty());
    let source = rule.clone();
    if rule.rule.trim().is_empty() {
        return Compiled { source, field, rule: None, message: None };
    }
    let cel_type = declared.cel_type();
    let old = match rule.optional_old_self {
        Some(true) => Type::optional(cel_type.clone()),
        _ => cel_type.clone(),
    };
    let variables = [(SELF, cel_type), (OLD_SELF, old)];
    let program = expression(&rule.rule, &variables, declared, &Type::Bool)
        .map_err(|problem| problem.text("", "cel expression must evaluate to a bool"));
    let message = match program.is_ok() && !rule.message_expression.is_empty() {
        true => Some(expression(&rule.message_expression, &variables, declared, &Type::String).map_err(
            |problem| problem.text("messageExpression ", "messageExpression must evaluate to a string"),
        )),
        false => None,
    };
    Compiled { source, field, rule: Some(program), message }
}

/// Why an expression does not compile.
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
    variables: &[(&str, Type)],
    declared: &Declaration,
    wanted: &Type,
) -> Result<Program, Problem> {
    let failed = |issues: Issues| Problem::Compilation(issues.to_string());
    let checked = compile_expression(source, variables).map_err(failed)?;
    if checked.result() != wanted {
        return Err(Problem::Result);
    }
    let cost_max = estimate_cost(&checked, declared);
    Ok(Program { checked, cost_max })
}
