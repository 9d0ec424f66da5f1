//! The programs that a simulated node understands.

use std::time::Duration;

use super::arithmetic;
use super::machine::{Halt, Machine, Ran};

/// Directories whose files come with an image, which a node does not know.
const OF_IMAGE: [&str; 14] = [
    "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/opt", "/proc", "/root", "/sbin", "/sys",
    "/usr", "/var",
];

/// How many numbers `seq` prints at most.
const SEQUENCE_MAX: i64 = 1_000;

/// Runs a program.
pub(super) fn run(machine: &mut Machine<'_, '_>, name: &str, arguments: &[String]) -> Ran {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match name.rsplit('/').next().unwrap_or_default() {
        "true" | ":" => Ok(0),
        "false" => Ok(1),
        "exit" => Err(Halt::Exit(code(machine, &words)?)),
        "return" => Err(Halt::Return(code(machine, &words)?)),
        "break" if words.is_empty() => Err(Halt::Break),
        "continue" if words.is_empty() => Err(Halt::Continue),
        "exec" => Err(Halt::Exit(machine.program(arguments)?)),
        "sleep" => sleep(machine, &words),
        "echo" => echo(machine, &words),
        "date" if words.is_empty() => {
            machine.varies = true;
            let now = machine.started.1.checked_add(machine.time).unwrap_or(machine.started.1);
            machine.print(&format!("{}\n", now.strftime("%a %b %e %H:%M:%S UTC %Y")))?;
            Ok(0)
        }
        "hostname" if words.is_empty() => {
            let line = format!("{}\n", machine.host_name);
            machine.print(&line)?;
            Ok(0)
        }
        "expr" => expr(machine, &words),
        "seq" => seq(machine, &words),
        "test" => test(machine, &words).map(code_of),
        "[" => bracket(machine, &words, "]"),
        "[[" => bracket(machine, &words, "]]"),
        "touch" => files(&words)?.iter().try_fold(0, |_, path| touch(machine, path)),
        "rm" => rm(machine, &words),
        "cat" => cat(machine, &words),
        // Directories need not be created: a file can be written to any path.
        "mkdir" | "chmod" | "chown" | "sync" | "wait" | "umask" => Ok(0),
        "trap" => Ok(trap(machine, &words)),
        "tail" if words == ["-f", "/dev/null"] => Err(Halt::Endless),
        "set" => set(machine, &words),
        "export" => export(machine, &words),
        _ => Err(Halt::Unknown),
    }
}

fn code_of(holds: bool) -> i32 {
    i32::from(!holds)
}

fn code(machine: &Machine<'_, '_>, words: &[&str]) -> Ran {
    match words {
        [] => Ok(machine.last_status()),
        [code] => code.parse().map_err(|_| Halt::Unknown),
        _ => Err(Halt::Unknown),
    }
}

/// Records the handler for SIGTERM. Nothing sends any other signal.
fn trap(machine: &mut Machine<'_, '_>, words: &[&str]) -> i32 {
    let words = if words.first() == Some(&"--") { &words[1..] } else { words };
    if let Some((handler, signals)) = words.split_first()
        && signals.iter().any(|signal| matches!(*signal, "TERM" | "SIGTERM" | "15"))
    {
        machine.on_term = (*handler != "-").then(|| (*handler).to_owned());
    }
    0
}

fn sleep(machine: &mut Machine<'_, '_>, words: &[&str]) -> Ran {
    if words.is_empty() {
        return Err(Halt::Unknown);
    }
    for word in words {
        if *word == "infinity" {
            return Err(Halt::Endless);
        }
        let (number, unit) = match word.strip_suffix(['s', 'm', 'h', 'd']) {
            Some(number) => (number, word.chars().last().unwrap_or('s')),
            None => (*word, 's'),
        };
        let number: f64 = number.parse().map_err(|_| Halt::Unknown)?;
        let unit = match unit {
            'm' => 60.0,
            'h' => 3_600.0,
            'd' => 86_400.0,
            _ => 1.0,
        };
        let length = Duration::try_from_secs_f64(number * unit).map_err(|_| Halt::Unknown)?;
        machine.time = machine.time.saturating_add(length);
    }
    Ok(0)
}

fn echo(machine: &mut Machine<'_, '_>, words: &[&str]) -> Ran {
    let (mut words, mut end, mut escapes) = (words, "\n", false);
    while let Some((first @ ("-n" | "-e"), rest)) = words.split_first().map(|(first, rest)| (*first, rest)) {
        words = rest;
        match first {
            "-n" => end = "",
            _ => escapes = true,
        }
    }
    let mut text = words.join(" ");
    if escapes {
        text = text.replace("\\n", "\n").replace("\\t", "\t");
    }
    machine.print(&format!("{text}{end}"))?;
    Ok(0)
}

