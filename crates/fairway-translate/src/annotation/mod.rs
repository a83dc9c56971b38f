//! The annotations of an Ingress as values. Owns their prefix, their text forms and the diagnostics for texts that are
//! wrong; what a value does is the business of the file named after it.

mod known;
pub mod registry;
mod text;

use fairway_model::Origin;
use k8s_openapi::api::networking::v1::Ingress;

use crate::diagnostic::{Diagnostic, Severity};
use crate::resources::{Kind, ObjectKey, Sourced};

pub(crate) use text::{bytes, switch};

/// An Ingress that is being read: its annotations, and what is wrong with it so far.
pub(crate) struct Reader<'a> {
    /// Its name.
    pub(crate) key: &'a ObjectKey,
    /// The object.
    pub(crate) ingress: &'a Sourced<Ingress>,
    /// The prefix of annotations.
    prefix: &'a str,
    /// What is wrong so far.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// An Ingress whose annotations are looked at, without judging them.
#[derive(Clone, Copy)]
pub(crate) struct Annotated<'a> {
    /// Its name.
    pub(crate) key: &'a ObjectKey,
    /// The object.
    pub(crate) ingress: &'a Ingress,
    /// The prefix of annotations.
    pub(crate) prefix: &'a str,
}

impl<'a> Annotated<'a> {
    /// The value of an annotation without the space around it; `None` when it is not there.
    pub(crate) fn value(&self, name: &str) -> Option<&'a str> {
        let annotations = self.ingress.metadata.annotations.as_ref()?;
        annotations.get(&format!("{}/{name}", self.prefix)).map(|value| value.trim())
    }
}

impl<'a> Reader<'a> {
    /// Begins to read.
    pub(crate) fn new(key: &'a ObjectKey, ingress: &'a Sourced<Ingress>, prefix: &'a str) -> Self {
        Self { key, ingress, prefix, diagnostics: Vec::new() }
    }

    /// The value of an annotation without the space around it; `None` when it is not there.
    pub(crate) fn value(&self, name: &str) -> Option<&'a str> {
        self.annotated().value(name)
    }

    /// The same object without the judgement.
    pub(crate) fn annotated(&self) -> Annotated<'a> {
        Annotated { key: self.key, ingress: &self.ingress.object, prefix: self.prefix }
    }

    /// The names after the prefix, with their values.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let prefix = self.prefix;
        let annotations = self.ingress.object.metadata.annotations.iter().flatten();
        annotations.filter_map(move |(name, value)| {
            Some((name.strip_prefix(prefix)?.strip_prefix('/')?, value.trim()))
        })
    }

    /// The place of an annotation.
    pub(crate) fn at(&self, name: &str) -> Origin {
        self.field(&format!("metadata.annotations[\"{}/{name}\"]", self.prefix))
    }

    /// The place of a field.
    pub(crate) fn field(&self, field: &str) -> Origin {
        self.ingress.origin(Kind::Ingress, self.key, field)
    }

    /// Notes that an annotation is not what it should be.
    pub(crate) fn invalid(&mut self, name: &str, problem: impl Into<String>, consequence: impl Into<String>) {
        let found = Diagnostic::new(Severity::Warning, "invalid-annotation", self.at(name));
        self.diagnostics.push(found.because(problem, consequence));
    }

    /// Notes something at an annotation.
    pub(crate) fn note(
        &mut self,
        severity: Severity,
        code: &'static str,
        name: &str,
        (problem, consequence): (String, String),
    ) {
        self.diagnostics.push(Diagnostic::new(severity, code, self.at(name)).because(problem, consequence));
    }

    /// A switch, `default` where it is absent or no switch.
    pub(crate) fn switch(&mut self, name: &str, default: bool) -> bool {
        let Some(value) = self.value(name) else { return default };
        switch(value).unwrap_or_else(|| {
            self.invalid(
                name,
                format!("\"{value}\" is neither true nor false"),
                format!("it counts as {default}"),
            );
            default
        })
    }

    /// A whole number in `range`; `None` where it is absent or no such number.
    pub(crate) fn number(&mut self, name: &str, range: std::ops::RangeInclusive<u64>) -> Option<u64> {
        let value = self.value(name)?;
        let number = value.parse().ok().filter(|number| range.contains(number));
        if number.is_none() {
            let wanted = format!("a whole number from {} to {}", range.start(), range.end());
            self.invalid(name, format!("\"{value}\" is not {wanted}"), "the default is used");
        }
        number
    }
}
