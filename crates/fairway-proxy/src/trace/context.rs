//! Trace context in headers: W3C Trace Context (`traceparent`, `tracestate`) and B3. A value that violates its
//! specification is ignored. Knows no requests: values in, values out.

use fairway_http::bytes::push_hex;

/// Bytes of a `traceparent` of version 00.
const TRACEPARENT_BYTES: usize = 55;

/// Byte limit of a `traceparent` of a later version, and of the whole `tracestate` (W3C Trace Context
/// §3.3.1.5).
const MAX_HEADER_BYTES: usize = 512;

/// Member limit of `tracestate` (§3.3.1.1).
const MAX_STATE_MEMBERS: usize = 32;

/// The value of `traceparent` (§3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceParent {
    /// Never 0.
    pub(crate) trace_id: u128,
    /// Never 0.
    pub(crate) parent_id: u64,
    /// [`TraceParent::SAMPLED`], [`TraceParent::RANDOM`] and flags of later versions.
    pub(crate) flags: u8,
}

/// The content of B3 headers (<https://github.com/openzipkin/b3-propagation>).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum B3 {
    /// A span and the sampling decision.
    Context(B3Context),
    /// Only a sampling decision for a new trace.
    Decision(B3Sampling),
}

/// A span in B3 headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct B3Context {
    /// Never 0.
    pub(crate) trace_id: u128,
    /// Whether the trace id has 64 bits.
    pub(crate) is_short: bool,
    /// Never 0.
    pub(crate) span_id: u64,
    /// The parent of that span.
    pub(crate) parent_id: Option<u64>,
    pub(crate) sampling: B3Sampling,
}

/// The sampling decision in B3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum B3Sampling {
    /// The receiver decides.
    Deferred,
    Denied,
    Accepted,
    /// Sampled regardless of other rules.
    Debug,
}

/// The values of the `X-B3-*` headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct B3Values<'h> {
    pub(crate) trace_id: Option<&'h [u8]>,
    pub(crate) span_id: Option<&'h [u8]>,
    pub(crate) parent_span_id: Option<&'h [u8]>,
    pub(crate) sampled: Option<&'h [u8]>,
    pub(crate) flags: Option<&'h [u8]>,
}

impl TraceParent {
    /// Set if the sender samples the trace.
    pub(crate) const SAMPLED: u8 = 1;
    /// Set if the trace id is random (W3C Trace Context Level 2 §3.2.2.5.2); propagated with the trace.
    pub(crate) const RANDOM: u8 = 2;

    /// Parses version 00, or a later one as far as 00 defines it (§3.2.4).
    #[inline]
    pub(crate) fn read(value: &[u8]) -> Option<Self> {
        let (known, more) = value.split_first_chunk::<TRACEPARENT_BYTES>()?;
        let is_separated = known[2] == b'-' && known[35] == b'-' && known[52] == b'-';
        let flags = parse_byte(known[53], known[54])?;
        let flags = match (parse_byte(known[0], known[1])?, more) {
            (0, []) => flags,
            // "Version ff is invalid" (§3.2.2.1).
            (0xff, _) => return None,
            (1.., []) => flags & Self::SAMPLED,
            (1.., [b'-', ..]) if value.len() <= MAX_HEADER_BYTES => flags & Self::SAMPLED,
            _ => return None,
        };
        let (trace_id, parent_id) = (parse_hex::<32>(&known[3..35])?, parse_hex::<16>(&known[36..52])?);
        let is_valid = is_separated && trace_id != 0 && parent_id != 0;
        is_valid.then_some(Self { trace_id, parent_id: parent_id as u64, flags })
    }

    /// Appends the value as version 00.
    #[inline]
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"00-");
        push_hex(self.trace_id.to_be_bytes(), out);
        out.push(b'-');
        push_hex(self.parent_id.to_be_bytes(), out);
        out.push(b'-');
        push_hex([self.flags], out);
    }

    #[inline]
    pub(crate) fn is_sampled(self) -> bool {
        self.flags & Self::SAMPLED != 0
    }
}

/// Whether `tracestate`, which may have several lines, is within its limits and propagated.
pub(crate) fn is_state_in_bounds<'h>(lines: impl Iterator<Item = &'h [u8]>) -> bool {
    let (mut bytes, mut members) = (0, 0);
    for line in lines {
        // Several lines form one comma-separated list (RFC 9110 §5.3).
        bytes += line.len() + usize::from(members > 0);
        if bytes > MAX_HEADER_BYTES {
            return false;
        }
        members += memchr::memchr_iter(b',', line).count() + 1;
    }
    members <= MAX_STATE_MEMBERS
}

impl B3 {
    /// Parses the header `b3`.
    pub(crate) fn read(value: &[u8]) -> Option<Self> {
        if let [_] = value {
            return B3Sampling::read(value).map(Self::Decision);
        }
        let mut parts = value.split(|byte| *byte == b'-');
        let (trace_id, is_short) = trace_id(parts.next()?)?;
        let span_id = span_id(parts.next()?)?;
        let sampling = parts.next().map_or(Some(B3Sampling::Deferred), B3Sampling::read)?;
        let parent_id = optional_span_id(parts.next())?;
        let context = B3Context { trace_id, is_short, span_id, parent_id, sampling };
        parts.next().is_none().then_some(Self::Context(context))
    }

