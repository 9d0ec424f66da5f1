//! mdBook's preprocessor `api-links`: a book on stdin, on stdout the same book with links that lead somewhere.

use std::io::Read as _;
use std::process::ExitCode;

use serde_json::Value;

fn main() -> ExitCode {
    // mdBook asks first whether a renderer is supported; all are.
    if std::env::args().nth(1).as_deref() == Some("supports") {
        return ExitCode::SUCCESS;
    }
    match prepared() {
        Ok(book) => {
            println!("{book}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: cannot read a book from stdin: {error}");
            ExitCode::FAILURE
        }
    }
}

fn prepared() -> Result<Value, Box<dyn std::error::Error>> {
    let mut input = String::new();
    std::io::stdin().read_to_string(&mut input)?;
    let [_context, mut book]: [Value; 2] = serde_json::from_str(&input)?;
    evenkeel_book::prepare(&mut book);
    Ok(book)
}
