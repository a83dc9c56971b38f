//! Checks a request once, before anything acts on it.

use fairway_connection::sides::{Persistence, RequestMeta, Upgrade};
use fairway_http::grpc::Dialect;
use fairway_http::{
    BodySize, Head, Known, Malformed, Method, Target, TargetForm, Version, path, request_authority,
};
use fairway_model::PathForm;
use fairway_routing::session::cookie_of;

use crate::buffers::Buffers;
use crate::fault::Fault;
use crate::grpc::dialect_of;

/// A request whose head is valid.
#[derive(Clone, Debug)]
pub(crate) struct Intake {
    pub(crate) method: Method,
    pub(crate) version: Version,
    pub(crate) body: BodySize,
    /// What the client asks for.
    pub(crate) persistence: Persistence,
    /// Whether the client waits for `100 Continue` before it sends the body (RFC 9110 §10.1.1).
    pub(crate) expects_continue: bool,
    pub(crate) upgrade: Upgrade,
    pub(crate) dialect: Dialect,
    origin: Origin,
    /// Length of the path in origin form; the query with its question mark follows.
    path: u32,
    /// Length of the path prefix that the rule matched; 0 until a rule has matched.
    pub(crate) prefix: u32,
    /// Whether the path as received is its own normal form.
    is_plain: bool,
}

/// Where path and query are stored as received, in origin form (RFC 9112 §3.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// In the target.
    Target,
    /// The target is absolute; the buffers have a copy, with the `/` that the client may omit.
    Buffers,
}

impl Intake {
    /// Checks the head in the buffers, and writes the host and the forms of the path to them.
    pub(crate) fn check(buffers: &mut Buffers, arrival: &RequestMeta) -> Result<Self, Fault> {
        let Buffers { request, host, extras, text, .. } = buffers;
        let body = arrival.body.map_err(Fault::Malformed)?;
        let method = request.method();
        // A CONNECT without host and port is malformed rather than unsupported (RFC 9112 §3.2.3). In HTTP/2 and HTTP/3 its
        // target is another pseudo-header, which was checked with its block.
        match method {
            Method::Connect if request.version().has_streams() => return Err(Fault::Unsupported),
            Method::Trace => return Err(Fault::MethodNotAllowed),
            Method::Options => decrement_max_forwards(request)?,
            _ => {}
        }
        let target = Target::parse(method, request.target()).map_err(Fault::Malformed)?;
        if method == Method::Connect {
            return Err(Fault::Unsupported);
        }
        // An absolute form may also address the server as a whole (RFC 9112 §3.2.4): it has the same path.
        if target.path == b"*" {
            return Err(Fault::Unsupported);
        }
        let path = u32::try_from(target.path.len());
        let path = path.map_err(|_| Fault::Malformed(Malformed::HeadTooLarge))?;
        let is_plain = path::is_plain(target.path);
        if !is_plain {
            let extras = extras.write();
            path::normalise(target.path, &mut extras.normalised).map_err(Fault::Malformed)?;
            path::decode(target.path, &mut extras.decoded).map_err(Fault::Malformed)?;
        }
        write_host(request, &target, host)?;
        let expects_continue = arrival.expects_continue.map_err(Fault::Malformed)? && body != BodySize::None;
        check_upgrade(request, body, arrival.upgrade)?;
        let (persistence, upgrade) = (arrival.persistence, arrival.upgrade);
        let (version, dialect) = (request.version(), dialect_of(request));
        let origin = match target {
            Target { form: TargetForm::Absolute, authority: Some(authority), .. } => {
                write_origin(&target, &mut extras.write().origin);
                // The authority replaces `Host` (RFC 9112 §3.2.2).
                text.clear();
                text.extend_from_slice(authority);
                request.set(b"Host", text);
                Origin::Buffers
            }
            _ => Origin::Target,
        };
        Ok(Self {
            method,
            version,
            body,
            persistence,
            expects_continue,
            upgrade,
            dialect,
            origin,
            path,
            prefix: 0,
            is_plain,
        })
    }

