//! One exchange as it is kept: numbers, and a few texts with a bound each.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use fairway_http::{Known, Version};
use fairway_model::is_layout_control;
use fairway_net::clock::Instant;
use jiff::Timestamp;

use super::exchange::{RecordedAttempt, RecordedExchange, RecordedRule, RecordedUpstream};
use crate::buffers::Buffers;
use crate::cause::Cause;
use crate::fault::Fault;
use crate::metrics::record::{AttemptOutcome, FailedAttempt, Record, UpstreamRecord};
use crate::peer::{Peer, Scheme};

/// Bytes for all texts of an entry.
const TEXT_BYTES: usize = 864;

/// The texts of an entry, in the order in which they are written, each with the most bytes that are kept of it.
#[derive(Clone, Copy)]
enum Part {
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

    /// `None` where it is empty. What was cut ends with `…`, and bytes that are not UTF-8 and characters that change how a line is shown
    /// are U+FFFD.
    fn text(&self, part: Part) -> Option<String> {
        let bytes = self.read(part);
        let shown = |c| if is_layout_control(c) { char::REPLACEMENT_CHARACTER } else { c };
        let mut text: String = String::from_utf8_lossy(bytes).chars().map(shown).collect();
        if bytes.len() == part.limit() {
            text.push('…');
        }
        (!bytes.is_empty()).then_some(text)
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
pub(super) struct Entry {
    /// Which of the worker's exchanges it was.
    pub(super) number: u64,
    pub(super) began: Instant,
    configuration: u64,
    client: Option<IpAddr>,
    scheme: Scheme,
    version: Version,
    has_query: bool,
    has_rule: bool,
    pub(super) status: u16,
    fault: Option<Fault>,
    grpc_status: Option<u32>,
    request_bytes: u64,
    body_bytes: u64,
    sent_bytes: u64,
    took: Duration,
    waited: Duration,
    upstream: Option<UpstreamRecord>,
    failed_attempts: Vec<FailedAttempt>,
    texts: Texts,
}

impl Entry {
    /// A place for one.
    pub(super) fn empty(began: Instant) -> Self {
        Self {
            number: 0,
            began,
            configuration: 0,
            client: None,
            scheme: Scheme::Http,
            version: Version::Http11,
            has_query: false,
            has_rule: false,
            status: 0,
            fault: None,
            grpc_status: None,
            request_bytes: 0,
            body_bytes: 0,
            sent_bytes: 0,
            took: Duration::ZERO,
            waited: Duration::ZERO,
            upstream: None,
            failed_attempts: Vec::new(),
            texts: Texts { bytes: [0; TEXT_BYTES], ends: [0; PARTS] },
        }
    }

    /// Writes it in place: building one and moving it here would cost as much again.
    pub(super) fn write(
        &mut self,
        number: u64,
        record: &Record<'_>,
        buffers: &Buffers,
        peer: &Peer,
        configuration: u64,
    ) {
        let request = &buffers.request;
        self.number = number;
        self.began = record.began;
        self.configuration = configuration;
        self.client = buffers.parties.client;
        self.scheme = peer.scheme;
        self.version = request.version();
        self.status = record.status;
        self.fault = record.fault;
        self.grpc_status = record.call.status;
        self.request_bytes = record.request_bytes;
        self.body_bytes = record.body_bytes;
        self.sent_bytes = record.sent_bytes;
        self.took = record.took();
        self.waited = record.waited();
        self.upstream = record.upstream;
        self.failed_attempts.clear();
        self.failed_attempts.extend_from_slice(&buffers.forms.read().failed_attempts);
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

    /// In words; it began at `began`.
    pub(super) fn exchange(&self, worker: usize, began: SystemTime) -> RecordedExchange {
        let texts = &self.texts;
        let text = |part| texts.text(part).unwrap_or_default();
        let time = Timestamp::try_from(began).unwrap_or(Timestamp::UNIX_EPOCH);
        RecordedExchange {
            number: format!("{worker}-{}", self.number),
            time: time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
            configuration: self.configuration,
            client: self.client,
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
            upstream: self.upstream.map(|it| upstream(&it)),
        }
    }
}

fn attempt(failed: &FailedAttempt) -> RecordedAttempt {
    let (reason, status) = match failed.outcome {
        AttemptOutcome::Fault(fault) => (Some(fault.label().to_owned()), None),
        AttemptOutcome::Status(status) => (None, Some(status)),
    };
    RecordedAttempt { endpoint: failed.endpoint, reason, status, after_us: micros(failed.after.duration()) }
}

fn upstream(it: &UpstreamRecord) -> RecordedUpstream {
    RecordedUpstream {
        endpoint: it.endpoint,
        status: (it.status != 0).then_some(it.status),
        attempts: it.attempts,
        hedged: it.hedged,
        connect_us: micros(it.connect.duration()),
        header_us: micros(it.header.duration()),
        response_us: micros(it.response.duration()),
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
    }
}
