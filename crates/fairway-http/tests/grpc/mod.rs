//! One file per subject.

mod checks;
mod corpus;
mod frames;
