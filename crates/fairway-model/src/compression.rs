//! Response compression.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A content coding (RFC 9110 §8.4.1) for responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ContentCoding {
    /// RFC 7932.
    Brotli,
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

impl ContentCoding {
    /// Its name in `Accept-Encoding` and `Content-Encoding`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// Compression of responses from endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compression {
    /// Codings in order of preference, each at most once. The order decides if the client has no preference.
    pub codings: Vec<CodingRule>,
}

/// A coding and the responses it applies to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodingRule {
    /// The coding.
    pub coding: ContentCoding,
    /// Compression level: 1 to 9 for gzip and zstd, 0 to 6 for Brotli.
    pub level: u8,
    /// Minimum `Content-Length`. Responses without a length are always eligible.
    pub min_length: u64,
    /// Media types without parameters, in lower case; `*` matches any.
    pub types: Arc<[Arc<str>]>,
}

impl CodingRule {
    /// Whether responses of this media type, which may have parameters, are eligible.
    #[must_use]
    pub fn has_type(&self, media_type: Option<&[u8]>) -> bool {
        let essence = media_type.map(|text| {
            let end = text.iter().position(|byte| *byte == b';').unwrap_or(text.len());
            text[..end].trim_ascii()
        });
        self.types.iter().any(|known| {
            &**known == "*" || essence.is_some_and(|essence| known.as_bytes().eq_ignore_ascii_case(essence))
        })
    }
}

impl Compression {
    /// This compression without one coding; `None` if no coding is left.
    #[must_use]
    pub fn without(&self, coding: ContentCoding) -> Option<Self> {
        let codings: Vec<_> = self.codings.iter().filter(|rule| rule.coding != coding).cloned().collect();
        (!codings.is_empty()).then_some(Self { codings })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(coding: ContentCoding, types: &[&str]) -> CodingRule {
        CodingRule {
            coding,
            level: 1,
            min_length: 0,
            types: types.iter().map(|name| (*name).into()).collect(),
        }
    }

    #[test]
    fn types_are_compared_without_case_and_parameters() {
        let listed = rule(ContentCoding::Gzip, &["text/html", "application/json"]);
        for (value, expected) in [
            ("text/html", true),
            ("Text/HTML; charset=utf-8", true),
            ("application/json ;q=1", true),
            ("text/htm", false),
            ("text/html2", false),
            ("", false),
            ("; text/html", false),
        ] {
            assert_eq!(listed.has_type(Some(value.as_bytes())), expected, "{value}");
        }
        assert!(!listed.has_type(None));
        assert!(rule(ContentCoding::Gzip, &["*"]).has_type(None));
        assert!(rule(ContentCoding::Gzip, &["a/b", "*"]).has_type(Some(b"image/png")));
    }

    #[test]
    fn a_coding_can_be_left_out() {
        let gzip = Compression { codings: vec![rule(ContentCoding::Gzip, &["*"])] };
        assert_eq!(gzip.without(ContentCoding::Gzip), None);
        let codings = vec![rule(ContentCoding::Brotli, &["*"]), rule(ContentCoding::Gzip, &["*"])];
        let both = Compression { codings };
        let brotli = Compression { codings: vec![rule(ContentCoding::Brotli, &["*"])] };
        assert_eq!(both.without(ContentCoding::Gzip), Some(brotli));
    }
}
