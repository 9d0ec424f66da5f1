//! Schedules that are taken and refused, and the times at which they fire.

use super::*;
use proptest::prelude::*;

fn next(schedule: &str, after: &str) -> String {
    let schedule = Schedule::parse(schedule).unwrap_or_else(|error| panic!("{schedule}: {error}"));
    schedule.next(after.parse().unwrap()).map_or("never".to_owned(), |time| time.to_string())
}

#[test]
fn well_formed_schedules_are_read() {
    for good in [
        "* * * * *",
        "*/5 0 1-7 jan,FEB mon-fri",
        "0 0 ? * 0",
        "0,30 8-18/2 * * *",
        "5/15 * * * *",
        ",1,,2 * * * *",
        " 0  0 * * * ",
        "@yearly",
        "@annually",
        "@monthly",
        "@weekly",
        "@daily",
        "@midnight",
        "@hourly",
        "@every 1h",
        "@every 1h30m10.5s",
        "@every -1h",
        "@every 0",
        "TZ=America/New_York 0 0 * * *",
        "CRON_TZ=UTC @daily",
        "TZ= @hourly",
        "TZ=Local @hourly",
    ] {
        assert!(Schedule::parse(good).is_ok(), "{good}: {:?}", Schedule::parse(good));
    }
}

#[test]
fn malformed_schedules_are_refused_with_the_messages_of_kubernetes() {
    for (bad, error) in [
        ("", "empty spec string"),
        ("every day", "expected exactly 5 fields, found 2: [every day]"),
        ("* * * * * *", "expected exactly 5 fields, found 6: [* * * * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* 24 * * *", "end of range (24) above maximum (23): 24"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* * 32 * *", "end of range (32) above maximum (31): 32"),
        ("* * * 13 *", "end of range (13) above maximum (12): 13"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("@never", "unrecognized descriptor: @never"),
        ("@Daily", "unrecognized descriptor: @Daily"),
        ("@every", "unrecognized descriptor: @every"),
        ("@every x", "failed to parse duration @every x: time: invalid duration \"x\""),
        ("@every 5", "failed to parse duration @every 5: time: missing unit in duration \"5\""),
        ("@every 1d", "failed to parse duration @every 1d: time: unknown unit \"d\" in duration \"1d\""),
        ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
        (
            "99999999999999999999 * * * *",
            "failed to parse int from 99999999999999999999: strconv.Atoi: parsing \"99999999999999999999\": value out of range",
        ),
        ("-5 * * * *", "failed to parse int from : strconv.Atoi: parsing \"\": invalid syntax"),
        ("TZ=UTC", "invalid schedule format: runtime error: slice bounds out of range [:-1]"),
        ("TZ=Mars/Base 0 0 * * *", "provided bad location Mars/Base: unknown time zone Mars/Base"),
        ("TZ=UTC ", "expected exactly 5 fields, found 0: []"),
    ] {
        assert_eq!(Schedule::parse(bad).err().as_deref(), Some(error), "{bad:?}");
    }
}

#[test]
fn the_next_time_is_found() {
    for (schedule, after, expected) in [
        ("* * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"),
        ("* * * * *", "2026-01-01T00:00:59.9Z", "2026-01-01T00:01:00Z"),
        ("*/15 * * * *", "2026-01-01T00:14:59Z", "2026-01-01T00:15:00Z"),
        ("5/15 * * * *", "2026-01-01T00:06:00Z", "2026-01-01T00:20:00Z"),
        ("30 2 * * mon", "2026-01-01T00:00:00Z", "2026-01-05T02:30:00Z"),
        ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
        ("0 0 13 * 5", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
        ("0 0 */2 * 1", "2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z"),
        ("0 0 * * 1", "2026-01-01T00:00:00Z", "2026-01-05T00:00:00Z"),
        ("@hourly", "2026-12-31T23:30:00Z", "2027-01-01T00:00:00Z"),
        ("@weekly", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
        ("@monthly", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"),
        ("@yearly", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        ("59 23 31 2 *", "2026-01-01T00:00:00Z", "never"),
        ("@every 1h30m", "2026-01-01T00:10:05.7Z", "2026-01-01T01:40:05Z"),
        ("@every 100ms", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"),
        ("TZ=America/New_York 30 19 * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:30:00Z"),
        ("TZ=Asia/Kolkata 0 9 * * *", "2026-01-01T00:00:00Z", "2026-01-01T03:30:00Z"),
    ] {
        assert_eq!(next(schedule, after), expected, "{schedule} after {after}");
    }
}

/// New York: clocks go from 02:00 to 03:00 on 8 March 2026, and from 02:00 back to 01:00 on 1 November 2026.
#[test]
fn daylight_saving_time_skips_and_repeats_local_times() {
    for (schedule, after, expected) in [
        // 02:30 does not exist on that day, nor does the hour of two.
        ("TZ=America/New_York 30 2 * * *", "2026-03-08T05:00:00Z", "2026-03-09T06:30:00Z"),
        ("TZ=America/New_York 0 * * * *", "2026-03-08T06:00:00Z", "2026-03-08T07:00:00Z"),
        // 01:30 comes twice.
        ("TZ=America/New_York 30 1 * * *", "2026-11-01T04:00:00Z", "2026-11-01T05:30:00Z"),
        ("TZ=America/New_York 30 1 * * *", "2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"),
        ("TZ=America/New_York 30 1 * * *", "2026-11-01T06:30:00Z", "2026-11-02T06:30:00Z"),
        // Midnight of that day is in summer time, the next one is not.
        ("TZ=America/New_York 0 0 * * *", "2026-11-01T03:59:59Z", "2026-11-01T04:00:00Z"),
        ("TZ=America/New_York 0 0 * * *", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"),
        // In Sao Paulo summer time began at midnight, so that 4 November 2018 had no midnight.
        ("TZ=America/Sao_Paulo 0 0 4 11 *", "2018-11-03T12:00:00Z", "2019-11-04T03:00:00Z"),
        ("TZ=America/Sao_Paulo 0 1 4 11 *", "2018-11-03T12:00:00Z", "2018-11-04T03:00:00Z"),
        // In Samoa 30 December 2011 did not exist.
        ("TZ=Pacific/Apia 0 12 * * *", "2011-12-29T23:00:00Z", "2011-12-30T22:00:00Z"),
    ] {
        assert_eq!(next(schedule, after), expected, "{schedule} after {after}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "(TZ=UTC )?[-@*?/, 0-9a-z]{0,20}", seconds in 0_i64..4_000_000_000) {
        if let Ok(schedule) = Schedule::parse(&text) {
            let after = Timestamp::from_second(seconds).unwrap();
            prop_assert!(schedule.next(after).is_none_or(|next| next > after));
        }
    }

    #[test]
    fn the_next_time_is_one_that_the_schedule_names(
        minute in 0_i8..60, hour in 0_i8..24, seconds in 1_700_000_000_i64..1_900_000_000, zone in 0_usize..6,
    ) {
        let names = ["UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Europe/London", "America/Sao_Paulo"];
        let zone = time_zone(names[zone]).unwrap();
        let after = Timestamp::from_second(seconds).unwrap();
        let schedule = Schedule::parse_in(&format!("{minute} {hour} * * *"), zone.clone()).unwrap();
        let next = schedule.next(after).unwrap();
        let local = zone.to_datetime(next);
        prop_assert_eq!((local.hour(), local.minute(), local.second()), (hour, minute, 0));
        prop_assert!(next > after);
        // At most two days: a day may lack the local time once.
        prop_assert!(next.duration_since(after) <= SignedDuration::from_hours(49));
    }
}
