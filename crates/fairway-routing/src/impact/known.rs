//! A request as it is remembered.

use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};

use fairway_http::path;
use fairway_model::{Origin, PathForm};

use crate::request::{Fields, Request};

/// What is known of a request that was served.
#[derive(Clone, Debug)]
pub struct KnownRequest<'r> {
    /// The name of the listener that it came to, where that is known.
    pub listener: Option<&'r str>,
    /// Whether its connection had TLS.
    pub over_tls: bool,
    /// The method.
    pub method: &'r str,
    /// The host, lower case and without port. A text that ends with `…` was cut.
    pub host: &'r str,
    /// The path as received, without query. A text that ends with `…` was cut.
    pub path: &'r str,
    /// Whether there was a query.
    pub has_query: bool,
    /// Who asked.
    pub client: KnownClient,
    /// The rule that served it.
    pub rule: Option<KnownRule<'r>>,
    /// Whether it was forwarded: every guard let it pass.
    pub forwarded: bool,
    /// The last endpoint that it was sent to.
    pub endpoint: Option<SocketAddr>,
}

/// Who asked, once trust was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownClient {
    /// This address.
    Address(IpAddr),
    /// A client of whose address Fairway knew nothing: rules over addresses refuse it.
    Nameless,
    /// The address is not remembered.
    NotKept,
}

/// The rule that served a request, by the object and the field that it comes from. A text that ends with `…` was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownRule<'r> {
    /// The kind of the object.
    pub kind: &'r str,
    /// Its namespace.
    pub namespace: &'r str,
    /// Its name.
    pub name: &'r str,
    /// The field.
    pub field: &'r str,
}

impl KnownRule<'_> {
    /// Whether it comes from there.
    pub(super) fn is_from(&self, origin: &Origin) -> bool {
        let Origin { kind, namespace, name, field, source: _ } = origin;
        let is = |kept: &str, text: &str| match kept.strip_suffix(CUT) {
            Some(start) => text.starts_with(start),
            None => kept == text,
        };
        is(self.kind, kind) && is(self.namespace, namespace) && is(self.name, name) && is(self.field, field)
    }
}

/// What ends a text that was cut.
const CUT: char = '…';

/// A request with the forms of its path.
pub(super) struct Prepared<'r> {
    pub(super) known: &'r KnownRequest<'r>,
    pub(super) normalised: Vec<u8>,
    pub(super) decoded: Vec<u8>,
}

impl<'r> Prepared<'r> {
    /// `None` where its host or its path is not known as it was.
    pub(super) fn of(known: &'r KnownRequest<'r>) -> Option<Self> {
        let is_whole = |text: &str| !text.contains([CUT, char::REPLACEMENT_CHARACTER]);
        if !is_whole(known.host) || !is_whole(known.path) || !known.path.starts_with('/') {
            return None;
        }
        let (mut normalised, mut decoded) = (Vec::new(), Vec::new());
        path::normalise(known.path.as_bytes(), &mut normalised).ok()?;
        path::decode(known.path.as_bytes(), &mut decoded).ok()?;
        Some(Self { known, normalised, decoded })
    }

    /// Its path in one of the two forms.
    pub(super) fn in_form(&self, form: PathForm) -> &[u8] {
        match form {
            PathForm::Normalised => &self.normalised,
            PathForm::Decoded => &self.decoded,
        }
    }

    /// As lookup takes it, without query and fields.
    pub(super) fn request<'a>(&'a self, fields: &'a NoFields) -> Request<'a, NoFields> {
        Request {
            host: self.known.host,
            method: self.known.method.as_bytes(),
            normalised: &self.normalised,
            decoded: &self.decoded,
            query: b"",
            fields,
        }
    }
}

/// No field of a request, and whether one was asked for.
#[derive(Default)]
pub(super) struct NoFields {
    asked: Cell<bool>,
}

impl NoFields {
    pub(super) fn were_asked_for(&self) -> bool {
        self.asked.get()
    }
}

impl Fields for NoFields {
    fn first(&self, _name: &str) -> Option<&[u8]> {
        self.asked.set(true);
        None
    }
}
