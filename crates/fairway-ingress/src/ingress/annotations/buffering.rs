//! What nginx stores of bodies and heads: `proxy-buffer*` and the like. Fairway streams; of all these only the room for the
//! head of an answer can be seen from outside.

use fairway_model::AnswerBounds;
use fairway_objects::annotations::text;

use crate::ingress::annotations::family::{Family, Known, differs, needless};
use crate::ingress::values::value;

/// The family.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, context, contributions| {
    let size = value(reader, &context.defaults.values, "proxy-buffer-size", text::bytes).unwrap_or_default();
    if size > MOST {
        let problem = format!("{size} bytes are more than the head of an answer may have");
        reader.invalid("proxy-buffer-size", problem, format!("it may have {MOST}"));
    }
    if size > USUAL {
        let head = u32::try_from(size.min(MOST)).expect("the most is less");
        contributions.added.add(AnswerBounds { head, rate: None });
    }
    Ok(())
});

/// What the head of an answer may have anyway.
const USUAL: u64 = 32 << 10;
/// The most that is given to one.
const MOST: u64 = 1 << 20;

const ANNOTATIONS: &[Known] = &[
    needless("client-body-buffer-size", "request bodies are streamed, never stored"),
    differs(
        "proxy-buffer-size",
        "the head of a response may have 32 KiB with less, too, and 1 MiB at most; that of a backend with HTTP/2 has 32 KiB",
    ),
    needless(
        "proxy-buffering",
        "the response is streamed to the client while it arrives, so a slow client keeps its backend busy",
    ),
    needless("proxy-buffers-number", "responses are streamed, never stored"),
    needless("proxy-busy-buffers-size", "responses are streamed, never stored"),
    needless("proxy-max-temp-file-size", "responses are streamed, never stored"),
    needless(
        "proxy-request-buffering",
        "the request body is streamed to the backend while it arrives, so a slow client keeps its backend busy",
    ),
];
