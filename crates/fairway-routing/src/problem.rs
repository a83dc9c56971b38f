//! What could not be compiled.

use std::fmt;

use fairway_model::Origin;

/// Something that could not be compiled. It affects nothing but what the text names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its origin.
    pub origin: Origin,
    /// What is wrong and what happens instead.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.text)
    }
}
