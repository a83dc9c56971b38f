//! A recorded exchange: numbers, and a few texts of bounded length.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use fairway_http::{Known, Version};
use fairway_model::is_layout_control;
use fairway_net::clock::Instant;
use jiff::Timestamp;

use super::exchange::{RecordedAttempt, RecordedExchange, RecordedRule, RecordedUpstream};
use crate::attribution::Attribution;
use crate::buffers::Buffers;
use crate::cause::Cause;
use crate::fault::Fault;
use crate::listener::ListenerId;
use crate::metrics::record::{AttemptOutcome, ExchangeRecord, FailedAttempt, Microseconds, UpstreamRecord};
use crate::peer::{Peer, Scheme};
use crate::trace::sampled::SampledTrace;

/// Bytes for all texts of an entry.
const TEXT_BYTES: usize = 864;

/// The texts of an entry in writing order, each with a byte limit.
#[derive(Clone, Copy)]
pub(super) enum TextPart {
    Kind,
    Namespace,
    Name,
    Field,
    Service,
    Method,
    Host,
    Path,
    RequestId,
    UserAgent,
}

/// Number of parts.
const PART_COUNT: usize = TextPart::UserAgent as usize + 1;

impl TextPart {
    /// Byte limit.
    const fn limit(self) -> usize {
        match self {
            Self::Method | Self::Kind => 24,
            Self::Namespace | Self::Service | Self::RequestId => 64,
            Self::UserAgent => 80,
            Self::Field => 96,
            Self::Name | Self::Host => 128,
            Self::Path => 192,
        }
    }

    /// Truncates a text to the limit.
    fn truncate(self, text: &[u8]) -> &[u8] {
        &text[..text.len().min(self.limit())]
    }

    /// The text for display; `None` if empty. Truncated text ends with `…`; invalid UTF-8 and layout control
    /// characters become U+FFFD.
    pub(super) fn display(self, stored: &[u8]) -> Option<String> {
        let shown = |c| if is_layout_control(c) { char::REPLACEMENT_CHARACTER } else { c };
        let mut text: String = String::from_utf8_lossy(stored).chars().map(shown).collect();
        if stored.len() == self.limit() {
            text.push('…');
        }
        (!stored.is_empty()).then_some(text)
    }
}

/// The concatenated texts of an entry.
#[derive(Clone)]
struct EntryTexts {
    bytes: [u8; TEXT_BYTES],
    /// End of each part; it starts at the end of the previous one.
    ends: [u16; PART_COUNT],
}

impl EntryTexts {
    /// Writes a part. Each is written once, in the order of [`TextPart`].
    #[inline]
    fn write(&mut self, part: TextPart, text: &[u8]) {
        let (start, text) = (self.start(part), part.truncate(text));
        let end = start + text.len();
        self.bytes[start..end].copy_from_slice(text);
        self.ends[part as usize] = u16::try_from(end).unwrap_or(u16::MAX);
    }

    #[inline]
    fn start(&self, part: TextPart) -> usize {
        (part as usize).checked_sub(1).map_or(0, |before| usize::from(self.ends[before]))
    }

    fn read(&self, part: TextPart) -> &[u8] {
        &self.bytes[self.start(part)..usize::from(self.ends[part as usize])]
    }

    fn text(&self, part: TextPart) -> Option<String> {
        part.display(self.read(part))
    }
}

/// The path of a request as received, and whether a query followed. Empty for an absolute target whose path
/// cannot be determined.
fn path(buffers: &Buffers) -> (&[u8], bool) {
    let target = buffers.request.target();
    let origin = &buffers.extras.read().origin;
    let target: &[u8] = match target {
        [b'/', ..] | b"*" => target,
        _ => origin,
    };
    let end = memchr::memchr2(b'?', b'#', target).unwrap_or(target.len());
    (&target[..end], end < target.len())
}

/// A finished exchange.
#[derive(Clone)]
pub(crate) struct RecordedEntry {
    /// Number of the exchange within the worker.
    pub(super) number: u64,
    pub(super) started_at: Instant,
    configuration: u64,
    client: Option<IpAddr>,
    pub(super) listener: ListenerId,
    pub(super) scheme: Scheme,
    version: Version,
    pub(super) has_query: bool,
    has_rule: bool,
    pub(super) status: u16,
    fault: Option<Fault>,
    attribution: Option<Attribution>,
    grpc_status: Option<u32>,
    request_bytes: u64,
    body_bytes: u64,
    sent_bytes: u64,
    duration: Duration,
    guard_wait: Duration,
    upstream: Option<UpstreamRecord>,
    /// Start of the last attempt, from the start of the first.
    attempt_started: Microseconds,
    /// TLS part of its connect time.
    handshake: Microseconds,
    failed_attempts: Vec<FailedAttempt>,
    /// Trace id of a sampled exchange; otherwise 0.
    trace_id: u128,
    texts: EntryTexts,
}

