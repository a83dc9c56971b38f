//! What one exchange writes on: reused from exchange to exchange, so that none of it is allocated again.

use std::net::{IpAddr, SocketAddr};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use fairway_extension::change::HeaderChange;
use fairway_http::Head;
use fairway_net::counts::UnderWay;
use fairway_net::spares::Spare;
use fairway_routing::session::Session;

use crate::compression::Accepted;
use crate::geoip::Location;
use crate::guards::VerifiedToken;
use crate::metrics::record::{AttemptOutcome, FailedAttempt, Micros};
use crate::request::body::RequestBody;
use crate::trace::sampled::Sampled;

/// Buffers of one exchange.
pub(crate) struct Buffers {
    /// The request's head; filters edit it.
    pub(crate) request: Head,
    /// The answer's head; filters edit it.
    pub(crate) answer: Answer,
    /// Who asks.
    pub(crate) parties: Parties,
    /// The host that routes: lower case, without port.
    pub(crate) host: String,
    pub(crate) forms: Forms,
    /// The request's body on its way.
    pub(crate) body: RequestBody,
    /// What is held of the request's body for another attempt.
    pub(crate) replay: Vec<u8>,
    /// The body of an answer that Fairway makes, or a header value in the making.
    pub(crate) text: Vec<u8>,
    /// Where the exchange is counted as being under way.
    pub(crate) under_way: Vec<UnderWay>,
}

/// The head of an answer: empty, and without room for one, while it is waited for.
#[derive(Default)]
pub(crate) struct Answer(Option<Box<Head>>);

static NO_HEAD: Head = Head::new();

impl Deref for Answer {
    type Target = Head;

    #[inline]
    fn deref(&self) -> &Head {
        self.0.as_deref().unwrap_or(&NO_HEAD)
    }
}

impl DerefMut for Answer {
    #[inline]
    fn deref_mut(&mut self) -> &mut Head {
        self.0.get_or_insert_default()
    }
}

impl Answer {
    /// Whether it has room for a head.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.0.is_some()
    }

    /// Empties it; room that grew large goes.
    #[inline]
    pub(crate) fn trim(&mut self) {
        match &mut self.0 {
            Some(head) if head.kept_bytes() <= Buffers::MOST_OF_A_HEAD => head.clear(),
            _ => self.0 = None,
        }
    }
}

impl Spare for Answer {
    #[inline]
    fn kept_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |head| size_of::<Head>() + head.kept_bytes())
    }
}

/// What the request's target is besides what was received. Most requests have none of it, and no room for it.
#[derive(Default)]
pub(crate) struct Forms(Option<Box<Written>>);

#[derive(Default)]
pub(crate) struct Written {
    /// Path and query, when the target is absolute.
    pub(crate) origin: Vec<u8>,
    /// The normalised path, when it differs from the one received.
    pub(crate) normalised: Vec<u8>,
    /// The decoded path, when it differs from the one received.
    pub(crate) decoded: Vec<u8>,
    /// The target that is forwarded, when a rewrite made one.
    pub(crate) target: Vec<u8>,
    /// The `Host` that was received, when a step has set another.
    pub(crate) host: Vec<u8>,
    /// Of the request, where its backend has sessions.
    pub(crate) session: Session,
    /// Which content codings the client takes, where its rule compresses responses.
    pub(crate) accepted: Accepted,
    /// Cookies for the client, of a service that was asked; each ends with a line feed.
    pub(crate) cookies: Vec<u8>,
    /// The cookie of the session that begins with the answer, or its token where a header carries that.
    pub(crate) session_token: Vec<u8>,
    /// The header that carries it, where that is no cookie.
    pub(crate) session_header: Option<Arc<str>>,
    /// The cookies of a login for the client; each ends with a line feed.
    pub(crate) login_cookies: Vec<u8>,
    /// What an authorization service adds to the response.
    pub(crate) granted: Vec<HeaderChange>,
    /// The value of a field in the making.
    pub(crate) value: Vec<u8>,
    /// Who asks.
    pub(crate) identity: Identity,
    /// What databases say of the client's address, as far as it was asked. Boxed, as few configurations ask.
    pub(crate) location: Option<Box<Location>>,
    /// The name that the client asked for in its handshake, where the rule reads it.
    pub(crate) server_name: Vec<u8>,
    /// Fields of the endpoint's answer as they came, for the access log.
    pub(crate) received: Head,
    /// Attempts whose response the client did not get.
    pub(crate) failed_attempts: Vec<FailedAttempt>,
    /// When the last attempt began, counted from the beginning of the first.
    pub(crate) attempt_began: Micros,
    /// What TLS took of the connect of the last attempt.
    pub(crate) handshake: Micros,
    /// Of a sampled exchange. Boxed, as few exchanges are sampled.
    pub(crate) sampled: Option<Box<Sampled>>,
    /// Which endpoints get the request, where a service picks them.
    pub(crate) picked: Option<Box<Picked>>,
}

