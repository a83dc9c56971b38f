//! What could not be compiled.

use std::fmt;

use fairway_model::Origin;

/// Something that could not be compiled. Nothing but what the text names is affected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What wrote it.
    pub origin: Origin,
    /// What is wrong and what happens now.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.text)
    }
}
