//! The types of values.

use serde_json::{Map, Value};

/// What a value has to be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Text,
    /// NAMESPACE/NAME or NAME of an object.
    Reference,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A number, also written as text.
    Number,
    Switch,
    /// A switch that a flag has, where `"false"` is false.
    SwitchOfFlag,
    /// A number or a percentage.
    Share,
    List,
    Mapping,
    /// A mapping to text; other scalars become text.
    Texts,
    /// Text with commas, or a list.
    Commas,
}

impl Kind {
    /// The value as Fairway's chart takes it, `None` for one that says nothing.
    ///
    /// # Errors
    /// What was expected.
    pub(super) fn convert(self, value: &Value) -> Result<Option<Value>, &'static str> {
        if matches!(value, Value::String(text) if text.is_empty()) {
            return Ok(None);
        }
        let converted = match (self, value) {
            (Self::Text, Value::String(_))
            | (Self::Switch | Self::SwitchOfFlag, Value::Bool(_))
            | (Self::List | Self::Commas, Value::Array(_))
            | (Self::Mapping, Value::Object(_))
            | (Self::Share, Value::String(_)) => Some(value.clone()),
            // The namespace of the release is that of a name without one.
            (Self::Reference, Value::String(text)) => {
                Some(text.strip_prefix("$(POD_NAMESPACE)/").unwrap_or(text).into())
            }
            (Self::OneOf(words), Value::String(text)) if words.contains(&text.as_str()) => {
                Some(value.clone())
            }
            (Self::Number | Self::Share, Value::Number(number)) if number.is_u64() => Some(value.clone()),
            (Self::Number, Value::String(text)) => text.parse::<u64>().ok().map(Value::from),
            (Self::SwitchOfFlag, Value::String(text)) => text.parse::<bool>().ok().map(Value::from),
            (Self::Texts, Value::Object(map)) => texts(map),
            (Self::Commas, Value::String(text)) => Some(text.split(',').map(str::trim).collect()),
            _ => None,
        };
        converted.map(Some).ok_or(self.name())
    }

    fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Reference => "NAMESPACE/NAME",
            Self::OneOf(_) => "a word that Fairway's chart knows here",
            Self::Number => "a number",
            Self::Switch | Self::SwitchOfFlag => "true or false",
            Self::Share => "a number or a percentage",
            Self::List => "a list",
            Self::Mapping => "a mapping",
            Self::Texts => "a mapping to text",
            Self::Commas => "text with commas",
        }
    }
}

fn texts(map: &Map<String, Value>) -> Option<Value> {
    let texts = map.iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| match value {
        Value::String(_) => Some((key.clone(), value.clone())),
        Value::Bool(_) | Value::Number(_) => Some((key.clone(), value.to_string().into())),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    });
    texts.collect::<Option<Map<_, _>>>().map(Value::Object)
}

/// Whether a value asks for nothing: empty or false.
pub(super) fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}
