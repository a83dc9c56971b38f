//! What a lookup is asked and what it answers. Owns no bytes of either.

/// The header fields of a request, as far as conditions need them.
pub trait Fields {
    /// The value of the field `name` (lower case); how several of one name are joined is the caller's business.
    fn first(&self, name: &str) -> Option<&[u8]>;

    /// Whether `is_one` holds for the value of any field `name` (lower case), each value as it was sent. The default knows
    /// only the first: fields that can have a name twice need their own.
    fn any(&self, name: &str, is_one: impl FnMut(&[u8]) -> bool) -> bool {
        self.first(name).is_some_and(is_one)
    }

    /// The value of the first cookie of this name, which is case-sensitive (RFC 6265 §4.1.1).
    fn cookie(&self, name: &str) -> Option<&[u8]> {
        cookies(self.first("cookie")?, name).next()
    }
}

/// The values of all cookies of this name in a line of them.
pub(crate) fn cookies<'l>(line: &'l [u8], name: &str) -> impl Iterator<Item = &'l [u8]> {
    let pairs = line.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    pairs.filter_map(move |pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

/// A request as lookup sees it.
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
