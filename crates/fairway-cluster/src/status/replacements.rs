//! Which Gateway API statuses this process wrote, and which of them another writer replaced. Distinguishes replacements from
//! other changes; does not decide what a status says. Pure; the time is passed in.
//!
//! A status counts as replaced if this process wrote it, would write the same for the same generation of the object, and finds
//! something else. Later writes of this process, writes of an earlier leader, and entries of other controllers elsewhere in the
//! status do not count.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_objects::diagnostic::Diagnostic;
use fairway_objects::object::ObjectRef;
use tokio::time::Instant;

use super::contending_writer::WriterConflict;
use super::statement::FieldNames;

/// All conflicts; initially none.
#[derive(Debug, Default)]
pub(crate) struct WriterConflicts {
    /// Statuses that this process wrote and would write again, with the fields that the API server dropped.
    own_fields: BTreeMap<ObjectRef, FieldNames>,
    /// Statuses that were replaced.
    replaced: BTreeMap<ObjectRef, WriterConflict>,
}

/// What is known about a status before it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LastWritten {
    /// This process wrote it and would write it again. The API server dropped these fields: its CRD lacks them.
    Own(FieldNames),
    /// Its writer is unknown.
    Unknown,
}

impl LastWritten {
    /// Whether another writer replaced the status, given the fields that differ.
    pub(crate) fn is_replaced(&self, differing: &FieldNames) -> bool {
        match self {
            Self::Own(lost) => !differing.is_subset(lost),
            Self::Unknown => false,
        }
    }
}

impl WriterConflicts {
    /// What is known about the status of an object.
    pub(crate) fn last_written(&self, object: &ObjectRef) -> LastWritten {
        self.own_fields.get(object).map_or(LastWritten::Unknown, |lost| LastWritten::Own(lost.clone()))
    }

    /// This process wrote the desired status; the API server dropped the fields `lost`.
    pub(crate) fn record_written(&mut self, object: &ObjectRef, lost: FieldNames) {
        self.own_fields.insert(object.clone(), lost);
    }

    /// The desired status changed.
    pub(crate) fn forget_written(&mut self, object: &ObjectRef) {
        self.own_fields.remove(object);
    }

    /// Another writer, possibly named `by`, replaced the status. Returns when it may be written again.
    pub(crate) fn record_replacement(
        &mut self,
        object: &ObjectRef,
        by: Option<&Arc<str>>,
        now: Instant,
    ) -> Instant {
        self.own_fields.remove(object);
        let contest = self.replaced.entry(object.clone()).or_default();
        contest.record_replacement(now);
        if let Some(manager) = by {
            contest.set_other_writer(manager);
        }
        contest.pause_until().unwrap_or(now)
    }

    /// The object is gone.
    pub(crate) fn forget(&mut self, object: &ObjectRef) {
        self.own_fields.remove(object);
        self.replaced.remove(object);
    }

    /// The current conflicts; forgets those that are over.
    pub(crate) fn diagnostics(&mut self, now: Instant) -> Vec<Diagnostic> {
        self.replaced.retain(|_, contest| !contest.is_over(now));
        let replaced = self.replaced.iter();
        replaced.filter_map(|(object, contest)| contest.diagnostic(object.kind, &object.key, now)).collect()
    }
}
