//! Checks for any input, shared by tests and fuzz targets.

pub(crate) mod qpack;
pub(crate) mod server;
