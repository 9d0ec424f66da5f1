//! A lease that is deleted under its holder.

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
    assert!(holder.attempt().await.unwrap() && fence.pass().is_ok());
    (server, holder, fence)
}

/// The holder finds no lease and makes it anew, but another was quicker: the refusal was taken for a failed renewal
/// once, and the old holder went on working until the next one.
#[tokio::test(start_paused = true)]
async fn who_comes_second_to_make_it_anew_does_not_lead() {
    let (server, mut holder, fence) = held().await;
    server.delete();
    *server.delay.lock() = Duration::from_secs(1);
    let stop = CancellationToken::new();
    let quicker = async {
        // The renewal begins after 2 s and fails after 3, the look after 4, the making after 5.
        tokio::time::sleep(Duration::from_millis(4500)).await;
        server.renewed_by("other");
    };
    let start = Instant::now();
    let (led, ()) = tokio::join!(holder.lead(&stop), quicker);
    assert_eq!(led.unwrap_err().cause, "another holds it");
    assert_eq!(start.elapsed(), Duration::from_secs(6), "one more look, and no wait before it");
    assert!(fence.pass().is_err());
}

/// Nobody leads by a lease that is not there, whatever time its last renewal left.
#[tokio::test(start_paused = true)]
async fn nothing_is_sent_between_its_loss_and_its_making() {
    let (server, mut holder, fence) = held().await;
    server.delete();
    *server.delay.lock() = Duration::from_secs(1);
    let looks = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(fence.pass().is_ok(), "it does not know yet");
        for _ in 0..2 {
            seconds(1).await;
            assert!(fence.pass().is_err(), "there is no lease");
        }
    };
    let (made, ()) = tokio::join!(holder.attempt(), looks);
    assert!(made.unwrap() && fence.pass().is_ok(), "made anew");
}

/// Whoever finds another's lease where its own was stops at once, and does not wait for a look at it.
#[tokio::test(start_paused = true)]
async fn nothing_is_sent_once_a_renewal_was_refused() {
    let (server, mut holder, fence) = held().await;
    server.delete();
    server.renewed_by("other");
    *server.delay.lock() = Duration::from_secs(1);
    let looks = async {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        assert!(fence.pass().is_err());
    };
    let (held, ()) = tokio::join!(holder.attempt(), looks);
    assert!(!held.unwrap());
}

/// A renewal that got no answer may have been served, and the next one is refused because of it: that is no loss.
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
            assert!(fence.pass().is_ok());
        }
    };
    let (held, ()) = tokio::join!(holder.attempt(), looks);
    assert!(held.unwrap());
}

/// A candidate that never saw the lease cannot know that it was there a moment ago: its holder gets the time of a
/// renewal to find out.
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
        while theirs.pass().is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(fence.pass().is_err(), "two would send at once");
    };
    let start = Instant::now();
    let elected = async {
        fresh.acquire(&stop).await.unwrap();
        assert_eq!(start.elapsed(), Duration::from_secs(3), "one and a half retry periods");
    };
    let (lost, (), ()) = tokio::join!(holder.lead(&stop), elected, both);
    assert_eq!(lost.unwrap_err().cause, "another holds it");
}
