//! Makes the headers of values when a store is opened. This takes most of the time, so that several threads share it.

use bytes::Bytes;

use crate::Header;

/// With fewer values for each thread, another thread costs more than it saves: a header takes about ten microseconds, and
/// starting a thread takes as long as a few headers.
const VALUES_PER_THREAD_MIN: usize = 256;

/// Makes the headers of values, in the same order. The error names a value whose header cannot be made.
pub(crate) fn make<H: Header>(values: &[(&str, &Bytes)]) -> Result<Vec<H>, String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = values.len().div_ceil(threads).max(VALUES_PER_THREAD_MIN);
    let (own, others) = values.split_at(share.min(values.len()));
    std::thread::scope(|scope| {
        let others: Vec<_> = others.chunks(share).map(|part| scope.spawn(move || make_part(part))).collect();
        let mut headers = make_part(own)?;
        headers.reserve(values.len() - headers.len());
        for part in others {
            headers.extend(part.join().unwrap_or_else(|_| Err("making a header panicked".to_owned()))?);
        }
        Ok(headers)
    })
}

fn make_part<H: Header>(values: &[(&str, &Bytes)]) -> Result<Vec<H>, String> {
    let make = |(key, value): &(&str, &Bytes)| H::parse(key, value).map_err(|why| format!("{key}: {why}"));
    values.iter().map(make).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header that is the number in the value.
    #[derive(Debug, PartialEq, Eq)]
    struct Number(usize);

    impl Header for Number {
        fn parse(_: &str, value: &Bytes) -> Result<Self, String> {
            let text = std::str::from_utf8(value).map_err(|error| error.to_string())?;
            text.parse().map(Self).map_err(|error| error.to_string())
        }
    }

    #[test]
    fn headers_are_in_the_order_of_their_values() {
        for count in [0, 1, VALUES_PER_THREAD_MIN, 5000] {
            let values: Vec<Bytes> = (0..count).map(|number: usize| number.to_string().into()).collect();
            let values: Vec<_> = values.iter().map(|value| ("/a", value)).collect();
            assert_eq!(make(&values), Ok((0..count).map(Number).collect()));
        }
    }

    #[test]
    fn a_value_without_a_header_is_named() {
        let (good, bad) = (Bytes::from("1"), Bytes::from("one"));
        let mut values = vec![("/good", &good); 3000];
        values[2500] = ("/bad", &bad);
        let why = make::<Number>(&values).unwrap_err();
        assert!(why.starts_with("/bad: "), "{why}");
    }
}
