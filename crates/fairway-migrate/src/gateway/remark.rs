//! Remarks on converted Ingresses: what differs and what is lost.

use std::collections::BTreeMap;

use fairway_objects::object::ObjectKey;
use serde::Serialize;

/// The outcome of the conversion of an Ingress or annotation, from the best to the worst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The Gateway API objects are equivalent.
    #[default]
    Same,
    /// The Gateway API objects behave similarly.
    Differs,
    /// The Gateway API objects do not express it.
    Lost,
}

impl Outcome {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Differs => "differs",
            Self::Lost => "lost",
        }
    }
}

/// A remark on an Ingress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remark {
    /// The outcome.
    pub fate: Outcome,
    /// The annotations that it concerns, by name without prefix; empty if it concerns the Ingress as a whole.
    #[serde(skip)]
    pub about: &'static [&'static str],
    /// What differs or is lost, and what happens instead.
    pub what: String,
}

impl Remark {
    /// A remark that annotations turned out to be equivalent.
    pub(crate) fn same(about: &'static [&'static str]) -> Self {
        Self { fate: Outcome::Same, about, what: String::new() }
    }

    /// A remark on a difference.
    pub(crate) fn differs(about: &'static [&'static str], text: impl Into<String>) -> Self {
        Self { fate: Outcome::Differs, about, what: text.into() }
    }

    /// A remark on a loss.
    pub(crate) fn lost(about: &'static [&'static str], text: impl Into<String>) -> Self {
        Self { fate: Outcome::Lost, about, what: text.into() }
    }
}

/// The remarks on all Ingresses, without duplicates.
#[derive(Debug, Default)]
pub(crate) struct Remarks {
    by_ingress: BTreeMap<ObjectKey, Vec<Remark>>,
    general: Vec<&'static str>,
}

impl Remarks {
    /// Adds a remark on an Ingress.
    pub(crate) fn add(&mut self, ingress: &ObjectKey, remark: Remark) {
        let known = self.by_ingress.entry(ingress.clone()).or_default();
        if !known.contains(&remark) {
            known.push(remark);
        }
    }

    /// Adds several remarks on an Ingress.
    pub(crate) fn extend(&mut self, ingress: &ObjectKey, remarks: impl IntoIterator<Item = Remark>) {
        remarks.into_iter().for_each(|remark| self.add(ingress, remark));
    }

    /// Adds a difference that applies to all Ingresses.
    pub(crate) fn add_general(&mut self, text: &'static str) {
        if !self.general.contains(&text) {
            self.general.push(text);
        }
    }

    /// Takes the remarks on an Ingress, the worst first.
    pub(crate) fn take(&mut self, ingress: &ObjectKey) -> Vec<Remark> {
        let mut found = self.by_ingress.remove(ingress).unwrap_or_default();
        found.sort_by(|one, other| (other.fate, &one.what).cmp(&(one.fate, &other.what)));
        found
    }

    /// The differences that apply to all Ingresses.
    pub(crate) fn general(&self) -> &[&'static str] {
        &self.general
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_are_unique_and_sorted_worst_first() {
        let (key, mut remarks) = (ObjectKey::new("shop", "web"), Remarks::default());
        for _ in 0..2 {
            remarks.add(&key, Remark::differs(&["b"], "close"));
            remarks.add(&key, Remark::lost(&["a"], "gone"));
            remarks.add_general("all");
        }
        let found: Vec<_> = remarks.take(&key).into_iter().map(|remark| remark.what).collect();
        assert_eq!(found, ["gone", "close"]);
        assert_eq!((remarks.take(&key).len(), remarks.general()), (0, &["all"][..]));
    }
}
