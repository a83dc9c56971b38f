//! The input of a lookup, borrowed from the request.

/// The header fields of a request that conditions need.
pub trait Fields {
    /// The value of the field `name` (lower case); the caller decides how to join several of one name.
    fn first(&self, name: &str) -> Option<&[u8]>;

    /// Whether `is_one` returns true for any field `name` (lower case), each value as sent. The default checks only the
    /// first: implementations with repeated fields must override it.
    fn any(&self, name: &str, is_one: impl FnMut(&[u8]) -> bool) -> bool {
        self.first(name).is_some_and(is_one)
    }

    /// The value of the first cookie with this name, which is case-sensitive (RFC 6265 §4.1.1).
    fn cookie(&self, name: &str) -> Option<&[u8]> {
        cookies(self.first("cookie")?, name).next()
    }
}

/// The values of all cookies with this name in a line.
pub(crate) fn cookies<'l>(line: &'l [u8], name: &str) -> impl Iterator<Item = &'l [u8]> {
    let pairs = line.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    pairs.filter_map(move |pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

/// A request for a lookup.
#[derive(Debug)]
pub struct Request<'a, F> {
    /// The host in lower case without a port; empty when there is none.
    pub host: &'a str,
    /// As received; methods are case-sensitive (RFC 9110 §9.1).
    pub method: &'a [u8],
    /// The path in [`fairway_model::PathForm::Normalised`].
    pub normalised: &'a [u8],
    /// The path in [`fairway_model::PathForm::Decoded`].
    pub decoded: &'a [u8],
    /// The query without its `?`; empty when there is none.
    pub query: &'a [u8],
    /// The header fields.
    pub fields: &'a F,
}
