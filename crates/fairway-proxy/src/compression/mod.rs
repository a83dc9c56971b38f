//! Compression of responses: which of them get which content coding, what their heads say of it, and the compressors, which are
//! steps of bodies that stream. Owns no configuration: [`Compression`] says what may be compressed.

mod accepted;
#[cfg(test)]
pub(crate) mod checks;
mod compressors;
mod counted;
mod head;
#[cfg(test)]
pub(crate) mod tests;

use fairway_http::{BodySize, Head, Known};
use fairway_model::{CodingRule, Compression};

pub(crate) use accepted::Accepted;
pub(crate) use head::{is_made_wrong, repeat_weak_etag};

use self::counted::Counted;
use crate::body_steps::BodySteps;
use crate::memory_share::MemoryShares;
use crate::metrics::CompressedBytes;

/// Begins the compression of an endpoint's response where its client accepts that, and makes its head say so.
///
/// A response that another client would get compressed says that, too: `Vary` keeps caches from giving it to the wrong one. All compressors
/// in `memory` together take at most `most` bytes; a response for which there is no room goes as it came.
pub(crate) fn begin(
    compression: &Compression,
    accepted: Accepted,
    response: &mut Head,
    body: &mut BodySize,
    counted: &CompressedBytes,
    (memory, most): (&MemoryShares, u64),
) -> Option<Box<BodySteps>> {
    let length = match *body {
        BodySize::None => return None,
        BodySize::Exact(length) => Some(length),
        BodySize::Unknown => None,
    };
    let chosen = choose(compression, accepted, response, length)?;
    let share = memory.share(compressors::max_bytes(chosen), most)?;
    let step = compressors::start(chosen, length)?;
    head::set_coding(response, chosen.coding);
    *body = BodySize::Unknown;
    let volume = counted.of(chosen.coding);
    Some(BodySteps::of(Counted { step, volume, _share: share }))
}

/// Makes the head of a response to HEAD that of the response to GET, as in nginx: "The server SHOULD send the same header fields"
/// (RFC 9110 §9.3.2). A cache may compare the two (RFC 9111 §4.3.5).
pub(crate) fn describe(compression: &Compression, accepted: Accepted, response: &mut Head) {
    let length = response.first(Known::ContentLength);
    let length = length.and_then(|length| str::from_utf8(length).ok()?.parse().ok());
    if let Some(chosen) = choose(compression, accepted, response, length) {
        head::set_coding(response, chosen.coding);
    }
}

/// Which coding a response with a body of this length gets; without a length it is long enough.
fn choose<'r>(
    compression: &'r Compression,
    accepted: Accepted,
    response: &mut Head,
    length: Option<u64>,
) -> Option<&'r CodingRule> {
    if !head::may_be_coded(response) {
        return None;
    }
    let media_type = response.first(Known::ContentType);
    let is_possible = |rule: &&CodingRule| {
        length.is_none_or(|length| length > 0 && length >= rule.min_length) && rule.has_type(media_type)
    };
    let mut possible = compression.codings.iter().filter(is_possible).peekable();
    possible.peek()?;
    let chosen = accepted.choose(possible);
    head::vary_by_encoding(response);
    chosen
}
