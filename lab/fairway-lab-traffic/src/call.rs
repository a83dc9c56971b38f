//! The unary call of gRPC (gRPC over HTTP/2) that the generator makes and backends answer. Values only.

use bytes::Bytes;

/// The method that is called.
pub const PATH: &str = "/fairway.Lab/Call";
/// The type of a call and of its answer.
pub const CONTENT_TYPE: &str = "application/grpc";
/// The field of the trailers that says how a call ended, and its value when that was well.
pub const STATUS: (&str, &str) = ("grpc-status", "0");
/// Bytes of the message that a call carries.
pub const REQUEST: usize = 100;
/// Bytes of the message that it is answered with.
pub const RESPONSE: usize = 1_024;

/// Bytes before a message: that it is not compressed, and its length (Length-Prefixed-Message).
const PREFIX: usize = 5;

/// The content of a request or an answer that is one message of so many bytes.
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
    fn a_message_says_that_it_is_not_compressed_and_how_long_it_is() {
        let content = message(RESPONSE);
        assert_eq!((&content[..PREFIX], content.len()), (&[0, 0, 0, 4, 0][..], 1_029));
        assert!(content[PREFIX..].iter().all(|byte| *byte == b'x'));
    }
}