impl RecordedEntry {
    /// An empty entry.
    pub(crate) fn empty(started_at: Instant) -> Self {
        Self {
            number: 0,
            started_at,
            configuration: 0,
            client: None,
            listener: ListenerId { slot: 0, generation: 0 },
            scheme: Scheme::Http,
            version: Version::Http11,
            has_query: false,
            has_rule: false,
            status: 0,
            fault: None,
            attribution: None,
            grpc_status: None,
            request_bytes: 0,
            body_bytes: 0,
            sent_bytes: 0,
            duration: Duration::ZERO,
            guard_wait: Duration::ZERO,
            upstream: None,
            attempt_started: Microseconds::default(),
            handshake: Microseconds::default(),
            failed_attempts: Vec::new(),
            trace_id: 0,
            texts: EntryTexts { bytes: [0; TEXT_BYTES], ends: [0; PART_COUNT] },
        }
    }

    /// Overwrites the entry in place: building and moving it would cost as much again.
    pub(crate) fn write(
        &mut self,
        number: u64,
        record: &ExchangeRecord<'_>,
        buffers: &Buffers,
        peer: &Peer,
        configuration: u64,
    ) {
        let (request, forms) = (&buffers.request, buffers.extras.read());
        self.number = number;
        self.started_at = record.started_at;
        self.configuration = configuration;
        self.client = buffers.addresses.client;
        self.listener = peer.listener;
        self.scheme = peer.scheme;
        self.version = request.version();
        self.status = record.status;
        self.fault = record.fault;
        self.attribution = record.attribution;
        self.grpc_status = record.grpc_call.status;
        self.request_bytes = record.request_bytes;
        self.body_bytes = record.body_bytes;
        self.sent_bytes = record.sent_bytes;
        self.duration = record.duration();
        self.guard_wait = record.guard_wait();
        self.upstream = record.upstream;
        self.attempt_started = forms.attempt_began;
        self.handshake = forms.handshake;
        self.failed_attempts.clear();
        self.failed_attempts.extend_from_slice(&forms.failed_attempts);
        self.trace_id = forms.sampled.as_ref().map_or(0, |sampled| sampled.trace_id);
        let rule = record.served_by.rule.map(|rule| rule.rule());
        self.has_rule = rule.is_some();
        let [kind, namespace, name, field, service] = match rule {
            Some(rule) => {
                let origin = &rule.origin;
                [&origin.kind, &origin.namespace, &origin.name, &origin.field, &rule.labels.service]
                    .map(|text| text.as_bytes())
            }
            None => [b"".as_slice(); 5],
        };
        let texts = &mut self.texts;
        texts.write(TextPart::Kind, kind);
        texts.write(TextPart::Namespace, namespace);
        texts.write(TextPart::Name, name);
        texts.write(TextPart::Field, field);
        texts.write(TextPart::Service, service);
        let header = |known| request.first(known).unwrap_or_default();
        let (path, has_query) = path(buffers);
        self.has_query = has_query;
        texts.write(TextPart::Method, request.method_bytes());
        texts.write(TextPart::Host, buffers.host.as_bytes());
        texts.write(TextPart::Path, path);
        texts.write(TextPart::RequestId, header(Known::XRequestId));
        texts.write(TextPart::UserAgent, header(Known::UserAgent));
    }

    /// Adds the attempt whose response was replaced, and counts attempts for an error page after those before
    /// it: each attempt has its own span in the trace.
    pub(crate) fn add_replaced_attempts(&mut self, sampled: &SampledTrace) {
        if let Some(unused) = sampled.replaced_attempt {
            self.failed_attempts.push(unused.attempt);
            // Without an error page, the record's last attempt is the replaced one.
            self.upstream = self.upstream.filter(|_| sampled.attempts_before_page > 0);
        }
        if let Some(upstream) = &mut self.upstream {
            upstream.attempts = upstream.attempts.saturating_add(sampled.attempts_before_page);
        }
    }

    /// Erases the exchange from memory.
    pub(super) fn erase(&mut self) {
        *self = Self::empty(self.started_at);
    }

    /// Whether it failed or took more than one attempt.
    #[inline]
    pub(super) fn is_failed(&self) -> bool {
        self.fault.is_some() || self.status >= 500 || !self.failed_attempts.is_empty()
    }

    /// End time, from which its age counts.
    #[inline]
    pub(super) fn ended_at(&self) -> Instant {
        self.started_at + self.duration
    }

    /// Whether it matched a rule, or failed to: a change of rules may affect such exchanges.
    pub(super) fn was_routed(&self) -> bool {
        self.has_rule || self.fault == Some(Fault::NoRoute)
    }

