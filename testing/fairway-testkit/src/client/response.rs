//! Responses as received. Reads no sockets.

use crate::wire::{self, Fields, Framing, Malformed};

/// A response with everything a test may inspect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawResponse {
    /// `HTTP/1.1` or `HTTP/1.0`.
    pub version: String,
    /// The status code.
    pub status: u16,
    /// The fields in the order of the wire.
    pub headers: Fields,
    /// The content, decoded when it was chunked.
    pub body: Vec<u8>,
    /// The trailer section of a chunked body.
    pub trailers: Fields,
    /// The framing of the body.
    pub framing: Framing,
}

impl RawResponse {
    /// The only value of the field `name`.
    pub fn header(&self, name: &str) -> Option<&str> {
        let values = self.header_values(name);
        assert!(values.len() < 2, "{name} is there {} times: {values:?}", values.len());
        values.first().copied()
    }

    /// Every value of the field `name`.
    pub fn header_values(&self, name: &str) -> Vec<&str> {
        wire::values(&self.headers, name)
    }

    /// The body as text; invalid UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("status {}, no JSON ({error}): {}", self.status, self.text()))
    }

    /// Whether it is an interim response (RFC 9110 §15.2); 101 is final.
    pub fn is_interim(&self) -> bool {
        matches!(self.status, 100 | 102..=199)
    }
}

/// RFC 9112 §6.3, items 1 to 8 for responses.
pub(super) fn answer_framing(status: u16, method: &str, fields: &Fields) -> Result<Framing, Malformed> {
    let declared = wire::framing(fields)?;
    match (status, declared) {
        // RFC 9110 §8.6, RFC 9112 §6.1: neither framing field in 1xx and 204.
        (100..=199 | 204, Some(framing)) => {
            Err(Malformed(format!("{framing:?} in an answer of status {status}")))
        }
        (100..=199 | 204 | 304, _) => Ok(Framing::None),
        _ if method == "HEAD" => Ok(Framing::None),
        (200..=299, _) if method == "CONNECT" => Ok(Framing::None),
        (_, declared) => Ok(declared.unwrap_or(Framing::Close)),
    }
}

/// The version and the status.
pub(super) fn status_line(line: &str) -> Result<(String, u16), Malformed> {
    let wrong = || Malformed(format!("status line {line:?}"));
    let (version, rest) = line.split_once(' ').ok_or_else(wrong)?;
    // The space after the code stays even when the reason is empty (RFC 9112 §4).
    let (code, _reason) = rest.split_once(' ').ok_or_else(wrong)?;
    let known = matches!(version, "HTTP/1.1" | "HTTP/1.0");
    let digits = code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_digit());
    match code.parse() {
        Ok(status @ 100..=999) if known && digits => Ok((version.to_owned(), status)),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_framing_depends_on_status_and_method() {
        let sized = vec![("Content-Length".to_owned(), "3".to_owned())];
        assert_eq!(answer_framing(200, "GET", &sized), Ok(Framing::Length(3)));
        assert_eq!(answer_framing(200, "HEAD", &sized), Ok(Framing::None));
        assert_eq!(answer_framing(304, "GET", &sized), Ok(Framing::None));
        assert_eq!(answer_framing(200, "GET", &Vec::new()), Ok(Framing::Close));
        assert!(answer_framing(204, "GET", &sized).is_err());
    }

    #[test]
    fn a_bad_status_line_is_refused() {
        for line in
            ["HTTP/1.1 200", "HTTP/2 200 OK", "HTTP/1.1  200 OK", "HTTP/1.1 +20 OK", "http/1.1 200 OK"]
        {
            assert!(status_line(line).is_err(), "{line:?}");
        }
    }
}
