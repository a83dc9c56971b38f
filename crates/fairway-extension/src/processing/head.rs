//! Changes of a head.

use fairway_http::Head;

use crate::change::{HeaderChange, apply};

/// How the length of a body changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyLength {
    /// As the head announces.
    #[default]
    Unchanged,
    /// Unknown: `Content-Length` is removed.
    Unknown,
    /// This number of bytes.
    Exact(u64),
    /// There is no body.
    None,
}

/// Changes of a head, all of them allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeadChange {
    pub(super) changes: Vec<HeaderChange>,
    /// The new path and query of a request.
    pub path: Option<Vec<u8>>,
    /// The new method of a request.
    pub method: Option<Vec<u8>>,
    /// The new status of a response; [`HeadChange::apply`] sets it.
    pub status: Option<u16>,
    /// The length of the body; whoever writes the head sets the framing.
    pub length: BodyLength,
}

impl HeadChange {
    /// Whether nothing changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == HeadChange::default()
    }

    /// The header changes, in order.
    #[must_use]
    pub fn headers(&self) -> &[HeaderChange] {
        &self.changes
    }

    /// Applies the header changes, and the status of a response. Path, method and framing are left to the caller.
    pub fn apply(&self, head: &mut Head) {
        apply(&self.changes, head);
        if let Some(status) = self.status.filter(|_| head.status() != 0) {
            head.set_status(status);
        }
    }
}
