//! What every reader of objects may look at. Owns nothing.

use crate::options::Options;
use crate::resources::Resources;

/// The objects and the operator's choices.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    pub(crate) resources: &'a Resources,
    pub(crate) options: &'a Options,
}