    /// Parses the `X-B3-*` headers.
    pub(crate) fn read_values(values: &B3Values<'_>) -> Option<Self> {
        let sampling = match (values.flags, values.sampled) {
            (Some(b"1"), None | Some(b"1")) => B3Sampling::Debug,
            (None | Some(b"0"), None) => B3Sampling::Deferred,
            (None | Some(b"0"), Some(b"0")) => B3Sampling::Denied,
            (None | Some(b"0"), Some(b"1")) => B3Sampling::Accepted,
            _ => return None,
        };
        let (trace, span) = match (values.trace_id, values.span_id) {
            (Some(trace), Some(span)) => (trace, span),
            (None, None) if values.parent_span_id.is_none() => return Some(Self::Decision(sampling)),
            _ => return None,
        };
        let (trace_id, is_short) = trace_id(trace)?;
        let (span_id, parent_id) = (span_id(span)?, optional_span_id(values.parent_span_id)?);
        Some(Self::Context(B3Context { trace_id, is_short, span_id, parent_id, sampling }))
    }

    /// Appends the value of the header `b3`.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Decision(sampling) => out.extend(sampling.digit()),
            Self::Context(context) => {
                context.write_trace_id(out);
                out.push(b'-');
                push_hex(context.span_id.to_be_bytes(), out);
                if let Some(digit) = context.sampling.digit() {
                    out.extend([b'-', digit]);
                    if let Some(parent) = context.parent_id {
                        out.push(b'-');
                        push_hex(parent.to_be_bytes(), out);
                    }
                }
            }
        }
    }
}

impl B3Context {
    /// Appends the trace id with its original number of digits.
    pub(crate) fn write_trace_id(&self, out: &mut Vec<u8>) {
        match self.is_short {
            true => push_hex((self.trace_id as u64).to_be_bytes(), out),
            false => push_hex(self.trace_id.to_be_bytes(), out),
        }
    }
}

impl B3Sampling {
    fn read(value: &[u8]) -> Option<Self> {
        match value {
            b"0" => Some(Self::Denied),
            b"1" => Some(Self::Accepted),
            b"d" => Some(Self::Debug),
            _ => None,
        }
    }

    fn digit(self) -> Option<u8> {
        match self {
            Self::Deferred => None,
            Self::Denied => Some(b'0'),
            Self::Accepted => Some(b'1'),
            Self::Debug => Some(b'd'),
        }
    }

    /// The decision, if made.
    pub(crate) fn decision(self) -> Option<bool> {
        match self {
            Self::Deferred => None,
            Self::Denied => Some(false),
            Self::Accepted | Self::Debug => Some(true),
        }
    }
}

/// A B3 trace id, and whether it has only 64 bits.
fn trace_id(digits: &[u8]) -> Option<(u128, bool)> {
    let is_short = digits.len() == 16;
    let id = if is_short { parse_hex::<16>(digits) } else { parse_hex::<32>(digits) };
    Some((id.filter(|id| *id != 0)?, is_short))
}

fn span_id(digits: &[u8]) -> Option<u64> {
    parse_hex::<16>(digits).filter(|id| *id != 0).map(|id| id as u64)
}

/// `Some(None)` if absent.
fn optional_span_id(digits: Option<&[u8]>) -> Option<Option<u64>> {
    digits.map_or(Some(None), |digits| span_id(digits).map(Some))
}

/// Parses two lower-case hexadecimal digits.
#[inline]
fn parse_byte(high: u8, low: u8) -> Option<u8> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    Some(digit(high)? << 4 | digit(low)?)
}

/// Parses exactly `N` lower-case hexadecimal digits, a multiple of eight.
#[inline]
fn parse_hex<const N: usize>(digits: &[u8]) -> Option<u128> {
    let digits: &[u8; N] = digits.try_into().ok()?;
    let (mut number, mut wrong) = (0, 0);
    for eight in digits.as_chunks::<8>().0 {
        let (part, wrong_here) = eight_digits(*eight);
        number = number << 32 | u128::from(part);
        wrong |= wrong_here;
    }
    (wrong == 0).then_some(number)
}

const fn repeat_byte(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// Parses eight digits at once: byte by byte would cost four times as much. The second number is 0 if all of
/// them are lower-case hexadecimal digits.
#[inline]
fn eight_digits(digits: [u8; 8]) -> (u32, u64) {
    let digits = u64::from_be_bytes(digits);
    // Sets the high bit of each byte >= `first`. No sum carries into the next byte: one summand has seven bits,
    // the other less.
    let from = |first: u8| (digits & repeat_byte(0x7f)) + repeat_byte(0x80 - first);
    let decimal = from(b'0') & !from(b'9' + 1);
    let letter = from(b'a') & !from(b'f' + 1);
    let wrong = (!(decimal | letter) | digits) & repeat_byte(0x80);
    // The low nibble of `a` is 1.
    let mut number = (digits & repeat_byte(0x0f)) + (letter >> 7 & repeat_byte(1)) * 9;
    number = (number | number >> 4) & 0x00ff_00ff_00ff_00ff;
    number = (number | number >> 8) & 0x0000_ffff_0000_ffff;
    ((number | number >> 16) as u32, wrong)
}
