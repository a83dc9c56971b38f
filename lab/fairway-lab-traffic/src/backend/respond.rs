//! Responses: the size for each target, and the bytes of a head.

use std::io::Write;

/// Upper bound of a response's size, in bytes, whatever a target asks for.
const MAX_RESPONSE_BYTES: u64 = 1 << 30;

/// The response that a target asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WantedResponse {
    /// Whether it lives.
    Health,
    /// Content of this many bytes.
    Bytes(u64),
}

impl WantedResponse {
    /// Reads a target; `usual` is the size where it does not say.
    pub(super) fn from_target(target: &str, usual: u64) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if path == "/healthz" {
            return Self::Health;
        }
        let by_query = query
            .split('&')
            .find_map(|pair| pair.strip_prefix("size="))
            .and_then(|size| size.parse::<u64>().ok());
        let size = by_query.or_else(|| by_name(path)).unwrap_or(usual);
        Self::Bytes(size.min(MAX_RESPONSE_BYTES))
    }
}

/// `/1kb.bin`, `/1mb.bin`: powers of 1,024, as the studies name their files.
fn by_name(path: &str) -> Option<u64> {
    let name = path.rsplit('/').next()?.strip_suffix(".bin")?;
    let (number, unit) = match (name.strip_suffix("kb"), name.strip_suffix("mb")) {
        (Some(number), _) => (number, 1_024),
        (_, Some(number)) => (number, 1_024 * 1_024),
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// The backend's identity.
pub(super) struct Identity {
    fields: Vec<u8>,
}

/// Values of the headers of a response.
pub(super) struct Head<'a> {
    pub(super) status: u16,
    /// Length of the content, in bytes.
    pub(super) size: u64,
    /// The id of the request, repeated in the response.
    pub(super) id: Option<&'a [u8]>,
    /// Whether the connection ends after it.
    pub(super) close: bool,
}

impl Identity {
    pub(super) fn new(name: &str, pod: &str) -> Self {
        let mut fields = format!("X-Lab-Backend: {name}\r\n").into_bytes();
        if !pod.is_empty() {
            fields.extend_from_slice(format!("X-Lab-Pod: {pod}\r\n").as_bytes());
        }
        Self { fields }
    }

    /// Appends the head of a response to `out`.
    pub(super) fn head(&self, out: &mut Vec<u8>, head: &Head<'_>) {
        let Head { status, size, id, close } = *head;
        // Writing to memory cannot fail.
        _ = write!(out, "HTTP/1.1 {status} {}\r\nContent-Length: {size}\r\n", reason(status));
        out.extend_from_slice(b"Content-Type: application/octet-stream\r\n");
        out.extend_from_slice(&self.fields);
        if let Some(id) = id {
            out.extend_from_slice(b"X-Lab-Id: ");
            out.extend_from_slice(id);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(if close { b"Connection: close\r\n\r\n" } else { b"\r\n" });
    }
}

fn reason(status: u16) -> &'static str {
    http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or("Status")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_names_its_size() {
        for (target, size) in [
            ("/", 7),
            ("/0kb.bin", 0),
            ("/x/1kb.bin", 1_024),
            ("/1mb.bin?x", 1_048_576),
            ("/a?x=1&size=12", 12),
            ("/a?size=99999999999", MAX_RESPONSE_BYTES),
            ("/kb.bin", 7),
        ] {
            assert_eq!(WantedResponse::from_target(target, 7), WantedResponse::Bytes(size), "{target}");
        }
        assert_eq!(WantedResponse::from_target("/healthz?", 7), WantedResponse::Health);
    }
}
