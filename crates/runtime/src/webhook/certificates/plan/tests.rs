use super::super::issue::issue;
use super::super::state::Pair;
use super::*;

const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

fn at(days: i64) -> Timestamp {
    START + SignedDuration::from_hours(24 * days)
}

fn names() -> Vec<String> {
    vec!["op.ops.svc".to_owned()]
}

fn pair(day: i64) -> Pair {
    issue("op", &names(), at(day)).unwrap()
}

fn serving(day: i64) -> State {
    State::default().with_next(pair(day)).promoted(at(day))
}

#[test]
fn the_first_certificate_is_made_and_served_at_once() {
    let state = State::default();
    assert_eq!(step(&state, &names(), START, SEEN), Step::Make);
    let state = state.with_next(pair(0));
    assert_eq!(step(&state, &names(), START, SEEN), Step::Promote, "there is nothing better to wait with");
    let state = state.promoted(START);
    assert_eq!(step(&state, &names(), START, SEEN), Step::Wait(at(60)));
}

#[test]
fn a_renewal_waits_until_all_api_servers_trust_the_new_one() {
    let state = serving(0);
    assert_eq!(step(&state, &names(), at(60), SEEN), Step::Make);
    let state = state.with_next(pair(60));
    assert_eq!(step(&state, &names(), at(60), SEEN), Step::NotePublished);
    let state = state.published(at(60));
    assert_eq!(step(&state, &names(), at(60), SEEN), Step::Wait(at(60) + SETTLE));
    assert_eq!(step(&state, &names(), at(59), SEEN), Step::NotePublished, "the clock was set back");
    assert_eq!(step(&state, &names(), at(60) + SETTLE, SEEN), Step::Promote);
    // The old CA is trusted exactly as long as its certificate is valid.
    let old = state.current.clone().unwrap();
    let state = state.promoted(at(60) + SETTLE);
    assert_eq!(state.retired[0].ca, old.ca);
    assert!(state.bundle().contains(&old.ca) && state.bundle() != old.ca);
    assert_eq!(step(&state, &names(), at(61), SEEN), Step::Wait(old.facts.until));
    assert_eq!(step(&state, &names(), at(90), SEEN), Step::Forget);
    let state = state.without_expired(at(90));
    assert_eq!((state.retired.len(), step(&state, &names(), at(90), SEEN)), (0, Step::Wait(at(120))));
}

/// The replica that noted the time, or this one, has a clock that is wrong.
#[test]
fn a_wrong_clock_does_not_hurry_a_renewal() {
    let state = serving(0).with_next(pair(60)).published(at(60));
    let late = at(60) + SETTLE;
    assert_eq!(step(&state, &names(), late, Duration::ZERO), Step::Wait(late + SEEN));
    let left = Duration::from_millis(1);
    assert_eq!(step(&state, &names(), late, SEEN - left), Step::Wait(late + left));
    assert_eq!(step(&state, &names(), late, SEEN), Step::Promote);
}

/// Somebody puts an old copy of the Secret, or one of another cluster, in place of what a replica serves with.
#[test]
fn a_certificate_that_was_put_in_place_becomes_the_next_one() {
    let (old, own, new) = (pair(0), pair(30), pair(60));
    let found = |pair: &Pair| State { current: Some(pair.clone()), ..State::default() };
    let state = found(&new).reinstated(own.clone());
    assert_eq!(
        (state.current.as_ref(), state.next.as_ref().map(|next| &next.pair)),
        (Some(&own), Some(&new))
    );
    assert_eq!(step(&state, &names(), at(60), SEEN), Step::NotePublished);
    let state = found(&old).reinstated(own.clone());
    assert_eq!((state.current.as_ref(), &state.next), (Some(&own), &None), "it would end sooner");
    assert!(state.knows(&old.ca) && state.bundle().contains(&old.ca), "other replicas may serve with it");
    assert_eq!(State::default().reinstated(own.clone()).current, Some(own));
}

/// A renewal changes the bundle when a CA comes and when it goes, and not in between.
#[test]
fn the_bundle_stays_when_the_next_certificate_becomes_the_current_one() {
    let state = serving(0).with_next(pair(60)).promoted(at(60)).with_next(pair(70));
    let before = state.bundle();
    assert_eq!(state.published(at(70)).promoted(at(70)).bundle(), before);
}

#[test]
fn who_comes_back_after_the_end_begins_anew() {
    let state = serving(0);
    assert_eq!(step(&state, &names(), at(100), SEEN), Step::Make);
    let half = state.with_next(pair(60)).published(at(60));
    assert_eq!(step(&half, &names(), at(100), SEEN), Step::Promote, "the next one is still valid");
    assert_eq!(step(&half, &names(), at(200), SEEN), Step::Make, "neither is valid");
}

/// Two releases want different names. The certificate gets both, instead of being replaced in turn forever.
#[test]
fn names_of_other_releases_are_kept() {
    let state = serving(0);
    let other = vec!["new.ops.svc".to_owned()];
    assert_eq!(step(&state, &other, at(1), SEEN), Step::Make);
    let both = names_of_next(&state, &other);
    assert_eq!(both, ["new.ops.svc", "op.ops.svc"]);
    let state = state.with_next(issue("op", &both, at(1)).unwrap()).promoted(at(1));
    for wanted in [names(), other] {
        assert_eq!(step(&state, &wanted, at(1), SEEN), Step::Wait(at(61).min(at(90))));
    }
}

/// What is written to a Secret is read back from it, and no output shows a key.
#[test]
fn the_secret_holds_the_state() {
    let state = serving(0).with_next(pair(60)).promoted(at(60)).with_next(pair(70)).published(at(70));
    let mut secret = k8s_openapi::api::core::v1::Secret::default();
    state.write(&mut secret);
    assert_eq!(State::read(&secret), state);
    let shown = format!("{state:?}");
    assert!(shown.contains("CERTIFICATE") && !shown.contains("PRIVATE KEY"), "{shown}");
    // A damaged pair counts as missing.
    let data = secret.data.as_mut().unwrap();
    data.insert("tls.key".into(), data["next-tls.key"].clone());
    let damaged = State::read(&secret);
    assert!(damaged.current.is_none() && damaged.next == state.next);
    State::default().write(&mut secret);
    assert_eq!(State::read(&secret), State::default());
}

#[test]
fn a_key_is_shown_in_no_log() {
    let state = serving(0).with_next(pair(60));
    let shown = format!("{state:?} {state:#?}");
    assert!(shown.contains("BEGIN CERTIFICATE") && !shown.contains("PRIVATE KEY"), "{shown}");
}
