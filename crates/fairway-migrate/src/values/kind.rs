//! The types of values: checks a value of the ingress-nginx chart and converts it to the form that Fairway's chart
//! accepts.

use serde_json::{Map, Value};

/// The type of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum ValueKind {
    Text,
    /// The name of an object of Kubernetes.
    Name,
    /// NAMESPACE/NAME or NAME of an object.
    Reference,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// An integer in this range, also written as text. If the minimum is above 0, 0 counts as empty.
    Within(u64, u64),
    Switch,
    /// A switch of a flag, where `"false"` is false.
    SwitchOfFlag,
    /// A number or a percentage.
    Share,
    /// A list of text.
    List,
    /// A list of these words.
    ListOf(&'static [&'static str]),
    /// A list of address ranges.
    Ranges,
    /// A list of mappings.
    Mappings,
    /// A list of mappings, each with a name.
    Named,
    Mapping,
    /// A mapping to text; other scalars become text.
    Texts,
    /// Comma-separated text, or a list.
    Commas,
    /// Comma-separated names of objects, or a list of them.
    Names,
}

impl ValueKind {
    /// Converts a value for Fairway's chart; `None` for an empty one.
    ///
    /// # Errors
    /// A description of the expected type.
    pub(super) fn convert(self, value: &Value) -> Result<Option<Value>, &'static str> {
        let asks_for_nothing = matches!(self, Self::Within(1.., _)) && whole_number(value) == Some(0);
        if is_empty(value) || asks_for_nothing {
            return Ok(None);
        }
        let converted = if has_template(value) { None } else { self.converted(value) };
        converted.map(Some).ok_or(self.name())
    }

    fn converted(self, value: &Value) -> Option<Value> {
        match (self, value) {
            (Self::Text, Value::String(_))
            | (Self::Switch | Self::SwitchOfFlag, Value::Bool(_))
            | (Self::Mapping, Value::Object(_)) => Some(value.clone()),
            (Self::Name, Value::String(text)) if is_name(text) => Some(value.clone()),
            (Self::Reference, Value::String(text)) if is_reference(text) => Some(value.clone()),
            (Self::OneOf(words), Value::String(text)) if words.contains(&text.as_str()) => {
                Some(value.clone())
            }
            (Self::Share, Value::String(text)) if is_percentage(text) => Some(value.clone()),
            (Self::Share, _) => whole_number(value).map(Value::from),
            (Self::Within(least, most), _) => {
                whole_number(value).filter(|number| (least..=most).contains(number)).map(Value::from)
            }
            (Self::SwitchOfFlag, Value::String(text)) => text.parse::<bool>().ok().map(Value::from),
            (Self::Texts, Value::Object(map)) => texts(map),
            (Self::Commas | Self::Names, Value::String(text)) => {
                let words: Vec<Value> = text.split(',').map(Value::from).collect();
                self.converted_list(&words, value)
            }
            (_, Value::Array(list)) => self.converted_list(list, value),
            _ => None,
        }
    }

    fn converted_list(self, list: &[Value], value: &Value) -> Option<Value> {
        let all = |is_good: &dyn Fn(&Value) -> bool| list.iter().all(is_good).then(|| value.clone());
        let text = |good: fn(&str) -> bool| all(&|item: &Value| item.as_str().is_some_and(good));
        match self {
            Self::List => text(|_| true),
            Self::Ranges => text(is_range),
            Self::ListOf(words) => {
                all(&|item: &Value| item.as_str().is_some_and(|item| words.contains(&item)))
            }
            Self::Mappings => all(&Value::is_object),
            Self::Named => all(&|item: &Value| item["name"].as_str().is_some_and(|name| !name.is_empty())),
            Self::Commas => words(list),
            Self::Names => words(list).filter(|names| {
                names.as_array().into_iter().flatten().all(|name| name.as_str().is_some_and(is_name))
            }),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Name => "the name of an object",
            Self::Reference => "NAMESPACE/NAME",
            Self::OneOf(_) => "a word that Fairway's chart knows here",
            Self::Within(..) => "a whole number that Fairway's chart takes here",
            Self::Switch | Self::SwitchOfFlag => "true or false",
            Self::Share => "a whole number or a percentage",
            Self::List => "a list of text",
            Self::ListOf(_) => "a list of words that Fairway's chart knows here",
            Self::Ranges => "a list of address ranges",
            Self::Mappings => "a list of mappings",
            Self::Named => "a list of mappings that have a name",
            Self::Mapping => "a mapping",
            Self::Texts => "a mapping to text",
            Self::Commas => "text with commas or a list of text",
            Self::Names => "names with commas or a list of names",
        }
    }
}

fn texts(map: &Map<String, Value>) -> Option<Value> {
    let texts = map.iter().filter(|(_, value)| !value.is_null());
    let texts = texts.map(|(key, value)| Some((key.clone(), Value::from(scalar(value)?))));
    texts.collect::<Option<Map<_, _>>>().map(Value::Object)
}

/// The list without duplicates, in the original order.
fn words(values: &[Value]) -> Option<Value> {
    let mut words: Vec<&str> = Vec::new();
    for word in values {
        let word = word.as_str()?.trim();
        if !word.is_empty() && !words.contains(&word) {
            words.push(word);
        }
    }
    Some(words.into())
}

fn whole_number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

fn is_percentage(text: &str) -> bool {
    text.strip_suffix('%').is_some_and(|number| number.parse::<u32>().is_ok())
}

fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = [text.bytes().next(), text.bytes().next_back()];
    text.len() <= 253
        && ends.iter().all(|end| end.is_some_and(inner))
        && text.bytes().all(|byte| inner(byte) || byte == b'-' || byte == b'.')
}

fn is_reference(text: &str) -> bool {
    match text.split_once('/') {
        Some((namespace, name)) => is_name(namespace) && !namespace.contains('.') && is_name(name),
        None => is_name(text),
    }
}

/// Whether Fairway's chart accepts a text as an address range; the binary validates it when it starts.
pub(super) fn is_range(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_hexdigit() || c == ':' || c == '.';
    text.split_once('/').is_some_and(|(address, length)| {
        !address.is_empty() && address.chars().all(is_part) && length.parse::<u8>().is_ok()
    })
}

/// A scalar as text.
pub(super) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Whether a value is empty.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Whether a value switches nothing on: empty, false or 0.
pub(super) fn is_off(value: &Value) -> bool {
    is_empty(value) || *value == Value::Bool(false) || value.as_u64() == Some(0)
}

/// Whether there is a Helm template in a value, which the chart of ingress-nginx evaluates in some places.
pub(super) fn has_template(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("{{"),
        Value::Array(list) => list.iter().any(has_template),
        Value::Object(map) => map.values().any(has_template),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