fn expr(machine: &mut Machine<'_, '_>, words: &[&str]) -> Ran {
    let [left, operator, right] = words else { return Err(Halt::Unknown) };
    let value = match *operator {
        "=" | "!=" => i64::from((left == right) == (*operator == "=")),
        operator => {
            arithmetic::evaluate(&format!("{left} {operator} {right}"), &mut |_| None).ok_or(Halt::Unknown)?
        }
    };
    machine.print(&format!("{value}\n"))?;
    Ok(code_of(value != 0))
}

fn seq(machine: &mut Machine<'_, '_>, words: &[&str]) -> Ran {
    let number = |word: &str| word.parse::<i64>().map_err(|_| Halt::Unknown);
    let (first, last) = match words {
        [last] => (1, number(last)?),
        [first, last] => (number(first)?, number(last)?),
        _ => return Err(Halt::Unknown),
    };
    if last.checked_sub(first).is_none_or(|count| count > SEQUENCE_MAX) {
        return Err(Halt::Unknown);
    }
    for number in first..=last {
        machine.print(&format!("{number}\n"))?;
    }
    Ok(0)
}

fn bracket(machine: &mut Machine<'_, '_>, words: &[&str], end: &str) -> Ran {
    match words.split_last() {
        Some((last, words)) if *last == end => test(machine, words).map(code_of),
        _ => Err(Halt::Unknown),
    }
}

fn test(machine: &mut Machine<'_, '_>, words: &[&str]) -> Result<bool, Halt> {
    let negations = words.iter().take_while(|word| **word == "!").count();
    Ok(holds(machine, &words[negations..])? == negations.is_multiple_of(2))
}

fn holds(machine: &mut Machine<'_, '_>, words: &[&str]) -> Result<bool, Halt> {
    match words {
        [] => Ok(false),
        [one] => Ok(!one.is_empty()),
        ["-z", text] => Ok(text.is_empty()),
        ["-n", text] => Ok(!text.is_empty()),
        ["-f" | "-e" | "-r" | "-w", path] => Ok(read(machine, path)?.is_some()),
        ["-s", path] => Ok(read(machine, path)?.is_some_and(|content| !content.is_empty())),
        [left, "=" | "==", right] => Ok(left == right),
        [left, "!=", right] => Ok(left != right),
        [left, operator, right] => {
            let number = |text: &str| text.trim().parse::<i64>().map_err(|_| Halt::Unknown);
            let (left, right) = (number(left)?, number(right)?);
            match *operator {
                "-eq" => Ok(left == right),
                "-ne" => Ok(left != right),
                "-lt" => Ok(left < right),
                "-le" => Ok(left <= right),
                "-gt" => Ok(left > right),
                "-ge" => Ok(left >= right),
                _ => Err(Halt::Unknown),
            }
        }
        _ => Err(Halt::Unknown),
    }
}

/// Returns the arguments that are not options. There must be at least one.
fn files<'a>(words: &[&'a str]) -> Result<Vec<&'a str>, Halt> {
    let files: Vec<_> = words.iter().copied().filter(|word| !word.starts_with('-')).collect();
    if files.is_empty() { Err(Halt::Unknown) } else { Ok(files) }
}

fn read(machine: &mut Machine<'_, '_>, path: &str) -> Result<Option<String>, Halt> {
    let content = machine.read_file(path)?;
    let of_image =
        OF_IMAGE.iter().any(|dir| path.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/')));
    if content.is_none() && of_image { Err(Halt::Unknown) } else { Ok(content) }
}

fn touch(machine: &mut Machine<'_, '_>, path: &str) -> Ran {
    let content = machine.read_file(path)?.unwrap_or_default();
    machine.write_file(path, Some(content))?;
    Ok(0)
}

fn rm(machine: &mut Machine<'_, '_>, words: &[&str]) -> Ran {
    let forced = words.iter().any(|word| word.starts_with('-') && word.contains('f'));
    let mut status = 0;
    for path in files(words)? {
        if read(machine, path)?.is_none() {
            status = i32::from(!forced);
        }
        machine.write_file(path, None)?;
    }
    Ok(status)
}

fn cat(machine: &mut Machine<'_, '_>, words: &[&str]) -> Ran {
    let mut status = 0;
    for path in files(words)? {
        match read(machine, path)? {
            Some(content) => machine.print(&content)?,
            None => {
                machine.print(&format!("cat: can't open '{path}': No such file or directory\n"))?;
                status = 1;
            }
        }
    }
    Ok(status)
}

fn set(machine: &mut Machine<'_, '_>, words: &[&str]) -> Ran {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (on, options) = match (word.strip_prefix('-'), word.strip_prefix('+')) {
            (Some(options), _) => (true, options),
            (_, Some(options)) => (false, options),
            _ => return Err(Halt::Unknown),
        };
        let named = if options.ends_with('o') { words.next().copied().unwrap_or_default() } else { "" };
        if options.contains('e') || named == "errexit" {
            machine.exits_on_error = on;
        }
    }
    Ok(0)
}

fn export(machine: &mut Machine<'_, '_>, words: &[&str]) -> Ran {
    for word in words {
        if let Some((name, value)) = word.split_once('=') {
            machine.variables.insert(name.to_owned(), value.to_owned());
        }
    }
    Ok(0)
}
