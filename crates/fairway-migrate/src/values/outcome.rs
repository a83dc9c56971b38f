//! What a conversion has found so far: values of Fairway's chart, and what to tell about the input.

use serde_json::{Map, Value};

/// What is told about a value of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its path, e.g. `controller.service.type`.
    pub path: String,
    /// What is lost, what to do by hand, or why it means nothing.
    pub what: String,
}

/// Values of Fairway's chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    /// Only paths that the chart has.
    pub values: Value,
    /// What is lost or remains to be done by hand.
    pub lost: Vec<Finding>,
    /// Values that mean nothing with Fairway, and why.
    pub notes: Vec<Finding>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    values: Map<String, Value>,
    lost: Vec<Finding>,
    notes: Vec<Finding>,
}

impl Outcome {
    /// Sets the value at a path of Fairway's chart.
    pub(super) fn set(&mut self, path: &str, value: Value) {
        if let Some(place) = self.place(path) {
            *place = value;
        }
    }

    /// Adds to the list at a path.
    pub(super) fn push(&mut self, path: &str, value: Value) {
        match self.place(path) {
            Some(Value::Array(list)) => list.push(value),
            Some(place) => *place = Value::Array(vec![value]),
            None => {}
        }
    }

    /// The value at a path, made if there is none. None below a value that is no mapping.
    fn place(&mut self, path: &str) -> Option<&mut Value> {
        let (parents, last) =
            path.rsplit_once('.').map_or((None, path), |(parents, last)| (Some(parents), last));
        let mut values = &mut self.values;
        for parent in parents.into_iter().flat_map(|parents| parents.split('.')) {
            let below = values.entry(parent).or_insert_with(|| Value::Object(Map::new()));
            values = below.as_object_mut()?;
        }
        Some(values.entry(last).or_insert(Value::Null))
    }

    pub(super) fn value(&self, path: &str) -> Option<&Value> {
        let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
        let first = self.values.get(first)?;
        rest.map_or(Some(first), |rest| rest.split('.').try_fold(first, |value, key| value.get(key)))
    }

    pub(super) fn is_true(&self, path: &str) -> bool {
        self.value(path) == Some(&Value::Bool(true))
    }

    pub(super) fn remove(&mut self, first: &str) {
        self.values.remove(first);
    }

    pub(super) fn lose(&mut self, path: &str, what: &str) {
        self.lost.push(Finding { path: path.to_owned(), what: what.to_owned() });
    }

    pub(super) fn note(&mut self, path: &str, why: &str) {
        self.notes.push(Finding { path: path.to_owned(), what: why.to_owned() });
    }

    /// A value of a type that its path does not take.
    pub(super) fn wrong(&mut self, path: &str, expected: &str, value: &Value) {
        let found = match value {
            Value::Null => "nothing".to_owned(),
            Value::Object(_) => "a mapping".to_owned(),
            Value::Array(_) => "a list".to_owned(),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
        };
        self.lose(path, &format!("expected {expected}, found {found}"));
    }

    pub(super) fn converted(self) -> Converted {
        Converted { values: Value::Object(self.values), lost: self.lost, notes: self.notes }
    }
}
