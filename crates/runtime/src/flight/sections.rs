//! An object as JSON, in sections: its fields, and the fields of those that are objects, such as `spec.replicas`.
//!
//! Two states of an object mostly differ in a few fields. Encoding both as text, and comparing the text of each section,
//! costs a small part of what two trees would cost. Only sections that differ are parsed.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::Serialize;
use serde::ser::{self, Impossible, SerializeMap, SerializeStruct, Serializer};
use serde_json::Value;

/// How many fields an object may have to be encoded field by field. Fields are searched one after the other. Larger objects
/// are one section: those are maps whose keys a user chooses.
const FIELDS_MAX: usize = 64;

/// An object in sections.
#[derive(Debug, Default)]
pub(super) struct Sections {
    json: Vec<u8>,
    pub(super) fields: Vec<Field>,
}

/// A field of the object.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: Name,
    pub(super) content: Content,
}

/// The name of a field. Those of Rust structs are static.
pub(super) type Name = Cow<'static, str>;

/// What is known of a field's value.
#[derive(Debug)]
pub(super) enum Content {
    /// The value was left out, because nobody asks for it.
    Skipped,
    /// The value as JSON.
    Whole(Range<usize>),
    /// The fields of a value that is an object.
    Object(Vec<(Name, Option<Range<usize>>)>),
}

impl Sections {
    /// Encodes an object. `wants` says which fields, and which of their fields, are encoded: of the others only the names are
    /// kept. Returns `None` for values that are not objects, and for objects with very many fields.
    pub(super) fn of<K: Serialize>(object: &K, wants: &dyn Fn(&str, Option<&str>) -> bool) -> Option<Self> {
        let mut sections = Self::default();
        let root = Fields { sections: &mut sections, wants, outer: None, inner: Vec::new(), name: None };
        object.serialize(root).ok()?;
        (sections.fields.len() <= FIELDS_MAX).then_some(sections)
    }

    /// Whether the object has this field, and that the field `inner`.
    pub(super) fn has(&self, outer: &str, inner: Option<&str>) -> bool {
        match (self.field(outer), inner) {
            (None, _) => false,
            (Some(Content::Object(fields)), Some(inner)) => fields.iter().any(|(name, _)| name == inner),
            (Some(_), _) => true,
        }
    }

    /// The field with this name.
    pub(super) fn field(&self, name: &str) -> Option<&Content> {
        self.fields.iter().find(|field| field.name == name).map(|field| &field.content)
    }

    /// The JSON of a section.
    pub(super) fn text(&self, range: &Range<usize>) -> &[u8] {
        &self.json[range.clone()]
    }

    /// The value of a section.
    pub(super) fn value(&self, range: &Range<usize>) -> Value {
        serde_json::from_slice(self.text(range)).unwrap_or_default()
    }

    /// The value of a field.
    pub(super) fn content(&self, content: &Content) -> Value {
        let inner = |(name, range): &(Name, Option<Range<usize>>)| {
            (name.to_string(), range.as_ref().map_or(Value::Null, |range| self.value(range)))
        };
        match content {
            Content::Skipped => Value::Null,
            Content::Whole(range) => self.value(range),
            Content::Object(fields) => Value::Object(fields.iter().map(inner).collect()),
        }
    }

    fn encode<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<Range<usize>, NotAnObject> {
        let start = self.json.len();
        serde_json::to_writer(&mut self.json, value).map_err(|_| NotAnObject)?;
        Ok(start..self.json.len())
    }
}

/// The value is not an object that can be encoded field by field.
#[derive(Debug)]
struct NotAnObject;

impl fmt::Display for NotAnObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an object")
    }
}

impl std::error::Error for NotAnObject {}

impl ser::Error for NotAnObject {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

/// Encodes the fields of the object, or, with `outer`, those of one of its fields.
struct Fields<'a> {
    sections: &'a mut Sections,
    wants: &'a dyn Fn(&str, Option<&str>) -> bool,
    outer: Option<&'a str>,
    /// The fields of `outer` so far.
    inner: Vec<(Name, Option<Range<usize>>)>,
    /// The key of a map whose value comes next.
    name: Option<Name>,
}

