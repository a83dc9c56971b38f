//! Values of the Helm chart of ingress-nginx as values of Fairway's chart, and what is lost on the way. Pure: values
//! in, values out.
//!
//! [`table`] says what each path means, and [`convert`] walks over the input by it. [`special`], [`settings`] and
//! [`selectors`] hold meanings that take a function. [`finish`] does what depends on several values at once.

mod amounts;
mod classes;
mod finish;
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
use kind::{Kind, has_template, is_empty, is_off, scalar};
pub use outcome::{Converted, Finding};
use outcome::{Outcome, UNKNOWN};
use table::{Meaning, ROWS};

/// What a flag of ingress-nginx that has no value of the chart means to Fairway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlagMeaning {
    /// This argument of `fairway run`.
    Argument(String),
    /// Nothing, and why.
    Nothing(String),
    /// What is lost.
    Lost(String),
}

/// What `input`, values of the chart of ingress-nginx, is for Fairway's chart. `flag` says what a flag with its value
/// means.
pub fn convert(input: &Map<String, Value>, flag: &dyn Fn(&str, &str) -> FlagMeaning) -> Converted {
    let mut walk = Walk { outcome: Outcome::default(), flag };
    walk.below("", input);
    finish::finish(Input(input), &mut walk.outcome);
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
            match key.contains('.') {
                // As in `controller.kind`, which only --set takes apart.
                true => self.outcome.lose_all(&path, value, UNKNOWN),
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
        let has_rows = ROWS.iter().any(|(of, _)| of.strip_prefix(path).is_some_and(|it| it.starts_with('.')));
        match value {
            Value::Object(values) if has_rows => self.below(path, values),
            _ if has_rows => self.outcome.wrong(path, "a mapping", value),
            _ => self.outcome.lose_all(path, value, UNKNOWN),
        }
    }

    fn apply(&mut self, path: &str, meaning: Meaning, value: &Value) {
        match meaning {
            Meaning::Is(own, kind) => self.set(path, own, kind, value),
            Meaning::Kept(own, kind, note) => {
                self.set(path, own, kind, value);
                if self.outcome.value(own).is_some() {
                    self.outcome.note(path, note);
                }
            }
            Meaning::Later(kind) => {
                if let Err(expected) = kind.convert(value) {
                    self.outcome.wrong(path, expected, value);
                }
            }
            Meaning::Nothing(_) if is_off(value) => {}
            Meaning::Nothing(why) => self.outcome.note(path, why),
            Meaning::Lost(_) | Meaning::Without(..) if is_off(value) => {}
            Meaning::Without(usual, _) if scalar(value).is_some_and(|it| usual.contains(&it.as_str())) => {}
            Meaning::Lost(what) | Meaning::Without(_, what) => self.outcome.lose_all(path, value, what),
            Meaning::IfEnabled(what) => self.if_enabled(path, value, what),
            Meaning::EachLost(what) => {
                self.each(path, value, |walk, path, _| walk.outcome.lose(path, what));
            }
            Meaning::Does(special) => {
                if let Err(expected) = special(&mut self.outcome, path, value) {
                    self.outcome.wrong(path, expected, value);
                }
            }
            Meaning::Flags => self.each(path, value, Self::flag),
        }
    }

    fn set(&mut self, path: &str, own: &str, kind: Kind, value: &Value) {
        match kind.convert(value) {
            Ok(Some(value)) => self.outcome.set(own, value),
            Ok(None) => {}
            Err(expected) => self.outcome.wrong(path, expected, value),
        }
    }

    fn each(&mut self, path: &str, value: &Value, visit: impl Fn(&mut Self, &str, &Value)) {
        match value {
            Value::Object(values) => {
                values.iter().for_each(|(key, value)| visit(self, &format!("{path}.{key}"), value));
            }
            _ => self.outcome.wrong(path, "a mapping", value),
        }
    }

    fn if_enabled(&mut self, path: &str, value: &Value, what: &str) {
        match value.get("enabled") {
            Some(Value::Bool(true)) => self.outcome.lose_all(path, value, what),
            Some(Value::Bool(false)) | None if value.is_object() => {}
            Some(enabled) => self.outcome.wrong(&format!("{path}.enabled"), "true or false", enabled),
            None => self.outcome.wrong(path, "a mapping", value),
        }
    }

    /// A flag that has a row of its own, or else whatever the flag means.
    fn flag(&mut self, path: &str, value: &Value) {
        if value.is_null() {
            return;
        }
        // A flag without a value is a switch.
        let on = Value::Bool(true);
        let value_of_switch = if is_empty(value) { &on } else { value };
        match meaning(path) {
            Some(meaning @ Meaning::Is(_, Kind::SwitchOfFlag)) => {
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
            FlagMeaning::Nothing(why) => self.outcome.note(path, &why),
            FlagMeaning::Lost(what) => self.outcome.lose(path, &what),
        }
    }
}

fn meaning(path: &str) -> Option<Meaning> {
    ROWS.iter().find(|(of, _)| *of == path).map(|(_, meaning)| *meaning)
}

#[cfg(test)]
mod tests;
