//! The tests of one part; a file is a subject.

mod checks;
mod corpus;
mod properties;
