//! A server without free file descriptors keeps running, and accepts clients again.

use std::fs::File;
use std::time::Duration;

use evenkeel_cluster::serve::ServeOptions;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpStream;

use crate::child;
use crate::wire::Wire;

/// How many files the process may have open. It needs a few dozen for itself.
const FILES: u64 = 200;
/// How many files are reserved until all others are taken: one for the client that sends requests, and the rest for silent
/// clients that the server has no file for.
const RESERVE: usize = 8;

#[test]
fn clients_that_take_every_file_shut_nobody_out() {
    let played = child::play("descriptors::child_runs_out_of_files", &[]);
    assert!(played.passed, "{}", played.told);
}

/// Runs in a process of its own, because it changes the limit of open files. Silent clients use up all files; each
/// connection that cannot be accepted closes one of theirs.
#[tokio::test]
async fn child_runs_out_of_files() {
    if !child::is_this() {
        return;
    }
    let mut options = ServeOptions::default();
    // More connection slots than files, and no handshake that times out.
    (options.connections_max, options.handshake_timeout) = (10_000, Duration::from_secs(3600));
    let wire = Wire::start(options).await;
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(FILES), maximum }).expect("it is lower than before");
    let reserve: Vec<_> = (0..RESERVE).map(|_| File::open("/dev/null").expect("there is one")).collect();
    let (mut silent, mut waiting) = (Vec::new(), Vec::new());
    while let Ok(client) = TcpStream::connect(wire.address).await {
        silent.push(client);
        assert!(silent.len() < FILES as usize, "files are limited");
    }
    drop(reserve);
    // These connections fail to be accepted before that of the request. They are opened without a pause in which the server
    // could take the files that have become free.
    for _ in 1..RESERVE {
        let client = std::net::TcpStream::connect(wire.address).expect("a file is free");
        waiting.push(client);
    }
    for _ in 0..3 {
        let answer = wire.request("GET /readyz", "application/json", b"").await;
        assert_eq!(answer.status, 200, "{}", answer.text);
    }
}
