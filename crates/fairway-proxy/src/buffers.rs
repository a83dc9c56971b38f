//! The buffers of one exchange, reused by later exchanges to avoid allocations.

use std::net::{IpAddr, SocketAddr};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use fairway_extension::change::HeaderChange;
use fairway_http::Head;
use fairway_net::counts::CountedExchange;
use fairway_net::object_pool::Spare;
use fairway_routing::session::Session;

use crate::compression::Accepted;
use crate::geoip::Location;
use crate::guards::VerifiedToken;
use crate::metrics::record::{AttemptOutcome, FailedAttempt, Microseconds};
use crate::request::body::RequestBody;
use crate::trace::sampled::SampledTrace;

/// The buffers of one exchange.
pub(crate) struct Buffers {
    /// The request head; filters edit it.
    pub(crate) request: Head,
    /// The response head; filters edit it.
    pub(crate) response: ResponseHead,
    /// The addresses of the client, for the access log.
    pub(crate) addresses: LoggedAddresses,
    /// The host for routing: lower case, without port.
    pub(crate) host: String,
    pub(crate) extras: Extras,
    /// The request body.
    pub(crate) body: RequestBody,
    /// The part of the request body that is kept for another attempt.
    pub(crate) replay: Vec<u8>,
    /// The body of a response that Fairway makes, or scratch space for a header value.
    pub(crate) text: Vec<u8>,
    /// The concurrency limits that count the exchange.
    pub(crate) under_way: Vec<CountedExchange>,
}

/// The response head: without memory for one until it is needed.
#[derive(Default)]
pub(crate) struct ResponseHead(Option<Box<Head>>);

static EMPTY_HEAD: Head = Head::new();

impl Deref for ResponseHead {
    type Target = Head;

    #[inline]
    fn deref(&self) -> &Head {
        self.0.as_deref().unwrap_or(&EMPTY_HEAD)
    }
}

impl DerefMut for ResponseHead {
    #[inline]
    fn deref_mut(&mut self) -> &mut Head {
        self.0.get_or_insert_default()
    }
}

impl ResponseHead {
    /// Whether it has memory for a head.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.0.is_some()
    }

    /// Clears it, and frees memory that has grown large.
    #[inline]
    pub(crate) fn trim(&mut self) {
        match &mut self.0 {
            Some(head) if head.kept_bytes() <= Buffers::MAX_SPARE_HEAD_BYTES => head.clear(),
            _ => self.0 = None,
        }
    }
}

impl Spare for ResponseHead {
    #[inline]
    fn kept_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |head| size_of::<Head>() + head.kept_bytes())
    }
}

/// State that most exchanges do not need, such as other forms of the target. It is allocated on first use.
#[derive(Default)]
pub(crate) struct Extras(Option<Box<ExtraFields>>);

#[derive(Default)]
pub(crate) struct ExtraFields {
    /// Path and query, if the target is absolute.
    pub(crate) origin: Vec<u8>,
    /// The normalised path, if it differs from the received one.
    pub(crate) normalised: Vec<u8>,
    /// The decoded path, if it differs from the received one.
    pub(crate) decoded: Vec<u8>,
    /// The forwarded target, if a rewrite changed it.
    pub(crate) target: Vec<u8>,
    /// The received `Host`, if a step has changed it.
    pub(crate) host: Vec<u8>,
    /// The session of the request, if its backend has sessions.
    pub(crate) session: Session,
    /// The content codings that the client accepts, if its rule compresses responses.
    pub(crate) accepted: Accepted,
    /// Cookies of an authentication service for the client; each ends with a line feed.
    pub(crate) cookies: Vec<u8>,
    /// The cookie of a new session, or its token if a header carries it.
    pub(crate) session_token: Vec<u8>,
    /// The header that carries the token, if it is not a cookie.
    pub(crate) session_header: Option<Arc<str>>,
    /// The cookies of a login for the client; each ends with a line feed.
    pub(crate) login_cookies: Vec<u8>,
    /// Headers that an authorization service adds to the response.
    pub(crate) auth_response_changes: Vec<HeaderChange>,
    /// Scratch space for a header value.
    pub(crate) value: Vec<u8>,
    /// The verified identity of the client.
    pub(crate) identity: Identity,
    /// The GeoIP data of the client's address, as far as it was needed. Boxed, as few configurations need it.
    pub(crate) location: Option<Box<Location>>,
    /// The name that the client requested in the TLS handshake, if the rule reads it.
    pub(crate) server_name: Vec<u8>,
    /// Headers of the endpoint's response as received, for the access log.
    pub(crate) received: Head,
    /// Attempts whose response the client did not get.
    pub(crate) failed_attempts: Vec<FailedAttempt>,
    /// When the last attempt began, relative to the first.
    pub(crate) attempt_began: Microseconds,
    /// The part of the last attempt's connect that TLS took.
    pub(crate) handshake: Microseconds,
    /// The trace of a sampled exchange. Boxed, as few exchanges are sampled.
    pub(crate) sampled: Option<Box<SampledTrace>>,
    /// The endpoints for the request, if a service picks them.
    pub(crate) picked_endpoints: Option<Box<Picked>>,
}

