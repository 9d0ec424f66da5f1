//! Waiting for rest, and the error if it does not come.

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn an_empty_ledger_is_settled_at_once() {
    let start = Instant::now();
    Ledger::new().settled(MINUTE).await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn settled_waits_for_work_and_follows_deadlines() {
    let ledger = Ledger::new();
    let station = ledger.station("queue");
    let work = station.enter_with("a/b");
    let deadline = ledger.deadline("retry");
    let start = Instant::now();
    tokio::spawn(async move {
        let at = Instant::now() + Duration::from_secs(5);
        deadline.set(Some(at));
        drop(work);
        tokio::time::sleep_until(at).await;
        let again = station.enter();
        deadline.set(None);
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(again);
    });
    ledger.settled(MINUTE).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(6));
    assert_eq!(ledger.pending(), vec![]);
}

#[tokio::test(start_paused = true)]
async fn past_the_limit_it_says_what_is_pending() {
    let ledger = Ledger::new();
    let station = ledger.station("requests");
    let _work = station.enter_with("GET /api");
    let deadline = ledger.deadline("retry of web");
    deadline.set(Some(Instant::now() + Duration::from_secs(90)));
    let error = ledger.settled(MINUTE).await.unwrap_err().to_string();
    assert!(error.contains("requests: 1 (GET /api)"), "{error}");
    assert!(error.contains("retry of web: due in 30s"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn idle_does_not_wait_for_deadlines() {
    let ledger = Ledger::new();
    let deadline = ledger.deadline("retry");
    deadline.set(Some(Instant::now() + MINUTE));
    ledger.idle(MINUTE).await.unwrap();
}

#[test]
fn a_deadline_far_away_fails_before_time_passes() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let ledger = Ledger::new();
        let deadline = ledger.deadline("cron");
        let start = Instant::now();
        deadline.set(Some(start + 2 * MINUTE));
        assert!(ledger.settled(MINUTE).await.is_err());
        assert_eq!(start.elapsed(), Duration::ZERO);
    });
}

/// `settled()` once read the deadlines first and the work second. On several threads, it missed a retry that was queued
/// between the two reads.
#[test]
fn what_is_now_work_and_now_a_deadline_is_never_at_rest() {
    const TURNS: usize = 20_000;
    let ledger = Ledger::new();
    let station = ledger.station("queue");
    let deadline = ledger.deadline("retry");
    let at = Instant::now();
    deadline.set(Some(at));
    std::thread::scope(|scope| {
        let turning = scope.spawn(|| {
            for _ in 0..TURNS {
                let work = station.enter();
                deadline.set(None);
                deadline.set(Some(at));
                drop(work);
            }
        });
        while !turning.is_finished() {
            assert!(ledger.inner.at_rest().is_none_or(|next| next.work.is_some()));
        }
    });
}

#[tokio::test(start_paused = true)]
async fn a_tally_is_as_many_pieces_of_work_as_it_says() {
    let ledger = Ledger::new();
    let mut tally = ledger.tally("queue");
    assert!(ledger.is_empty());
    tally.set(3);
    tally.set(5);
    let other = ledger.station("requests").enter();
    assert_eq!((ledger.len(), ledger.is_empty()), (6, false));
    drop(other);
    assert_eq!((ledger.len(), ledger.is_empty()), (5, false));
    assert!(ledger.idle(Duration::ZERO).await.unwrap_err().to_string().contains("queue: 5"));
    let settled = tokio::spawn({
        let ledger = ledger.clone();
        async move { ledger.settled(MINUTE).await }
    });
    tokio::task::yield_now().await;
    tally.set(1);
    tokio::task::yield_now().await;
    assert!(!settled.is_finished());
    drop(tally);
    settled.await.unwrap().unwrap();
    assert_eq!((ledger.len(), ledger.is_empty()), (0, true));
}

/// An operator that writes whenever it is woken wakes itself while paused time stands still: waiting for it to settle
/// never ended.
#[tokio::test(start_paused = true)]
async fn what_goes_on_without_time_passing_is_given_up() {
    let ledger = Ledger::new();
    let station = ledger.station("queue");
    let mut work = station.enter();
    let looping = tokio::spawn(async move {
        loop {
            tokio::task::yield_now().await;
            work = {
                let next = station.enter();
                drop(work);
                next
            };
        }
    });
    for unsettled in [ledger.settled(MINUTE).await, ledger.idle(MINUTE).await] {
        let told = unsettled.unwrap_err().to_string();
        let start = "not settled: it goes on and on without time passing; still pending:\n  queue: 1";
        assert!(told.starts_with(start), "{told}");
    }
    looping.abort();
}