/// The endpoints that a service picked for a request.
pub(crate) struct Picked {
    /// The first choice first; it may name others than endpoints of the backend.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Whether no other endpoint may get the request, even where none of these is one of the backend.
    pub(crate) is_required: bool,
}

impl Picked {
    /// Endpoints that are tried for one request, as in [`Tried`](crate::upstream::Tried).
    const MOST: usize = 8;
}

/// Who asks, as far as guards found it out.
#[derive(Default)]
pub(crate) struct Identity {
    /// The verified token of the request.
    pub(crate) token: Option<Arc<VerifiedToken>>,
    /// Whose API key it has.
    pub(crate) api_client: Option<Arc<str>>,
}

impl Identity {
    const NONE: Self = Self { token: None, api_client: None };
}

static NOTHING: Written = Written {
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
    granted: Vec::new(),
    value: Vec::new(),
    identity: Identity::NONE,
    location: None,
    server_name: Vec::new(),
    received: Head::new(),
    failed_attempts: Vec::new(),
    attempt_began: Micros::ZERO,
    handshake: Micros::ZERO,
    sampled: None,
    picked: None,
};

impl Forms {
    /// What was written of them.
    #[inline]
    pub(crate) fn read(&self) -> &Written {
        self.0.as_deref().unwrap_or(&NOTHING)
    }

    /// Where they are written. The room stays with the buffers.
    pub(crate) fn write(&mut self) -> &mut Written {
        self.0.get_or_insert_default()
    }

    /// No step has made a target or a host.
    #[inline]
    pub(crate) fn forget_steps(&mut self) {
        if let Some(written) = &mut self.0 {
            written.target.clear();
            written.host.clear();
            written.session = Session::default();
            written.accepted = Accepted::NONE;
            written.cookies.clear();
            written.session_token.clear();
            written.session_header = None;
            written.login_cookies.clear();
            written.granted = Vec::new();
            written.forget_client();
            written.received.clear();
            written.picked = None;
            written.forget_attempts();
        }
    }

    /// The same forms, for another request.
    pub(crate) fn copy(&mut self, other: &Self) {
        let Some(other) = &other.0 else { return };
        let Written { origin, normalised, decoded, target, host, location, server_name, .. } = self.write();
        location.clone_from(&other.location);
        server_name.clone_from(&other.server_name);
        origin.clone_from(&other.origin);
        normalised.clone_from(&other.normalised);
        decoded.clone_from(&other.decoded);
        target.clone_from(&other.target);
        host.clone_from(&other.host);
    }

    /// An attempt has failed, so long after the beginning of the first one. Of an exchange with very many only the first ones are noted.
    #[cold]
    pub(crate) fn note_failed_attempt(
        &mut self,
        endpoint: SocketAddr,
        outcome: AttemptOutcome,
        after: Micros,
    ) {
        const MOST: usize = 8;
        let Written { failed_attempts: attempts, attempt_began: began, handshake, .. } = self.write();
        if attempts.len() < MOST {
            attempts.push(FailedAttempt { endpoint, outcome, began: *began, after });
        }
        (*began, *handshake) = (after, Micros::ZERO);
    }

    /// The attempt that comes now begins so long after the first one.
    #[cold]
    pub(crate) fn note_attempt_began(&mut self, after: Micros) {
        self.write().attempt_began = after;
    }

    /// TLS took so much of the connect of this attempt.
    #[cold]
    pub(crate) fn note_handshake(&mut self, took: Micros) {
        self.write().handshake = took;
    }

    /// The trace, where the exchange is sampled.
    pub(crate) fn sampled_mut(&mut self) -> Option<&mut Sampled> {
        self.0.as_mut()?.sampled.as_deref_mut()
    }

    /// What came from the endpoint is what came from another.
    pub(crate) fn take_received(&mut self, other: &mut Self) {
        let came = |forms: &Self| forms.read().received.field_count() > 0;
        if came(&*self) || came(&*other) {
            std::mem::swap(&mut self.write().received, &mut other.write().received);
        }
    }

    /// The sessions that the answer of another exchange would have begun begin with this one's.
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

    /// A service picked the endpoints of the backend that get the request: `IP:PORT[,IP:PORT…]`, each the next choice after the one
    /// before it (Endpoint Picker Protocol, `x-gateway-destination-endpoint`). What is no address is left out, and so is what comes
    /// after the first eight. Nothing but an endpoint of the backend ever gets the request: where the text names none, it has no
    /// endpoint (503) if the pick `is_required`, and the backend's own balancing chooses if not.
    #[cold]
    pub(crate) fn pick_endpoints(&mut self, text: &str, is_required: bool) {
        let address = |part: &str| {
            let address: SocketAddr = part.trim().parse().ok()?;
            Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
        };
        let addresses = text.split(',').filter_map(address).take(Picked::MOST).collect();
        self.write().picked = Some(Box::new(Picked { addresses, is_required }));
    }

