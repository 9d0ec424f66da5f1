//! Mutating admission policies.

use evenkeel_cel::{Key, Map, Value};

use super::expression::{BUDGET, Expression, FailurePolicy, Inputs, Problem, Scope};
use crate::json::{Map as Fields, Value as Json};
use crate::read::Read;
use crate::types::Schema;
use crate::{depth, managed_fields, patch};

/// A compiled `MutatingAdmissionPolicy`.
#[derive(Debug)]
pub struct MutatingPolicy {
    failure_policy: FailurePolicy,
    conditions: Vec<Expression>,
    variables: Vec<(String, Expression)>,
    mutations: Vec<Mutation>,
}

#[derive(Debug)]
enum Mutation {
    /// An expression that evaluates to an apply configuration.
    Apply(Expression),
    /// An expression that evaluates to the operations of a JSON patch.
    Patch(Expression),
}

impl MutatingPolicy {
    /// Compiles the expressions of a policy's `spec`. One that does not compile fails every evaluation.
    pub fn compile(spec: &Json) -> Self {
        let text = |mutation: &'_ Json, field: &str| {
            Expression::compile_mutation(mutation.at(field).str("expression").trim())
        };
        let mutation = |mutation: &Json| match mutation.str("patchType") {
            "JSONPatch" => Mutation::Patch(text(mutation, "jsonPatch")),
            _ => Mutation::Apply(text(mutation, "applyConfiguration")),
        };
        let conditions = spec.list("matchConditions").iter();
        let variables = spec.list("variables").iter();
        Self {
            failure_policy: FailurePolicy::of(spec),
            conditions: conditions.map(|it| Expression::compile(it.str("expression"))).collect(),
            variables: variables
                .map(|it| (it.str("name").to_owned(), Expression::compile(it.str("expression"))))
                .collect(),
            mutations: spec.list("mutations").iter().map(mutation).collect(),
        }
    }

    /// Applies the policy's mutations to an object that `schema` describes. `settle` defaults and normalizes the result of a
    /// mutation before the next one sees it. Returns the errors for which the request is refused.
    pub fn mutate(
        &self,
        inputs: &Inputs<'_>,
        schema: &Schema,
        object: &mut Json,
        settle: &dyn Fn(&mut Json),
    ) -> Vec<String> {
        match Scope::new(inputs).conditions(&self.conditions, self.failure_policy) {
            Ok(true) => {}
            Ok(false) => return Vec::new(),
            Err(problem) => return vec![problem],
        }
        let mut problems = Vec::new();
        for mutation in &self.mutations {
            let inputs = Inputs { object, ..*inputs };
            let mut scope = Scope::new(&inputs);
            scope.define(&self.variables);
            match mutation.run(&scope, schema, inputs.object) {
                Ok(mut changed) => {
                    settle(&mut changed);
                    *object = changed;
                }
                Err(problem) => problems.push(problem),
            }
        }
        if self.failure_policy.is_fail() { problems } else { Vec::new() }
    }
}

impl Mutation {
    fn run(&self, scope: &Scope<'_>, schema: &Schema, object: &Json) -> Result<Json, String> {
        let mut budget = BUDGET;
        match self {
            Mutation::Apply(expression) => {
                let made = scope.run(expression, &mut budget).map_err(Problem::text)?;
                let mut config = to_json(&made)?;
                if !config.is_object() {
                    let kind = made.cel_type().runtime_name().to_owned();
                    return Err(format!(
                        "unsupported return type from ApplyConfiguration expression: {kind}"
                    ));
                }
                for field in ["apiVersion", "kind"] {
                    config[field] = object[field].clone();
                }
                managed_fields::merge_configuration(schema, object, &config)
                    .map_err(|why| format!("error applying patch: {why}"))
            }
            Mutation::Patch(expression) => {
                let made = scope.run(expression, &mut budget).map_err(Problem::text)?;
                let operations = to_json(&made)?;
                match patch::json::apply(object, &operations) {
                    Ok(changed) => Ok(changed),
                    // Kubernetes skips a patch whose `test` operation fails.
                    Err(error) if error.to_string().contains("test failed") => Ok(object.clone()),
                    Err(error) => Err(format!("JSON Patch: {error}")),
                }
            }
        }
    }
}

