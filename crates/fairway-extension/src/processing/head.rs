//! What becomes of a head. Never decides what is allowed.

use fairway_http::Head;

use crate::change::{HeaderChange, apply};

/// What becomes of the length of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyLength {
    /// The body is the one that the head announces.
    #[default]
    Unchanged,
    /// It ends when it ends: `Content-Length` goes.
    Unknown,
    /// This many bytes.
    Exact(u64),
    /// There is no body.
    None,
}

/// Changes of a head, all of them allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeadChange {
    pub(super) changes: Vec<HeaderChange>,
    /// The path and query that a request gets.
    pub path: Option<Vec<u8>>,
    /// The method that a request gets.
    pub method: Option<Vec<u8>>,
    /// The status that a response gets; [`HeadChange::apply`] sets it.
    pub status: Option<u16>,
    /// What becomes of the body's length; whoever writes the head sets the framing.
    pub length: BodyLength,
}

impl HeadChange {
    /// Whether nothing changes, so that the head goes on as it is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == HeadChange::default()
    }

    /// The changes of headers, in their order.
    #[must_use]
    pub fn headers(&self) -> &[HeaderChange] {
        &self.changes
    }

    /// Applies the changes of headers, and the status to a response. Path, method and framing are left to the caller.
    pub fn apply(&self, head: &mut Head) {
        apply(&self.changes, head);
        if let Some(status) = self.status.filter(|_| head.status() != 0) {
            head.set_status(status);
        }
    }
}
