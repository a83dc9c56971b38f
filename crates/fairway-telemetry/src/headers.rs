//! Headers for collectors, mostly credentials. Their values appear in no message of this crate.

use std::fmt;

use http::header::{HeaderMap, HeaderName, HeaderValue};

/// The maximum number of headers.
const MAX_HEADERS: usize = 32;

/// Names that the protocol uses itself.
const RESERVED_NAMES: [&str; 8] = [
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "te",
    "transfer-encoding",
    "user-agent",
];

/// Headers of every request to a collector.
#[derive(Clone, Default)]
pub struct Headers(Vec<(HeaderName, HeaderValue)>);

/// Why a text is not a header. Never contains the value, which may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// There is no `=`.
    #[error("is not NAME=VALUE")]
    NoEquals,
    /// The name is not a valid header name.
    #[error("the part before = is not the name of a header")]
    Name,
    /// The protocol uses the name itself.
    #[error("the header {0} belongs to the protocol, and cannot be set")]
    Reserved(HeaderName),
    /// The value has characters other than printable ASCII.
    #[error("the value of {0} has characters other than printable ASCII")]
    Value(HeaderName),
    /// There are too many of them.
    #[error("there are more than {MAX_HEADERS} headers")]
    TooMany,
}

impl Headers {
    /// Adds the header in a text `NAME=VALUE`.
    ///
    /// # Errors
    /// It is not a header, or reserved for the protocol.
    pub fn add(&mut self, text: &str) -> Result<(), HeaderError> {
        let (name, value) = text.split_once('=').ok_or(HeaderError::NoEquals)?;
        let name: HeaderName = name.trim().parse().map_err(|_| HeaderError::Name)?;
        if RESERVED_NAMES.contains(&name.as_str()) || name.as_str().starts_with("grpc-") {
            return Err(HeaderError::Reserved(name));
        }
        let mut value = HeaderValue::from_str(value.trim()).map_err(|_| HeaderError::Value(name.clone()))?;
        value.set_sensitive(true);
        if self.0.len() == MAX_HEADERS {
            return Err(HeaderError::TooMany);
        }
        self.0.push((name, value));
        Ok(())
    }

    /// Adds the headers in a text, one per line; empty lines and those that start with `#` are skipped.
    ///
    /// # Errors
    /// The number of the first invalid line, and the reason.
    pub fn add_lines(&mut self, text: &str) -> Result<(), (usize, HeaderError)> {
        for (index, line) in text.lines().map(str::trim).enumerate() {
            if !line.is_empty() && !line.starts_with('#') {
                self.add(line).map_err(|error| (index + 1, error))?;
            }
        }
        Ok(())
    }

    /// Whether there are no headers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds them to a request.
    pub(crate) fn add_to(&self, to: &mut HeaderMap) {
        for (name, value) in &self.0 {
            to.append(name.clone(), value.clone());
        }
    }
}

/// Names only.
impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_a_name_and_a_value() {
        let mut headers = Headers::default();
        headers.add("Authorization=Basic YTpi==").unwrap();
        headers.add_lines("# for tests\n\nx-tenant = a b \nx-tenant=c\r\n").unwrap();
        let mut map = HeaderMap::new();
        headers.add_to(&mut map);
        assert_eq!(map["authorization"], "Basic YTpi==");
        let tenants: Vec<_> = map.get_all("x-tenant").iter().collect();
        assert_eq!(tenants, ["a b", "c"]);
        assert!(map["authorization"].is_sensitive());
    }

    #[test]
    fn an_invalid_header_is_refused_without_its_value() {
        let add = |text: &str| Headers::default().add(text).unwrap_err().to_string();
        for (text, part) in [
            ("s3cret", "is not NAME=VALUE"),
            ("s3cret name=v", "not the name of a header"),
            ("=s3cret", "not the name of a header"),
            ("Content-Type=s3cret", "content-type belongs to the protocol"),
            ("grpc-timeout=s3cret", "grpc-timeout belongs to the protocol"),
            ("a=s3cret\u{7f}", "the value of a"),
            ("a=s3cret\né", "the value of a"),
        ] {
            let error = add(text);
            assert!(error.contains(part) && !error.contains("s3cret"), "{text:?}: {error}");
        }
        assert_eq!(Headers::default().add_lines("a=b\nc"), Err((2, HeaderError::NoEquals)));
        let mut headers = Headers::default();
        assert_eq!(headers.add_lines(&"a=b\n".repeat(33)), Err((33, HeaderError::TooMany)));
        headers.add("b=s3cret").unwrap_err();
        assert!(!format!("{headers:?}").contains("=b"), "{headers:?}");
    }
}
