//! Reads the annotations of an Ingress as values, and collects diagnostics. Their meaning is up to the families.

use fairway_model::Origin;
use fairway_objects::annotations::text::parse_bool;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::{Kind, ObjectKey, Sourced};
use k8s_openapi::api::networking::v1::Ingress;

/// An Ingress being read, with its diagnostics so far.
pub(crate) struct Reader<'a> {
    /// Its name.
    pub(crate) key: &'a ObjectKey,
    /// The object.
    pub(crate) ingress: &'a Sourced<Ingress>,
    /// The prefix of annotations.
    prefix: &'a str,
    /// Diagnostics so far.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// The annotations of an Ingress as written.
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
    /// The trimmed value of an annotation, if present.
    pub(crate) fn value(&self, name: &str) -> Option<&'a str> {
        let annotations = self.ingress.metadata.annotations.as_ref()?;
        annotations.get(&format!("{}/{name}", self.prefix)).map(|value| value.trim())
    }

    /// Whether an annotation with another prefix is present.
    pub(crate) fn has(&self, prefix: &str, name: &str) -> bool {
        let annotations = self.ingress.metadata.annotations.as_ref();
        annotations.is_some_and(|annotations| annotations.contains_key(&format!("{prefix}/{name}")))
    }
}

impl<'a> Reader<'a> {
    /// Starts reading an Ingress.
    pub(crate) fn new(key: &'a ObjectKey, ingress: &'a Sourced<Ingress>, prefix: &'a str) -> Self {
        Self { key, ingress, prefix, diagnostics: Vec::new() }
    }

    /// The annotations as written.
    pub(crate) fn annotations(&self) -> Annotations<'a> {
        Annotations { key: self.key, ingress: &self.ingress.object, prefix: self.prefix }
    }

    /// The trimmed value of an annotation, if present.
    pub(crate) fn value(&self, name: &str) -> Option<&'a str> {
        self.annotations().value(name)
    }

    /// The annotations with the prefix: names after it, with their values.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.with_prefix(self.prefix)
    }

    /// The annotations with another prefix: names after it, with their values.
    pub(crate) fn with_prefix(&self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let annotations = self.ingress.object.metadata.annotations.iter().flatten();
        annotations.filter_map(move |(name, value)| {
            Some((name.strip_prefix(prefix)?.strip_prefix('/')?, value.trim()))
        })
    }

    /// As [`Self::all`], without trimming.
    pub(crate) fn untrimmed(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let prefix = self.prefix;
        let annotations = self.ingress.object.metadata.annotations.iter().flatten();
        annotations.filter_map(move |(name, value)| {
            Some((name.strip_prefix(prefix)?.strip_prefix('/')?, value.as_str()))
        })
    }

    /// The origin of an annotation.
    pub(crate) fn at(&self, name: &str) -> Origin {
        self.field_origin(&format!("metadata.annotations[\"{}/{name}\"]", self.prefix))
    }

    /// The origin of a field.
    pub(crate) fn field_origin(&self, field: &str) -> Origin {
        self.ingress.origin(Kind::Ingress, self.key, field)
    }

    /// Whether it has a default backend and no rules: then it serves requests that no host serves.
    pub(crate) fn is_catch_all(&self) -> bool {
        let spec = self.ingress.object.spec.as_ref();
        spec.is_some_and(|spec| {
            spec.rules.as_ref().is_none_or(Vec::is_empty) && spec.default_backend.is_some()
        })
    }

    /// Adds a diagnostic.
    pub(crate) fn report(&mut self, found: Diagnostic) {
        // An annotation may be read for the endpoints and again for the external service.
        if !self.diagnostics.contains(&found) {
            self.diagnostics.push(found);
        }
    }

    /// Reports an invalid annotation.
    pub(crate) fn invalid(&mut self, name: &str, problem: impl Into<String>, consequence: impl Into<String>) {
        let found = Diagnostic::new(Severity::Warning, "invalid-annotation", self.at(name));
        self.report(found.because(problem, consequence));
    }

    /// A boolean; `default` if it is absent or invalid.
    pub(crate) fn switch(&mut self, name: &str, default: bool) -> bool {
        let Some(value) = self.value(name) else { return default };
        parse_bool(value).unwrap_or_else(|| {
            self.invalid(
                name,
                format!("\"{value}\" is neither true nor false"),
                format!("it counts as {default}"),
            );
            default
        })
    }

    /// An integer in `range`; `None` if it is absent or invalid.
    pub(crate) fn number(&mut self, name: &str, range: std::ops::RangeInclusive<u64>) -> Option<u64> {
        let value = self.value(name)?;
        let number = value.parse().ok().filter(|number| range.contains(number));
        if number.is_none() {
            let expected = format!("a whole number from {} to {}", range.start(), range.end());
            self.invalid(name, format!("\"{value}\" is not {expected}"), "the default is used");
        }
        number
    }
}
