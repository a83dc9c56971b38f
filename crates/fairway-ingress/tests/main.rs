//! All integration tests of this crate in one program, to link only once; one file per subject.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

mod annotations_doc;
mod annotations_read;
mod any_rules;
mod diagnostics;
mod gateway;
mod gateway_incremental;
mod gateway_scale;
mod golden;
mod incremental;
mod patterns;
mod rules;
mod settings_keys;
mod shared_services;
mod support;