    /// Whether the client would take a response with this status for an accepted WebSocket: in HTTP/2 and HTTP/3 any 2xx opens
    /// one (RFC 8441 §5, RFC 9220 §3).
    pub(crate) fn would_open_websocket(&self, status: u16) -> bool {
        self.upgrade == Upgrade::WebSocket && self.version.has_streams() && (200..300).contains(&status)
    }

    /// Records the length of the path prefix that the rule matched.
    pub(crate) fn set_matched_prefix(&mut self, prefix: usize) {
        // It is at most as long as the path, whose length fits.
        self.prefix = u32::try_from(prefix).unwrap_or(self.path);
    }

    /// The path as Gateway API matches it.
    pub(crate) fn normalised<'a>(&self, buffers: &'a Buffers) -> &'a [u8] {
        if self.is_plain {
            &self.received(buffers)[..self.path as usize]
        } else {
            &buffers.extras.read().normalised
        }
    }

    /// The path as nginx matches it.
    pub(crate) fn decoded_path<'a>(&self, buffers: &'a Buffers) -> &'a [u8] {
        if self.is_plain {
            &self.received(buffers)[..self.path as usize]
        } else {
            &buffers.extras.read().decoded
        }
    }

    /// Calls `ask` with the request as routing sees it.
    pub(crate) fn with_routing_request<T>(
        &self,
        buffers: &Buffers,
        ask: impl FnOnce(&fairway_routing::Request<'_, RoutedHeaders<'_>>) -> T,
    ) -> T {
        ask(&fairway_routing::Request {
            host: &buffers.host,
            method: buffers.request.method_bytes(),
            normalised: self.normalised(buffers),
            decoded: self.decoded_path(buffers),
            query: self.query(buffers),
            fields: &RoutedHeaders(&buffers.request, self.upgrade),
        })
    }

    /// The path in the form that a rewrite expects.
    pub(crate) fn path_in<'a>(&self, form: PathForm, buffers: &'a Buffers) -> &'a [u8] {
        match form {
            PathForm::Normalised => self.normalised(buffers),
            PathForm::Decoded => self.decoded_path(buffers),
        }
    }

    /// Appends a normal form of the path that rules of this form would match in the same way.
    pub(crate) fn write_matched(&self, form: PathForm, buffers: &Buffers, out: &mut Vec<u8>) {
        match form {
            PathForm::Normalised => out.extend_from_slice(self.normalised(buffers)),
            PathForm::Decoded => {
                let written = path::normalise_as_decoded(&self.received(buffers)[..self.path as usize], out);
                debug_assert!(written.is_ok(), "the path was checked with the request");
            }
        }
    }

    /// The query without its question mark; empty if there is none.
    pub(crate) fn query<'a>(&self, buffers: &'a Buffers) -> &'a [u8] {
        self.received(buffers).get(self.path as usize + 1..).unwrap_or_default()
    }

    /// Whether there is a query, even an empty one: `/a?` is not `/a` (RFC 3986 §6.2.3).
    pub(crate) fn has_query(&self, buffers: &Buffers) -> bool {
        self.received(buffers).len() > self.path as usize
    }

    /// Whether the path as received is its own normal form.
    pub(crate) fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Path and query as received, in origin form (RFC 9112 §3.2.1).
    pub(crate) fn received<'a>(&self, buffers: &'a Buffers) -> &'a [u8] {
        match self.origin {
            Origin::Target => buffers.request.target(),
            Origin::Buffers => &buffers.extras.read().origin,
        }
    }

    /// Path and query as the endpoint gets them, after rewrites.
    pub(crate) fn forwarded<'a>(&self, buffers: &'a Buffers) -> &'a [u8] {
        match &*buffers.extras.read().target {
            [] => self.received(buffers),
            rewritten => rewritten,
        }
    }
}

/// Writes path and query of an absolute target; the path is `/` if the client omitted it.
fn write_origin(target: &Target<'_>, origin: &mut Vec<u8>) {
    origin.clear();
    origin.extend_from_slice(target.path);
    if let Some(query) = target.query {
        origin.push(b'?');
        origin.extend_from_slice(query);
    }
}

