use std::time::Duration;

use evenkeel_record::Outcome;

use super::notes::Notes;
use super::*;
use crate::Request;
use crate::cause::{Cause, Causes};

fn flown(name: &str, took: Duration, ended: Ended) -> Flown {
    let now = Instant::now();
    Flown {
        key: Request::namespaced("prod", name),
        causes: Causes::from(Cause::Timer),
        ready_at: now,
        start: now,
        took,
        number: 1,
        attempt: 0,
        behind: false,
        trace: None,
        notes: Notes::default(),
        ended,
        again: None,
    }
}

fn flight(bytes: usize, workers: usize) -> (Flight, Vec<Arc<Ring>>) {
    let env = Env::seeded(1);
    let flight = Flight::new(&env);
    flight.set_bytes_max(bytes);
    let queue = Queue::new("site", &env);
    let rings = flight.rings(&"site".into(), "Site", "abc", workers, &queue);
    (flight, rings)
}

fn names(record: &Record) -> Vec<&str> {
    record.reconciles().map(|reconcile| reconcile.name.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn the_bytes_are_bounded_and_the_oldest_go_first() {
    let (flight, rings) = flight(256 << 10, 2);
    for at in 0..20_000 {
        tokio::time::advance(Duration::from_micros(1)).await;
        let long = format!("{at}-{}", "x".repeat(at % 250));
        rings[at % 2].push(flown(&long, Duration::from_micros(5), Ended::Done));
    }
    let record = flight.record();
    assert!(record.bytes <= 256 << 10, "{} bytes", record.bytes);
    assert!(record.bytes > 128 << 10, "only {} bytes are used", record.bytes);
    let kept = names(&record);
    assert_eq!(kept.len() as u64 + record.dropped, 20_000);
    let numbers: Vec<usize> =
        kept.iter().map(|name| name.split('-').next().unwrap().parse().unwrap()).collect();
    assert!(numbers.is_sorted() && *numbers.last().unwrap() == 19_999, "{numbers:?}");
    // A second controller leaves less memory for each ring, immediately.
    flight.rings(&"other".into(), "", "def", 2, &Queue::new("other", &Env::seeded(1)));
    let fewer = flight.record();
    assert!(fewer.entries.len() < record.entries.len() && fewer.bytes <= 128 << 10, "{} bytes", fewer.bytes);
}

#[tokio::test(start_paused = true)]
async fn failed_and_slow_reconciles_are_kept_longer() {
    let (flight, rings) = flight(64 << 10, 1);
    rings[0].push(flown("failed", Duration::from_micros(5), Ended::Failed("no disk".into())));
    rings[0].push(flown("slow", Duration::from_millis(500), Ended::Done));
    rings[0].push(flown("usual", Duration::from_micros(5), Ended::Done));
    for _ in 0..5_000 {
        tokio::time::advance(Duration::from_micros(1)).await;
        rings[0].push(flown("later", Duration::from_micros(5), Ended::Done));
    }
    let record = flight.record();
    let kept = names(&record);
    assert!(kept.contains(&"failed") && kept.contains(&"slow") && !kept.contains(&"usual"), "{kept:?}");
    let failed = record.reconciles().find(|reconcile| reconcile.name == "failed").unwrap();
    assert_eq!((failed.outcome, failed.error.as_deref()), (Outcome::Failed, Some("no disk")));
    assert_eq!((failed.id.as_str(), failed.kind.as_str()), ("abc-1", "Site"));
}

#[tokio::test(start_paused = true)]
async fn a_follower_sees_each_reconcile_once() {
    let (flight, rings) = flight(FLIGHT_BYTES, 2);
    let mut position = Position::default();
    rings[0].push(flown("a", Duration::ZERO, Ended::Done));
    assert_eq!(names(&flight.record_after(&mut position)), ["a"]);
    assert!(names(&flight.record_after(&mut position)).is_empty());
    rings[1].push(flown("b", Duration::ZERO, Ended::Requeued));
    tokio::time::advance(Duration::from_micros(1)).await;
    rings[0].push(flown("c", Duration::ZERO, Ended::Done));
    assert_eq!(names(&flight.record_after(&mut position)), ["b", "c"]);
    assert_eq!(names(&flight.record()), ["a", "b", "c"], "reading takes nothing away");
}
