//! The modules of one file: what each of them declares, imports and refers to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::tokens::{Kind, Token, tokens};

/// What is known of one module.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Module {
    /// The submodules in files of their own.
    pub(super) files: Vec<String>,
    /// The names of the items that the module defines.
    pub(super) items: BTreeSet<String>,
    /// The names that `use` brings into the module, with the paths that they stand for.
    pub(super) imports: BTreeMap<String, Vec<String>>,
    /// The paths before `::*`.
    pub(super) globs: Vec<Vec<String>>,
    /// The paths that the module mentions.
    pub(super) references: Vec<Reference>,
}

/// A path that a module mentions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) path: Vec<String>,
    pub(super) file: PathBuf,
    pub(super) line: usize,
}

/// Reads a file. The key of a module is its path inside of the file; the module of the file itself has the empty path.
pub(super) fn read(source: &str, file: &Path) -> BTreeMap<Vec<String>, Module> {
    let tokens = tokens(source);
    let mut reader = Reader { tokens: &tokens, at: 0, file, scopes: Vec::new(), modules: BTreeMap::new() };
    reader.modules.insert(Vec::new(), Module::default());
    while reader.at < tokens.len() {
        reader.step();
    }
    reader.modules
}

/// What a brace encloses.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Scope {
    Module(String),
    Block,
}

struct Reader<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
    file: &'a Path,
    scopes: Vec<Scope>,
    modules: BTreeMap<Vec<String>, Module>,
}

/// The words before the name of an item.
const ITEM: [&str; 8] = ["fn", "struct", "enum", "trait", "type", "const", "static", "union"];

/// The words that an item can begin with, beside [`ITEM`].
const ITEM_BEGINNING: [&str; 7] = ["pub", "use", "mod", "impl", "async", "unsafe", "extern"];

