//! Checks for any input, called by the property tests, the fuzz targets and the rerun of their corpora. Each panics if
//! it fails.

mod body;
mod head;
mod path;

pub(crate) use body::chunked;
pub(crate) use head::{request, response};
pub(crate) use path::path;