/// Writes the host for routing: lower case, without port and final dot.
fn write_host(request: &Head, target: &Target<'_>, host: &mut String) -> Result<(), Fault> {
    host.clear();
    if let Some(authority) = request_authority(request, target).map_err(Fault::Malformed)? {
        let name = authority.host.strip_suffix('.').unwrap_or(authority.host);
        host.push_str(name);
        host.make_ascii_lowercase();
    }
    Ok(())
}

/// Decrements `Max-Forwards`; at 0 the request must not be forwarded (RFC 9110 §7.6.2). Invalid values are kept.
fn decrement_max_forwards(request: &mut Head) -> Result<(), Fault> {
    let Some(value) = request.named(b"Max-Forwards") else { return Ok(()) };
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Ok(());
    }
    let remaining =
        std::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok()).unwrap_or(u64::MAX);
    let decremented = remaining.checked_sub(1).ok_or(Fault::Unsupported)?;
    request.set(b"Max-Forwards", decremented.to_string().as_bytes());
    Ok(())
}

/// A request with a body cannot upgrade: its bytes could be mistaken for the new protocol's.
fn check_upgrade(request: &Head, body: BodySize, upgrade: Upgrade) -> Result<(), Fault> {
    match (upgrade, body) {
        (Upgrade::None, _) => Ok(()),
        (Upgrade::WebSocket, BodySize::None | BodySize::Exact(0)) => {
            check_handshake(request).map_err(Fault::Malformed)
        }
        (Upgrade::WebSocket, _) => Err(Fault::Unsupported),
    }
}

/// Checks the other requirements of a handshake (RFC 6455 §4.2.1). The key is opaque: only the endpoint uses it, and only the
/// client checks the result.
#[cold]
fn check_handshake(request: &Head) -> Result<(), Malformed> {
    let mut keys = request.all(Known::SecWebsocketKey);
    let has_key = keys.next().is_some_and(|key| !key.is_empty()) && keys.next().is_none();
    if request.method() != Method::Get || !has_key {
        return Err(Malformed::WebsocketHandshake);
    }
    let mut versions = request.all_named(b"Sec-WebSocket-Version");
    match (versions.next(), versions.next()) {
        (Some(b"13"), None) => Ok(()),
        _ => Err(Malformed::WebsocketVersion),
    }
}

/// The headers that rules match on, as the router reads them. `Upgrade` has been removed with the hop-by-hop headers, but the
/// endpoint gets it nevertheless.
pub(crate) struct RoutedHeaders<'a>(pub(crate) &'a Head, pub(crate) Upgrade);

impl RoutedHeaders<'_> {
    /// `Upgrade` as the endpoint gets it. HTTP/2 clients express it differently (RFC 8441 §5).
    fn upgrade(&self) -> Option<&[u8]> {
        (self.1 == Upgrade::WebSocket).then_some(b"websocket")
    }
}

impl fairway_routing::Fields for RoutedHeaders<'_> {
    fn first(&self, name: &str) -> Option<&[u8]> {
        match name {
            "host" => self.0.first(Known::Host),
            "upgrade" => self.upgrade(),
            _ => self.0.named(name.as_bytes()),
        }
    }

    fn any(&self, name: &str, is_one: impl FnMut(&[u8]) -> bool) -> bool {
        match name {
            "upgrade" => self.upgrade().is_some_and(is_one),
            _ => self.0.all_named(name.as_bytes()).any(is_one),
        }
    }

    fn cookie(&self, name: &str) -> Option<&[u8]> {
        cookie_of(self.0, name.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_forwarded_as_often_as_they_say() {
        for (value, left) in [
            ("0", None),
            ("000", None),
            ("1", Some("0")),
            ("007", Some("6")),
            ("99999999999999999999", Some("18446744073709551614")),
            ("+1", Some("+1")),
            ("", Some("")),
        ] {
            let mut head = Head::new();
            head.start_request(b"OPTIONS", b"/");
            head.append(b"max-forwards", value.as_bytes());
            let found = decrement_max_forwards(&mut head)
                .ok()
                .map(|()| head.named(b"Max-Forwards").unwrap().to_vec());
            assert_eq!(found, left.map(|left| left.as_bytes().to_vec()), "{value}");
        }
    }
}
