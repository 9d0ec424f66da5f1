//! The file of an audit log, and its rotation.
//!
//! A file that has reached its maximum size is renamed to `NAME-2026-11-17T22-15-00.000.EXTENSION`, as kube-apiserver
//! does, and a new one is started. Old files are removed if they are too many or too old.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use evenkeel_env::Env;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, civil};

use super::options::AuditLogOptions;
use crate::os;

/// The format of the time, in UTC, in the name of an old file.
const TIME_IN_NAME: &str = "%Y-%m-%dT%H-%M-%S.%3f";
/// How many bytes are collected for one write.
const CHUNK_BYTES: usize = 1 << 20;

/// The destination of the log's lines.
pub(super) trait Output: Send + 'static {
    /// Writes lines, each with its newline. After an error it still tries the remaining lines.
    fn write<'a>(&mut self, lines: impl Iterator<Item = &'a [u8]>) -> Result<(), LostLines>;
}

/// Lines that could not be written.
#[derive(Debug)]
pub(super) struct LostLines {
    pub(super) lost: u64,
    /// The first error.
    pub(super) source: io::Error,
}

/// The file of a log, or standard output.
pub(super) struct LogFile {
    destination: Destination,
    /// Whether the last line was only written in part.
    torn: bool,
}

enum Destination {
    Stdout(io::Stdout),
    File(RotatedFile),
}

/// The current file, and how it is rotated.
struct RotatedFile {
    file: File,
    bytes: u64,
    options: AuditLogOptions,
    env: Env,
}

impl LogFile {
    pub(super) fn open(options: &AuditLogOptions, env: Env) -> io::Result<Self> {
        if options.path == Path::new("-") {
            return Ok(Self { destination: Destination::Stdout(io::stdout()), torn: false });
        }
        if let Some(folder) = options.path.parent().filter(|it| !it.as_os_str().is_empty()) {
            os::private_folder().recursive(true).create(folder)?;
        }
        let file = append_to(&options.path)?;
        let bytes = file.metadata()?.len();
        let torn = bytes > 0 && !ends_in_newline(&options.path)?;
        let rotated = RotatedFile { file, bytes, options: options.clone(), env };
        Ok(Self { destination: Destination::File(rotated), torn })
    }

    /// Writes the lines that were collected.
    fn flush(&mut self, gathered: &mut Vec<u8>) -> Result<(), LostLines> {
        if gathered.is_empty() {
            return Ok(());
        }
        // End a line that was only written in part, so that it does not run into the next one.
        let begun = std::mem::take(&mut self.torn);
        if begun {
            gathered.insert(0, b'\n');
        }
        let (done, result) = match &mut self.destination {
            Destination::Stdout(out) => write_all(&mut out.lock(), gathered),
            Destination::File(rotated) => {
                let (done, result) = write_all(&mut rotated.file, gathered);
                rotated.bytes += done as u64;
                (done, result)
            }
        };
        let (written, left) = gathered.split_at(done);
        self.torn = if written.is_empty() { begun } else { !written.ends_with(b"\n") };
        let newlines = left.iter().filter(|byte| **byte == b'\n').count() as u64;
        let lost = newlines - u64::from(begun && done == 0);
        gathered.clear();
        result.map_err(|source| LostLines { lost, source })
    }

    /// Rotates the file if this line would exceed its maximum size.
    fn make_room(&mut self, gathered: &mut Vec<u8>, line: &[u8]) -> Result<(), LostLines> {
        let Destination::File(rotated) = &self.destination else { return Ok(()) };
        let size = rotated.bytes + gathered.len() as u64;
        let max = rotated.options.max_bytes;
        if max == 0 || size == 0 || size + line.len() as u64 <= max {
            return Ok(());
        }
        let flushed = self.flush(gathered);
        if let Destination::File(rotated) = &mut self.destination {
            match rotated.rotate() {
                Ok(()) => self.torn = false,
                // Lines continue to go into the old file, so none is lost.
                Err(error) => tracing::error!(%error, "cannot rotate the audit log"),
            }
        }
        flushed
    }
}

