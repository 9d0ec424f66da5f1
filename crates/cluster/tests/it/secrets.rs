//! The printed forms of options and errors contain no tokens or keys.

use evenkeel_cluster::Cluster;
use evenkeel_cluster::serve::{ServeOptions, Tokens};

const PLANTED: &str = "planted-secret-c0ffee";

fn check(what: &str, shown: &str) {
    assert!(!shown.contains(PLANTED), "{what} shows a secret: {shown}");
    assert!(!shown.contains("PRIVATE KEY"), "{what} shows a key: {shown}");
}

/// Each form in which a value can get into a log.
macro_rules! shown {
    ($value:expr) => {
        format!("{:?} {:#?}", $value, $value)
    };
}

#[tokio::test]
async fn options_and_errors_show_no_secret() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).expect("it can be written");
        file
    };
    let tokens = write("tokens", &format!("{PLANTED},alice,1\n"));
    let mut options = ServeOptions::default();
    options.tokens = Tokens::read(&tokens).expect("it is well formed");
    check("options of a server", &shown!(options));
    check("tokens", &shown!(options.tokens));
    for text in
        [format!("{PLANTED},alice"), format!("\"{PLANTED},alice,1"), format!("\"{PLANTED}\"x,alice,1")]
    {
        let error = Tokens::read(&write("wrong", &text)).expect_err("it is malformed");
        check("an error of tokens", &format!("{error} {}", shown!(error)));
    }
    let not_text = folder.path().join("not-text");
    std::fs::write(&not_text, [PLANTED.as_bytes(), &[0xff, 0xfe]].concat()).expect("it can be written");
    let error = Tokens::read(&not_text).expect_err("it is no text");
    check("an error of tokens", &format!("{error} {}", shown!(error)));
}

#[tokio::test]
async fn a_damaged_key_is_not_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let builder = || Cluster::builder().controllers(false).data_dir(folder.path());
    check("options of a cluster", &shown!(builder()));
    drop(
        builder().start().await.expect("it starts").serve(ServeOptions::default()).await.expect("it serves"),
    );
    let pki = folder.path().join("pki");
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{PLANTED}\n-----END PRIVATE KEY-----\n");
    for file in ["sa.key", "ca.key"] {
        let whole = std::fs::read(pki.join(file)).expect("it was written");
        std::fs::write(pki.join(file), &pem).expect("it can be written");
        let error = match builder().start().await {
            Err(error) => format!("{error} {}", shown!(error)),
            Ok(cluster) => match cluster.serve(ServeOptions::default()).await {
                Err(error) => format!("{error} {}", shown!(error)),
                Ok(_) => panic!("{file} is damaged"),
            },
        };
        check(file, &error);
        std::fs::write(pki.join(file), whole).expect("it can be written");
    }
}
