//! Every integration test of this crate in one program, which is linked once; a file is a subject.

mod checks;
mod corpus;
mod explain;
mod hosts;
mod incremental;
mod oracle;
mod precedence;
mod tables;
mod unserved;
