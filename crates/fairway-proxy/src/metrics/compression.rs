//! Bytes of the responses that were compressed, before and after.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use fairway_model::ContentCoding;

/// The bodies that got one coding.
#[derive(Default)]
pub struct Volume {
    /// Bytes from endpoints.
    pub before: Cell<u64>,
    /// Bytes to clients.
    pub after: Cell<u64>,
}

/// Of one worker, by coding.
#[derive(Default)]
pub struct CompressedBytes {
    brotli: Rc<Volume>,
    gzip: Rc<Volume>,
    zstd: Rc<Volume>,
}

impl CompressedBytes {
    /// Where the bodies that get a coding are counted.
    pub fn of(&self, coding: ContentCoding) -> Rc<Volume> {
        Rc::clone(match coding {
            ContentCoding::Brotli => &self.brotli,
            ContentCoding::Gzip => &self.gzip,
            ContentCoding::Zstd => &self.zstd,
        })
    }

    /// What was counted, by coding and side.
    pub(crate) fn counted(&self) -> BTreeMap<(&'static str, &'static str), u64> {
        let codings = [ContentCoding::Brotli, ContentCoding::Gzip, ContentCoding::Zstd];
        let of = |coding: ContentCoding| {
            let volume = self.of(coding);
            let side = |side, bytes: &Cell<u64>| ((coding.name(), side), bytes.get());
            [side("endpoint", &volume.before), side("client", &volume.after)]
        };
        codings.into_iter().flat_map(of).collect()
    }
}
