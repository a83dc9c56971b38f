//! A recorded request, the input of the comparison of two configurations.

use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};

use fairway_http::path;
use fairway_model::{Origin, PathForm};

use crate::request::{Fields, Request};

/// The recorded properties of a request that Fairway has served.
#[derive(Clone, Debug)]
pub struct KnownRequest<'r> {
    /// The name of the listener that received the request, if known.
    pub listener: Option<&'r str>,
    /// Whether the connection used TLS.
    pub over_tls: bool,
    /// The request method.
    pub method: &'r str,
    /// The host, in lower case and without port. A truncated text ends with `…`.
    pub host: &'r str,
    /// The path as received, without query. A truncated text ends with `…`.
    pub path: &'r str,
    /// Whether the request target had a query.
    pub has_query: bool,
    /// The client, to which address rules apply.
    pub client: KnownClient,
    /// The rule that served the request, if any.
    pub rule: Option<KnownRule<'r>>,
    /// Whether the request was forwarded, which means that every guard let it pass.
    pub forwarded: bool,
    /// The endpoint of the last attempt.
    pub endpoint: Option<SocketAddr>,
}

/// The client of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownClient {
    /// A client with this address.
    Address(IpAddr),
    /// A client whose address Fairway did not know when it served the request. Address rules refuse such a client.
    UnknownAddress,
    /// A client whose address the record does not contain. The result of address rules is unknown.
    UnrecordedAddress,
}

/// The rule that served a request, identified by its object and field. A truncated text ends with `…`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownRule<'r> {
    /// The kind of the object that defines the rule.
    pub kind: &'r str,
    /// The namespace of the object.
    pub namespace: &'r str,
    /// The name of the object.
    pub name: &'r str,
    /// The field of the object.
    pub field: &'r str,
}

impl KnownRule<'_> {
    /// Whether `origin` is the object and field of this rule. A truncated text equals every text that begins with it,
    /// as the record does not contain the rest.
    pub(super) fn is_from(&self, origin: &Origin) -> bool {
        let Origin { kind, namespace, name, field, source: _ } = origin;
        let matches = |recorded: &str, text: &str| match recorded.strip_suffix(TRUNCATION_MARK) {
            Some(beginning) => text.starts_with(beginning),
            None => recorded == text,
        };
        matches(self.kind, kind)
            && matches(self.namespace, namespace)
            && matches(self.name, name)
            && matches(self.field, field)
    }
}

/// The last character of a truncated text in a record.
const TRUNCATION_MARK: char = '…';

/// A recorded request with both forms of its path that rules match.
pub(super) struct RequestPaths<'r> {
    pub(super) known_request: &'r KnownRequest<'r>,
    pub(super) normalised: Vec<u8>,
    pub(super) decoded: Vec<u8>,
}

impl<'r> RequestPaths<'r> {
    /// `None` if the host or path is truncated, not valid UTF-8 when received, or no path that Fairway would route.
    pub(super) fn new(known: &'r KnownRequest<'r>) -> Option<Self> {
        let is_exact = |text: &str| !text.contains([TRUNCATION_MARK, char::REPLACEMENT_CHARACTER]);
        if !is_exact(known.host) || !is_exact(known.path) || !known.path.starts_with('/') {
            return None;
        }
        let (mut normalised, mut decoded) = (Vec::new(), Vec::new());
        path::normalise(known.path.as_bytes(), &mut normalised).ok()?;
        path::decode(known.path.as_bytes(), &mut decoded).ok()?;
        Some(Self { known_request: known, normalised, decoded })
    }

    /// The path in one of the two forms.
    pub(super) fn in_form(&self, form: PathForm) -> &[u8] {
        match form {
            PathForm::Normalised => &self.normalised,
            PathForm::Decoded => &self.decoded,
        }
    }

    /// The request for a lookup of its rule. It has no query and headers, because records contain neither.
    pub(super) fn request<'a>(&'a self, fields: &'a NoHeaders) -> Request<'a, NoHeaders> {
        Request {
            host: self.known_request.host,
            method: self.known_request.method.as_bytes(),
            normalised: &self.normalised,
            decoded: &self.decoded,
            query: b"",
            fields,
        }
    }
}

/// The empty headers of a recorded request. They note whether a rule reads a header, because the result of that rule
/// is then unknown.
#[derive(Default)]
pub(super) struct NoHeaders {
    was_read: Cell<bool>,
}

impl NoHeaders {
    /// Whether a rule has read a header.
    pub(super) fn were_read(&self) -> bool {
        self.was_read.get()
    }
}

impl Fields for NoHeaders {
    fn first(&self, _name: &str) -> Option<&[u8]> {
        self.was_read.set(true);
        None
    }
}
