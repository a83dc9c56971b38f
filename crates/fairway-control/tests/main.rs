//! Every integration test of this crate in one program, which is linked once; a file is a subject.

mod admin;
mod any_manifest;
mod checks;
mod pipeline;
mod webhook;
