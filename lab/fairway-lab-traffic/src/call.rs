//! The unary gRPC call of the generator and the backends. Values only.

use bytes::Bytes;

/// The method that is called.
pub const PATH: &str = "/fairway.Lab/Call";
/// The content type of a call and its response.
pub const CONTENT_TYPE: &str = "application/grpc";
/// The trailer with the status of a call, and its value for success.
pub const STATUS: (&str, &str) = ("grpc-status", "0");
/// Bytes of the request message.
pub const REQUEST: usize = 100;
/// Bytes of the response message.
pub const RESPONSE: usize = 1_024;

/// Bytes before a message: the compression flag and the length (Length-Prefixed-Message).
const PREFIX: usize = 5;

/// The body of a request or response with one message of this many bytes.
#[must_use]
pub fn message(bytes: usize) -> Bytes {
    let mut content = Vec::with_capacity(PREFIX + bytes);
    content.push(0);
    content.extend_from_slice(&(bytes as u32).to_be_bytes());
    content.resize(PREFIX + bytes, b'x');
    content.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_an_uncompressed_flag_and_its_length() {
        let content = message(RESPONSE);
        assert_eq!((&content[..PREFIX], content.len()), (&[0, 0, 0, 4, 0][..], 1_029));
        assert!(content[PREFIX..].iter().all(|byte| *byte == b'x'));
    }
}