impl Output for LogFile {
    fn write<'a>(&mut self, lines: impl Iterator<Item = &'a [u8]>) -> Result<(), LostLines> {
        let mut gathered = Vec::new();
        let mut result = Ok(());
        for line in lines {
            add(&mut result, self.make_room(&mut gathered, line));
            gathered.extend_from_slice(line);
            if gathered.len() >= CHUNK_BYTES {
                add(&mut result, self.flush(&mut gathered));
            }
        }
        add(&mut result, self.flush(&mut gathered));
        result
    }
}

/// Adds up the lost lines, and keeps the first error.
fn add(all: &mut Result<(), LostLines>, more: Result<(), LostLines>) {
    match (&mut *all, more) {
        (_, Ok(())) => {}
        (Ok(()), more) => *all = more,
        (Err(all), Err(more)) => all.lost += more.lost,
    }
}

/// Writes as much as possible. Returns how many bytes were written, and the error if it was not all.
fn write_all(out: &mut impl Write, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut done = 0;
    while done < bytes.len() {
        match out.write(&bytes[done..]) {
            Ok(0) => return (done, Err(io::ErrorKind::WriteZero.into())),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (done, Err(error)),
        }
    }
    (done, out.flush())
}

/// Opens a log file to append to. Only its owner can read it: at the level `Request` it holds whatever clients send.
fn append_to(path: &Path) -> io::Result<File> {
    os::private_file().create(true).append(true).open(path)
}

/// Whether the file ends in a newline, as it does unless a process ended in the middle of a line.
fn ends_in_newline(path: &Path) -> io::Result<bool> {
    use std::io::{Read as _, Seek as _};
    let mut file = File::open(path)?;
    let mut last = [0];
    file.seek(io::SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

impl RotatedFile {
    /// Renames the file and starts a new one, then removes old files that are too many or too old.
    fn rotate(&mut self) -> io::Result<()> {
        let path = &self.options.path;
        let aside = aside(path, self.env.now());
        fs::rename(path, &aside)?;
        self.file = append_to(path)?;
        self.bytes = 0;
        let backups = backups(path)?;
        for old in outlived(backups, &self.options, self.env.now()) {
            fs::remove_file(old)?;
        }
        Ok(())
    }
}

/// The name of a log without its extension, and the extension with its dot.
fn split_name(path: &Path) -> (String, String) {
    let text = |part: Option<&OsStr>| part.map(|it| it.to_string_lossy().into_owned());
    let extension = text(path.extension()).map(|it| format!(".{it}")).unwrap_or_default();
    (text(path.file_stem()).unwrap_or_default(), extension)
}

/// The name of a file that is rotated at this time.
fn aside(path: &Path, at: Timestamp) -> PathBuf {
    let (name, extension) = split_name(path);
    let time = at.to_zoned(TimeZone::UTC).strftime(TIME_IN_NAME).to_string();
    path.with_file_name(format!("{name}-{time}{extension}"))
}

/// The rotated files of a log, with the times in their names.
fn backups(path: &Path) -> io::Result<Vec<(Timestamp, PathBuf)>> {
    let (name, extension) = split_name(path);
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let file = entry?.file_name();
        let time = file.to_str().and_then(|file| time_in(file, &name, &extension));
        found.extend(time.map(|time| (time, folder.join(&file))));
    }
    Ok(found)
}

fn time_in(file: &str, name: &str, extension: &str) -> Option<Timestamp> {
    let time = file.strip_prefix(name)?.strip_prefix('-')?.strip_suffix(extension)?;
    let time = civil::DateTime::strptime("%Y-%m-%dT%H-%M-%S%.f", time).ok()?;
    time.to_zoned(TimeZone::UTC).ok().map(|it| it.timestamp())
}

/// The rotated files that are too many or too old.
fn outlived(
    mut backups: Vec<(Timestamp, PathBuf)>,
    options: &AuditLogOptions,
    now: Timestamp,
) -> Vec<PathBuf> {
    backups.sort();
    backups.reverse();
    let kept = if options.max_backups == 0 { usize::MAX } else { options.max_backups };
    let age = SignedDuration::from_hours(24 * i64::from(options.max_age_days));
    let is_old = |at: Timestamp| options.max_age_days > 0 && now.duration_since(at) > age;
    let files = backups.into_iter().enumerate();
    files.filter(|(nth, (at, _))| *nth >= kept || is_old(*at)).map(|(_, (_, path))| path).collect()
}

#[cfg(test)]
mod tests;
