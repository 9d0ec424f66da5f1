//! The items of a list, encoded while the list is read.
//!
//! A long list is not encoded as a whole for each client. Its body holds the stored objects, which all
//! clients share, and encodes a piece when the client asks for it. A client that does not read holds only the
//! few pieces that its connection buffers, 1 MiB at most.

use std::sync::Arc;

use bytes::Bytes;
use evenkeel_store::Entry;

use crate::Header;
use crate::body::{Body, PIECE_BYTES};
use crate::context::RequestContext;
use crate::conversion::Served;
use crate::encode::EncodedObject;
use crate::status::Result;

/// How much of each object a list contains.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// The whole object.
    Object,
    /// The object without `apiVersion` and `kind`, as in lists of built-in kinds.
    Untyped,
    /// A PartialObjectMetadata.
    Metadata { beta: bool },
}

/// Prepares stored objects for a list. Objects with damaged bytes are left out, with a warning that names them.
///
/// # Errors
/// If the conversion of an object fails.
pub(crate) async fn serve(ctx: &RequestContext<'_>, entries: &[Arc<Entry<Header>>]) -> Result<Vec<Served>> {
    let served = ctx.services.converter.served_all(ctx.info, entries).await?;
    let readable = served.into_iter().map(|item| item.map_err(|status| ctx.request.warn(status.message)));
    Ok(readable.filter_map(|item| item.ok()).collect())
}

impl Form {
    fn len(self, encoded: &EncodedObject) -> usize {
        match self {
            Self::Object => encoded.len(),
            Self::Untyped => encoded.untyped_len(),
            Self::Metadata { beta } => encoded.metadata_len(beta),
        }
    }

    fn write(self, encoded: &EncodedObject, out: &mut Vec<u8>) {
        match self {
            Self::Object => encoded.write(out),
            Self::Untyped => encoded.write_untyped(out),
            Self::Metadata { beta } => encoded.write_metadata(out, beta),
        }
    }
}

/// The end of a list.
const TAIL: &[u8] = b"]}";

/// Builds the body of a list. `head` is the encoded beginning of the list, up to the first item.
pub(crate) fn body(head: Vec<u8>, items: Vec<Served>, form: Form) -> Body {
    let commas = items.len().saturating_sub(1);
    let items_len: usize = items.iter().map(|item| form.len(&item.encoded(item.revision))).sum();
    let len = head.len() + items_len + commas + TAIL.len();
    let mut pieces = Pieces { out: head, items: items.into_iter(), form, started: false, ended: false };
    if len > PIECE_BYTES {
        return Body::lazy(Some(len as u64), pieces);
    }
    pieces.out.reserve_exact(len - pieces.out.len());
    pieces.next().unwrap_or_default().into()
}

/// Encodes a list piece by piece.
struct Pieces {
    /// The beginning of the next piece.
    out: Vec<u8>,
    items: std::vec::IntoIter<Served>,
    form: Form,
    /// Whether an item has been written, so that the next one needs a comma.
    started: bool,
    ended: bool,
}

impl Iterator for Pieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        let mut out = std::mem::take(&mut self.out);
        while out.len() < PIECE_BYTES {
            let Some(item) = self.items.next() else {
                out.extend_from_slice(TAIL);
                self.ended = true;
                break;
            };
            let encoded = item.encoded(item.revision);
            out.reserve(self.form.len(&encoded) + 1);
            if self.started {
                out.push(b',');
            }
            self.started = true;
            self.form.write(&encoded, &mut out);
        }
        Some(out.into())
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_schema::json::json;

    use super::*;

    fn item(index: usize, size: usize) -> Served {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("c{index}")}, "data": {"k": "x".repeat(size)}});
        Served::of_object(&object, index as u64 + 1)
    }

    fn check(count: usize, size: usize, form: Form) {
        let head = b"{\"items\":[".to_vec();
        let mut expected = head.clone();
        for index in 0..count {
            if index > 0 {
                expected.push(b',');
            }
            form.write(&item(index, size).encoded(index as u64 + 1), &mut expected);
        }
        expected.extend_from_slice(TAIL);
        let body = body(head, (0..count).map(|index| item(index, size)).collect(), form);
        assert_eq!(body.whole_len(), Some(expected.len()), "{count} items of {size} bytes, {form:?}");
        assert_eq!(body.whole().unwrap(), expected);
    }

    #[test]
    fn a_list_is_the_same_in_one_piece_and_in_many() {
        for form in
            [Form::Object, Form::Untyped, Form::Metadata { beta: false }, Form::Metadata { beta: true }]
        {
            for (count, size) in
                [(0, 0), (1, 10), (3, 10), (1, PIECE_BYTES), (7, PIECE_BYTES / 3), (500, 400)]
            {
                check(count, size, form);
            }
        }
    }

    #[test]
    fn a_piece_is_written_when_it_is_asked_for() {
        let items = (0..100).map(|index| item(index, PIECE_BYTES / 4)).collect::<Vec<_>>();
        let mut pieces = Pieces {
            out: Vec::new(),
            items: items.into_iter(),
            form: Form::Object,
            started: false,
            ended: false,
        };
        let first = pieces.next().unwrap();
        assert!(first.len() >= PIECE_BYTES && first.len() < 2 * PIECE_BYTES, "{}", first.len());
        assert_eq!(pieces.items.len(), 96);
    }
}
