//! Methods and versions. The spelling of an extension method is kept in the head.

/// A request method (RFC 9110 §9, RFC 5789). Methods are case-sensitive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// `GET`
    Get,
    /// `HEAD`
    Head,
    /// `POST`
    Post,
    /// `PUT`
    Put,
    /// `DELETE`
    Delete,
    /// `OPTIONS`
    Options,
    /// `PATCH`
    Patch,
    /// `TRACE`
    Trace,
    /// `CONNECT`
    Connect,
    /// Any other token.
    Other,
}

impl Method {
    /// The method with this name.
    #[inline]
    pub fn from_name(name: &[u8]) -> Method {
        match name {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            b"OPTIONS" => Method::Options,
            b"PATCH" => Method::Patch,
            b"TRACE" => Method::Trace,
            b"CONNECT" => Method::Connect,
            _ => Method::Other,
        }
    }

    /// "the GET, HEAD, OPTIONS, and TRACE methods are defined to be safe" (RFC 9110 §9.2.1).
    #[inline]
    pub fn is_safe(self) -> bool {
        use Method::{Get, Head, Options, Trace};
        matches!(self, Get | Head | Options | Trace)
    }

    /// "the safe request methods, PUT, and DELETE are idempotent" (RFC 9110 §9.2.2). CONNECT is neither.
    #[inline]
    pub fn is_idempotent(self) -> bool {
        use Method::{Delete, Get, Head, Options, Put, Trace};
        matches!(self, Get | Head | Put | Delete | Options | Trace)
    }
}

/// The supported HTTP versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// `HTTP/1.0`
    Http10,
    /// `HTTP/1.1`
    Http11,
    /// `HTTP/2`
    Http2,
    /// `HTTP/3`
    Http3,
}

impl Version {
    /// Whether messages are streams of frames with an explicit end: any body can have trailers, no length is needed,
    /// and a WebSocket starts with an extended CONNECT (RFC 9113, RFC 9114).
    #[inline]
    #[must_use]
    pub fn has_streams(self) -> bool {
        self >= Version::Http2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_case_sensitive() {
        assert_eq!(Method::from_name(b"GET"), Method::Get);
        assert_eq!(Method::from_name(b"get"), Method::Other);
        assert_eq!(Method::from_name(b"GETX"), Method::Other);
    }

    #[test]
    fn only_the_methods_of_rfc_9110_are_idempotent() {
        for name in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"] {
            assert!(Method::from_name(name.as_bytes()).is_idempotent(), "{name}");
            assert_eq!(
                Method::from_name(name.as_bytes()).is_safe(),
                !["PUT", "DELETE"].contains(&name),
                "{name}"
            );
        }
        for name in ["POST", "PATCH", "CONNECT", "PURGE"] {
            let method = Method::from_name(name.as_bytes());
            assert!(!method.is_idempotent() && !method.is_safe(), "{name}");
        }
    }
}