/// The endpoints that a service picked for a request.
pub(crate) struct Picked {
    /// In order of preference; they may not all be endpoints of the backend.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Whether no other endpoint may get the request, even if none of these belongs to the backend.
    pub(crate) is_required: bool,
}

impl Picked {
    /// Endpoints that are tried for one request, as in [`TriedMembers`](crate::upstream::TriedMembers).
    const MAX_ADDRESSES: usize = 8;
}

/// The identity of the client, as verified by guards.
#[derive(Default)]
pub(crate) struct Identity {
    /// The verified token of the request.
    pub(crate) token: Option<Arc<VerifiedToken>>,
    /// The client of its API key.
    pub(crate) api_client: Option<Arc<str>>,
}

impl Identity {
    const NONE: Self = Self { token: None, api_client: None };
}

static NO_EXTRAS: ExtraFields = ExtraFields {
    origin: Vec::new(),
    normalised: Vec::new(),
    decoded: Vec::new(),
    target: Vec::new(),
    host: Vec::new(),
    session: Session::NONE,
    accepted: Accepted::NONE,
    cookies: Vec::new(),
    session_token: Vec::new(),
    session_header: None,
    login_cookies: Vec::new(),
    auth_response_changes: Vec::new(),
    value: Vec::new(),
    identity: Identity::NONE,
    location: None,
    server_name: Vec::new(),
    received: Head::new(),
    failed_attempts: Vec::new(),
    attempt_began: Microseconds::ZERO,
    handshake: Microseconds::ZERO,
    sampled: None,
    picked_endpoints: None,
};

impl Extras {
    /// The fields for reading; the defaults if none was written.
    #[inline]
    pub(crate) fn read(&self) -> &ExtraFields {
        self.0.as_deref().unwrap_or(&NO_EXTRAS)
    }

    /// The fields for writing. The memory stays with the buffers.
    pub(crate) fn write(&mut self) -> &mut ExtraFields {
        self.0.get_or_insert_default()
    }

    /// Resets what steps of the previous request wrote.
    #[inline]
    pub(crate) fn reset(&mut self) {
        if let Some(written) = &mut self.0 {
            written.target.clear();
            written.host.clear();
            written.session = Session::default();
            written.accepted = Accepted::NONE;
            written.cookies.clear();
            written.session_token.clear();
            written.session_header = None;
            written.login_cookies.clear();
            written.auth_response_changes = Vec::new();
            written.forget_client();
            written.received.clear();
            written.picked_endpoints = None;
            written.forget_attempts();
        }
    }

    /// Copies the forms of the target to another request.
    pub(crate) fn copy_target(&mut self, other: &Self) {
        let Some(other) = &other.0 else { return };
        let ExtraFields { origin, normalised, decoded, target, host, location, server_name, .. } =
            self.write();
        location.clone_from(&other.location);
        server_name.clone_from(&other.server_name);
        origin.clone_from(&other.origin);
        normalised.clone_from(&other.normalised);
        decoded.clone_from(&other.decoded);
        target.clone_from(&other.target);
        host.clone_from(&other.host);
    }

    /// Records a failed attempt, `after` the start of the first one. Only the first ones of an exchange are recorded.
    #[cold]
    pub(crate) fn record_failed_attempt(
        &mut self,
        endpoint: SocketAddr,
        outcome: AttemptOutcome,
        after: Microseconds,
    ) {
        const MAX_RECORDED_ATTEMPTS: usize = 8;
        let ExtraFields { failed_attempts: attempts, attempt_began: began, handshake, .. } = self.write();
        if attempts.len() < MAX_RECORDED_ATTEMPTS {
            attempts.push(FailedAttempt { endpoint, outcome, started_after: *began, ended_after: after });
        }
        (*began, *handshake) = (after, Microseconds::ZERO);
    }

