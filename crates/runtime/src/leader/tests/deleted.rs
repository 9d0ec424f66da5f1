//! Tests of a lease that is deleted while it is held.

use super::*;

impl Server {
    fn delete(&self) {
        *self.lease.lock() = None;
    }
}

/// A holder, its fence, and the server whose lease it holds.
async fn held() -> (Server, Candidate, Fence) {
    let server = Server::new();
    server.renewed_by("we");
    let mut holder = server.candidate("we");
    let fence = holder.fence.clone();
    assert!(holder.attempt().await.unwrap() && sends(&fence));
    (server, holder, fence)
}

/// The holder finds no lease and creates a new one, but another candidate was faster. The refusal used to count as a
/// failed renewal, so that the old holder worked until its next attempt.
#[tokio::test(start_paused = true)]
async fn who_comes_second_to_make_it_anew_does_not_lead() {
    let (server, mut holder, fence) = held().await;
    server.delete();
    *server.delay.lock() = Duration::from_secs(1);
    let stop = CancellationToken::new();
    let quicker = async {
        // The renewal begins after 2 s and fails after 3 s, the read ends after 4 s, the creation after 5 s.
        tokio::time::sleep(Duration::from_millis(4500)).await;
        server.renewed_by("other");
    };
    let start = Instant::now();
    let (led, ()) = tokio::join!(holder.lead(&stop), quicker);
    assert_eq!(led.unwrap_err().cause, "another holds it");
    assert_eq!(start.elapsed(), Duration::from_secs(6), "one more look, and no wait before it");
    assert!(!sends(&fence));
}

/// Nobody leads by a lease that does not exist, even before the deadline of its last renewal.
#[tokio::test(start_paused = true)]
async fn nothing_is_sent_between_its_loss_and_its_making() {
    let (server, mut holder, fence) = held().await;
    server.delete();
    *server.delay.lock() = Duration::from_secs(1);
    let looks = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(sends(&fence), "it does not know yet");
        for _ in 0..2 {
            seconds(1).await;
            assert!(!sends(&fence), "there is no lease");
        }
    };
    let (made, ()) = tokio::join!(holder.attempt(), looks);
    assert!(made.unwrap() && sends(&fence), "made anew");
}

/// A holder whose renewal is refused stops at once, without reading the lease first.
#[tokio::test(start_paused = true)]
async fn nothing_is_sent_once_a_renewal_was_refused() {
    let (server, mut holder, fence) = held().await;
    server.delete();
    server.renewed_by("other");
    *server.delay.lock() = Duration::from_secs(1);
    let looks = async {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        assert!(!sends(&fence));
    };
    let (held, ()) = tokio::join!(holder.attempt(), looks);
    assert!(!held.unwrap());
}

/// A renewal without an answer may have been served, so that the next one is refused: leadership is not lost.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_was_served_unseen_stops_nobody() {
    let (server, mut holder, fence) = held().await;
    *server.delay.lock() = Duration::from_secs(1000);
    assert!(holder.attempt().await.is_err());
    *server.delay.lock() = Duration::from_secs(1);
    server.renewed_by("we");
    let looks = async {
        for _ in 0..2 {
            tokio::time::sleep(Duration::from_millis(900)).await;
            assert!(fence.pass().now_or_never().is_none(), "requests wait, and are not refused");
        }
    };
    let (held, ()) = tokio::join!(holder.attempt(), looks);
    assert!(held.unwrap() && sends(&fence));
}

/// A candidate that never saw the lease cannot know that it existed a moment ago: it gives a possible holder the time of
/// one renewal to notice.
#[tokio::test(start_paused = true)]
async fn who_makes_a_lease_gives_an_unknown_holder_the_time_to_find_out() {
    let (server, mut holder, fence) = held().await;
    seconds(1).await;
    server.delete();
    let mut fresh = server.candidate("fresh");
    let theirs = fresh.fence.clone();
    theirs.close();
    let stop = CancellationToken::new();
    let both = async {
        while !sends(&theirs) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(!sends(&fence), "two would send at once");
    };
    let start = Instant::now();
    let elected = async {
        fresh.acquire(&stop).await.unwrap();
        assert_eq!(start.elapsed(), Duration::from_secs(4), "two retry periods");
    };
    let (lost, (), ()) = tokio::join!(holder.lead(&stop), elected, both);
    assert_eq!(lost.unwrap_err().cause, "another holds it");
}

/// A holder was frozen while its lease was deleted, and woke up after another candidate had recreated the lease and
/// become the leader. The fence of the old holder was open until its renew deadline, so both sent requests.
#[tokio::test(start_paused = true)]
async fn who_was_frozen_while_the_lease_was_deleted_sends_nothing() {
    let (server, mut holder, fence) = held().await;
    server.delete();
    let mut fresh = server.candidate("fresh");
    let theirs = fresh.fence.clone();
    theirs.close();
    fresh.acquire(&CancellationToken::new()).await.unwrap();
    assert!(sends(&theirs));
    let mut request = std::pin::pin!(fence.pass());
    assert!(futures::poll!(request.as_mut()).is_pending(), "the holder does not know yet");
    assert!(!holder.attempt().await.unwrap());
    assert!(request.await.is_err());
}