/// One action on one key a thousand times is endless. A thousand keys, or an action that takes time, are not.
#[tokio::test(start_paused = true)]
async fn what_turns_at_one_moment_is_given_up_early_and_named() {
    let ledger = Ledger::new();
    let turns = Arc::new(ledger.turns("reconciles"));
    let work = ledger.station("queue").enter();
    let turn = |keys: u32, times: u32, pause: Duration| {
        let turns = turns.clone();
        tokio::spawn(async move {
            for _ in 0..times {
                (0..keys).for_each(|key| turns.count(&key));
                tokio::time::sleep(pause).await;
            }
        })
    };
    let (second, early) = (Duration::from_secs(1), turns::MOST_TURNS - 1);
    turn(1, 2 * turns::MOST_TURNS, Duration::ZERO).await.unwrap();
    for (keys, times, pause) in [(2000, 1, Duration::ZERO), (1, early, Duration::ZERO), (500, 4, second)] {
        let turning = turn(keys, times, pause);
        let unsettled = ledger.settled(10 * second).await.unwrap_err();
        assert!(!unsettled.endless, "{keys} keys {times} times: {unsettled}");
        turning.abort();
    }
    let turning = turn(1, turns::MOST_TURNS, Duration::ZERO);
    let start = Instant::now();
    let told = ledger.settled(MINUTE).await.unwrap_err().to_string();
    let expected =
        "not settled: reconciles of 0 go on and on without time passing; still pending:\n  queue: 1";
    assert_eq!((told.as_str(), start.elapsed()), (expected, Duration::ZERO));
    turning.await.unwrap();
    drop(work);
    ledger.settled(MINUTE).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_takes_time_may_go_on_until_the_limit() {
    let ledger = Ledger::new();
    let station = ledger.station("queue");
    let work = station.enter();
    let looping = tokio::spawn(async move {
        for _ in 0..59 {
            for _ in 0..wait::MOST_MOVES_A_SECOND {
                drop(station.enter());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        drop(work);
    });
    ledger.settled(MINUTE).await.unwrap();
    looping.await.unwrap();
}

/// A test that let exactly the delay of a key pass looked before the key was taken.
#[tokio::test(start_paused = true)]
async fn what_is_due_now_is_waited_for_and_what_is_due_later_is_not() {
    let ledger = Ledger::new();
    let (deadline, at) = (ledger.deadline("retry"), Instant::now() + MINUTE);
    deadline.set(Some(at));
    ledger.idle(MINUTE).await.unwrap();
    assert!(Instant::now() < at);
    let acting = tokio::spawn(async move {
        tokio::time::sleep_until(at).await;
        tokio::task::yield_now().await;
        deadline.set(None);
    });
    tokio::time::sleep_until(at).await;
    ledger.idle(MINUTE).await.unwrap();
    assert!(acting.is_finished());
    assert_eq!(Instant::now(), at);
}

/// A key that asked to be looked at again in five minutes made every wait for rest fail.
#[tokio::test(start_paused = true)]
async fn a_later_look_is_rest_and_what_follows_a_write_counts_within_the_limit() {
    let ledger = Ledger::new();
    let look = ledger.deadline_for(Purpose::Look, "look");
    let follow = ledger.deadline_for(Purpose::Follow, "follow");
    let start = Instant::now();
    look.set(Some(start + Duration::from_secs(10)));
    follow.set(Some(start + Duration::from_secs(61)));
    ledger.settled(MINUTE).await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO, "both are beyond what matters");

    look.set(None);
    let at = start + Duration::from_secs(59);
    follow.set(Some(at));
    tokio::spawn(async move {
        tokio::time::sleep_until(at).await;
        follow.set(None);
    });
    ledger.settled(MINUTE).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(59));
}

/// A look that is due has begun in all but name: the part that keeps it is about to act.
#[tokio::test(start_paused = true)]
async fn a_look_that_is_due_is_waited_for() {
    let ledger = Ledger::new();
    let look = ledger.deadline_for(Purpose::Look, "look");
    look.set(Some(Instant::now()));
    let station = ledger.station("queue");
    let acted = Arc::new(AtomicUsize::new(0));
    let noted = acted.clone();
    tokio::spawn(async move {
        let work = station.enter();
        look.set(None);
        tokio::task::yield_now().await;
        noted.store(1, Ordering::SeqCst);
        drop(work);
    });
    ledger.settled(MINUTE).await.unwrap();
    assert_eq!(acted.load(Ordering::SeqCst), 1);
}
