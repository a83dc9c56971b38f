//! The inputs of everything that reads objects.

use crate::options::Options;
use crate::resources::Resources;

/// The objects and the operator's options.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    /// The objects.
    pub resources: &'a Resources,
    /// The options.
    pub options: &'a Options,
}