    /// The client takes these content codings.
    pub(crate) fn accept(&mut self, accepted: Accepted) {
        if accepted != self.read().accepted {
            self.write().accepted = accepted;
        }
    }

    fn trim(&mut self, most: usize) {
        let Some(written) = &mut self.0 else { return };
        if written.received.kept_bytes() > most {
            written.received = Head::new();
        }
        written.received.clear();
        written.forget_attempts();
        // Who asked is nobody of the next request, which may end before any guard is asked.
        written.forget_client();
        written.granted = Vec::new();
        written.picked = None;
        written.session_header = None;
        let Written {
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
            bytes.shrink_to(most);
        }
    }

    fn kept_bytes(&self) -> usize {
        let Some(written) = &self.0 else { return 0 };
        let Written {
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
        size_of::<Written>()
            + location
            + written.received.kept_bytes()
            + attempts
            + capacities.iter().sum::<usize>()
    }
}

impl Written {
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
        self.attempt_began = Micros::ZERO;
        self.handshake = Micros::ZERO;
        self.sampled = None;
    }
}

/// Who asks, as the access log shows it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Parties {
    /// The client, once trust is settled.
    pub(crate) client: Option<IpAddr>,
    /// Who sent the bytes, where that is not what the transport says the client is.
    pub(crate) sender: Option<IpAddr>,
}

impl Buffers {
    /// The bytes of all buffers that a worker keeps.
    pub(crate) const SPARE_BYTES: usize = 8 * 1024 * 1024;

    /// Vectors above this size are not kept.
    const MOST: usize = 16 * 1024;
    /// Heads above this size are not kept: one of the default limit just fits.
    const MOST_OF_A_HEAD: usize = 64 * 1024;

    /// Empties it for the next exchange and frees what grew large.
    pub(crate) fn trim(&mut self) {
        if self.request.kept_bytes() > Self::MOST_OF_A_HEAD {
            self.request = Head::new();
        }
        self.request.clear();
        self.answer.trim();
        self.host.clear();
        self.under_way.clear();
        self.body.let_go();
        self.forms.trim(Self::MOST);
        for bytes in [&mut self.replay, &mut self.text] {
            bytes.clear();
            bytes.shrink_to(Self::MOST);
        }
    }
}

#[cfg(test)]
impl Buffers {
    /// Picks the endpoints that a header of the request names: tests play the service that picks.
    pub(crate) fn pick_as_asked(&mut self) {
        for (name, is_required) in [(&b"x-test-pick"[..], true), (b"x-test-prefer", false)] {
            if let Some(text) = self.request.named(name) {
                let text = String::from_utf8_lossy(text).into_owned();
                self.forms.pick_endpoints(&text, is_required);
            }
        }
    }
}

impl Spare for Box<Buffers> {
    fn kept_bytes(&self) -> usize {
        let Buffers { request, answer, host, forms, replay, text, .. } = &**self;
        let heads = request.kept_bytes() + Spare::kept_bytes(answer);
        let vectors = host.capacity() + replay.capacity() + text.capacity();
        size_of::<Buffers>() + heads + forms.kept_bytes() + vectors
    }
}

impl Default for Buffers {
    fn default() -> Self {
        Self {
            request: Head::new(),
            answer: Answer::default(),
            parties: Parties::default(),
            host: String::new(),
            forms: Forms::default(),
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
    fn picked_endpoints_are_read_in_their_order_and_are_those_of_one_request() {
        let mut forms = Forms::default();
        forms.pick_endpoints(
            "10.0.0.2:8000, nonsense,[::ffff:10.0.0.1]:8000,10.0.0.3,fd00::1:80,[fd00::1]:80",
            true,
        );
        let text = |forms: &Forms| {
            let picked = forms.read().picked.as_ref()?;
            let all: Vec<_> = picked.addresses.iter().map(ToString::to_string).collect();
            Some((all.join(" "), picked.is_required))
        };
        assert_eq!(text(&forms), Some(("10.0.0.2:8000 10.0.0.1:8000 [fd00::1]:80".to_owned(), true)));
        forms.pick_endpoints(&"10.0.0.1:1,".repeat(100), false);
        assert_eq!(forms.read().picked.as_ref().map(|picked| picked.addresses.len()), Some(Picked::MOST));
        forms.forget_steps();
        assert_eq!(text(&forms), None);
        forms.pick_endpoints("", true);
        assert_eq!(text(&forms), Some((String::new(), true)));
        forms.trim(0);
        assert_eq!(text(&forms), None);
    }

    /// The next request may be logged, or be a question of Fairway's own, before any guard was asked.
    #[test]
    fn who_asked_is_nobody_of_the_next_exchange() {
        let mut buffers = Buffers::default();
        buffers.forms.write().identity.api_client = Some("billing".into());
        buffers.trim();
        assert!(buffers.forms.read().identity.api_client.is_none());
        buffers.forms.write().identity.api_client = Some("billing".into());
        buffers.forms.forget_steps();
        assert!(buffers.forms.read().identity.api_client.is_none());
    }
}
