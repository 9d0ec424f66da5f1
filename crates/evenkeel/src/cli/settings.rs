//! Where the settings of an operator come from: flags first, then variables of the environment, then a file.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use clap::{ArgMatches, Command, Id};
use serde_json::Value;

/// The beginning of the variables' names: `EVENKEEL_LEADER_ELECT` is the flag `--leader-elect`.
const PREFIX: &str = "EVENKEEL_";
/// The flag that names the file, which cannot name another one.
const CONFIG: &str = "config";
/// Flags that are not settings.
const NOT_SETTINGS: [&str; 3] = [CONFIG, "help", "version"];

/// Why the settings cannot be read.
#[derive(Debug)]
pub(super) enum Refused {
    /// The command line is wrong, or asks for help.
    Usage(clap::Error),
    /// The environment or the file is wrong.
    Settings(anyhow::Error),
}

/// A value that the environment or the file gives for a flag.
#[derive(Debug)]
struct Given {
    value: String,
    /// The variable, or the file with its key.
    origin: String,
}

/// Reads the command line, with the values of the environment and of the file for flags that it does not have.
pub(super) fn matches(
    command: &Command,
    arguments: &[OsString],
    environment: &BTreeMap<String, String>,
) -> Result<ArgMatches, Refused> {
    let settings = settings(command);
    let given = given(&settings, arguments, environment).map_err(Refused::Settings)?;
    let with = given
        .iter()
        .fold(command.clone(), |command, (name, given)| with_default(command, &settings, name, given));
    with.try_get_matches_from(arguments).map_err(|error| {
        let alone = |(name, given): &(&String, &Given)| {
            let command = with_default(command.clone(), &settings, name, given);
            command.try_get_matches_from(arguments).is_err()
        };
        if command.clone().try_get_matches_from(arguments).is_err() {
            return Refused::Usage(error);
        }
        let origin = given.iter().find(alone).map_or("the settings", |(_, given)| given.origin.as_str());
        let told = error.to_string();
        let told = told.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        Refused::Settings(anyhow!("{origin}: {told}"))
    })
}

/// The flags that are settings, by name.
fn settings(command: &Command) -> BTreeMap<String, Id> {
    let flags = command.get_arguments().filter_map(|flag| Some((flag.get_long()?, flag.get_id())));
    flags
        .filter(|(name, _)| !NOT_SETTINGS.contains(name))
        .map(|(name, id)| (name.to_owned(), id.clone()))
        .collect()
}

/// Lets a flag have this value unless the command line has it.
fn with_default(command: Command, settings: &BTreeMap<String, Id>, name: &str, given: &Given) -> Command {
    let Some(id) = settings.get(name) else { return command };
    // Clap keeps defaults for as long as the process lives; they are read once.
    let value: &'static str = Box::leak(given.value.clone().into_boxed_str());
    command.mut_arg(id, |flag| flag.default_value(value))
}

/// What the file and the environment say; the environment first.
fn given(
    settings: &BTreeMap<String, Id>,
    arguments: &[OsString],
    environment: &BTreeMap<String, String>,
) -> anyhow::Result<BTreeMap<String, Given>> {
    let mut given = BTreeMap::new();
    if let Some(path) = config_path(arguments, environment) {
        given = from_file(settings, Path::new(&path))?;
    }
    for (variable, value) in environment.iter().filter(|(_, value)| !value.is_empty()) {
        let Some(name) = variable.strip_prefix(PREFIX).map(flag_name).filter(|name| name != CONFIG) else {
            continue;
        };
        if settings.contains_key(&name) {
            given.insert(name, Given { value: value.clone(), origin: format!("the variable {variable}") });
        } else if let Some(meant) = nearest(settings.keys(), &name) {
            // A variable that resembles no setting belongs to somebody else: to tests, or to a Service of this name.
            bail!("the variable {variable} is not a setting (hint: did you mean {}?)", variable_name(meant));
        }
    }
    Ok(given)
}

