//! Which statuses of objects of the Gateway API this process wrote, and which of them another writer has replaced. Owns
//! how a replacement is told from other changes; never decides what a status says. Pure; the time is passed in.
//!
//! A status counts as replaced if this process wrote it, would write the same for the same generation of the object, and
//! finds something else. Later writes of this process, writes of an earlier leader, and what other controllers write
//! elsewhere in the status do not count.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_objects::diagnostic::Diagnostic;
use fairway_objects::object::ObjectRef;
use tokio::time::Instant;

use super::contest::Contest;
use super::statement::Fields;

/// All of them. A new one is at peace with everybody.
#[derive(Debug, Default)]
pub(crate) struct Contests {
    /// Statuses that this process wrote and would write again, with the fields that the API server did not keep.
    own: BTreeMap<ObjectRef, Fields>,
    /// Statuses that were replaced.
    replaced: BTreeMap<ObjectRef, Contest>,
}

/// What is known of a status before it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// This process wrote it and would write it again. The API server did not keep these fields: its CRD lacks them.
    Own(Fields),
    /// Anybody may have written it.
    Unknown,
}

impl Before {
    /// Whether another writer has replaced the status, if these of its fields do not say what they should.
    pub(crate) fn is_replaced(&self, differing: &Fields) -> bool {
        match self {
            Self::Own(lost) => !differing.is_subset(lost),
            Self::Unknown => false,
        }
    }
}

impl Contests {
    /// What is known of the status of an object.
    pub(crate) fn before(&self, object: &ObjectRef) -> Before {
        self.own.get(object).map_or(Before::Unknown, |lost| Before::Own(lost.clone()))
    }

    /// This process wrote what the status should say; of that, the API server did not keep the fields `lost`.
    pub(crate) fn wrote(&mut self, object: &ObjectRef, lost: Fields) {
        self.own.insert(object.clone(), lost);
    }

    /// The status should say something else from now on.
    pub(crate) fn outdated(&mut self, object: &ObjectRef) {
        self.own.remove(object);
    }

    /// Another writer, perhaps `by` this name, has replaced the status. Gives when it may be written again.
    pub(crate) fn replaced(&mut self, object: &ObjectRef, by: Option<&Arc<str>>, now: Instant) -> Instant {
        self.own.remove(object);
        let contest = self.replaced.entry(object.clone()).or_default();
        contest.replaced(now);
        if let Some(manager) = by {
            contest.by(manager);
        }
        contest.pause_until().unwrap_or(now)
    }

    /// The object is gone.
    pub(crate) fn forget(&mut self, object: &ObjectRef) {
        self.own.remove(object);
        self.replaced.remove(object);
    }

    /// What there is to say; what is over is forgotten.
    pub(crate) fn diagnostics(&mut self, now: Instant) -> Vec<Diagnostic> {
        self.replaced.retain(|_, contest| !contest.is_over(now));
        let replaced = self.replaced.iter();
        replaced.filter_map(|(object, contest)| contest.diagnostic(object.kind, &object.key, now)).collect()
    }
}
