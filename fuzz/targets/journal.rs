//! The bytes of a log file. With an even first byte, the rest is the file; with an odd one, it is bodies of frames, each
//! behind its length in two bytes, which get their checksums here, so that what is mutated is what they hold. The
//! store opens or says what is damaged; a store that opened can be written to, and opened again as it was.
#![no_main]

#[path = "files.rs"]
mod files;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((mode, rest)) = bytes.split_first() else { return };
    let log = if mode % 2 == 0 { rest.to_vec() } else { files::framed(files::LOG_HEADER, rest) };
    files::check(&[("log-00000000000000000002", log)]);
});