/// The file that the command line names, or else the environment.
fn config_path(arguments: &[OsString], environment: &BTreeMap<String, String>) -> Option<OsString> {
    let flag = format!("--{CONFIG}");
    let mut arguments = arguments.iter().skip(1).take_while(|argument| *argument != "--");
    while let Some(argument) = arguments.next() {
        if *argument == *flag {
            return arguments.next().cloned();
        }
        if let Some(path) = argument.to_str().and_then(|text| text.strip_prefix(&flag)?.strip_prefix('=')) {
            return Some(path.into());
        }
    }
    environment.get(&variable_name(CONFIG)).filter(|path| !path.is_empty()).map(Into::into)
}

/// Reads a file with one setting a line, in YAML or JSON.
fn from_file(settings: &BTreeMap<String, Id>, path: &Path) -> anyhow::Result<BTreeMap<String, Given>> {
    let shown = path.display();
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read the settings in {shown}"))?;
    let read = serde_saphyr::from_str::<Value>(&text).with_context(|| format!("{shown} is not YAML"))?;
    let values = match read {
        Value::Object(values) => values,
        Value::Null => return Ok(BTreeMap::new()),
        _ => bail!(
            "{shown} has no settings (hint: each line is the name of a flag and its value: `leader-elect: true`)"
        ),
    };
    let mut given = BTreeMap::new();
    for (name, value) in values {
        if !settings.contains_key(&name) {
            let hint = match nearest(settings.keys(), &kebab(&name)) {
                Some(meant) => format!("did you mean {meant}?"),
                None => {
                    format!("the settings are {}", settings.keys().cloned().collect::<Vec<_>>().join(", "))
                }
            };
            bail!("{shown}: {name} is not a setting (hint: {hint})");
        }
        let value = match value {
            Value::String(text) => text,
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => {
                bail!("{shown}: {name} must have one value, a text, a number or a boolean")
            }
        };
        given.insert(name.clone(), Given { value, origin: format!("{shown}: {name}") });
    }
    Ok(given)
}

fn variable_name(flag: &str) -> String {
    format!("{PREFIX}{}", flag.to_ascii_uppercase().replace('-', "_"))
}

fn flag_name(variable: &str) -> String {
    variable.to_ascii_lowercase().replace('_', "-")
}

/// A name in the spelling of flags: `leaderElect` and `leader_elect` become `leader-elect`.
fn kebab(name: &str) -> String {
    let mut spelled = String::with_capacity(name.len());
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !spelled.is_empty() {
            spelled.push('-');
        }
        spelled.push(if letter == '_' { '-' } else { letter.to_ascii_lowercase() });
    }
    spelled
}

/// The setting that somebody may have meant: at most a third of the letters differ.
fn nearest<'a>(settings: impl Iterator<Item = &'a String>, name: &str) -> Option<&'a str> {
    let distances = settings.map(|setting| (distance(setting, name), setting.as_str()));
    let (distance, nearest) = distances.min()?;
    (distance <= nearest.len().min(name.len()) / 3).then_some(nearest)
}

