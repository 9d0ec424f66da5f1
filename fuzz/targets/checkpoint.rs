//! The bytes of a checkpoint, with an empty log after it. With an even first byte, the rest is the file; with an odd
//! one, it is bodies of frames, each behind its length in two bytes, which get their checksums here. The store opens or
//! says what is damaged; a store that opened can be written to, and opened again as it was.
#![no_main]

#[path = "files.rs"]
mod files;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((mode, rest)) = bytes.split_first() else { return };
    let state = if mode % 2 == 0 { rest.to_vec() } else { files::framed(files::CHECKPOINT_HEADER, rest) };
    let log = files::LOG_HEADER.to_vec();
    files::check(&[("checkpoint-00000000000000000100", state), ("log-00000000000000000101", log)]);
});
