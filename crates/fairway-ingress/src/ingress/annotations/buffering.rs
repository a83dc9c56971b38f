//! Buffering: `proxy-request-buffering`, `proxy-buffering` and their sizes, and the size of response heads. Bodies,
//! including request bodies, are buffered only if an annotation or key asks for it: the default of ingress-nginx is
//! not adopted (docs/buffering.md).

use fairway_model::{BodyBuffer, Buffering, Forwarding, ResponseLimits};
use fairway_objects::annotations::text;
use fairway_objects::buffering::{
    MAX_MEMORY, REQUEST_DISK, REQUEST_MEMORY, RESPONSE_BUFFER, RESPONSE_BUFFERS, RESPONSE_DISK,
};
use fairway_objects::diagnostic::{Diagnostic, Severity};

use crate::ingress::annotations::family::{Family, KnownAnnotation, differs, needless, supported};
use crate::ingress::context::Context;
use crate::ingress::reader::Reader;
use crate::ingress::values::{count, is_on, value};

/// The family.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, context, contributions| {
    let head = value(reader, &context.defaults.values, HEAD_SIZE, text::parse_size).unwrap_or_default();
    if head > MAX_HEAD_BYTES {
        let problem = format!("{head} bytes are more than the head of an answer may have");
        reader.invalid(HEAD_SIZE, problem, format!("it may have {MAX_HEAD_BYTES}"));
    }
    if head > DEFAULT_HEAD_BYTES {
        let head = u32::try_from(head.min(MAX_HEAD_BYTES)).expect("the most is less");
        contributions.added.add(ResponseLimits { head, rate: None });
    }
    let buffering = Buffering {
        requests: requests(reader, context, contributions.policy.max_body),
        responses: responses(reader, context),
    };
    contributions.added.add(Forwarding { buffering, ..Forwarding::default() });
    Ok(())
});

const HEAD_SIZE: &str = "proxy-buffer-size";
/// Response head size that is always allowed.
const DEFAULT_HEAD_BYTES: u64 = 32 << 10;
/// Maximum response head size.
const MAX_HEAD_BYTES: u64 = 1 << 20;

const ANNOTATIONS: &[KnownAnnotation] = &[
    differs("client-body-buffer-size", "at most 1 MiB; only with `proxy-request-buffering: \"on\"`"),
    differs(HEAD_SIZE, "32 KiB to 1 MiB; HTTP/2 backends: 32 KiB"),
    differs("proxy-buffering", "reads ahead of slow clients only"),
    supported("proxy-buffers-number"),
    needless("proxy-busy-buffers-size", "there are no such buffers"),
    supported("proxy-max-temp-file-size"),
    differs("proxy-request-buffering", "off by default: bodies are streamed"),
];

/// Buffering of request bodies, limited to `max_body`.
fn requests(reader: &mut Reader<'_>, context: &Context<'_>, max_body: Option<u64>) -> Option<BodyBuffer> {
    const SWITCH: &str = "proxy-request-buffering";
    const SIZE: &str = "client-body-buffer-size";
    let values = &context.defaults.values;
    if value(reader, values, SWITCH, is_on) != Some(true) {
        report_without_effect(reader, SIZE, SWITCH, "request bodies are streamed");
        return None;
    }
    let size = value(reader, values, SIZE, text::parse_size).unwrap_or(REQUEST_MEMORY);
    let memory = memory(reader, SIZE, size);
    let disk = max_body.map_or(REQUEST_DISK, |most| most.saturating_sub(memory.into()));
    Some(BodyBuffer { memory, disk })
}

/// Buffering of response bodies.
fn responses(reader: &mut Reader<'_>, context: &Context<'_>) -> Option<BodyBuffer> {
    const SWITCH: &str = "proxy-buffering";
    const NUMBER: &str = "proxy-buffers-number";
    const DISK: &str = "proxy-max-temp-file-size";
    let values = &context.defaults.values;
    if value(reader, values, SWITCH, is_on) != Some(true) {
        for name in [NUMBER, DISK] {
            report_without_effect(reader, name, SWITCH, "responses are streamed");
        }
        return None;
    }
    let number = value(reader, values, NUMBER, count).unwrap_or(RESPONSE_BUFFERS);
    let size = value(reader, values, HEAD_SIZE, text::parse_size).unwrap_or(RESPONSE_BUFFER);
    let memory = memory(reader, NUMBER, size.saturating_mul(number.into()));
    let disk = value(reader, values, DISK, text::parse_size).unwrap_or(RESPONSE_DISK);
    Some(BodyBuffer { memory, disk })
}

/// Limits a buffer size to the maximum memory per body.
fn memory(reader: &mut Reader<'_>, name: &str, bytes: u64) -> u32 {
    if bytes > MAX_MEMORY {
        let problem = format!("{bytes} bytes are more memory than a body may have");
        reader.invalid(name, problem, format!("it has {MAX_MEMORY}"));
    }
    u32::try_from(bytes.min(MAX_MEMORY)).expect("the most is less")
}

/// Warns about a size without buffering, because its author relies on buffers that do not exist.
fn report_without_effect(reader: &mut Reader<'_>, name: &str, switch: &str, instead: &str) {
    if reader.value(name).is_some() {
        let found = Diagnostic::new(Severity::Note, "streamed-bodies", reader.at(name));
        let problem = format!("{instead} unless {switch} is \"on\"");
        reader.report(found.because(problem, "the size has no effect"));
    }
}
