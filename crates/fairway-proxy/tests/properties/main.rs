//! What holds for any input of a parser or writer of this crate that no socket is needed for, and the committed corpora of their
//! fuzz targets.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use fairway_proxy::log;

mod log_checks;
mod log_line;
