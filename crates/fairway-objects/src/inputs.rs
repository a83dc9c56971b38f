//! What every reader of objects may look at. Owns nothing.

use crate::options::Options;
use crate::resources::Resources;

/// The objects and the operator's choices.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    /// The objects.
    pub resources: &'a Resources,
    /// The choices.
    pub options: &'a Options,
}
