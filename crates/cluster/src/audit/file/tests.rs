use super::*;

fn options(folder: &Path) -> AuditLogOptions {
    AuditLogOptions::new(folder.join("audit.log"))
}

fn open(options: &AuditLogOptions) -> LogFile {
    LogFile::open(options, Env::seeded(1)).unwrap()
}

fn text(options: &AuditLogOptions) -> String {
    fs::read_to_string(&options.path).unwrap()
}

fn put(log: &mut LogFile, lines: &[&str]) {
    log.write(lines.iter().map(|line| line.as_bytes())).unwrap();
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn lines_are_added_to_a_file_that_its_owner_alone_reads() {
    let folder = tempfile::tempdir().unwrap();
    let options = AuditLogOptions::new(folder.path().join("new").join("audit.log"));
    put(&mut open(&options), &["a\n", "b\n"]);
    put(&mut open(&options), &["c\n"]);
    assert_eq!(text(&options), "a\nb\nc\n");
    #[cfg(unix)]
    {
        let mode = |path: &Path| std::os::unix::fs::MetadataExt::mode(&fs::metadata(path).unwrap()) & 0o777;
        assert_eq!((mode(&options.path), mode(&folder.path().join("new"))), (0o600, 0o700));
    }
}

#[tokio::test]
async fn a_line_that_an_earlier_process_did_not_finish_does_not_spoil_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    fs::write(&options.path, "whole\nhal").unwrap();
    put(&mut open(&options), &["next\n"]);
    assert_eq!(text(&options), "whole\nhal\nnext\n");
}

#[tokio::test]
async fn a_full_file_is_put_aside_between_lines_and_old_ones_go_by_number() {
    let folder = tempfile::tempdir().unwrap();
    let env = Env::seeded(1);
    let options = AuditLogOptions { max_bytes: 10, max_backups: 2, ..options(folder.path()) };
    let mut log = LogFile::open(&options, env.clone()).unwrap();
    for line in ["1234\n", "5678\n", "9\n", "a line beyond the bound\n", "b\n", "c\n"] {
        put(&mut log, &[line]);
        env.shift_clock(SignedDuration::from_secs(1));
    }
    assert_eq!(text(&options), "b\nc\n");
    let names = names(folder.path());
    assert_eq!(names.len(), 3, "{names:?}");
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!((read(&names[0]), read(&names[1])), ("9\n".into(), "a line beyond the bound\n".into()));
    assert!(names[0].starts_with("audit-2") && names[0].ends_with(".log"), "{names:?}");
}

#[test]
fn the_time_of_an_old_file_is_in_its_name() {
    let at: Timestamp = "2026-11-17T22:15:00.5Z".parse().unwrap();
    let path = aside(Path::new("/var/log/audit.log"), at);
    assert_eq!(path, Path::new("/var/log/audit-2026-11-17T22-15-00.500.log"));
    assert_eq!(time_in("audit-2026-11-17T22-15-00.500.log", "audit", ".log"), Some(at));
    for other in ["audit.log", "audit-x.log", "audit-2026-11-17T22-15-00.500.txt", "other-2026.log"] {
        assert_eq!(time_in(other, "audit", ".log"), None, "{other}");
    }
}

#[test]
fn old_files_go_by_age() {
    let now: Timestamp = "2026-11-17T00:00:00Z".parse().unwrap();
    let day = |days: i64| now.checked_sub(SignedDuration::from_hours(24 * days)).unwrap();
    let backups: Vec<_> = [1, 2, 4].map(|days| (day(days), PathBuf::from(format!("{days}")))).to_vec();
    let options = AuditLogOptions { max_age_days: 3, max_backups: 0, ..AuditLogOptions::new("x") };
    assert_eq!(outlived(backups.clone(), &options, now), [PathBuf::from("4")]);
    let options = AuditLogOptions { max_age_days: 0, ..options };
    assert_eq!(outlived(backups, &options, now), Vec::<PathBuf>::new());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_device_that_is_full_loses_lines_and_says_how_many() {
    let options = AuditLogOptions { max_bytes: 0, ..AuditLogOptions::new("/dev/full") };
    let mut log = open(&options);
    let lost = log.write([&b"a\n"[..], b"b\n"].into_iter()).unwrap_err();
    assert_eq!((lost.lost, lost.source.kind()), (2, io::ErrorKind::StorageFull));
}
