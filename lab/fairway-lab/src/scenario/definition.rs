//! A scenario's file: the paper's parameters, which of them a small machine scales, and a shorter form. Read strictly: a
//! key that is not known is an error that names it. Never runs anything.

use std::fmt::Write;

use anyhow::Context;
use fairway_lab_measure::results::Parameter;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

/// The headings of every scenario file, in addition to its parameters.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Heading {
    /// The kind of scenario.
    pub(super) scenario: String,
    /// The study that it repeats, or empty.
    pub(super) study: String,
    /// The question it answers.
    pub(super) purpose: String,
    /// Parameters that `--scale` multiplies, also within lists of tables.
    pub(super) scaled: Vec<String>,
    /// Parameters that the paper does not have.
    pub(super) own: Vec<String>,
}

/// How parameters are adapted to the machine and the available time.
#[derive(Clone, Debug)]
pub(super) struct Scaling {
    /// The form of the file to use.
    pub(super) form: Form,
    /// The factor of scaled parameters, 0 < scale <= 1.
    pub(super) scale: f64,
    /// `KEY=VALUE` in TOML, over all else.
    pub(super) set: Vec<String>,
}

/// The forms of a scenario's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The paper's.
    Whole,
    /// The shortest one, `[quick]`.
    Quick,
    /// One round of several, `[long]`.
    Long,
}

impl Form {
    /// The name of its table in the file, if it has one.
    fn table(self) -> Option<&'static str> {
        match self {
            Self::Whole => None,
            Self::Quick => Some("quick"),
            Self::Long => Some("long"),
        }
    }
}

/// A scenario's file, read and fitted.
#[derive(Clone, Debug)]
pub(super) struct Definition {
    /// The description.
    pub(super) heading: Heading,
    /// The paper's values compared with those of this run.
    pub(super) parameters: Vec<Parameter>,
    /// Differences from the paper, one sentence each.
    pub(super) shortened: Vec<String>,
    table: Table,
}

const HEADING: [&str; 7] = ["scenario", "study", "purpose", "scaled", "own", "quick", "long"];

impl Definition {
    /// Reads a file and fits it.
    ///
    /// # Errors
    /// The file is not TOML, a heading is missing, or an unknown parameter is set.
    pub(super) fn read(text: &str, scaling: &Scaling) -> anyhow::Result<Self> {
        let file_table: Table = text.parse().context("the file is no TOML")?;
        let heading = Heading::deserialize(file_table.clone()).context("a scenario's heading")?;
        let paper: Table =
            file_table.iter().filter(|(key, _)| !HEADING.contains(&key.as_str())).map(owned).collect();
        let mut table = paper.clone();
        if let Some(name) = scaling.form.table()
            && let Some(form) = file_table.get(name)
        {
            let form = form.as_table().with_context(|| format!("{name}: is no table"))?;
            form.iter().for_each(|(name, value)| insert_value(&mut table, name, value.clone()));
        }
        for key in &heading.scaled {
            table.iter_mut().for_each(|(name, value)| scale(name, value, key, scaling.scale));
        }
        for assignment in &scaling.set {
            set(&mut table, assignment, &paper)?;
        }
        for (name, value) in &table {
            usable(name, value).with_context(|| format!("scenario {}: its parameters", heading.scenario))?;
        }
        let (parameters, shortened) = compare(&paper, &table, &heading);
        Ok(Self { heading, parameters, shortened, table })
    }

    /// Removes and returns a fractional parameter that only the scenario knows; 0 if the file has none.
    ///
    /// # Errors
    /// It is no number from 0 to 1.
    pub(super) fn take_fraction(&mut self, name: &str) -> anyhow::Result<f64> {
        let Some(value) = self.table.remove(name) else { return Ok(0.0) };
        let number = value.as_float().or_else(|| value.as_integer().map(|number| number as f64));
        number
            .filter(|fraction| (0.0..=1.0).contains(fraction))
            .with_context(|| format!("{name} = {}: a fraction from 0 to 1 is wanted", value_text(&value)))
    }

    /// The parameters as a scenario knows them.
    ///
    /// # Errors
    /// A key that the scenario does not know, one that is missing, or a value of the wrong kind.
    pub(super) fn parameters<T: DeserializeOwned>(&self) -> anyhow::Result<T> {
        T::deserialize(self.table.clone())
            .with_context(|| format!("scenario {}: its parameters", self.heading.scenario))
    }
}

fn owned((key, value): (&String, &Value)) -> (String, Value) {
    (key.clone(), value.clone())
}

/// The largest number that a parameter may be; in seconds it is 30 years.
const MAX_PARAMETER: f64 = 1e9;

/// Multiplies numbers of this name, at least to 1.
fn scale(name: &str, value: &mut Value, unit: &str, factor: f64) {
    match value {
        Value::Integer(number) if name == unit => {
            *number = ((*number as f64 * factor).round() as i64).max(1);
        }
        Value::Float(number) if name == unit => *number *= factor,
        Value::Array(values) => values.iter_mut().for_each(|value| scale(name, value, unit, factor)),
        Value::Table(table) => table.iter_mut().for_each(|(name, value)| scale(name, value, unit, factor)),
        _ => {}
    }
}

fn set(table: &mut Table, assignment: &str, known: &Table) -> anyhow::Result<()> {
    let read: Table =
        assignment.parse().with_context(|| format!("--set {assignment}: KEY=VALUE in TOML is wanted"))?;
    for (key, value) in read {
        if !known.contains_key(&key) {
            let keys: Vec<_> = known.keys().map(String::as_str).collect();
            anyhow::bail!("--set {assignment}: there is no parameter {key}; there are {}", keys.join(", "));
        }
        insert_value(table, &key, value);
    }
    Ok(())
}

