//! What of bodies and heads is held: `proxy-request-buffering`, `proxy-buffering` and their sizes, and the room for the head of an
//! answer. Bodies are held where an annotation or a key asks for it, also for those of requests: the default of ingress-nginx is not
//! taken over (docs/buffering.md).

use fairway_model::{AnswerBounds, BodyBuffer, Buffering, Forwarding};
use fairway_objects::annotations::text;
use fairway_objects::buffering::{
    MAX_MEMORY, REQUEST_DISK, REQUEST_MEMORY, RESPONSE_BUFFER, RESPONSE_BUFFERS, RESPONSE_DISK,
};
use fairway_objects::diagnostic::{Diagnostic, Severity};

use crate::ingress::annotations::family::{Family, Known, differs, done, needless};
use crate::ingress::context::Context;
use crate::ingress::reader::Reader;
use crate::ingress::values::{count, is_on, value};

/// The family.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, context, contributions| {
    let head = value(reader, &context.defaults.values, HEAD, text::bytes).unwrap_or_default();
    if head > MOST_HEAD {
        let problem = format!("{head} bytes are more than the head of an answer may have");
        reader.invalid(HEAD, problem, format!("it may have {MOST_HEAD}"));
    }
    if head > USUAL_HEAD {
        let head = u32::try_from(head.min(MOST_HEAD)).expect("the most is less");
        contributions.added.add(AnswerBounds { head, rate: None });
    }
    let buffering = Buffering {
        requests: requests(reader, context, contributions.policy.max_body),
        responses: responses(reader, context),
    };
    contributions.added.add(Forwarding { buffering, ..Forwarding::default() });
    Ok(())
});

const HEAD: &str = "proxy-buffer-size";
/// What the head of an answer may have anyway.
const USUAL_HEAD: u64 = 32 << 10;
/// The most that is given to one.
const MOST_HEAD: u64 = 1 << 20;

const ANNOTATIONS: &[Known] = &[
    differs(
        "client-body-buffer-size",
        "1 MiB at most; it has an effect with `proxy-request-buffering: \"on\"` only",
    ),
    differs(
        HEAD,
        "the head of a response may have 32 KiB with less, too, and 1 MiB at most; that of a backend with HTTP/2 has 32 KiB",
    ),
    differs(
        "proxy-buffering",
        "the rest of a response is read ahead of a slow client; a client that keeps up gets it as it comes",
    ),
    done("proxy-buffers-number"),
    needless("proxy-busy-buffers-size", "a client gets what it takes"),
    done("proxy-max-temp-file-size"),
    differs(
        "proxy-request-buffering",
        "off unless it is set: request bodies are streamed to the backend by default",
    ),
];

/// Where the bodies of requests are held, of which none is larger than `max_body`.
fn requests(reader: &mut Reader<'_>, context: &Context<'_>, max_body: Option<u64>) -> Option<BodyBuffer> {
    const SWITCH: &str = "proxy-request-buffering";
    const SIZE: &str = "client-body-buffer-size";
    let values = &context.defaults.values;
    if value(reader, values, SWITCH, is_on) != Some(true) {
        without_effect(reader, SIZE, SWITCH, "request bodies are streamed");
        return None;
    }
    let size = value(reader, values, SIZE, text::bytes).unwrap_or(REQUEST_MEMORY);
    let memory = memory(reader, SIZE, size);
    let disk = max_body.map_or(REQUEST_DISK, |most| most.saturating_sub(memory.into()));
    Some(BodyBuffer { memory, disk })
}

/// Where the bodies of answers are held.
fn responses(reader: &mut Reader<'_>, context: &Context<'_>) -> Option<BodyBuffer> {
    const SWITCH: &str = "proxy-buffering";
    const NUMBER: &str = "proxy-buffers-number";
    const DISK: &str = "proxy-max-temp-file-size";
    let values = &context.defaults.values;
    if value(reader, values, SWITCH, is_on) != Some(true) {
        for name in [NUMBER, DISK] {
            without_effect(reader, name, SWITCH, "responses are streamed");
        }
        return None;
    }
    let number = value(reader, values, NUMBER, count).unwrap_or(RESPONSE_BUFFERS);
    let size = value(reader, values, HEAD, text::bytes).unwrap_or(RESPONSE_BUFFER);
    let memory = memory(reader, NUMBER, size.saturating_mul(number.into()));
    let disk = value(reader, values, DISK, text::bytes).unwrap_or(RESPONSE_DISK);
    Some(BodyBuffer { memory, disk })
}

/// As much of it as one body is given.
fn memory(reader: &mut Reader<'_>, name: &str, bytes: u64) -> u32 {
    if bytes > MAX_MEMORY {
        let problem = format!("{bytes} bytes are more memory than a body may have");
        reader.invalid(name, problem, format!("it has {MAX_MEMORY}"));
    }
    u32::try_from(bytes.min(MAX_MEMORY)).expect("the most is less")
}

/// Whoever sets a size relies on buffers that are not there.
fn without_effect(reader: &mut Reader<'_>, name: &str, switch: &str, instead: &str) {
    if reader.value(name).is_some() {
        let found = Diagnostic::new(Severity::Note, "streamed-bodies", reader.at(name));
        let problem = format!("{instead} unless {switch} is \"on\"");
        reader.report(found.because(problem, "the size has no effect"));
    }
}
