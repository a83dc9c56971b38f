//! Attributes: names with values.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue};

/// A text.
pub(crate) fn text(key: &str, value: impl Into<String>) -> KeyValue {
    attribute(key, Value::StringValue(value.into()))
}

/// A number. What is larger than OTLP can write is the largest that it can.
pub(crate) fn number(key: &str, value: impl TryInto<i64>) -> KeyValue {
    attribute(key, Value::IntValue(value.try_into().unwrap_or(i64::MAX)))
}

/// A yes or no.
pub(crate) fn flag(key: &str, value: bool) -> KeyValue {
    attribute(key, Value::BoolValue(value))
}

/// A list of one text, as headers are written.
pub(crate) fn list(key: &str, value: impl Into<String>) -> KeyValue {
    attribute(key, Value::ArrayValue(ArrayValue { values: vec![string(value)] }))
}

/// A text without a name.
pub(crate) fn string(value: impl Into<String>) -> AnyValue {
    AnyValue { value: Some(Value::StringValue(value.into())) }
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}
