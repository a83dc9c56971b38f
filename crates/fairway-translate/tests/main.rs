//! Every integration test of this crate in one program, which is linked once; a file is a subject.

mod annotations_doc;
mod annotations_read;
mod diagnostics;
mod gateway;
mod gateway_incremental;
mod gateway_scale;
mod golden;
mod incremental;
mod patterns;
mod settings_keys;
mod shared_services;
mod support;
