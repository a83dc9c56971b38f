//! Compression of responses: chooses the content coding, adjusts the head, and provides the compressors as body steps.
//! [`Compression`] has the configuration.

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
pub(crate) use head::{is_invalidated, repeat_weak_etag};

use self::counted::CountedCompressor;
use crate::body_steps::BodySteps;
use crate::memory_share::MemoryPool;
use crate::metrics::CompressedBytes;

/// Starts the compression of an endpoint's response if its client accepts it, and adjusts its head.
///
/// A response that other clients would get compressed gets `Vary`, too, so that caches do not give it to the wrong client. All
/// compressors in `memory` together take at most `max_memory_bytes`; without room a response is not compressed.
pub(crate) fn start(
    compression: &Compression,
    accepted: Accepted,
    response: &mut Head,
    body: &mut BodySize,
    counted: &CompressedBytes,
    (memory, max_memory_bytes): (&MemoryPool, u64),
) -> Option<Box<BodySteps>> {
    let length = match *body {
        BodySize::None => return None,
        BodySize::Exact(length) => Some(length),
        BodySize::Unknown => None,
    };
    let coding = choose(compression, accepted, response, length)?;
    let share = memory.reserve(compressors::max_bytes(coding), max_memory_bytes)?;
    let step = compressors::start(coding, length)?;
    head::set_coding(response, coding.coding);
    *body = BodySize::Unknown;
    let volume = counted.for_coding(coding.coding);
    Some(BodySteps::from_step(CountedCompressor { step, volume, _share: share }))
}

/// Gives the response to HEAD the head of the response to GET, as in nginx: "The server SHOULD send the same header fields"
/// (RFC 9110 §9.3.2). A cache may compare the two (RFC 9111 §4.3.5).
pub(crate) fn describe_for_head_request(compression: &Compression, accepted: Accepted, response: &mut Head) {
    let length = response.first(Known::ContentLength);
    let length = length.and_then(|length| str::from_utf8(length).ok()?.parse().ok());
    if let Some(chosen) = choose(compression, accepted, response, length) {
        head::set_coding(response, chosen.coding);
    }
}

/// The coding for a response with a body of this length; an unknown length is long enough.
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
    let coding = accepted.choose(possible);
    head::vary_by_encoding(response);
    coding
}
