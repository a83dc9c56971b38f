//! An Ingress while it is read: its annotations as values, and the diagnostics for texts that are wrong. What a value
//! does is the business of the annotation's family.

use fairway_model::Origin;
use fairway_objects::annotations::text::switch;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::{Kind, ObjectKey, Sourced};
use k8s_openapi::api::networking::v1::Ingress;

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

/// The annotations of an Ingress as they are written, without judging them.
#[derive(Clone, Copy)]
pub(crate) struct Annotations<'a> {
    /// The name of the Ingress.
    pub(crate) key: &'a ObjectKey,
    /// The object.
    pub(crate) ingress: &'a Ingress,
    /// The prefix of annotations.
    pub(crate) prefix: &'a str,
}

impl<'a> Annotations<'a> {
    /// The value of an annotation without the space around it; `None` when it is not there.
    pub(crate) fn value(&self, name: &str) -> Option<&'a str> {
        let annotations = self.ingress.metadata.annotations.as_ref()?;
        annotations.get(&format!("{}/{name}", self.prefix)).map(|value| value.trim())
    }

    /// Whether an annotation of another prefix is there.
    pub(crate) fn has(&self, prefix: &str, name: &str) -> bool {
        let annotations = self.ingress.metadata.annotations.as_ref();
        annotations.is_some_and(|annotations| annotations.contains_key(&format!("{prefix}/{name}")))
    }
}

impl<'a> Reader<'a> {
    /// Begins to read.
    pub(crate) fn new(key: &'a ObjectKey, ingress: &'a Sourced<Ingress>, prefix: &'a str) -> Self {
        Self { key, ingress, prefix, diagnostics: Vec::new() }
    }

    /// The annotations without the judgement.
    pub(crate) fn annotations(&self) -> Annotations<'a> {
        Annotations { key: self.key, ingress: &self.ingress.object, prefix: self.prefix }
    }

    /// The value of an annotation without the space around it; `None` when it is not there.
    pub(crate) fn value(&self, name: &str) -> Option<&'a str> {
        self.annotations().value(name)
    }

    /// The names after the prefix, with their values.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.with_prefix(self.prefix)
    }

    /// The names after another prefix, with their values.
    pub(crate) fn with_prefix(&self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let annotations = self.ingress.object.metadata.annotations.iter().flatten();
        annotations.filter_map(move |(name, value)| {
            Some((name.strip_prefix(prefix)?.strip_prefix('/')?, value.trim()))
        })
    }

    /// As [`Self::all`], with the space around the values.
    pub(crate) fn untrimmed(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let prefix = self.prefix;
        let annotations = self.ingress.object.metadata.annotations.iter().flatten();
        annotations.filter_map(move |(name, value)| {
            Some((name.strip_prefix(prefix)?.strip_prefix('/')?, value.as_str()))
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

    /// Whether it has a default backend and no rules: then it answers what no host answers.
    pub(crate) fn is_catch_all(&self) -> bool {
        let spec = self.ingress.object.spec.as_ref();
        spec.is_some_and(|spec| {
            spec.rules.as_ref().is_none_or(Vec::is_empty) && spec.default_backend.is_some()
        })
    }

    /// Notes that something is wrong.
    pub(crate) fn report(&mut self, found: Diagnostic) {
        // An annotation may be read for the endpoints and again for the service that is asked.
        if !self.diagnostics.contains(&found) {
            self.diagnostics.push(found);
        }
    }

    /// Notes that an annotation is not what it should be.
    pub(crate) fn invalid(&mut self, name: &str, problem: impl Into<String>, consequence: impl Into<String>) {
        let found = Diagnostic::new(Severity::Warning, "invalid-annotation", self.at(name));
        self.report(found.because(problem, consequence));
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
