//! Fuzzes the bytes of a log file.
//!
//! If the first byte is even, the rest is the file. If it is odd, the rest is frame bodies, each after its
//! length in two bytes; they get valid checksums here, so that mutations reach their content. The store opens
//! or reports the damage; a store that opened accepts writes, and opens again in the same state.
#![no_main]

#[path = "files.rs"]
mod files;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((mode, rest)) = bytes.split_first() else { return };
    let log = if mode % 2 == 0 { rest.to_vec() } else { files::framed(files::LOG_HEADER, rest) };
    files::check(&[("log-00000000000000000002", log)]);
});
