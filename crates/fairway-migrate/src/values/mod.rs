//! Converts values of the ingress-nginx Helm chart to values of Fairway's chart, and reports what is lost. Pure functions
//! without I/O.
//!
//! [`table`] maps paths to meanings, and [`convert`] applies it to the input. [`special`], [`settings`] and
//! [`selectors`] contain meanings that need a function. [`dependent_values`] adjusts values that depend on each other.

mod amounts;
mod classes;
mod dependent_values;
mod input;
mod kind;
mod network;
mod outcome;
mod selectors;
mod service;
mod service_maps;
mod settings;
mod special;
mod table;

use serde_json::{Map, Value};

use input::Input;
use kind::{ValueKind, has_template, is_empty, is_off, scalar};
use outcome::{Conversion, UNKNOWN_VALUE};
pub use outcome::{Converted, Finding};
use table::{Meaning, VALUE_ROWS};

/// The meaning of an ingress-nginx flag without a chart value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlagMeaning {
    /// This argument of `fairway run`.
    Argument(String),
    /// No effect, with the reason.
    Nothing(String),
    /// A loss, with its description.
    Lost(String),
}

/// Converts `input`, values of the ingress-nginx chart, to values of Fairway's chart. `flag` returns the meaning of a flag with
/// its value.
pub fn convert(input: &Map<String, Value>, flag: &dyn Fn(&str, &str) -> FlagMeaning) -> Converted {
    let mut walk = Walk { outcome: Conversion::default(), flag };
    walk.below("", input);
    dependent_values::finish(Input(input), &mut walk.outcome);
    walk.outcome.converted()
}

struct Walk<'f> {
    outcome: Conversion,
    flag: &'f dyn Fn(&str, &str) -> FlagMeaning,
}

impl Walk<'_> {
    fn below(&mut self, path: &str, values: &Map<String, Value>) {
        for (key, value) in values {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            match key.contains('.') {
                // A key such as `controller.kind`, which only --set would split into a path.
                true => self.outcome.add_all_lost(&path, value, UNKNOWN_VALUE),
                false => self.take(&path, value),
            }
        }
    }

    fn take(&mut self, path: &str, value: &Value) {
        if is_empty(value) {
            return;
        }
        if let Some(meaning) = meaning(path) {
            return self.apply(path, meaning, value);
        }
        let has_rows = VALUE_ROWS
            .iter()
            .any(|(row_path, _)| row_path.strip_prefix(path).is_some_and(|it| it.starts_with('.')));
        match value {
            Value::Object(values) if has_rows => self.below(path, values),
            _ if has_rows => self.outcome.wrong(path, "a mapping", value),
            _ => self.outcome.add_all_lost(path, value, UNKNOWN_VALUE),
        }
    }

    fn apply(&mut self, path: &str, meaning: Meaning, value: &Value) {
        match meaning {
            Meaning::Is(own, kind) => self.set(path, own, kind, value),
            Meaning::Kept(own, kind, note) => {
                self.set(path, own, kind, value);
                if self.outcome.value(own).is_some() {
                    self.outcome.add_note(path, note);
                }
            }
            Meaning::Later(kind) => {
                if let Err(expected) = kind.convert(value) {
                    self.outcome.wrong(path, expected, value);
                }
            }
            Meaning::Nothing(_) if is_off(value) => {}
            Meaning::Nothing(why) => self.outcome.add_note(path, why),
            Meaning::Lost(_) | Meaning::Without(..) if is_off(value) => {}
            Meaning::Without(usual, _) if scalar(value).is_some_and(|it| usual.contains(&it.as_str())) => {}
            Meaning::Lost(what) | Meaning::Without(_, what) => self.outcome.add_all_lost(path, value, what),
            Meaning::IfEnabled(what) => self.if_enabled(path, value, what),
            Meaning::EachLost(what) => {
                self.for_each_value(path, value, |walk, path, _| walk.outcome.add_lost(path, what));
            }
            Meaning::Does(special) => {
                if let Err(expected) = special(&mut self.outcome, path, value) {
                    self.outcome.wrong(path, expected, value);
                }
            }
            Meaning::Flags => self.for_each_value(path, value, Self::flag),
        }
    }

    fn set(&mut self, path: &str, target: &str, kind: ValueKind, value: &Value) {
        match kind.convert(value) {
            Ok(Some(value)) => self.outcome.set(target, value),
            Ok(None) => {}
            Err(expected) => self.outcome.wrong(path, expected, value),
        }
    }

    fn for_each_value(&mut self, path: &str, value: &Value, visit: impl Fn(&mut Self, &str, &Value)) {
        match value {
            Value::Object(values) => {
                values.iter().for_each(|(key, value)| visit(self, &format!("{path}.{key}"), value));
            }
            _ => self.outcome.wrong(path, "a mapping", value),
        }
    }

    fn if_enabled(&mut self, path: &str, value: &Value, consequence: &str) {
        match value.get("enabled") {
            Some(Value::Bool(true)) => self.outcome.add_all_lost(path, value, consequence),
            Some(Value::Bool(false)) | None if value.is_object() => {}
            Some(enabled) => self.outcome.wrong(&format!("{path}.enabled"), "true or false", enabled),
            None => self.outcome.wrong(path, "a mapping", value),
        }
    }

    /// Converts a flag by its own row in the table, or by the meaning of the flag.
    fn flag(&mut self, path: &str, value: &Value) {
        if value.is_null() {
            return;
        }
        // A flag without a value is a switch.
        let on = Value::Bool(true);
        let value_of_switch = if is_empty(value) { &on } else { value };
        match meaning(path) {
            Some(meaning @ Meaning::Is(_, ValueKind::SwitchOfFlag)) => {
                return self.apply(path, meaning, value_of_switch);
            }
            Some(meaning) => return self.apply(path, meaning, value),
            None => {}
        }
        let Some(given) = scalar(value_of_switch).filter(|_| !has_template(value)) else {
            return self.outcome.wrong(path, "text", value);
        };
        let name = path.rsplit('.').next().unwrap_or(path);
        match (self.flag)(name, &given) {
            FlagMeaning::Argument(argument) => self.outcome.push("extraArgs", argument.into()),
            FlagMeaning::Nothing(why) => self.outcome.add_note(path, &why),
            FlagMeaning::Lost(what) => self.outcome.add_lost(path, &what),
        }
    }
}

fn meaning(path: &str) -> Option<Meaning> {
    VALUE_ROWS.iter().find(|(row_path, _)| *row_path == path).map(|(_, meaning)| *meaning)
}

#[cfg(test)]
mod tests;