/// How many letters have to be inserted, removed or replaced to make one word of another (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (column, beside) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *beside);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn command() -> Command {
        use clap::{Arg, ArgAction};
        Command::new("shop")
            .arg(Arg::new("config").long("config"))
            .arg(Arg::new("leader_elect").long("leader-elect").action(ArgAction::SetTrue).global(true))
            .arg(Arg::new("port").long("metrics-port").value_parser(clap::value_parser!(u16)))
            .subcommand(Command::new("manifests"))
    }

    /// What is read of a command line, an environment and a file: the two settings, or the error.
    fn read(line: &str, environment: &[(&str, &str)], file: &str) -> Result<(bool, Option<u16>), String> {
        let mut kept = tempfile::NamedTempFile::new().expect("there is room for a file");
        kept.write_all(file.as_bytes()).expect("it can be written");
        let path = kept.path().display().to_string();
        let line = line.replace("FILE", &path);
        let arguments: Vec<OsString> =
            std::iter::once("shop").chain(line.split_whitespace()).map(Into::into).collect();
        let environment = environment
            .iter()
            .map(|(name, value)| (name.to_string(), value.replace("FILE", &path)))
            .collect();
        match matches(&command(), &arguments, &environment) {
            Ok(matches) => Ok((matches.get_flag("leader_elect"), matches.get_one("port").copied())),
            Err(Refused::Settings(error)) => Err(format!("{error:#}").replace(&path, "FILE")),
            Err(Refused::Usage(error)) => Err(format!("usage: {}", error.kind())),
        }
    }

    const FILE: &str = "leader-elect: true\nmetrics-port: 1\n";

    #[test]
    fn flags_come_first_then_the_environment_then_the_file() {
        assert_eq!(read("", &[], FILE), Ok((false, None)), "nobody named the file");
        assert_eq!(read("--config FILE", &[], FILE), Ok((true, Some(1))));
        assert_eq!(read("--config=FILE manifests", &[], FILE), Ok((true, Some(1))));
        assert_eq!(read("", &[("EVENKEEL_CONFIG", "FILE")], FILE), Ok((true, Some(1))));
        let environment = [("EVENKEEL_METRICS_PORT", "2"), ("EVENKEEL_LEADER_ELECT", "false")];
        assert_eq!(read("--config FILE", &environment, FILE), Ok((false, Some(2))));
        assert_eq!(
            read("--config FILE --metrics-port 3 --leader-elect", &environment, FILE),
            Ok((true, Some(3)))
        );
        assert_eq!(read("", &[("EVENKEEL_METRICS_PORT", "")], ""), Ok((false, None)), "empty is unset");
        assert_eq!(read("--config FILE", &[], "# nothing\n"), Ok((false, None)));
        assert_eq!(
            read("--config FILE", &[], r#"{"metrics-port": 4}"#),
            Ok((false, Some(4))),
            "JSON is YAML"
        );
    }

    #[test]
    fn a_wrong_key_is_an_error_with_a_suggestion() {
        let of_file = |file| read("--config FILE", &[], file).expect_err(file);
        assert_eq!(
            of_file("leader-election: true"),
            "FILE: leader-election is not a setting (hint: did you mean leader-elect?)"
        );
        assert_eq!(
            of_file("leaderElect: true"),
            "FILE: leaderElect is not a setting (hint: did you mean leader-elect?)"
        );
        assert_eq!(
            of_file("x: 1"),
            "FILE: x is not a setting (hint: the settings are leader-elect, metrics-port)"
        );
        assert_eq!(
            of_file("config: other"),
            "FILE: config is not a setting (hint: the settings are leader-elect, metrics-port)"
        );
        let of_variable = |name| read("", &[(name, "1")], "");
        assert_eq!(
            of_variable("EVENKEEL_LEADER_ELECTS"),
            Err("the variable EVENKEEL_LEADER_ELECTS is not a setting (hint: did you mean EVENKEEL_LEADER_ELECT?)".into())
        );
        // The first two are variables that Kubernetes gives to pods for a Service named `evenkeel`; `EVENKEEL_SEED`
        // belongs to tests.
        for foreign in ["EVENKEEL_PORT", "EVENKEEL_SERVICE_HOST", "EVENKEEL_SEED", "LEADER_ELECT"] {
            assert_eq!(of_variable(foreign), Ok((false, None)), "{foreign}");
        }
    }

    #[test]
    fn a_wrong_value_is_an_error_that_says_where_it_stands() {
        let of_file = |file| read("--config FILE", &[], file).expect_err(file);
        let told = of_file("metrics-port: many");
        assert!(told.starts_with("FILE: metrics-port: invalid value 'many'"), "{told}");
        assert!(of_file("leader-elect: perhaps").starts_with("FILE: leader-elect: invalid value 'perhaps'"));
        assert_eq!(
            of_file("metrics-port: [1]"),
            "FILE: metrics-port must have one value, a text, a number or a boolean"
        );
        assert!(of_file("- leader-elect").starts_with("FILE has no settings"));
        assert!(of_file("a: [").starts_with("FILE is not YAML"));
        let told = read("", &[("EVENKEEL_METRICS_PORT", "many")], "").expect_err("many is no number");
        assert!(told.starts_with("the variable EVENKEEL_METRICS_PORT: invalid value 'many'"), "{told}");
        assert!(
            read("--config /none", &[], "")
                .expect_err("it is not there")
                .starts_with("cannot read the settings")
        );
        assert_eq!(
            read("--what", &[("EVENKEEL_METRICS_PORT", "1")], ""),
            Err("usage: unexpected argument found".into())
        );
    }

    #[test]
    fn letters_are_counted() {
        assert_eq!((distance("kitten", "sitting"), distance("", "abc"), distance("same", "same")), (3, 3, 0));
    }
}
