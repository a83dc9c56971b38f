//! Why a message is refused: one small `Copy` value per rule, with its status and metric label.

use std::fmt;

macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident = $status:literal, $label:literal, $text:literal;)+) => {
        /// A message breaks this rule. The caller responds and closes the connection.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Malformed {
            $($(#[$doc])* $name,)+
        }

        impl Malformed {
            /// Every rule, for metrics and documentation.
            pub const ALL: &[Malformed] = &[$(Malformed::$name),+];

            /// The status for a downstream request; a malformed upstream response is a 502 whatever the rule.
            pub const fn status(self) -> u16 {
                match self { $(Malformed::$name => $status,)+ }
            }

            /// The metric label.
            pub const fn label(self) -> &'static str {
                match self { $(Malformed::$name => $label,)+ }
            }

            const fn text(self) -> &'static str {
                match self { $(Malformed::$name => $text,)+ }
            }
        }
    };
}

rules! {
    /// The start line is longer than the limit (RFC 9112 §3: 414).
    StartLineTooLong = 414, "start_line_too_long", "the start line is too long";
    /// The head is longer than the limit (RFC 6585 §5: 431).
    HeadTooLarge = 431, "head_too_large", "the head is too large";
    /// More fields than the limit.
    TooManyFields = 431, "too_many_fields", "the head has too many fields";
    /// `Connection` names far more options than any message has.
    ConnectionTooLong = 431, "connection_too_long", "the Connection field is too long";
    /// `HTTP/x.y` other than 1.0 and 1.1.
    UnsupportedVersion = 505, "unsupported_version", "the HTTP version is not supported here";
    /// White space or a second empty line before the start line (RFC 9112 §2.2).
    LeadingWhitespace = 400, "leading_whitespace", "white space before the start line";
    /// The request line is not `method SP target SP version` (RFC 9112 §3).
    RequestLine = 400, "request_line", "the request line is invalid";
    /// The status line is not `version SP status SP reason` (RFC 9112 §4).
    StatusLine = 400, "status_line", "the status line is invalid";
    /// A line ends in LF without CR (RFC 9112 §2.2).
    BareLineFeed = 400, "bare_lf", "a line ends without a carriage return";
    /// A CR without LF (RFC 9112 §2.2).
    BareCarriageReturn = 400, "bare_cr", "a carriage return without a line feed";
    /// A NUL (RFC 9110 §5.5).
    Nul = 400, "nul", "a NUL byte";
    /// A field line that continues the one before, or white space before the first (RFC 9112 §5.2, §2.2).
    ObsFold = 400, "obs_fold", "a folded field line";
    /// White space between a field name and its colon (RFC 9112 §5.1).
    SpaceBeforeColon = 400, "space_before_colon", "white space before the colon of a field";
    /// A field without a name.
    EmptyFieldName = 400, "empty_field_name", "a field has no name";
    /// A field name that is not a token, or a line without a colon (RFC 9110 §5.1).
    FieldName = 400, "field_name", "a field name is invalid";
    /// A control byte in a field value (RFC 9110 §5.5).
    FieldValue = 400, "field_value", "a field value is invalid";
    /// A request target that is none of the four forms (RFC 9112 §3.2).
    TargetInvalid = 400, "target", "the request target is invalid";
    /// No `Host` in HTTP/1.1 (RFC 9112 §3.2).
    HostMissing = 400, "host_missing", "the Host field is missing";
    /// More than one `Host` (RFC 9112 §3.2).
    HostRepeated = 400, "host_repeated", "there is more than one Host field";
    /// An authority that RFC 3986 §3.2 does not allow, or with user information.
    AuthorityInvalid = 400, "authority", "the authority is invalid";
    /// `Host` and the absolute target name different authorities.
    HostDisagrees = 400, "host_disagrees", "Host and the request target disagree";
    /// `Content-Length` that is not one decimal number (RFC 9112 §6.3 item 5).
    ContentLengthInvalid = 400, "content_length", "the Content-Length is invalid";
    /// More than one `Content-Length`, equal or not.
    ContentLengthRepeated = 400, "content_length_repeated", "there is more than one Content-Length";
    /// `Content-Length` together with `Transfer-Encoding` (RFC 9112 §6.3 item 3).
    LengthAndEncoding = 400, "length_and_encoding", "both Content-Length and Transfer-Encoding";
    /// `Transfer-Encoding` repeated, empty, or with `chunked` not exactly once and last (RFC 9112 §6.1).
    EncodingInvalid = 400, "encoding", "the Transfer-Encoding is invalid";
    /// A transfer coding other than `chunked` (RFC 9112 §6.1: 501).
    EncodingUnsupported = 501, "encoding_unsupported", "the transfer coding is not supported";
    /// `Transfer-Encoding` in HTTP/1.0 (RFC 9112 §6.1).
    EncodingInHttp10 = 400, "encoding_in_http10", "Transfer-Encoding in HTTP/1.0";
    /// An expectation other than `100-continue` (RFC 9110 §10.1.1: 417).
    ExpectationUnsupported = 417, "expectation", "the expectation is not supported";
    /// A WebSocket upgrade that is not a GET, or does not have exactly one key (RFC 6455 §4.2.1).
    WebsocketHandshake = 400, "websocket_handshake", "the WebSocket handshake is invalid";
    /// A WebSocket upgrade with a version other than 13 (RFC 6455 §4.4).
    WebsocketVersion = 426, "websocket_version", "the WebSocket version is not 13";
    /// A chunk size that is not 1 to 16 hexadecimal digits, directly followed by CRLF or `;`.
    ChunkSize = 400, "chunk_size", "a chunk size is invalid";
    /// A control byte in a chunk extension, an extension that is too long, or too many of them in a body.
    ChunkExtension = 400, "chunk_extension", "a chunk extension is invalid or too long";
    /// A chunk line or chunk data without its CRLF (RFC 9112 §7.1).
    ChunkEnd = 400, "chunk_end", "a chunk does not end with CRLF";
    /// The body of a gRPC-Web text request is not a sequence of padded base64 (RFC 4648 §4).
    Base64 = 400, "base64", "a body that should be base64 is not";
    /// A trailer section over its limit.
    TrailersTooLarge = 431, "trailers_too_large", "the trailer section is too large";
    /// A trailer line that is not a field line.
    TrailerInvalid = 400, "trailer", "a trailer field is invalid";
    /// The stream or the writer ended before the body did (RFC 9112 §8).
    Truncated = 400, "truncated", "the body ends too early";
    /// More body than declared, or a body where none is allowed.
    BodyTooLong = 400, "body_too_long", "the body is longer than declared";
    /// `%` without two hexadecimal digits (RFC 3986 §2.1).
    PathEscape = 400, "path_escape", "an invalid escape in the path";
    /// An escaped NUL in the path.
    PathNul = 400, "path_nul", "an escaped NUL in the path";
    /// A byte that a path must not contain unescaped.
    PathByte = 400, "path_byte", "an invalid byte in the path";
    /// `..` above the root.
    PathAboveRoot = 400, "path_above_root", "the path climbs above the root";
}

impl fmt::Display for Malformed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.text())
    }
}

impl std::error::Error for Malformed {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn labels_are_snake_case_and_each_its_own() {
        let labels: HashSet<_> = Malformed::ALL.iter().map(|rule| rule.label()).collect();
        assert_eq!(labels.len(), Malformed::ALL.len());
        for label in labels {
            assert!(
                label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
            );
        }
    }

    #[test]
    fn statuses_are_client_or_server_errors() {
        for rule in Malformed::ALL {
            assert!(matches!(rule.status(), 400 | 414 | 417 | 426 | 431 | 501 | 505), "{rule}");
        }
    }
}