/// Sets a parameter; of a table only the given parts.
fn insert_value(table: &mut Table, name: &str, value: Value) {
    match (table.get_mut(name), value) {
        (Some(Value::Table(before)), Value::Table(parts)) => before.extend(parts),
        (_, value) => drop(table.insert(name.to_owned(), value)),
    }
}

/// Rejects negative, infinite and NaN parameters, since durations are computed from them.
fn usable(name: &str, value: &Value) -> anyhow::Result<()> {
    let number = match value {
        Value::Integer(number) => *number as f64,
        Value::Float(number) => *number,
        Value::Array(values) => return values.iter().try_for_each(|value| usable(name, value)),
        Value::Table(table) => return table.iter().try_for_each(|(name, value)| usable(name, value)),
        _ => return Ok(()),
    };
    anyhow::ensure!(
        (0.0..=MAX_PARAMETER).contains(&number),
        "{name} is {number}; from 0 to {MAX_PARAMETER} is possible"
    );
    Ok(())
}

fn compare(paper: &Table, used: &Table, heading: &Heading) -> (Vec<Parameter>, Vec<String>) {
    let mut shortened = Vec::new();
    let parameters = used
        .iter()
        .map(|(name, value)| {
            let is_own = heading.own.contains(name);
            let before = paper.get(name).map(value_text).unwrap_or_default();
            let now = value_text(value);
            if before != now && !is_own {
                shortened.push(format!("{name}: {now} instead of {before}"));
            }
            Parameter { name: name.clone(), paper: if is_own { "-".to_owned() } else { before }, used: now }
        })
        .collect();
    (parameters, shortened)
}

/// A value for people, in the file's own words.
fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(value_text).collect::<Vec<_>>().join(", "),
        Value::Table(table) => {
            let mut text = String::new();
            for (key, value) in table {
                _ = write!(text, "{}{key} {}", if text.is_empty() { "" } else { " " }, value_text(value));
            }
            text
        }
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(yes) => yes.to_string(),
        Value::Datetime(time) => time.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        scenario = "dynamic"
        study = "study1_dynamic"
        purpose = "?"
        scaled = ["rate", "connections"]
        own = ["extra"]
        rate = 30000
        extra = 1
        variants = [{ connections = 250, generators = 1 }]
        [quick]
        extra = 2
        [long]
        extra = 3
    "#;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Parameters {
        rate: f64,
        extra: u32,
        variants: Vec<Variant>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Variant {
        generators: u32,
        connections: u32,
    }

    fn scaling(form: Form, scale: f64, set: &[&str]) -> Scaling {
        Scaling { form, scale, set: set.iter().map(|text| (*text).to_owned()).collect() }
    }

    #[test]
    fn the_paper_is_the_default_and_scaling_reaches_into_lists() {
        let unscaled = Definition::read(FILE, &scaling(Form::Whole, 1.0, &[])).expect("it reads");
        assert_eq!(unscaled.shortened, Vec::<String>::new());
        let small = Definition::read(FILE, &scaling(Form::Quick, 0.1, &[])).expect("it reads");
        let parameters: Parameters = small.parameters().expect("its terms");
        let variants = vec![Variant { generators: 1, connections: 25 }];
        assert_eq!(parameters, Parameters { rate: 3000.0, extra: 2, variants });
        assert_eq!(
            small.shortened,
            [
                "rate: 3000 instead of 30000",
                "variants: connections 25 generators 1 instead of connections 250 generators 1"
            ]
        );
    }

    #[test]
    fn each_form_has_its_own_table() {
        for (form, extra) in [(Form::Whole, 1), (Form::Quick, 2), (Form::Long, 3)] {
            let read = Definition::read(FILE, &scaling(form, 1.0, &[])).expect("it reads");
            assert_eq!(read.parameters::<Parameters>().expect("its terms").extra, extra, "{form:?}");
        }
    }

    #[test]
    fn set_parameters_override_the_file_and_must_exist() {
        let set = Definition::read(FILE, &scaling(Form::Quick, 0.1, &["rate=7"])).expect("it reads");
        assert_eq!(set.parameters::<Parameters>().expect("its terms").rate, 7.0);
        let error = Definition::read(FILE, &scaling(Form::Quick, 0.1, &["rat=7"])).expect_err("no such key");
        assert!(format!("{error:#}").contains("there is no parameter rat; there are"), "{error:#}");
    }

    #[test]
    fn a_number_that_no_time_or_count_can_be_is_refused() {
        for assignment in ["rate=nan", "rate=-1.0", "rate=inf", "extra=-2", "variants=[{ connections = -1 }]"]
        {
            let error =
                Definition::read(FILE, &scaling(Form::Whole, 1.0, &[assignment])).expect_err(assignment);
            let error = format!("{error:#}");
            assert!(error.contains("scenario dynamic") && error.contains("is possible"), "{error}");
        }
    }

    #[test]
    fn an_unknown_key_is_named() {
        let text = FILE.replace("extra = 1", "extra = 1\nretries = 3");
        let definition =
            Definition::read(&text, &scaling(Form::Whole, 1.0, &[])).expect("the heading is right");
        let error = format!("{:#}", definition.parameters::<Parameters>().expect_err("retries is unknown"));
        assert!(error.contains("scenario dynamic") && error.contains("retries"), "{error}");
    }
}