    /// Records the start of an attempt, relative to the first one.
    #[cold]
    pub(crate) fn record_attempt_start(&mut self, after: Microseconds) {
        self.write().attempt_began = after;
    }

    /// Records the part of this attempt's connect that TLS took.
    #[cold]
    pub(crate) fn record_handshake(&mut self, took: Microseconds) {
        self.write().handshake = took;
    }

    /// The trace, if the exchange is sampled.
    pub(crate) fn sampled_mut(&mut self) -> Option<&mut SampledTrace> {
        self.0.as_mut()?.sampled.as_deref_mut()
    }

    /// Takes the logged response headers of another exchange.
    pub(crate) fn take_received(&mut self, other: &mut Self) {
        let has_received = |extras: &Self| extras.read().received.field_count() > 0;
        if has_received(&*self) || has_received(&*other) {
            std::mem::swap(&mut self.write().received, &mut other.write().received);
        }
    }

    /// Takes the new session cookies of another exchange.
    pub(crate) fn take_session_cookie(&mut self, other: &mut Self) {
        if !other.read().session_token.is_empty() {
            let (own, other) = (self.write(), other.write());
            std::mem::swap(&mut own.session_token, &mut other.session_token);
            std::mem::swap(&mut own.session_header, &mut other.session_header);
        }
        if !other.read().login_cookies.is_empty() {
            std::mem::swap(&mut self.write().login_cookies, &mut other.write().login_cookies);
        }
    }

    /// Records the endpoints that a service picked: `IP:PORT[,IP:PORT…]`, in order of preference (Endpoint Picker Protocol,
    /// `x-gateway-destination-endpoint`). Invalid addresses and everything after the first eight are ignored. Only endpoints of
    /// the backend ever get the request: if the text names none, the request has no endpoint (503) if the pick `is_required`,
    /// otherwise the backend's own balancing chooses.
    #[cold]
    pub(crate) fn pick_endpoints(&mut self, text: &str, is_required: bool) {
        let address = |part: &str| {
            let address: SocketAddr = part.trim().parse().ok()?;
            Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
        };
        let addresses = text.split(',').filter_map(address).take(Picked::MAX_ADDRESSES).collect();
        self.write().picked_endpoints = Some(Box::new(Picked { addresses, is_required }));
    }

    /// Sets the content codings that the client accepts.
    pub(crate) fn set_accepted(&mut self, accepted: Accepted) {
        if accepted != self.read().accepted {
            self.write().accepted = accepted;
        }
    }

    fn trim(&mut self, limit: usize) {
        let Some(written) = &mut self.0 else { return };
        if written.received.kept_bytes() > limit {
            written.received = Head::new();
        }
        written.received.clear();
        written.forget_attempts();
        // The next request may end before any guard runs, and must not have this identity.
        written.forget_client();
        written.auth_response_changes = Vec::new();
        written.picked_endpoints = None;
        written.session_header = None;
        let ExtraFields {
            origin,
            normalised,
            decoded,
            target,
            host,
            cookies,
            session_token,
            login_cookies,
            value,
            server_name,
            ..
        } = &mut **written;
        for bytes in [
            origin,
            normalised,
            decoded,
            target,
            host,
            cookies,
            session_token,
            login_cookies,
            value,
            server_name,
        ] {
            bytes.clear();
            bytes.shrink_to(limit);
        }
    }

    fn kept_bytes(&self) -> usize {
        let Some(written) = &self.0 else { return 0 };
        let ExtraFields {
            origin,
            normalised,
            decoded,
            target,
            host,
            cookies,
            session_token,
            login_cookies,
            value,
            server_name,
            ..
        } = &**written;
        let capacities = [
            origin,
            normalised,
            decoded,
            target,
            host,
            cookies,
            session_token,
            login_cookies,
            value,
            server_name,
        ]
        .map(Vec::capacity);
        let attempts = written.failed_attempts.capacity() * size_of::<FailedAttempt>();
        let location = written.location.as_ref().map_or(0, |location| location.kept_bytes());
        size_of::<ExtraFields>()
            + location
            + written.received.kept_bytes()
            + attempts
            + capacities.iter().sum::<usize>()
    }
}

impl ExtraFields {
    #[inline]
    fn forget_client(&mut self) {
        self.identity = Identity::NONE;
        self.server_name.clear();
        if let Some(location) = &mut self.location {
            location.clear();
        }
    }

