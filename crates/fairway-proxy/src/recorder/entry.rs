//! One exchange as it is kept: numbers, and a few texts with a bound each.

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
use crate::metrics::record::{AttemptOutcome, FailedAttempt, Micros, Record, UpstreamRecord};
use crate::peer::{Peer, Scheme};
use crate::trace::sampled::Sampled;

/// Bytes for all texts of an entry.
const TEXT_BYTES: usize = 864;

/// The texts of an entry, in the order in which they are written, each with the most bytes that are kept of it.
#[derive(Clone, Copy)]
pub(super) enum Part {
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

/// How many there are.
const PARTS: usize = Part::UserAgent as usize + 1;

impl Part {
    /// The most bytes that are kept.
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

    /// As much of a text as is kept.
    fn kept(self, text: &[u8]) -> &[u8] {
        &text[..text.len().min(self.limit())]
    }

    /// What was kept, to be shown; `None` where it is empty. What was cut ends with `…`, and bytes that are not UTF-8 and characters that
    /// change how a line is shown are U+FFFD.
    pub(super) fn shown(self, kept: &[u8]) -> Option<String> {
        let shown = |c| if is_layout_control(c) { char::REPLACEMENT_CHARACTER } else { c };
        let mut text: String = String::from_utf8_lossy(kept).chars().map(shown).collect();
        if kept.len() == self.limit() {
            text.push('…');
        }
        (!kept.is_empty()).then_some(text)
    }
}

/// The texts of an entry, one behind the other.
#[derive(Clone)]
struct Texts {
    bytes: [u8; TEXT_BYTES],
    /// Where each part ends; it begins where the one before it ends.
    ends: [u16; PARTS],
}

impl Texts {
    /// Writes a part: in the order of [`Part`], each once.
    #[inline]
    fn write(&mut self, part: Part, text: &[u8]) {
        let (start, text) = (self.start(part), part.kept(text));
        let end = start + text.len();
        self.bytes[start..end].copy_from_slice(text);
        self.ends[part as usize] = u16::try_from(end).unwrap_or(u16::MAX);
    }

    #[inline]
    fn start(&self, part: Part) -> usize {
        (part as usize).checked_sub(1).map_or(0, |before| usize::from(self.ends[before]))
    }

    fn read(&self, part: Part) -> &[u8] {
        &self.bytes[self.start(part)..usize::from(self.ends[part as usize])]
    }

    fn text(&self, part: Part) -> Option<String> {
        part.shown(self.read(part))
    }
}

/// The path of a request as it came: without its query, and without what may stand before it in an absolute target, which is empty
/// where it cannot be told apart.
fn path(buffers: &Buffers) -> (&[u8], bool) {
    let target = buffers.request.target();
    let origin = &buffers.forms.read().origin;
    let target: &[u8] = match target {
        [b'/', ..] | b"*" => target,
        _ => origin,
    };
    let end = memchr::memchr2(b'?', b'#', target).unwrap_or(target.len());
    (&target[..end], end < target.len())
}

/// An exchange that is over.
#[derive(Clone)]
pub(crate) struct Entry {
    /// Which of the worker's exchanges it was.
    pub(super) number: u64,
    pub(super) began: Instant,
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
    took: Duration,
    waited: Duration,
    upstream: Option<UpstreamRecord>,
    /// When the last attempt began, counted from the beginning of the first.
    attempt_began: Micros,
    /// What TLS took of its connect.
    handshake: Micros,
    failed_attempts: Vec<FailedAttempt>,
    /// Of a sampled exchange; else 0.
    trace_id: u128,
    texts: Texts,
}

impl Entry {
    /// A place for one.
    pub(crate) fn empty(began: Instant) -> Self {
        Self {
            number: 0,
            began,
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
            took: Duration::ZERO,
            waited: Duration::ZERO,
            upstream: None,
            attempt_began: Micros::default(),
            handshake: Micros::default(),
            failed_attempts: Vec::new(),
            trace_id: 0,
            texts: Texts { bytes: [0; TEXT_BYTES], ends: [0; PARTS] },
        }
    }

    /// Writes it in place: building one and moving it here would cost as much again.
    pub(crate) fn write(
        &mut self,
        number: u64,
        record: &Record<'_>,
        buffers: &Buffers,
        peer: &Peer,
        configuration: u64,
    ) {
        let (request, forms) = (&buffers.request, buffers.forms.read());
        self.number = number;
        self.began = record.began;
        self.configuration = configuration;
        self.client = buffers.parties.client;
        self.listener = peer.listener;
        self.scheme = peer.scheme;
        self.version = request.version();
        self.status = record.status;
        self.fault = record.fault;
        self.attribution = record.attribution;
        self.grpc_status = record.call.status;
        self.request_bytes = record.request_bytes;
        self.body_bytes = record.body_bytes;
        self.sent_bytes = record.sent_bytes;
        self.took = record.took();
        self.waited = record.waited();
        self.upstream = record.upstream;
        self.attempt_began = forms.attempt_began;
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
        texts.write(Part::Kind, kind);
        texts.write(Part::Namespace, namespace);
        texts.write(Part::Name, name);
        texts.write(Part::Field, field);
        texts.write(Part::Service, service);
        let header = |known| request.first(known).unwrap_or_default();
        let (path, has_query) = path(buffers);
        self.has_query = has_query;
        texts.write(Part::Method, request.method_bytes());
        texts.write(Part::Host, buffers.host.as_bytes());
        texts.write(Part::Path, path);
        texts.write(Part::RequestId, header(Known::XRequestId));
        texts.write(Part::UserAgent, header(Known::UserAgent));
    }