impl<'a> Reader<'a> {
    fn peek(&self, ahead: usize) -> Option<Kind<'a>> {
        self.tokens.get(self.at + ahead).map(|token| token.kind)
    }

    fn word(&self, ahead: usize) -> Option<&'a str> {
        match self.peek(ahead)? {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }

    fn is_mark(&self, ahead: usize, mark: char) -> bool {
        self.peek(ahead) == Some(Kind::Mark(mark))
    }

    /// The module that is being read.
    fn path(&self) -> Vec<String> {
        let name = |scope: &Scope| match scope {
            Scope::Module(name) => Some(name.clone()),
            Scope::Block => None,
        };
        self.scopes.iter().filter_map(name).collect()
    }

    fn module(&mut self) -> &mut Module {
        self.modules.entry(self.path()).or_default()
    }

    /// Whether the current token is between items, and not in the body of a function or a type.
    fn at_items(&self) -> bool {
        !self.scopes.contains(&Scope::Block)
    }

    /// Reads one token, or the declaration or path that begins with it.
    fn step(&mut self) {
        match self.peek(0) {
            Some(Kind::Mark('#')) if self.is_mark(1, '[') || self.is_mark(1, '!') && self.is_mark(2, '[') => {
                self.attribute();
            }
            Some(Kind::Mark('{')) => self.open(Scope::Block),
            Some(Kind::Mark('}')) => {
                self.scopes.pop();
                self.at += 1;
            }
            Some(Kind::Word("mod")) => self.declaration(),
            // `use<…>` is a bound, not an import.
            Some(Kind::Word("use")) if !self.is_mark(1, '<') => self.import(),
            // `pub(in crate::a)` is no use of `a`.
            Some(Kind::Word("pub")) if self.is_mark(1, '(') => {
                self.at += 1;
                self.skip_group();
            }
            Some(Kind::Word("crate" | "self" | "super")) if self.peek(1) == Some(Kind::PathSeparator) => {
                self.mention();
            }
            Some(Kind::Word(word)) => {
                self.item(word);
                self.at += 1;
            }
            _ => self.at += 1,
        }
    }

    fn open(&mut self, scope: Scope) {
        self.scopes.push(scope);
        self.at += 1;
    }

    /// Notes the name of an item.
    fn item(&mut self, word: &str) {
        if !self.at_items() {
            return;
        }
        let name = match word {
            "macro_rules" => self.word(2),
            word if ITEM.contains(&word) => self.word(1),
            _ => None,
        };
        if let Some(name) = name {
            self.module().items.insert(name.to_owned());
        }
    }

    /// Reads `mod name;` or the beginning of `mod name { … }`.
    fn declaration(&mut self) {
        let Some(name) = self.word(1) else { return self.at += 1 };
        self.at += 2;
        if self.is_mark(0, '{') {
            self.open(Scope::Module(name.to_owned()));
            self.module();
        } else {
            self.module().files.push(name.to_owned());
        }
    }

    /// Reads an attribute, and skips the item behind it if the item is for tests only.
    fn attribute(&mut self) {
        let inner = self.is_mark(1, '!');
        self.at += if inner { 2 } else { 1 };
        let begin = self.at;
        self.skip_group();
        if !is_for_tests(&self.tokens[begin..self.at]) {
            return;
        }
        if inner {
            return self.skip_rest();
        }
        while self.is_mark(0, '#') {
            self.at += 1;
            self.skip_group();
        }
        self.skip_item();
    }

    /// Skips an item, a field, an arm or a statement.
    fn skip_item(&mut self) {
        let is_item = self.word(0).is_some_and(|word| ITEM.contains(&word) || ITEM_BEGINNING.contains(&word));
        while let Some(kind) = self.peek(0) {
            match kind {
                Kind::Mark('}') => return,
                Kind::Mark(';') => return self.at += 1,
                Kind::Mark(',') if !is_item => return self.at += 1,
                Kind::Mark('{') => return self.skip_group(),
                Kind::Mark('(' | '[') => self.skip_group(),
                _ => self.at += 1,
            }
        }
    }

    /// Skips the rest of a module, up to its closing brace.
    fn skip_rest(&mut self) {
        while self.peek(0).is_some() && !self.is_mark(0, '}') {
            self.skip_group();
        }
    }

    /// Skips one token, or brackets of any kind with all that stands in them.
    fn skip_group(&mut self) {
        let mut depth = 0_usize;
        while let Some(kind) = self.peek(0) {
            self.at += 1;
            match kind {
                Kind::Mark('(' | '[' | '{') => depth += 1,
                Kind::Mark(')' | ']' | '}') => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return;
            }
        }
    }

    /// Reads a path in code: `crate::a::b`.
    fn mention(&mut self) {
        let line = self.tokens[self.at].line;
        let mut path = Vec::new();
        while let Some(word) = self.word(0) {
            path.push(word.to_owned());
            self.at += 1;
            if self.peek(0) != Some(Kind::PathSeparator) {
                break;
            }
            self.at += 1;
        }
        self.refer(path, line);
    }

    fn refer(&mut self, path: Vec<String>, line: usize) {
        let reference = Reference { path, file: self.file.to_owned(), line };
        self.module().references.push(reference);
    }

    /// Reads `use …;`.
    fn import(&mut self) {
        self.at += 1;
        self.tree(&[]);
        if self.is_mark(0, ';') {
            self.at += 1;
        }
    }

    /// Reads one tree of a `use`: a path, and what follows it.
    fn tree(&mut self, prefix: &[String]) {
        let mut path = prefix.to_vec();
        let line = self.tokens.get(self.at).map_or(0, |token| token.line);
        loop {
            match self.peek(0) {
                Some(Kind::Word(word)) => {
                    path.push(word.to_owned());
                    self.at += 1;
                }
                Some(Kind::Mark('*')) => {
                    self.at += 1;
                    self.refer(path.clone(), line);
                    if self.at_items() {
                        self.module().globs.push(path);
                    }
                    return;
                }
                Some(Kind::Mark('{')) => return self.branches(&path),
                // A leading `::` names another crate.
                Some(Kind::PathSeparator) if path.is_empty() => path.push("::".to_owned()),
                _ => return,
            }
            match self.peek(0) {
                Some(Kind::PathSeparator) => self.at += 1,
                _ => return self.leaf(path, line),
            }
        }
    }

    /// Reads `{a, b::c}` behind a path.
    fn branches(&mut self, path: &[String]) {
        self.at += 1;
        while self.peek(0).is_some() && !self.is_mark(0, '}') {
            let before = self.at;
            self.tree(path);
            if self.is_mark(0, ',') || self.at == before {
                self.at += 1;
            }
        }
        self.at += 1;
    }

    /// Notes one imported name.
    fn leaf(&mut self, mut path: Vec<String>, line: usize) {
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let mut name = path.last().cloned().unwrap_or_default();
        if self.word(0) == Some("as") {
            name = self.word(1).unwrap_or_default().to_owned();
            self.at += 2;
        }
        if self.at_items() {
            self.module().imports.insert(name, path.clone());
        }
        self.refer(path, line);
    }
}

/// Whether an attribute, from its bracket on, is `cfg(test)` or `cfg(all(test, …))`.
fn is_for_tests(attribute: &[Token<'_>]) -> bool {
    let words: Vec<&str> = attribute
        .iter()
        .filter_map(|token| match token.kind {
            Kind::Word(word) => Some(word),
            _ => None,
        })
        .collect();
    matches!(words.as_slice(), ["cfg", "test"])
        || words.starts_with(&["cfg", "all"]) && words.contains(&"test") && !words.contains(&"not")
}
