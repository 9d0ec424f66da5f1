//! Writes fields of protobuf messages: a tag with the number and the type, and the content.

/// The wire type of variable-length integers.
const VARINT: u32 = 0;
/// The wire type of eight-byte values.
const FIXED64: u32 = 1;
/// The wire type of values with a length: strings, bytes and messages.
const BYTES: u32 = 2;

/// Writes a field of bytes: a text, or an encoded message.
pub fn write_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    write_tag(out, number, BYTES);
    write_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Writes a field of an integer or a boolean. Protobuf encodes negative numbers of any width with 64 bits.
pub fn write_number(out: &mut Vec<u8>, number: u32, value: i64) {
    write_tag(out, number, VARINT);
    write_varint(out, value as u64);
}

/// Writes a field of a floating-point number.
pub fn write_double(out: &mut Vec<u8>, number: u32, value: f64) {
    write_tag(out, number, FIXED64);
    out.extend_from_slice(&value.to_le_bytes());
}

fn write_tag(out: &mut Vec<u8>, number: u32, wire_type: u32) {
    write_varint(out, u64::from(number << 3 | wire_type));
}

fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
