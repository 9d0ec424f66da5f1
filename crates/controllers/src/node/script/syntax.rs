//! Reads the part of the shell's language that a simulated node understands.

use std::rc::Rc;

use super::lexer::{Part, Token, Word, lex};

/// How deep a script may be nested. A deeper one is not understood.
pub(super) const DEPTH_MAX: usize = 20;

/// Commands that run one after the other.
pub(super) type List = Vec<AndOr>;

/// Commands joined by `&&` and `||`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AndOr {
    pub(super) first: Command,
    /// The further commands. A command with `true` runs if the one before it has succeeded (`&&`), a command with `false`
    /// if the one before it has failed (`||`).
    pub(super) rest: Vec<(bool, Command)>,
}

/// One command.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Command {
    Simple(Simple),
    If {
        branches: Vec<(List, List)>,
        otherwise: List,
    },
    /// Runs its body while the condition succeeds, or until it does.
    While {
        until: bool,
        condition: List,
        body: List,
    },
    For {
        name: String,
        words: Vec<Word>,
        body: List,
    },
    Not(Box<Command>),
    /// Commands in braces.
    Group(List),
    Function {
        name: String,
        body: Rc<List>,
    },
}

/// A program with its arguments, or assignments.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Simple {
    pub(super) assignments: Vec<(String, Word)>,
    pub(super) words: Vec<Word>,
    pub(super) redirects: Vec<Redirect>,
}

/// Where the output of a command goes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Redirect {
    /// Whether it is the standard output; otherwise it is the standard error, which is not kept.
    pub(super) is_output: bool,
    pub(super) appends: bool,
    pub(super) target: Word,
}

/// Parses a script; `None` if it is not in the language.
pub(super) fn parse(text: &str, depth: usize) -> Option<List> {
    if depth > DEPTH_MAX {
        return None;
    }
    let tokens = lex(text, depth)?;
    let mut parser = Parser { tokens: &tokens, at: 0, depth };
    let list = parser.list(&[])?;
    (parser.at == tokens.len()).then_some(list)
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: usize,
}

