//! The questions that `evenkeel new` asks on a terminal.

use std::io::{BufRead, Write};

use anyhow::{Context as _, bail};

/// Asks the user questions on a terminal. Without a terminal, every question gets its default answer.
pub(super) struct Questions<I, O> {
    terminal: Option<(I, O)>,
}

impl<I: BufRead, O: Write> Questions<I, O> {
    pub(super) fn to(input: I, output: O) -> Self {
        Self { terminal: Some((input, output)) }
    }

    /// Asks nobody: every question gets its default answer.
    pub(super) fn to_nobody() -> Self {
        Self { terminal: None }
    }

    pub(super) fn somebody_is_there(&self) -> bool {
        self.terminal.is_some()
    }

    /// Asks for what is not given, until the answer can be read. An empty answer is the usual one.
    pub(super) fn ask<T>(
        &mut self,
        given: Option<T>,
        question: &str,
        usual: &str,
        read: impl Fn(&str) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        if let Some(given) = given {
            return Ok(given);
        }
        let Some((input, output)) = &mut self.terminal else { return read(usual) };
        loop {
            write!(output, "{question} [{usual}]: ")?;
            output.flush()?;
            let mut answer = String::new();
            if input.read_line(&mut answer).context("cannot read the answer")? == 0 {
                bail!("the input ended before the answer to `{question}`: nothing was written");
            }
            let answer = match answer.trim() {
                "" => usual,
                answer => answer,
            };
            match read(answer) {
                Ok(answer) => return Ok(answer),
                Err(error) => writeln!(output, "{error}")?,
            }
        }
    }
}

/// Reads the answer to a question that is answered by yes or no.
pub(super) fn yes_or_no(answer: &str) -> anyhow::Result<bool> {
    match answer.to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(true),
        "n" | "no" => Ok(false),
        _ => bail!("please answer yes or no"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_asked_until_they_are_answered() {
        let mut shown = Vec::new();
        let mut questions = Questions::to("maybe\n Y \n\n".as_bytes(), &mut shown);
        assert!(questions.ask(None, "Webhooks?", "no", yes_or_no).expect("it is answered"));
        assert!(!questions.ask(None, "Again?", "no", yes_or_no).expect("an empty answer is the usual one"));
        assert!(questions.ask(Some(true), "Not asked", "no", yes_or_no).expect("it is given"));
        let ended = questions.ask(None, "More?", "no", yes_or_no).expect_err("the input has ended");
        assert!(ended.to_string().contains("`More?`: nothing was written"), "{ended}");
        let expected = "Webhooks? [no]: please answer yes or no\nWebhooks? [no]: Again? [no]: More? [no]: ";
        assert_eq!(String::from_utf8(shown).expect("it is text"), expected);
    }

    #[test]
    fn nobody_gives_the_usual_answers() {
        let mut nobody = Questions::<std::io::Empty, std::io::Sink>::to_nobody();
        assert!(nobody.ask(None, "Webhooks?", "yes", yes_or_no).expect("yes is an answer"));
    }
}
