//! What a lookup is asked and what it answers. Owns no bytes of either.

/// The header fields of a request, as far as conditions need them.
pub trait Fields {
    /// The value of the field `name` (lower case); how several of one name are joined is the caller's business.
    fn first(&self, name: &str) -> Option<&[u8]>;

    /// The value of the first cookie of this name, which is case-sensitive (RFC 6265 §4.1.1).
    fn cookie(&self, name: &str) -> Option<&[u8]> {
        let mut pairs = self.first("cookie")?.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        pairs.find_map(|pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
    }
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