impl Fields<'_> {
    fn add<T: Serialize + ?Sized>(&mut self, name: Name, value: &T) -> Result<(), NotAnObject> {
        let Some(outer) = self.outer else { return self.add_outer(name, value) };
        let wanted = (self.wants)(outer, Some(&name));
        let range = if wanted { Some(self.sections.encode(value)?) } else { None };
        self.inner.push((name, range));
        Ok(())
    }

    fn add_outer<T: Serialize + ?Sized>(&mut self, name: Name, value: &T) -> Result<(), NotAnObject> {
        let content = match (self.wants)(&name, None) {
            false => Content::Skipped,
            true => {
                let start = self.sections.json.len();
                let fields = Fields {
                    sections: &mut *self.sections,
                    wants: self.wants,
                    outer: Some(&name),
                    inner: Vec::new(),
                    name: None,
                };
                match value.serialize(fields) {
                    Ok(inner) => Content::Object(inner),
                    Err(NotAnObject) => {
                        self.sections.json.truncate(start);
                        Content::Whole(self.sections.encode(value)?)
                    }
                }
            }
        };
        self.sections.fields.push(Field { name, content });
        Ok(())
    }
}

/// Refuses values that are not objects.
macro_rules! refuse {
    ($($method:ident($($type:ty),*);)*) => {
        $(fn $method(self, $(_: $type),*) -> Result<Self::Ok, NotAnObject> {
            Err(NotAnObject)
        })*
    };
}

impl Serializer for Fields<'_> {
    type Ok = Vec<(Name, Option<Range<usize>>)>;
    type Error = NotAnObject;
    type SerializeSeq = Impossible<Self::Ok, NotAnObject>;
    type SerializeTuple = Impossible<Self::Ok, NotAnObject>;
    type SerializeTupleStruct = Impossible<Self::Ok, NotAnObject>;
    type SerializeTupleVariant = Impossible<Self::Ok, NotAnObject>;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Impossible<Self::Ok, NotAnObject>;

    refuse! {
        serialize_bool(bool);
        serialize_i8(i8);
        serialize_i16(i16);
        serialize_i32(i32);
        serialize_i64(i64);
        serialize_u8(u8);
        serialize_u16(u16);
        serialize_u32(u32);
        serialize_u64(u64);
        serialize_f32(f32);
        serialize_f64(f64);
        serialize_char(char);
        serialize_str(&str);
        serialize_bytes(&[u8]);
        serialize_none();
        serialize_unit();
        serialize_unit_struct(&'static str);
        serialize_unit_variant(&'static str, u32, &'static str);
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Self::Ok, NotAnObject> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Self::Ok, NotAnObject> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<Self::Ok, NotAnObject> {
        Err(NotAnObject)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, NotAnObject> {
        Err(NotAnObject)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, NotAnObject> {
        Err(NotAnObject)
    }

    fn serialize_tuple_struct(
        self,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleStruct, NotAnObject> {
        Err(NotAnObject)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, NotAnObject> {
        Err(NotAnObject)
    }

    fn serialize_map(self, length: Option<usize>) -> Result<Self, NotAnObject> {
        // A field's value without a known number of fields may have any number; the object itself is counted at the end.
        let fits = self.outer.is_none() || length.is_some_and(|length| length <= FIELDS_MAX);
        if fits { Ok(self) } else { Err(NotAnObject) }
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, NotAnObject> {
        Ok(self)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, NotAnObject> {
        Err(NotAnObject)
    }
}

impl SerializeStruct for Fields<'_> {
    type Ok = Vec<(Name, Option<Range<usize>>)>;
    type Error = NotAnObject;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), NotAnObject> {
        self.add(Cow::Borrowed(name), value)
    }

    fn end(self) -> Result<Self::Ok, NotAnObject> {
        Ok(self.inner)
    }
}

impl SerializeMap for Fields<'_> {
    type Ok = Vec<(Name, Option<Range<usize>>)>;
    type Error = NotAnObject;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), NotAnObject> {
        match serde_json::to_value(key) {
            Ok(Value::String(name)) => {
                self.name = Some(Cow::Owned(name));
                Ok(())
            }
            // Maps with other keys are encoded whole, as JSON does it.
            _ => Err(NotAnObject),
        }
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotAnObject> {
        let name = self.name.take().ok_or(NotAnObject)?;
        self.add(name, value)
    }

    fn end(self) -> Result<Self::Ok, NotAnObject> {
        Ok(self.inner)
    }
}
