//! The fields to search for in HTTP/3 field sections, encoded once.

use super::qpack::Needle;

/// The expected fields of responses.
pub(super) struct Sought {
    pub(super) status: Needle,
    pub(super) length: Needle,
    pub(super) header: Option<(Needle, Needle)>,
    pub(super) trailer: Option<(Needle, Needle)>,
}

impl Sought {
    /// A header and a trailer, each with its value.
    pub(super) fn new(header: Option<&(String, String)>, trailer: Option<&(String, String)>) -> Self {
        let needles =
            |field: &(String, String)| (Needle::new(&field.0.to_ascii_lowercase()), Needle::new(&field.1));
        Self {
            status: Needle::new(":status"),
            length: Needle::new("content-length"),
            header: header.map(needles),
            trailer: trailer.map(needles),
        }
    }
}
