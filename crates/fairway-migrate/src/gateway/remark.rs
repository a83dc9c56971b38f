//! What is said of an Ingress that moves: what differs afterwards and what is lost. Owns the words for it; finds nothing.

use std::collections::BTreeMap;

use fairway_objects::object::ObjectKey;
use serde::Serialize;

/// What becomes of something, from the best to the worst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// The objects of the Gateway API ask for the same.
    #[default]
    Same,
    /// They ask for something close to it.
    Differs,
    /// They do not ask for it.
    Lost,
}

impl Fate {
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

/// What is said of an Ingress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remark {
    /// How bad it is.
    pub fate: Fate,
    /// The annotations that it is about, by their names without prefix; none where it is about the Ingress as such.
    #[serde(skip)]
    pub about: &'static [&'static str],
    /// What differs or is lost, and what happens instead.
    pub what: String,
}

impl Remark {
    /// Something that is known only now to be the same.
    pub(crate) fn same(about: &'static [&'static str]) -> Self {
        Self { fate: Fate::Same, about, what: String::new() }
    }

    /// Something is close to what it was.
    pub(crate) fn differs(about: &'static [&'static str], what: impl Into<String>) -> Self {
        Self { fate: Fate::Differs, about, what: what.into() }
    }

    /// Something is gone.
    pub(crate) fn lost(about: &'static [&'static str], what: impl Into<String>) -> Self {
        Self { fate: Fate::Lost, about, what: what.into() }
    }
}

/// What is said of all Ingresses, each thing once.
#[derive(Debug, Default)]
pub(crate) struct Remarks {
    of: BTreeMap<ObjectKey, Vec<Remark>>,
    general: Vec<&'static str>,
}

impl Remarks {
    /// Says something of an Ingress.
    pub(crate) fn add(&mut self, ingress: &ObjectKey, remark: Remark) {
        let said = self.of.entry(ingress.clone()).or_default();
        if !said.contains(&remark) {
            said.push(remark);
        }
    }

    /// Says several things.
    pub(crate) fn extend(&mut self, ingress: &ObjectKey, remarks: impl IntoIterator<Item = Remark>) {
        remarks.into_iter().for_each(|remark| self.add(ingress, remark));
    }

    /// Says what holds for all Ingresses.
    pub(crate) fn add_general(&mut self, what: &'static str) {
        if !self.general.contains(&what) {
            self.general.push(what);
        }
    }

    /// What was said of one, the worst first.
    pub(crate) fn take(&mut self, ingress: &ObjectKey) -> Vec<Remark> {
        let mut said = self.of.remove(ingress).unwrap_or_default();
        said.sort_by(|one, other| (other.fate, &one.what).cmp(&(one.fate, &other.what)));
        said
    }

    /// What was said of all.
    pub(crate) fn general(&self) -> &[&'static str] {
        &self.general
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_is_said_once_and_the_worst_first() {
        let (key, mut remarks) = (ObjectKey::new("shop", "web"), Remarks::default());
        for _ in 0..2 {
            remarks.add(&key, Remark::differs(&["b"], "close"));
            remarks.add(&key, Remark::lost(&["a"], "gone"));
            remarks.add_general("all");
        }
        let said: Vec<_> = remarks.take(&key).into_iter().map(|remark| remark.what).collect();
        assert_eq!(said, ["gone", "close"]);
        assert_eq!((remarks.take(&key).len(), remarks.general()), (0, &["all"][..]));
    }
}
