//! The result of a conversion so far: values of Fairway's chart, and findings about the input.

use serde_json::{Map, Value};

use super::kind::has_template;

/// The finding for a path that the table does not contain.
pub(super) const UNKNOWN_VALUE: &str = "Fairway does not know this value of the ingress-nginx chart";

/// A finding about a value of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its path, e.g. `controller.service.type`.
    pub path: String,
    /// The loss and a remedy, or a remark.
    pub description: String,
}

/// Values of Fairway's chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    /// Only paths that the chart has.
    pub values: Value,
    /// What Fairway does not do the way ingress-nginx did, or only with a value that has to be set by hand.
    pub lost: Vec<Finding>,
    /// Remarks about converted values, and why others are not needed.
    pub findings: Vec<Finding>,
}

/// The result of a conversion so far.
#[derive(Debug, Default)]
pub(super) struct Conversion {
    values: Map<String, Value>,
    lost: Vec<Finding>,
    findings: Vec<Finding>,
}

impl Conversion {
    /// Sets the value at a path of Fairway's chart.
    pub(super) fn set(&mut self, path: &str, value: Value) {
        if let Some(place) = self.value_at(path) {
            *place = value;
        }
    }

    /// Adds to the list at a path.
    pub(super) fn push(&mut self, path: &str, value: Value) {
        match self.value_at(path) {
            Some(Value::Array(list)) => list.push(value),
            Some(place) => *place = Value::Array(vec![value]),
            None => {}
        }
    }

    /// The value at a path, inserted if missing; `None` below a value that is not a mapping.
    fn value_at(&mut self, path: &str) -> Option<&mut Value> {
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

    /// Removes a value, and the mappings around it that become empty.
    pub(super) fn remove(&mut self, path: &str) {
        if self.value(path).is_none() {
            return;
        }
        let Some((parents, last)) = path.rsplit_once('.') else {
            self.values.remove(path);
            return;
        };
        if let Some(Value::Object(around)) = self.value_at(parents) {
            around.remove(last);
            if around.is_empty() {
                self.remove(parents);
            }
        }
    }

    pub(super) fn add_lost(&mut self, path: &str, consequence: &str) {
        self.lost.push(Finding { path: path.to_owned(), description: consequence.to_owned() });
    }

    /// Reports the loss of a value, with the names of all values below it.
    pub(super) fn add_all_lost(&mut self, path: &str, value: &Value, consequence: &str) {
        let keys = value.as_object().into_iter().flat_map(Map::keys).filter(|key| *key != "enabled");
        let keys: Vec<&str> = keys.map(String::as_str).collect();
        match keys.is_empty() {
            true => self.add_lost(path, consequence),
            false => self.add_lost(path, &format!("{consequence} (lost with it: {})", keys.join(", "))),
        }
    }

    pub(super) fn add_note(&mut self, path: &str, remark: &str) {
        self.findings.push(Finding { path: path.to_owned(), description: remark.to_owned() });
    }

    /// Removes the findings of a path and of those below it, except for the path `but`.
    pub(super) fn remove_findings(&mut self, path: &str, but: &str) {
        let is_other = |finding: &Finding| match finding.path.strip_prefix(path) {
            Some(rest) => !rest.is_empty() && !rest.starts_with('.') || finding.path == but,
            None => true,
        };
        self.lost.retain(is_other);
        self.findings.retain(is_other);
    }

    /// Reports a value of the wrong type.
    pub(super) fn wrong(&mut self, path: &str, expected: &str, value: &Value) {
        if has_template(value) {
            return self.add_lost(path, "Fairway's chart evaluates no Helm templates; write what it becomes");
        }
        let found = match value {
            Value::Null => "nothing".to_owned(),
            Value::Object(_) => "a mapping".to_owned(),
            Value::Array(_) => "a list".to_owned(),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
        };
        self.add_lost(path, &format!("expected {expected}, found {found}"));
    }

    pub(super) fn converted(self) -> Converted {
        Converted { values: Value::Object(self.values), lost: self.lost, findings: self.findings }
    }
}
