//! Every integration test of this crate in one program, which is linked once; a file is a subject.

mod checks;
mod corpus;
mod properties;
