//! The messages of the two processes: a line of text each, starting with the version.

use std::fmt;

/// The version of the protocol. Increase it with any change: processes with different versions do not hand over.
pub(super) const VERSION: u32 = 1;

/// Maximum bytes of a message.
pub(super) const MAX_BYTES: usize = 512;

/// Descriptors of one message; the kernel allows 253.
pub(super) const MAX_DESCRIPTORS: usize = 64;

const PROTOCOL: &str = "fairway-handover";

/// Maximum bytes of a reason.
const MAX_REASON: usize = 300;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// The new process asks for the sockets.
    Hello,
    /// This many sockets come with this message.
    Sockets(usize),
    /// All sockets were sent.
    Complete,
    /// The new process gets no sockets.
    Refused(String),
    /// The new process serves from now on.
    Ready,
}

/// Why a message is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MalformedMessage {
    /// It is truncated.
    Torn,
    /// It is too long.
    TooLong,
    /// It has another version.
    Version(u32),
    /// It is of another protocol, or unknown.
    Unknown,
}

impl fmt::Display for MalformedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Torn => f.write_str("a message is cut off"),
            Self::TooLong => write!(f, "a message is longer than {MAX_BYTES} bytes"),
            Self::Version(version) => write!(
                f,
                "the other process speaks version {version} of the hand-over and this one version {VERSION}: stop the old process, \
                 then start the new one"
            ),
            Self::Unknown => f.write_str("a message is not part of the Fairway handover protocol"),
        }
    }
}

impl Message {
    /// The encoded message.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let words = match self {
            Self::Hello => "hello".to_owned(),
            Self::Sockets(count) => format!("sockets {count}"),
            Self::Complete => "complete".to_owned(),
            Self::Refused(reason) => format!("refused {}", printable(reason)),
            Self::Ready => "ready".to_owned(),
        };
        format!("{PROTOCOL} {VERSION} {words}\n").into_bytes()
    }

    /// Parses a message.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, MalformedMessage> {
        if bytes.len() > MAX_BYTES {
            return Err(MalformedMessage::TooLong);
        }
        let line = bytes.strip_suffix(b"\n").ok_or(MalformedMessage::Torn)?;
        let line = std::str::from_utf8(line).map_err(|_| MalformedMessage::Unknown)?;
        let mut words = line.splitn(4, ' ');
        if words.next() != Some(PROTOCOL) {
            return Err(MalformedMessage::Unknown);
        }
        let version =
            words.next().and_then(|version| version.parse().ok()).ok_or(MalformedMessage::Unknown)?;
        if version != VERSION {
            return Err(MalformedMessage::Version(version));
        }
        match (words.next(), words.next()) {
            (Some("hello"), None) => Ok(Self::Hello),
            (Some("sockets"), Some(count)) => {
                let count = count.parse().ok().filter(|count| (1..=MAX_DESCRIPTORS).contains(count));
                count.map(Self::Sockets).ok_or(MalformedMessage::Unknown)
            }
            (Some("complete"), None) => Ok(Self::Complete),
            (Some("refused"), Some(reason)) => Ok(Self::Refused(printable(reason))),
            (Some("ready"), None) => Ok(Self::Ready),
            _ => Err(MalformedMessage::Unknown),
        }
    }
}

/// A reason, safe to be logged.
fn printable(reason: &str) -> String {
    let mut text: String = reason.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.truncate(text.floor_char_boundary(MAX_REASON));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Message, MalformedMessage> {
        Message::parse(text.as_bytes())
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        let refused = Message::Refused("it is draining".to_owned());
        for message in [Message::Hello, Message::Sockets(64), Message::Complete, refused, Message::Ready] {
            assert_eq!(Message::parse(&message.bytes()), Ok(message));
        }
    }

    #[test]
    fn a_message_truncated_anywhere_is_incomplete() {
        for message in
            [Message::Hello, Message::Sockets(12), Message::Refused("no".to_owned()), Message::Ready]
        {
            let bytes = message.bytes();
            for end in 0..bytes.len() {
                assert_eq!(
                    Message::parse(&bytes[..end]),
                    Err(MalformedMessage::Torn),
                    "{end} of {message:?}"
                );
            }
        }
    }

    #[test]
    fn no_message_is_too_long_and_a_longer_one_is_not_read() {
        let bytes = Message::Refused("é".repeat(10_000)).bytes();
        assert!(bytes.len() <= MAX_BYTES && Message::parse(&bytes).is_ok());
        let longer = format!("fairway-handover 1 refused {}\n", "x".repeat(MAX_BYTES));
        assert_eq!(parse(&longer), Err(MalformedMessage::TooLong));
    }

    #[test]
    fn another_version_is_named_whatever_it_says() {
        assert_eq!(parse("fairway-handover 2 hello\n"), Err(MalformedMessage::Version(2)));
        assert_eq!(parse("fairway-handover 0 something new entirely\n"), Err(MalformedMessage::Version(0)));
        assert!(MalformedMessage::Version(2).to_string().contains("version 2"));
    }

    #[test]
    fn other_bytes_are_no_message() {
        for text in [
            "\n",
            "GET / HTTP/1.1\n",
            "fairway-handover\n",
            "fairway-handover one hello\n",
            "fairway-handover 1\n",
            "fairway-handover 1 hello you\n",
            "fairway-handover 1 sockets\n",
            "fairway-handover 1 sockets 0\n",
            "fairway-handover 1 sockets 65\n",
            "fairway-handover 1 sockets -1\n",
            "fairway-handover 1 sockets 1 2\n",
            "fairway-handover 1 ready \n",
            "fairway-handover 1 hello\nfairway-handover 1 ready\n",
        ] {
            assert_eq!(parse(text), Err(MalformedMessage::Unknown), "{text:?}");
        }
        assert_eq!(Message::parse(b"fairway-handover 1 \xff\n"), Err(MalformedMessage::Unknown));
    }

    #[test]
    fn a_reason_cannot_forge_lines_of_a_log() {
        let Ok(Message::Refused(reason)) = parse("fairway-handover 1 refused a\x1b[2Jb\n") else { panic!() };
        assert_eq!(reason, "a [2Jb");
    }
}
