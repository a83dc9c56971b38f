//! The behaviour of a backend: a script of steps, or a response to every request. Values only.

use std::sync::Arc;
use std::time::Duration;

use super::record::RecordedRequest;

/// One step of a script. After the last step the connection is read until the peer closes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptStep {
    /// Reads a request head.
    ReadHead,
    /// Reads a complete request with its body and records it.
    ReadRequest,
    /// Reads this many bytes.
    ReadBody(usize),
    /// Reads as many bytes as these and fails the connection when they differ.
    Expect(Vec<u8>),
    /// Sends bytes.
    Send(Vec<u8>),
    /// Waits for one [`super::Backend::release`].
    Wait,
    /// Lets time pass, for rules that are about time.
    Pause(Duration),
    /// Closes the sending direction and keeps reading.
    HalfClose,
    /// Ends the connection with a FIN.
    Close,
    /// Ends the connection with a RST.
    Reset,
    /// Starts again with the first step.
    Repeat,
}

/// The reaction of an HTTP backend to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackendResponse {
    /// Sends these bytes and waits for the next request.
    Bytes(Vec<u8>),
    /// Sends these bytes once the test calls [`super::Backend::release`].
    Held(Vec<u8>),
    /// Sends these bytes and ends with a FIN.
    ThenClose(Vec<u8>),
    /// Sends these bytes and ends with a RST.
    ThenReset(Vec<u8>),
    /// Sends nothing more and leaves the connection open.
    Silence,
}

impl BackendResponse {
    /// A status with a body of known length.
    pub fn status(status: u16, body: impl AsRef<[u8]>) -> Self {
        Self::with_headers(status, &[], body)
    }

    /// A status with fields and a body of known length.
    pub fn with_headers(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let mut bytes = format!("HTTP/1.1 {status} Scripted\r\n");
        for (name, value) in headers {
            bytes.push_str(&format!("{name}: {value}\r\n"));
        }
        // RFC 9110 §8.6: no length where there cannot be content.
        if !matches!(status, 100..=199 | 204 | 304) {
            bytes.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        bytes.push_str("\r\n");
        let mut bytes = bytes.into_bytes();
        bytes.extend_from_slice(body);
        Self::Bytes(bytes)
    }

    /// `200` with `body`.
    pub fn ok(body: impl AsRef<[u8]>) -> Self {
        Self::status(200, body)
    }

    /// The same bytes, sent when the test releases them.
    pub fn hold(self) -> Self {
        match self {
            Self::Bytes(bytes) | Self::ThenClose(bytes) | Self::ThenReset(bytes) => Self::Held(bytes),
            other => other,
        }
    }
}

impl From<Vec<u8>> for BackendResponse {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

/// The behaviour of a backend's connections.
#[derive(Clone)]
pub enum Behaviour {
    /// The n-th connection follows the n-th script, every later one the last.
    Scripts(Vec<Vec<ScriptStep>>),
    /// Answers every request; created by [`Behaviour::http`].
    Http(Arc<dyn Fn(&RecordedRequest) -> BackendResponse + Send + Sync>),
}

impl Behaviour {
    /// Answers every request with the result of `handler`, on kept-alive connections.
    pub fn http<A: Into<BackendResponse>>(
        handler: impl Fn(&RecordedRequest) -> A + Send + Sync + 'static,
    ) -> Self {
        Self::Http(Arc::new(move |request| handler(request).into()))
    }
}
