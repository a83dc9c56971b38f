//! Builders for OTLP attributes.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue};

/// A text attribute.
pub(crate) fn text(key: &str, value: impl Into<String>) -> KeyValue {
    attribute(key, Value::StringValue(value.into()))
}

/// A number attribute. Values beyond the range of OTLP are clamped.
pub(crate) fn number(key: &str, value: impl TryInto<i64>) -> KeyValue {
    attribute(key, Value::IntValue(value.try_into().unwrap_or(i64::MAX)))
}

/// A boolean attribute.
pub(crate) fn flag(key: &str, value: bool) -> KeyValue {
    attribute(key, Value::BoolValue(value))
}

/// A list with one text, as headers are recorded.
pub(crate) fn list(key: &str, value: impl Into<String>) -> KeyValue {
    attribute(key, Value::ArrayValue(ArrayValue { values: vec![string(value)] }))
}

/// A text value without a key.
pub(crate) fn string(value: impl Into<String>) -> AnyValue {
    AnyValue { value: Some(Value::StringValue(value.into())) }
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}
