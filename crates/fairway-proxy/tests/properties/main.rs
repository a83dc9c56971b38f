//! Property tests of this crate's parsers and writers that need no socket, and the committed corpora of their fuzz targets.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use fairway_proxy::log;

mod log_checks;
mod log_line;