/// How much JSON an expression may make, counted as one for each value and one for each byte of text. A larger result could
/// not be stored. Without the bound, a value that contains another one twice, which contains a third one twice, and so on,
/// would exhaust the memory.
const MADE_MAX: usize = 4 * 1024 * 1024;
/// How many levels a mutation's result may have: those of a stored object, inside of an operation in the list of a patch.
const MADE_LEVELS_MAX: usize = depth::DEPTH_MAX + 2;

/// Converts a CEL value to JSON.
fn to_json(value: &Value<'_>) -> Result<Json, String> {
    write(value, MADE_LEVELS_MAX, &mut { MADE_MAX })
}

fn take(room: &mut usize, size: usize) -> Result<(), String> {
    *room = room.checked_sub(size).ok_or("the value of the expression is too large")?;
    Ok(())
}

fn write(value: &Value<'_>, levels: usize, room: &mut usize) -> Result<Json, String> {
    let other = |kind: &str| {
        format!("JSONPath valueExpression evaluated to a type that could not marshal to JSON: {kind}")
    };
    let below = || levels.checked_sub(1).ok_or_else(|| depth::TooDeep.to_string());
    take(room, 1)?;
    Ok(match value {
        Value::Null | Value::Optional(None) => Json::Null,
        Value::Bool(value) => Json::from(*value),
        Value::Int(value) => Json::from(*value),
        Value::Uint(value) => Json::from(*value),
        Value::Double(value) => Json::from(*value),
        Value::String(text) => {
            take(room, text.len())?;
            Json::from(&**text)
        }
        Value::Optional(Some(value)) => write(value, below()?, room)?,
        Value::List(list) => {
            let below = below()?;
            let items = list.to_vec().map_err(|_| other("list"))?;
            items.iter().map(|item| write(item, below, room)).collect::<Result<Vec<_>, _>>()?.into()
        }
        Value::Map(Map::Owned(entries)) => {
            let below = below()?;
            let mut fields = Fields::new();
            for (key, (_, value)) in entries.iter() {
                let Key::String(name) = key else { return Err(other("map")) };
                take(room, name.len())?;
                fields.insert((&**name).into(), write(value, below, room)?);
            }
            Json::Object(fields)
        }
        value => return Err(other(value.cel_type().runtime_name())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;
    use crate::types;

    fn mutated(mutations: Json) -> (Json, Vec<String>) {
        let mut object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}});
        let policy = MutatingPolicy::compile(&json!({"mutations": mutations}));
        let schema = types::builtin("", "v1", "ConfigMap").unwrap();
        let null = Json::Null;
        let before = object.clone();
        let inputs = Inputs {
            object: &before,
            old: &null,
            request: &null,
            params: &null,
            namespace: &null,
            authorizer: None,
        };
        let problems = policy.mutate(&inputs, schema, &mut object, &|_| {});
        (object, problems)
    }

    #[test]
    fn mutations_see_what_those_before_them_made() {
        let (object, problems) = mutated(json!([
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression":
                "Object{metadata: Object.metadata{labels: Object.metadata.labels{mutated: 'yes'}}}"}},
            {"patchType": "JSONPatch", "jsonPatch": {"expression":
                "[JSONPatch{op: 'add', path: '/data/from', value: object.metadata.labels.mutated}]"}}
        ]));
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(object["metadata"], json!({"name": "a", "labels": {"mutated": "yes"}}));
        assert_eq!(object["data"], json!({"x": "1", "from": "yes"}));
    }

    #[test]
    fn a_mutation_that_fails_is_told() {
        let (_, problems) = mutated(json!([{"patchType": "JSONPatch", "jsonPatch": {"expression":
            "[JSONPatch{op: 'add', path: '/data/b', value: object.absent}]"}}]));
        let expression = "[JSONPatch{op: 'add', path: '/data/b', value: object.absent}]";
        assert_eq!(problems, [format!("expression '{expression}' resulted in error: no such key: absent")]);
    }
}