/// Words that end a list of commands, where a command may begin.
const ENDS: [&str; 8] = ["then", "elif", "else", "fi", "do", "done", "}", "esac"];

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    /// Returns the next token if it is an unquoted word without expansions.
    fn keyword(&self) -> Option<&str> {
        match self.peek()? {
            Token::Word(word) => word.keyword(),
            Token::Operator(_) => None,
        }
    }

    fn eat_keyword(&mut self, wanted: &str) -> Option<()> {
        (self.keyword()? == wanted).then(|| self.at += 1)
    }

    fn eat_operator(&mut self, wanted: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Operator(operator)) if *operator == wanted);
        self.at += usize::from(found);
        found
    }

    fn skip_newlines(&mut self) {
        while self.eat_operator("\n") {}
    }

    /// Parses commands until one of these keywords, or the end of the script.
    fn list(&mut self, ends: &[&str]) -> Option<List> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let mut list = List::new();
        loop {
            while self.eat_operator("\n") || self.eat_operator(";") {}
            let at_end = self.keyword().is_some_and(|word| ends.contains(&word));
            if self.peek().is_none() || at_end {
                break;
            }
            list.push(self.and_or()?);
            let separated = self.eat_operator(";") || self.eat_operator("\n");
            if !separated && self.peek().is_some() && !self.keyword().is_some_and(|word| ends.contains(&word))
            {
                return None;
            }
        }
        self.depth -= 1;
        Some(list)
    }

    fn and_or(&mut self) -> Option<AndOr> {
        let first = self.command()?;
        let mut rest = Vec::new();
        loop {
            let on_success = self.eat_operator("&&");
            if !on_success && !self.eat_operator("||") {
                return Some(AndOr { first, rest });
            }
            self.skip_newlines();
            rest.push((on_success, self.command()?));
        }
    }

    fn command(&mut self) -> Option<Command> {
        match self.keyword() {
            Some("!") => {
                self.at += 1;
                Some(Command::Not(Box::new(self.command_below()?)))
            }
            Some("{") => {
                self.at += 1;
                let body = self.list(&["}"])?;
                self.eat_keyword("}")?;
                Some(Command::Group(body))
            }
            Some("if") => self.conditional(),
            Some(word @ ("while" | "until")) => {
                let until = word == "until";
                self.at += 1;
                let condition = self.list(&["do"])?;
                let body = self.body()?;
                Some(Command::While { until, condition, body })
            }
            Some("for") => self.each(),
            Some(word) if ENDS.contains(&word) || word == "case" || word == "function" => None,
            _ => self.simple_or_function(),
        }
    }

    fn command_below(&mut self) -> Option<Command> {
        self.depth += 1;
        let command = (self.depth <= DEPTH_MAX).then(|| self.command()).flatten();
        self.depth -= 1;
        command
    }

    /// Parses `do LIST done`.
    fn body(&mut self) -> Option<List> {
        self.eat_keyword("do")?;
        let body = self.list(&["done"])?;
        self.eat_keyword("done")?;
        Some(body)
    }

    fn conditional(&mut self) -> Option<Command> {
        self.at += 1;
        let mut branches = Vec::new();
        let mut otherwise = List::new();
        loop {
            let condition = self.list(&["then"])?;
            self.eat_keyword("then")?;
            let body = self.list(&["elif", "else", "fi"])?;
            branches.push((condition, body));
            let next = self.keyword()?.to_owned();
            self.at += 1;
            match next.as_str() {
                "elif" => {}
                "else" => {
                    otherwise = self.list(&["fi"])?;
                    self.eat_keyword("fi")?;
                    break;
                }
                _ => break,
            }
        }
        Some(Command::If { branches, otherwise })
    }

    fn each(&mut self) -> Option<Command> {
        self.at += 1;
        let name = self.keyword()?.to_owned();
        self.at += 1;
        self.eat_keyword("in")?;
        let mut words = Vec::new();
        while let Some(Token::Word(word)) = self.peek() {
            words.push(word.clone());
            self.at += 1;
        }
        let _ = self.eat_operator(";") || self.eat_operator("\n");
        self.skip_newlines();
        let body = self.body()?;
        Some(Command::For { name, words, body })
    }

    fn simple_or_function(&mut self) -> Option<Command> {
        if let (Some(name), Some(Token::Operator("()"))) = (self.keyword(), self.tokens.get(self.at + 1)) {
            let name = name.to_owned();
            self.at += 2;
            self.skip_newlines();
            self.eat_keyword("{")?;
            let body = self.list(&["}"])?;
            self.eat_keyword("}")?;
            return Some(Command::Function { name, body: Rc::new(body) });
        }
        let mut simple = Simple::default();
        loop {
            match self.peek() {
                Some(Token::Word(word)) => {
                    let word = word.clone();
                    self.at += 1;
                    match word.assignment().filter(|_| simple.words.is_empty()) {
                        Some(assignment) => simple.assignments.push(assignment),
                        None => simple.words.push(word),
                    }
                }
                Some(Token::Operator(operator @ (">" | ">>" | "2>" | "2>>"))) => {
                    let operator = *operator;
                    self.at += 1;
                    let Some(Token::Word(target)) = self.peek() else { return None };
                    simple.redirects.push(Redirect {
                        is_output: !operator.starts_with('2'),
                        appends: operator.ends_with(">>"),
                        target: target.clone(),
                    });
                    self.at += 1;
                }
                // The standard error is not kept, wherever it goes.
                Some(Token::Operator("2>&1")) => self.at += 1,
                Some(Token::Operator("\n" | ";" | "&&" | "||")) | None => break,
                Some(Token::Operator(_)) => return None,
            }
        }
        let empty = simple.words.is_empty() && simple.assignments.is_empty() && simple.redirects.is_empty();
        (!empty).then_some(Command::Simple(simple))
    }
}

impl Word {
    /// Returns the text of a word that is not quoted and has no expansions.
    fn keyword(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Text { text, quoted: false }] => Some(text),
            _ => None,
        }
    }

    /// Returns name and value if the word is an assignment.
    fn assignment(&self) -> Option<(String, Word)> {
        let Some(Part::Text { text, quoted: false }) = self.parts.first() else { return None };
        let (name, value) = text.split_once('=')?;
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let mut parts = vec![Part::Text { text: value.to_owned(), quoted: true }];
        parts.extend(self.parts.iter().skip(1).cloned());
        is_name.then(|| (name.to_owned(), Word { parts }))
    }
}
