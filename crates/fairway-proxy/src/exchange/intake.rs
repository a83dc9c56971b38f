//! What a request asks for, checked once before anything acts on it.

use std::ops::Range;

use fairway_http1::{
    Framing, Head, Known, Method, Target, TargetForm, Version, expects_continue, keep_alive, path,
    request_authority, request_framing, upgrade_to,
};

use crate::exchange::sides::Persistence;
use crate::fault::Fault;
use crate::worker::Desk;

/// A request whose head obeys every rule.
#[derive(Clone, Debug)]
pub(crate) struct Intake {
    pub(crate) method: Method,
    pub(crate) version: Version,
    pub(crate) framing: Framing,
    /// What the client wishes.
    pub(crate) persistence: Persistence,
    pub(crate) expectation: Expectation,
    pub(crate) upgrade: Upgrade,
    /// Where the path stands in the target as received.
    path: Range<usize>,
    /// Where the query stands, without its question mark.
    query: Option<Range<usize>>,
    shape: PathShape,
}

/// Whether the client waits for a word before it sends the body (RFC 9110 §10.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expectation {
    Nothing,
    Continue,
}

/// What the client wants the connection to become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upgrade {
    Nothing,
    WebSocket,
}

/// Whether the path as received is its own normal form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathShape {
    Plain,
    Changed,
}

impl Intake {
    /// Checks the head on the desk, and writes the host and the forms of the path to it.
    pub(crate) fn check(desk: &mut Desk) -> Result<Self, Fault> {
        let Desk { request, host, normalised, decoded, .. } = desk;
        let framing = request_framing(request).map_err(Fault::Malformed)?;
        let method = request.method();
        if method == Method::Connect {
            return Err(Fault::Unsupported);
        }
        let raw = request.target();
        let target = Target::parse(method, raw).map_err(Fault::Malformed)?;
        if target.form == TargetForm::Asterisk {
            return Err(Fault::Unsupported);
        }
        let after_path = target.query.map_or(0, |query| query.len() + 1);
        let path_end = raw.len() - after_path;
        let path = path_end - target.path.len()..path_end;
        let query = target.query.map(|query| raw.len() - query.len()..raw.len());
        let shape = if !target.path.is_empty() && path::is_plain(target.path) {
            PathShape::Plain
        } else {
            let raw = if target.path.is_empty() { b"/" } else { target.path };
            path::normalise(raw, normalised).map_err(Fault::Malformed)?;
            path::decode(raw, decoded).map_err(Fault::Malformed)?;
            PathShape::Changed
        };
        host_of(request, &target, host)?;
        let expectation = match expects_continue(request).map_err(Fault::Malformed)? {
            true if framing != Framing::None => Expectation::Continue,
            _ => Expectation::Nothing,
        };
        let upgrade = upgrade(request, framing)?;
        let persistence = if keep_alive(request) { Persistence::KeepAlive } else { Persistence::Close };
        let version = request.version();
        let absolute = target.form == TargetForm::Absolute;
        let intake = Self { method, version, framing, persistence, expectation, upgrade, path, query, shape };
        if absolute {
            adopt_authority(request);
        }
        Ok(intake)
    }

    /// The path as the Gateway API sees it.
    pub(crate) fn normalised<'a>(&self, desk: &'a Desk) -> &'a [u8] {
        match self.shape {
            PathShape::Plain => &desk.request.target()[self.path.clone()],
            PathShape::Changed => &desk.normalised,
        }
    }

    /// The path as nginx sees it.
    pub(crate) fn decoded<'a>(&self, desk: &'a Desk) -> &'a [u8] {
        match self.shape {
            PathShape::Plain => &desk.request.target()[self.path.clone()],
            PathShape::Changed => &desk.decoded,
        }
    }

    /// The query without its question mark; empty when there is none.
    pub(crate) fn query<'a>(&self, desk: &'a Desk) -> &'a [u8] {
        self.query.clone().map_or(&[], |range| &desk.request.target()[range])
    }

    /// Whether there is a query, be it empty: `/a?` is not `/a` (RFC 3986 §6.2.3).
    pub(crate) fn has_query(&self) -> bool {
        self.query.is_some()
    }

    /// Whether the path as received is its own normal form.
    pub(crate) fn is_plain(&self) -> bool {
        self.shape == PathShape::Plain
    }

    /// Path and query as received, in origin form (RFC 9112 §3.2.1).
    pub(crate) fn received<'a>(&self, desk: &'a Desk) -> &'a [u8] {
        let target = &desk.request.target()[self.path.start..];
        if self.path.is_empty() && self.query.is_none() { b"/" } else { target }
    }
}

/// Writes the host that routes: lower case, without port, without a final dot.
fn host_of(request: &Head, target: &Target<'_>, host: &mut String) -> Result<(), Fault> {
    host.clear();
    if let Some(authority) = request_authority(request, target).map_err(Fault::Malformed)? {
        let name = authority.host.strip_suffix('.').unwrap_or(authority.host);
        host.push_str(name);
        host.make_ascii_lowercase();
    }
    Ok(())
}

/// The authority of an absolute target replaces `Host` (RFC 9112 §3.2.2).
fn adopt_authority(request: &mut Head) {
    let raw = request.target();
    let authority = raw.windows(3).position(|three| three == b"://").map(|at| {
        let rest = &raw[at + 3..];
        let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
        rest[..end].to_vec()
    });
    if let Some(authority) = authority {
        request.set(b"Host", &authority);
    }
}

/// `websocket` is the only protocol to switch to; others are ignored, as a server may (RFC 9110 §7.8). A request with
/// a body cannot switch: its bytes could be taken for the new protocol's.
fn upgrade(request: &Head, framing: Framing) -> Result<Upgrade, Fault> {
    match upgrade_to(request) {
        Some(protocol) if protocol.eq_ignore_ascii_case(b"websocket") => match framing {
            Framing::None | Framing::Length(0) => Ok(Upgrade::WebSocket),
            _ => Err(Fault::Unsupported),
        },
        _ => Ok(Upgrade::Nothing),
    }
}

/// The header names that rules may ask for, in the form that the router wants.
pub(crate) struct Fields<'a>(pub(crate) &'a Head);

impl fairway_routing::Fields for Fields<'_> {
    fn first(&self, name: &str) -> Option<&[u8]> {
        match name {
            "host" => self.0.first(Known::Host),
            _ => self.0.named(name.as_bytes()),
        }
    }
}
