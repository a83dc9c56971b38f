//! What holds for any input: called by the property tests, by the fuzz targets and by the rerun of their
//! corpora. Each panics when it does not hold. Never generates inputs.

mod body;
mod head;
mod path;

pub(crate) use body::chunked;
pub(crate) use head::{request, response};
pub(crate) use path::path;