    #[inline]
    fn forget_attempts(&mut self) {
        self.failed_attempts.clear();
        self.attempt_began = Microseconds::ZERO;
        self.handshake = Microseconds::ZERO;
        self.sampled = None;
    }
}

/// The addresses of the client, as the access log shows them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LoggedAddresses {
    /// The client, after trusted proxies were evaluated.
    pub(crate) client: Option<IpAddr>,
    /// The sender of the bytes, if it differs from the client that the transport reports.
    pub(crate) sender: Option<IpAddr>,
}

impl Buffers {
    /// The total size of the spare buffers that a worker keeps, in bytes.
    pub(crate) const SPARE_BYTES: usize = 8 * 1024 * 1024;

    /// Vectors above this size are not kept.
    const MAX_SPARE_VECTOR_BYTES: usize = 16 * 1024;
    /// Heads above this size are not kept; one of the default limit just fits.
    const MAX_SPARE_HEAD_BYTES: usize = 64 * 1024;

    /// Clears the buffers for the next exchange, and frees those that have grown large.
    pub(crate) fn trim(&mut self) {
        if self.request.kept_bytes() > Self::MAX_SPARE_HEAD_BYTES {
            self.request = Head::new();
        }
        self.request.clear();
        self.response.trim();
        self.host.clear();
        self.under_way.clear();
        self.body.discard_side_buffers();
        self.extras.trim(Self::MAX_SPARE_VECTOR_BYTES);
        for bytes in [&mut self.replay, &mut self.text] {
            bytes.clear();
            bytes.shrink_to(Self::MAX_SPARE_VECTOR_BYTES);
        }
    }
}

#[cfg(test)]
impl Buffers {
    /// Picks the endpoints that a request header names: tests use it as the service that picks.
    pub(crate) fn pick_from_test_headers(&mut self) {
        for (name, is_required) in [(&b"x-test-pick"[..], true), (b"x-test-prefer", false)] {
            if let Some(text) = self.request.named(name) {
                let text = String::from_utf8_lossy(text).into_owned();
                self.extras.pick_endpoints(&text, is_required);
            }
        }
    }
}

impl Spare for Box<Buffers> {
    fn kept_bytes(&self) -> usize {
        let Buffers { request, response, host, extras, replay, text, .. } = &**self;
        let heads = request.kept_bytes() + Spare::kept_bytes(response);
        let vectors = host.capacity() + replay.capacity() + text.capacity();
        size_of::<Buffers>() + heads + extras.kept_bytes() + vectors
    }
}

impl Default for Buffers {
    fn default() -> Self {
        Self {
            request: Head::new(),
            response: ResponseHead::default(),
            addresses: LoggedAddresses::default(),
            host: String::new(),
            extras: Extras::default(),
            body: RequestBody::default(),
            replay: Vec::new(),
            text: Vec::new(),
            under_way: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picked_endpoints_are_read_in_order_and_belong_to_one_request() {
        let mut extras = Extras::default();
        extras.pick_endpoints(
            "10.0.0.2:8000, nonsense,[::ffff:10.0.0.1]:8000,10.0.0.3,fd00::1:80,[fd00::1]:80",
            true,
        );
        let text = |extras: &Extras| {
            let picked = extras.read().picked_endpoints.as_ref()?;
            let all: Vec<_> = picked.addresses.iter().map(ToString::to_string).collect();
            Some((all.join(" "), picked.is_required))
        };
        assert_eq!(text(&extras), Some(("10.0.0.2:8000 10.0.0.1:8000 [fd00::1]:80".to_owned(), true)));
        extras.pick_endpoints(&"10.0.0.1:1,".repeat(100), false);
        assert_eq!(
            extras.read().picked_endpoints.as_ref().map(|picked| picked.addresses.len()),
            Some(Picked::MAX_ADDRESSES)
        );
        extras.reset();
        assert_eq!(text(&extras), None);
        extras.pick_endpoints("", true);
        assert_eq!(text(&extras), Some((String::new(), true)));
        extras.trim(0);
        assert_eq!(text(&extras), None);
    }

    /// The next request may be logged, or be one of Fairway's own, before any guard runs.
    #[test]
    fn the_caller_of_one_exchange_is_unknown_to_the_next() {
        let mut buffers = Buffers::default();
        buffers.extras.write().identity.api_client = Some("billing".into());
        buffers.trim();
        assert!(buffers.extras.read().identity.api_client.is_none());
        buffers.extras.write().identity.api_client = Some("billing".into());
        buffers.extras.reset();
        assert!(buffers.extras.read().identity.api_client.is_none());
    }
}