    /// Whether an endpoint was picked, so that every guard let it pass.
    pub(super) fn was_forwarded(&self) -> bool {
        self.upstream.is_some()
    }

    /// The bytes kept of a text.
    pub(super) fn text_bytes(&self, part: TextPart) -> &[u8] {
        self.texts.read(part)
    }

    /// Whether the client caused the failure.
    pub(super) fn is_client_fault(&self) -> bool {
        self.fault.is_some_and(|fault| fault.cause() == Cause::Client)
    }

    /// Whether this is its host, as far as kept.
    pub(super) fn has_host(&self, host: &[u8]) -> bool {
        self.texts.read(TextPart::Host) == TextPart::Host.truncate(host)
    }

    /// Whether this is its request id, as far as kept.
    pub(super) fn has_request_id(&self, id: &[u8]) -> bool {
        let request_id = self.texts.read(TextPart::RequestId);
        !request_id.is_empty() && request_id == TextPart::RequestId.truncate(id)
    }

    /// Converts the entry; it started at `began` and came through `listener`.
    pub(crate) fn to_recorded(
        &self,
        worker: usize,
        started_at: SystemTime,
        listener: Option<&str>,
    ) -> RecordedExchange {
        let texts = &self.texts;
        let text = |part| texts.text(part).unwrap_or_default();
        RecordedExchange {
            number: format!("{worker}-{}", self.number),
            time: format_time(started_at),
            configuration: self.configuration,
            client: self.client,
            listener: listener.map(str::to_owned),
            scheme: self.scheme.as_str().to_owned(),
            version: version(self.version).to_owned(),
            method: text(TextPart::Method),
            host: text(TextPart::Host),
            path: text(TextPart::Path),
            has_query: self.has_query,
            request_id: texts.text(TextPart::RequestId),
            user_agent: texts.text(TextPart::UserAgent),
            status: self.status,
            reason: self.fault.map(|fault| fault.label().to_owned()),
            description: self.fault.map(|fault| fault.description().to_owned()),
            caused_by: self.fault.map(|fault| fault.cause().label().to_owned()),
            attribution: self.attribution.map(|it| it.label().to_owned()),
            grpc_status: self.grpc_status,
            request_bytes: self.request_bytes,
            response_bytes: self.body_bytes,
            sent_bytes: self.sent_bytes,
            took_us: micros(self.duration),
            waited_us: micros(self.guard_wait),
            rule: self.has_rule.then(|| RecordedRule {
                kind: text(TextPart::Kind),
                namespace: text(TextPart::Namespace),
                name: text(TextPart::Name),
                field: text(TextPart::Field),
                service: texts.text(TextPart::Service),
            }),
            failed_attempts: self.failed_attempts.iter().map(attempt).collect(),
            upstream: self.upstream.map(|it| self.last_attempt(&it)),
            trace_id: (self.trace_id != 0).then(|| format!("{:032x}", self.trace_id)),
        }
    }

    fn last_attempt(&self, it: &UpstreamRecord) -> RecordedUpstream {
        // A failed last attempt is also in the list of failed ones: the recorded start belongs to an attempt
        // that was not made.
        let failed =
            self.failed_attempts.last().filter(|_| self.failed_attempts.len() == usize::from(it.attempts));
        let began = failed.map_or(self.attempt_started, |failed| failed.started_after);
        RecordedUpstream {
            endpoint: it.endpoint,
            status: (it.status != 0).then_some(it.status),
            attempts: it.attempts,
            hedged: it.hedged,
            began_us: began.number(),
            sent_us: it.sent.number(),
            connect_us: it.connect.number(),
            tls_us: self.handshake.number().min(it.connect.number()),
            header_us: it.header.number(),
            response_us: it.response.number(),
        }
    }
}

/// RFC 3339, UTC, with milliseconds.
pub(super) fn format_time(time: SystemTime) -> String {
    let time = Timestamp::try_from(time).unwrap_or(Timestamp::UNIX_EPOCH);
    time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

fn attempt(failed: &FailedAttempt) -> RecordedAttempt {
    let (reason, status) = match failed.outcome {
        AttemptOutcome::Fault(fault) => (Some(fault.label().to_owned()), None),
        AttemptOutcome::Status(status) => (None, Some(status)),
    };
    RecordedAttempt {
        endpoint: failed.endpoint,
        reason,
        status,
        began_us: failed.started_after.number(),
        after_us: failed.ended_after.number(),
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn version(version: Version) -> &'static str {
    match version {
        Version::Http10 => "HTTP/1.0",
        Version::Http11 => "HTTP/1.1",
        Version::Http2 => "HTTP/2.0",
        Version::Http3 => "HTTP/3.0",
    }
}