    /// Adds the attempt whose response was replaced, and counts the attempts for a page after those before it: in a trace each attempt has
    /// a span.
    pub(crate) fn add_unrecorded(&mut self, sampled: &Sampled) {
        if let Some(unused) = sampled.unused {
            self.failed_attempts.push(unused.attempt);
            // Without a page, the last attempt of the record is one before it.
            self.upstream = self.upstream.filter(|_| sampled.attempts_before_page > 0);
        }
        if let Some(upstream) = &mut self.upstream {
            upstream.attempts = upstream.attempts.saturating_add(sampled.attempts_before_page);
        }
    }

    /// Leaves nothing of the exchange in memory.
    pub(super) fn erase(&mut self) {
        *self = Self::empty(self.began);
    }

    /// Whether it failed or took more than one attempt.
    #[inline]
    pub(super) fn is_failed(&self) -> bool {
        self.fault.is_some() || self.status >= 500 || !self.failed_attempts.is_empty()
    }

    /// When it was over: its age counts from then.
    #[inline]
    pub(super) fn ended(&self) -> Instant {
        self.began + self.took
    }

    /// Whether it has a rule, or none was found for it: a change of the rules may mean something to such exchanges.
    pub(super) fn was_routed(&self) -> bool {
        self.has_rule || self.fault == Some(Fault::NoRoute)
    }

    /// Whether an endpoint was chosen for it: every guard let it pass.
    pub(super) fn was_forwarded(&self) -> bool {
        self.upstream.is_some()
    }

    /// As much of a text as is kept.
    pub(super) fn kept(&self, part: Part) -> &[u8] {
        self.texts.read(part)
    }

    /// Whether the client itself made it fail, as far as is known.
    pub(super) fn is_client_fault(&self) -> bool {
        self.fault.is_some_and(|fault| fault.cause() == Cause::Client)
    }

    /// Whether this is its host, or as much of it as is kept.
    pub(super) fn has_host(&self, host: &[u8]) -> bool {
        self.texts.read(Part::Host) == Part::Host.kept(host)
    }

    /// Whether this is its identifier, or as much of it as is kept.
    pub(super) fn has_request_id(&self, id: &[u8]) -> bool {
        let kept = self.texts.read(Part::RequestId);
        !kept.is_empty() && kept == Part::RequestId.kept(id)
    }

    /// In words; it began at `began`, and came to `listener`.
    pub(crate) fn exchange(
        &self,
        worker: usize,
        began: SystemTime,
        listener: Option<&str>,
    ) -> RecordedExchange {
        let texts = &self.texts;
        let text = |part| texts.text(part).unwrap_or_default();
        RecordedExchange {
            number: format!("{worker}-{}", self.number),
            time: shown_time(began),
            configuration: self.configuration,
            client: self.client,
            listener: listener.map(str::to_owned),
            scheme: self.scheme.as_str().to_owned(),
            version: version(self.version).to_owned(),
            method: text(Part::Method),
            host: text(Part::Host),
            path: text(Part::Path),
            has_query: self.has_query,
            request_id: texts.text(Part::RequestId),
            user_agent: texts.text(Part::UserAgent),
            status: self.status,
            reason: self.fault.map(|fault| fault.label().to_owned()),
            description: self.fault.map(|fault| fault.description().to_owned()),
            caused_by: self.fault.map(|fault| fault.cause().label().to_owned()),
            attribution: self.attribution.map(|it| it.label().to_owned()),
            grpc_status: self.grpc_status,
            request_bytes: self.request_bytes,
            response_bytes: self.body_bytes,
            sent_bytes: self.sent_bytes,
            took_us: micros(self.took),
            waited_us: micros(self.waited),
            rule: self.has_rule.then(|| RecordedRule {
                kind: text(Part::Kind),
                namespace: text(Part::Namespace),
                name: text(Part::Name),
                field: text(Part::Field),
                service: texts.text(Part::Service),
            }),
            failed_attempts: self.failed_attempts.iter().map(attempt).collect(),
            upstream: self.upstream.map(|it| self.last_attempt(&it)),
            trace_id: (self.trace_id != 0).then(|| format!("{:032x}", self.trace_id)),
        }
    }

    fn last_attempt(&self, it: &UpstreamRecord) -> RecordedUpstream {
        // One that failed is among the failed ones: what is noted of the beginning is that of an attempt that did not come.
        let failed =
            self.failed_attempts.last().filter(|_| self.failed_attempts.len() == usize::from(it.attempts));
        let began = failed.map_or(self.attempt_began, |failed| failed.began);
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
pub(super) fn shown_time(time: SystemTime) -> String {
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
        began_us: failed.began.number(),
        after_us: failed.after.number(),
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
