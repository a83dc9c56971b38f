//! Values of the Helm chart of ingress-nginx as values of Fairway's chart, and what is lost on the way. Pure: values in,
//! values out.
//!
//! [`table`] says what each path means, [`special`] holds the meanings that take a function, and [`convert`] walks over
//! the input.

mod finish;
mod kind;
mod outcome;
mod special;
mod table;

use serde_json::{Map, Value};

use kind::is_unset;
use outcome::Outcome;
pub use outcome::{Converted, Finding};
use table::{Meaning, ROWS};

/// What a flag of ingress-nginx that has no value of the chart means to Fairway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlagMeaning {
    /// This argument of `fairway run`.
    Argument(String),
    /// The same as without it.
    Nothing,
    /// What is lost.
    Lost(String),
}

/// What `input`, values of the chart of ingress-nginx, is for Fairway's chart. `flag` says what a flag with its value
/// means.
pub fn convert(input: &Map<String, Value>, flag: &dyn Fn(&str, &str) -> FlagMeaning) -> Converted {
    let mut walk = Walk { outcome: Outcome::default(), flag };
    walk.below("", input);
    finish::finish(&mut walk.outcome);
    walk.outcome.converted()
}

struct Walk<'f> {
    outcome: Outcome,
    flag: &'f dyn Fn(&str, &str) -> FlagMeaning,
}

impl Walk<'_> {
    fn below(&mut self, path: &str, values: &Map<String, Value>) {
        for (key, value) in values {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            self.take(&path, value);
        }
    }

    fn take(&mut self, path: &str, value: &Value) {
        if let Some((_, meaning)) = ROWS.iter().find(|(of, _)| *of == path) {
            return self.apply(path, *meaning, value);
        }
        let has_rows =
            || ROWS.iter().any(|(of, _)| of.strip_prefix(path).is_some_and(|it| it.starts_with('.')));
        match value {
            _ if value.is_null() => {}
            Value::Object(values) if has_rows() => self.below(path, values),
            _ if has_rows() => self.outcome.wrong(path, "a mapping", value),
            _ => self.outcome.lose(path, "Fairway does not know this value of the chart of ingress-nginx"),
        }
    }

    fn apply(&mut self, path: &str, meaning: Meaning, value: &Value) {
        if value.is_null() {
            return;
        }
        match meaning {
            Meaning::Is(own, kind) => match kind.convert(value) {
                Ok(Some(value)) => self.outcome.set(own, value),
                Ok(None) => {}
                Err(expected) => self.outcome.wrong(path, expected, value),
            },
            Meaning::Nothing(why) => self.outcome.note(path, why),
            Meaning::Lost(_) if is_unset(value) => {}
            Meaning::Without(usual, _) if is_unset(value) || usual.contains(&word(value).as_str()) => {}
            Meaning::Lost(what) | Meaning::Without(_, what) => self.outcome.lose(path, what),
            Meaning::IfEnabled(what) => self.if_enabled(path, value, what),
            Meaning::EachLost(what) => match value {
                Value::Object(values) => {
                    values.keys().for_each(|key| self.outcome.lose(&format!("{path}.{key}"), what));
                }
                _ => self.outcome.wrong(path, "a mapping", value),
            },
            Meaning::Does(special) => {
                if let Err(expected) = special(&mut self.outcome, path, value) {
                    self.outcome.wrong(path, expected, value);
                }
            }
            Meaning::Flags => match value {
                Value::Object(flags) => flags.iter().for_each(|(name, value)| self.flag(path, name, value)),
                _ => self.outcome.wrong(path, "a mapping", value),
            },
        }
    }

    fn if_enabled(&mut self, path: &str, value: &Value, what: &str) {
        match value.get("enabled") {
            Some(Value::Bool(true)) => self.outcome.lose(path, what),
            Some(Value::Bool(false)) | None if value.is_object() => {}
            Some(enabled) => self.outcome.wrong(&format!("{path}.enabled"), "true or false", enabled),
            None => self.outcome.wrong(path, "a mapping", value),
        }
    }

    /// A flag that has a row of its own, or else whatever the flag means.
    fn flag(&mut self, path: &str, name: &str, value: &Value) {
        let path = format!("{path}.{name}");
        if let Some((_, meaning)) = ROWS.iter().find(|(of, _)| *of == path) {
            return self.apply(&path, *meaning, value);
        }
        if value.is_object() || value.is_array() {
            return self.outcome.wrong(&path, "text", value);
        }
        // A flag without a value is a switch.
        let value = if is_unset(value) && !value.is_boolean() { "true".to_owned() } else { word(value) };
        match (self.flag)(name, &value) {
            FlagMeaning::Argument(argument) => self.outcome.push("extraArgs", argument.into()),
            FlagMeaning::Nothing => self.outcome.note(&path, "the same as without it"),
            FlagMeaning::Lost(what) => self.outcome.lose(&path, &what),
        }
    }
}

/// A scalar as text.
fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests;
