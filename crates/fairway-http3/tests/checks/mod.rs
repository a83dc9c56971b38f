//! What holds for any input, as the ordinary tests and the fuzz targets check it.

pub(crate) mod qpack;
pub(crate) mod server;
