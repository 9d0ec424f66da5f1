//! Fuzzes the bytes of a checkpoint, with an empty log after it.
//!
//! If the first byte is even, the rest is the file. If it is odd, the rest is frame bodies, each after its
//! length in two bytes; they get valid checksums here. The store opens or reports the damage; a store that
//! opened accepts writes, and opens again in the same state.
#![no_main]

#[path = "files.rs"]
mod files;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((mode, rest)) = bytes.split_first() else { return };
    let state = if mode % 2 == 0 { rest.to_vec() } else { files::framed(files::CHECKPOINT_HEADER, rest) };
    let log = files::LOG_HEADER.to_vec();
    files::check(&[("checkpoint-00000000000000000100", state), ("log-00000000000000000101", log)]);
});
