//! The file of static tokens, in the format that kube-apiserver takes: `token,user,uid,"group1,group2"`.

use std::path::{Path, PathBuf};

use evenkeel_apiserver::{TokenAuthenticator, User};
use evenkeel_env::HashMap;

/// The users of static bearer tokens. The `Debug` output shows how many there are, never a token.
#[derive(Clone, Default)]
pub struct Tokens {
    users: HashMap<String, User>,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens").field("users", &self.users.len()).finish_non_exhaustive()
    }
}

/// A token file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenFileError {
    /// The file cannot be read.
    #[error("cannot read the token file {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A line is malformed.
    #[error("the token file {path}, line {line}: {why}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The number of the line, from one.
        line: usize,
        /// The problem.
        why: &'static str,
    },
}

impl Tokens {
    /// Reads a token file.
    pub fn read(path: &Path) -> Result<Self, TokenFileError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| TokenFileError::Read { path: path.to_owned(), source })?;
        Self::parse(&text).map_err(|(line, why)| TokenFileError::Malformed {
            path: path.to_owned(),
            line,
            why,
        })
    }

    fn parse(text: &str) -> Result<Self, (usize, &'static str)> {
        let mut users = HashMap::default();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let malformed = |why| (index + 1, why);
            let columns = columns(line).map_err(malformed)?;
            let [token, name, uid, rest @ ..] = columns.as_slice() else {
                return Err(malformed("expected at least token, user name and user uid"));
            };
            if token.is_empty() {
                return Err(malformed("the token is empty"));
            }
            let groups =
                rest.first().into_iter().flat_map(|groups| groups.split(',')).filter(|g| !g.is_empty());
            let mut user = User::new(name.clone(), groups);
            user.uid = uid.clone();
            // As in Kubernetes, the last line with a token wins.
            users.insert(token.clone(), user);
        }
        Ok(Self { users })
    }

    /// The user of this token.
    pub(crate) fn user(&self, token: &str) -> Option<&User> {
        self.users.get(token)
    }
}

impl TokenAuthenticator for Tokens {
    fn user(&self, token: &str) -> Option<User> {
        self.users.get(token).cloned()
    }
}

/// The columns of a CSV line. A quoted column may contain commas, and `""` for a quote.
fn columns(line: &str) -> Result<Vec<String>, &'static str> {
    let mut columns = Vec::new();
    let mut rest = line;
    loop {
        let column = match rest.strip_prefix('"') {
            Some(quoted) => {
                let (column, after) = quoted_column(quoted)?;
                rest = after;
                column
            }
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                let (column, after) = rest.split_at(end);
                rest = after;
                column.to_owned()
            }
        };
        columns.push(column);
        match rest.strip_prefix(',') {
            Some(after) => rest = after,
            None if rest.trim().is_empty() => return Ok(columns),
            None => return Err("something follows a closing quote"),
        }
    }
}

fn quoted_column(text: &str) -> Result<(String, &str), &'static str> {
    let mut column = String::new();
    let mut rest = text;
    loop {
        let end = rest.find('"').ok_or("a quote is not closed")?;
        column.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(after) => {
                column.push('"');
                rest = after;
            }
            None => return Ok((column, rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_of_kube_apiserver_is_read() {
        let tokens = Tokens::parse("t1,alice,u1\n\nt2,bob,u2,\"devs,ops\"\nt3,carol,u3,one\n").unwrap();
        assert_eq!(tokens.user("t1").unwrap().name, "alice");
        assert_eq!(tokens.user("t2").unwrap().groups, ["devs", "ops"]);
        assert_eq!(tokens.user("t3").unwrap().groups, ["one"]);
        assert!(tokens.user("t4").is_none());
    }

    #[test]
    fn mistakes_name_their_line() {
        let check = |text| Tokens::parse(text).unwrap_err();
        assert_eq!(check("a,b,c\nt,u"), (2, "expected at least token, user name and user uid"));
        assert_eq!(check("t,u,1,\"devs"), (1, "a quote is not closed"));
        assert_eq!(check(",u,1"), (1, "the token is empty"));
    }
}
