//! Lets the CEL evaluator read values by a [`Schema`].

use evenkeel_cel::{JsonType, ListType};

use crate::types::{self, Additional, Schema, Type};

impl evenkeel_cel::Schema for Schema {
    fn json_type(&self) -> Option<JsonType> {
        Some(match self.value_type? {
            Type::Object => JsonType::Object,
            Type::Array => JsonType::Array,
            Type::String => JsonType::String,
            Type::Integer => JsonType::Integer,
            Type::Number => JsonType::Number,
            Type::Boolean => JsonType::Boolean,
        })
    }

    fn format(&self) -> &str {
        &self.format
    }

    fn is_nullable(&self) -> bool {
        self.nullable
    }

    fn is_int_or_string(&self) -> bool {
        self.int_or_string
    }

    fn preserves_unknown_fields(&self) -> bool {
        self.preserve_unknown_fields
    }

    fn is_embedded_resource(&self) -> bool {
        self.embedded_resource
    }

    fn has_properties(&self) -> bool {
        !self.properties.is_empty()
    }

    fn property(&self, name: &str) -> Option<&dyn evenkeel_cel::Schema> {
        Some(self.properties.get(name)?)
    }

    fn map_values(&self) -> Option<&dyn evenkeel_cel::Schema> {
        match &self.additional {
            Additional::Schema(values) => Some(values.as_ref()),
            Additional::Unset | Additional::Allowed(_) => None,
        }
    }

    fn list_items(&self) -> Option<&dyn evenkeel_cel::Schema> {
        Some(self.items.as_deref()?)
    }

    fn list_type(&self) -> ListType<'_> {
        match self.list_type {
            Some(types::ListType::Set) => ListType::Set,
            Some(types::ListType::Map) => ListType::Map(&self.list_map_keys),
            Some(types::ListType::Atomic) | None => ListType::Atomic,
        }
    }
}
