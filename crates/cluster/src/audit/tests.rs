use std::sync::mpsc;

use super::file::LostLines;
use super::*;

/// An output that takes a batch only when the test lets it, and then as the test says.
struct Held {
    lets: mpsc::Receiver<bool>,
    taken: mpsc::Sender<String>,
}

impl Output for Held {
    fn write<'a>(&mut self, lines: impl Iterator<Item = &'a [u8]>) -> Result<(), LostLines> {
        let lines: Vec<_> = lines.map(|line| String::from_utf8_lossy(line).into_owned()).collect();
        let fine = self.lets.recv().unwrap_or(true);
        let _ = self.taken.send(lines.concat());
        let error = || LostLines { lost: lines.len() as u64, source: io::ErrorKind::StorageFull.into() };
        if fine { Ok(()) } else { Err(error()) }
    }
}

struct Log {
    log: Arc<AuditLog>,
    lets: mpsc::Sender<bool>,
    taken: mpsc::Receiver<String>,
}

fn log() -> Log {
    let ((lets, held), (taking, taken)) = (mpsc::channel(), mpsc::channel());
    let log = AuditLog::start(Held { lets: held, taken: taking }).unwrap();
    Log { log, lets, taken }
}

#[tokio::test]
async fn a_line_is_waited_for_until_it_is_written() {
    let Log { log, lets, taken } = log();
    let mut written = log.record(b"a\n".to_vec());
    assert!(futures::poll!(&mut written).is_pending());
    lets.send(true).unwrap();
    written.await;
    assert_eq!((taken.recv().unwrap().as_str(), log.lost()), ("a\n", 0));
}

#[tokio::test]
async fn an_error_is_counted_and_the_next_line_is_tried_again() {
    let Log { log, lets, taken } = log();
    lets.send(false).unwrap();
    log.record(b"a\n".to_vec()).await;
    assert_eq!(log.lost(), 1);
    lets.send(true).unwrap();
    log.record(b"b\n".to_vec()).await;
    assert_eq!(log.lost(), 1);
    assert_eq!(taken.try_iter().collect::<String>(), "a\nb\n");
}

#[tokio::test]
async fn nothing_is_lost_at_the_end_and_nothing_is_taken_after_it() {
    let Log { log, lets, taken } = log();
    for line in ["a\n", "b\n", "c\n"] {
        // Nobody waits for these, as for the end of a watch.
        drop(log.record(line.into()));
    }
    drop(lets);
    log.close().await;
    log.record(b"d\n".to_vec()).await;
    assert_eq!((taken.try_iter().collect::<String>().as_str(), log.lost()), ("a\nb\nc\n", 0));
}

#[tokio::test]
async fn an_output_that_stands_still_does_not_fill_the_memory() {
    let Log { log, lets, .. } = log();
    let line = || vec![b'x'; QUEUE_MAX_BYTES / 4];
    // The first line may be with the writer already.
    (0..5).for_each(|_| drop(log.record(line())));
    log.record(line()).await;
    assert!(log.lost() >= 1);
    drop(lets);
}

#[tokio::test(start_paused = true)]
async fn an_output_that_stands_still_does_not_hold_up_the_end() {
    let Log { log, lets, .. } = log();
    drop(log.record(b"a\n".to_vec()));
    log.close().await;
    drop(lets);
}

#[tokio::test(start_paused = true)]
async fn lines_that_still_wait_at_the_end_are_counted_as_lost() {
    let Log { log, lets, .. } = log();
    drop(log.record(b"a\n".to_vec()));
    // The writer takes the first line and blocks on it.
    while !log.shared.queue.lock().lines.is_empty() {
        std::thread::yield_now();
    }
    drop(log.record(b"b\n".to_vec()));
    drop(log.record(b"c\n".to_vec()));
    log.close().await;
    assert_eq!(log.lost(), 2);
    drop(lets);
}
