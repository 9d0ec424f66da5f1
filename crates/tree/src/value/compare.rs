//! Comparison with Rust values.

use super::Value;

impl PartialEq<str> for Value {
    fn eq(&self, other: &str) -> bool {
        matches!(self, Value::String(text) if text.as_bytes() == other.as_bytes())
    }
}

impl PartialEq<&str> for Value {
    fn eq(&self, other: &&str) -> bool {
        *self == **other
    }
}

impl PartialEq<String> for Value {
    fn eq(&self, other: &String) -> bool {
        *self == **other
    }
}

impl PartialEq<Value> for str {
    fn eq(&self, other: &Value) -> bool {
        other == self
    }
}

impl PartialEq<Value> for &str {
    fn eq(&self, other: &Value) -> bool {
        other == *self
    }
}

impl PartialEq<Value> for String {
    fn eq(&self, other: &Value) -> bool {
        other == self
    }
}

macro_rules! numbers {
    ($($number:ty: $read:ident as $wide:ty),*) => {$(
        impl PartialEq<$number> for Value {
            fn eq(&self, other: &$number) -> bool {
                self.$read() == Some(*other as $wide)
            }
        }
        impl PartialEq<Value> for $number {
            fn eq(&self, other: &Value) -> bool {
                other == self
            }
        }
        impl PartialEq<$number> for &Value {
            fn eq(&self, other: &$number) -> bool {
                **self == *other
            }
        }
    )*};
}

numbers!(i32: as_i64 as i64, i64: as_i64 as i64, u32: as_u64 as u64, u64: as_u64 as u64, usize: as_u64 as u64,
    f64: as_f64 as f64, bool: as_bool as bool);
