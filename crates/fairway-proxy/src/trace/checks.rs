//! Checks for any bytes as trace headers: a parsed context is written back as received, and a slow second
//! parser agrees. Shared with a fuzz target.

use super::context::{B3, B3Context, B3Sampling, B3Values, TraceParent, is_state_in_bounds};

/// Checks header values, one per line of the input.
pub(crate) fn trace_context(input: &[u8]) {
    let values: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
    values.iter().for_each(|value| trace_parent(value));
    values.iter().for_each(|value| single(value));
    let at = |at: usize| values.get(at).copied().filter(|value| !value.is_empty());
    several(&B3Values {
        trace_id: at(0),
        span_id: at(1),
        parent_span_id: at(2),
        sampled: at(3),
        flags: at(4),
    });
    let unsplit = values.join(&b',');
    let is_short = unsplit.len() <= 512 && unsplit.split(|byte| *byte == b',').count() <= 32;
    assert_eq!(is_state_in_bounds(values.into_iter()), is_short, "{}", shown(&unsplit));
}

fn trace_parent(value: &[u8]) {
    let read = TraceParent::read(value);
    assert_eq!(read.is_some(), is_trace_parent(value), "{}", shown(value));
    let Some(read) = read else { return };
    let mut written = Vec::new();
    read.write(&mut written);
    assert_eq!(written.len(), 55);
    assert_eq!(written[3..52], value[3..52], "{}", shown(value));
    if value.starts_with(b"00") {
        assert_eq!(written, value, "{}", shown(value));
    }
    assert_eq!(read.is_sampled(), value[54] & 1 == u8::from(value[54].is_ascii_digit()), "{}", shown(value));
    assert_eq!(TraceParent::read(&written), Some(read), "{}", shown(value));
}

/// Byte by byte, as in the grammar.
fn is_trace_parent(value: &[u8]) -> bool {
    let mut parts = value.splitn(5, |byte| *byte == b'-');
    let mut next = || parts.next().unwrap_or_default();
    let (version, trace, parent, flags) = (next(), next(), next(), next());
    let suffix = value.get(55..).unwrap_or_default();
    let is_whole = match version {
        b"00" => suffix.is_empty(),
        b"ff" => false,
        _ => suffix.is_empty() || suffix[0] == b'-' && value.len() <= 512,
    };
    is_whole && is_hex(version, 2) && is_id(trace, 32) && is_id(parent, 16) && is_hex(flags, 2)
}

fn is_hex(text: &[u8], digits: usize) -> bool {
    text.len() == digits && text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_id(text: &[u8], digits: usize) -> bool {
    is_hex(text, digits) && text.iter().any(|byte| *byte != b'0')
}

fn single(value: &[u8]) {
    let read = B3::read(value);
    assert_eq!(read.is_some(), is_single(value), "{}", shown(value));
    if let Some(read) = read {
        let mut written = Vec::new();
        read.write(&mut written);
        assert_eq!(written, value, "{}", shown(value));
    }
}

fn is_single(value: &[u8]) -> bool {
    let is_sampling = |part: &[u8]| matches!(part, b"0" | b"1" | b"d");
    let parts: Vec<_> = value.split(|byte| *byte == b'-').collect();
    let is_trace = |part: &[u8]| is_id(part, 32) || is_id(part, 16);
    match parts[..] {
        [sampling] => is_sampling(sampling),
        [trace, span] => is_trace(trace) && is_id(span, 16),
        [trace, span, sampling] => is_trace(trace) && is_id(span, 16) && is_sampling(sampling),
        [trace, span, sampling, parent] => {
            is_trace(trace) && is_id(span, 16) && is_sampling(sampling) && is_id(parent, 16)
        }
        _ => false,
    }
}

fn several(values: &B3Values<'_>) {
    let Some(B3::Context(read)) = B3::read_values(values) else { return };
    let B3Context { span_id, parent_id, sampling, .. } = read;
    let mut trace_id = Vec::new();
    read.write_trace_id(&mut trace_id);
    let id = |id: u64| format!("{id:016x}").into_bytes();
    assert_eq!(values.trace_id, Some(&*trace_id));
    assert_eq!(values.span_id, Some(&*id(span_id)));
    assert_eq!(values.parent_span_id.map(<[u8]>::to_vec), parent_id.map(id));
    assert_eq!(values.flags == Some(b"1"), sampling == B3Sampling::Debug);
    assert_eq!(sampling.decision().is_none(), values.sampled.is_none() && values.flags != Some(b"1"));
}

fn shown(value: &[u8]) -> String {
    value.escape_ascii().to_string()
}
