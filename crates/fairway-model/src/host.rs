//! Host name patterns of virtual hosts and certificates.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A host name pattern, always in lower case and without a port.
///
/// The variants are ordered from the most to the least specific.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum HostPattern {
    /// Exactly this name (or IP literal).
    Exact(Arc<str>),
    /// Names that end in `.suffix`.
    Wildcard {
        /// The part after `*.`, for example `example.com`.
        suffix: Arc<str>,
        /// How many labels the star stands for.
        span: WildcardSpan,
    },
    /// Every name, and requests without a name.
    Any,
}

/// How many labels the star of a wildcard host covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum WildcardSpan {
    /// Exactly one label: Kubernetes Ingress, ingress-nginx, and names in certificates (RFC 6125 §6.4.3).
    OneLabel,
    /// One or more labels: Gateway API `Hostname`.
    ManyLabels,
}

/// Why a text is not a host pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostError {
    /// Nothing follows the star, or a label is empty.
    EmptyLabel,
    /// A byte that is not allowed in host names (RFC 952, RFC 1123 §2.1; `_` is accepted, as in DNS).
    InvalidByte(u8),
    /// A star that is not the whole first label.
    MisplacedStar,
    /// More than 253 bytes (RFC 1035 §2.3.4).
    TooLong,
}

impl HostPattern {
    /// Parses `name`, `*.name` or the empty string (every name). Case is folded.
    ///
    /// # Errors
    /// The first part that is invalid.
    pub fn parse(text: &str, span: WildcardSpan) -> Result<Self, HostError> {
        if text.is_empty() {
            return Ok(Self::Any);
        }
        let lower = text.to_ascii_lowercase();
        match lower.strip_prefix("*.") {
            Some(suffix) => {
                validate_name(suffix)?;
                Ok(Self::Wildcard { suffix: suffix.into(), span })
            }
            None => {
                validate_name(&lower)?;
                Ok(Self::Exact(lower.into()))
            }
        }
    }

    /// Order of specificity: exact names, then wildcards by suffix length, then [`HostPattern::Any`].
    #[must_use]
    pub fn specificity(&self) -> (u8, usize) {
        match self {
            Self::Exact(_) => (2, 0),
            Self::Wildcard { suffix, .. } => (1, suffix.len()),
            Self::Any => (0, 0),
        }
    }

    /// Whether the pattern covers `name` (lower case, no port). The slow, obvious form.
    #[must_use]
    pub fn covers(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(exact) => **exact == *name,
            Self::Wildcard { suffix, span } => {
                let Some(star) = name.strip_suffix(&**suffix).and_then(|rest| rest.strip_suffix('.')) else {
                    return false;
                };
                !star.is_empty() && (*span == WildcardSpan::ManyLabels || !star.contains('.'))
            }
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => f.write_str(name),
            Self::Wildcard { suffix, .. } => write!(f, "*.{suffix}"),
            Self::Any => f.write_str("*"),
        }
    }
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyLabel => f.write_str("has an empty label"),
            Self::InvalidByte(byte) => write!(f, "has the invalid character {:?}", char::from(*byte)),
            Self::MisplacedStar => f.write_str("has a '*' that is not the whole first label"),
            Self::TooLong => f.write_str("is longer than 253 characters"),
        }
    }
}

impl std::error::Error for HostError {}

fn validate_name(name: &str) -> Result<(), HostError> {
    if name.len() > 253 {
        return Err(HostError::TooLong);
    }
    if name.contains('*') {
        return Err(HostError::MisplacedStar);
    }
    for label in name.strip_suffix('.').unwrap_or(name).split('.') {
        if label.is_empty() {
            return Err(HostError::EmptyLabel);
        }
        if let Some(byte) = label.bytes().find(|b| !(b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))) {
            return Err(HostError::InvalidByte(byte));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str, span: WildcardSpan) -> HostPattern {
        HostPattern::parse(text, span).unwrap()
    }

    #[test]
    fn a_one_label_wildcard_covers_exactly_one_label() {
        let wildcard = pattern("*.Example.com", WildcardSpan::OneLabel);
        assert!(wildcard.covers("a.example.com"));
        assert!(!wildcard.covers("a.b.example.com"));
        assert!(!wildcard.covers("example.com"));
        assert!(!wildcard.covers(".example.com"));
    }

    #[test]
    fn a_gateway_wildcard_covers_many_labels() {
        let many = pattern("*.example.com", WildcardSpan::ManyLabels);
        assert!(many.covers("a.b.example.com"));
        assert!(!many.covers("notexample.com"));
    }

    #[test]
    fn rejects_invalid_hosts() {
        for (text, error) in [
            ("a..b", HostError::EmptyLabel),
            ("*.", HostError::EmptyLabel),
            ("a.*.b", HostError::MisplacedStar),
            ("a b", HostError::InvalidByte(b' ')),
        ] {
            assert_eq!(HostPattern::parse(text, WildcardSpan::OneLabel), Err(error), "{text}");
        }
    }
}
