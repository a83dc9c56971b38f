//! Bytes of compressed responses, before and after.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use fairway_model::ContentCoding;

/// Bytes of bodies with one content coding.
#[derive(Default)]
pub struct CodingBytes {
    /// Bytes from endpoints, before compression.
    pub before: Cell<u64>,
    /// Bytes to clients, after compression.
    pub after: Cell<u64>,
}

/// Bytes of one worker by coding.
#[derive(Default)]
pub struct CompressedBytes {
    brotli: Rc<CodingBytes>,
    gzip: Rc<CodingBytes>,
    zstd: Rc<CodingBytes>,
}

impl CompressedBytes {
    /// The counter of a coding.
    pub fn for_coding(&self, coding: ContentCoding) -> Rc<CodingBytes> {
        Rc::clone(match coding {
            ContentCoding::Brotli => &self.brotli,
            ContentCoding::Gzip => &self.gzip,
            ContentCoding::Zstd => &self.zstd,
        })
    }

    /// Counts by coding and side.
    pub(crate) fn counted(&self) -> BTreeMap<(&'static str, &'static str), u64> {
        let codings = [ContentCoding::Brotli, ContentCoding::Gzip, ContentCoding::Zstd];
        let counters_of = |coding: ContentCoding| {
            let volume = self.for_coding(coding);
            let side = |side, bytes: &Cell<u64>| ((coding.name(), side), bytes.get());
            [side("endpoint", &volume.before), side("client", &volume.after)]
        };
        codings.into_iter().flat_map(counters_of).collect()
    }
}
