//! The name that a TLS client asks for, out of its first message (RFC 8446 §4.1.2, RFC 6066 §3), for a proxy that may have
//! to forward this message as it came. Pure: bytes in, a name out; it answers nothing and verifies nothing else.
//!
//! It is strict about whatever decides which name is read: who ends TLS behind the proxy must read the same one. All other
//! extensions are skipped unread, so that new ones (GREASE, ECH) make no difference; of an encrypted ClientHello the outer
//! name counts, which is the public one.

/// The longest message, with its own header. The largest that clients send have about 2 KiB.
pub(crate) const MOST_OF_MESSAGE: usize = 16 * 1024;

/// The most bytes that it may take with the headers of its records: a message in pieces of five bytes still fits.
pub(crate) const MOST_IN_RECORDS: usize = 2 * MOST_OF_MESSAGE;

/// The longest name (RFC 1035 §2.3.4).
const MOST_OF_NAME: usize = 253;

/// "The length MUST NOT exceed 2^14 bytes" (RFC 8446 §5.1).
const MOST_OF_RECORD: usize = 1 << 14;

/// Of a record: its type, its version and its length.
const RECORD_HEADER: usize = 5;

/// Of a handshake message: its type and its length.
const MESSAGE_HEADER: usize = 4;

/// Where the length of the session id is in a ClientHello, behind its version and its random bytes.
const SESSION_LENGTH_AT: usize = 2 + 32;

/// The type of records with handshake messages.
const HANDSHAKE: u8 = 22;

/// The type of a ClientHello among handshake messages.
const CLIENT_HELLO: u8 = 1;

/// The extension with the name.
const SERVER_NAME: usize = 0;

/// The only kind of name there is.
const HOST_NAME: usize = 0;

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientHello {
    /// The name in lower case and without a final dot; none where the client says none, or what is no DNS name: such a client is
    /// treated as in nginx, where no server has that name.
    pub name: Option<Box<str>>,
}

impl ClientHello {
    /// Reads one that came without records, as QUIC carries it (RFC 9001 §4.1.3), with what may follow it; `None` where more of it must
    /// come.
    ///
    /// # Errors
    /// When this is no ClientHello of QUIC, or one that leaves open which name it asks for.
    pub(crate) fn in_message(bytes: &[u8]) -> Result<Option<Self>, MessageError> {
        let behind_type = match bytes {
            [] => return Ok(None),
            [CLIENT_HELLO, rest @ ..] => rest,
            _ => return Err(MessageError::Unexpected),
        };
        let Some((length, content)) = behind_type.split_at_checked(MESSAGE_HEADER - 1) else {
            return Ok(None);
        };
        let length = number(length);
        if length > MOST_OF_MESSAGE - MESSAGE_HEADER {
            return Err(MessageError::Malformed);
        }
        let Some(content) = content.get(..length) else { return Ok(None) };
        let hello = asked(content).map_err(|NoHello| MessageError::Malformed)?;
        match content[SESSION_LENGTH_AT] {
            0 => Ok(Some(hello)),
            _ => Err(MessageError::CompatibilityMode),
        }
    }
}

/// Why a message is no ClientHello of QUIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageError {
    /// It is another message.
    Unexpected,
    /// It cannot be read, or is longer than is read.
    Malformed,
    /// It has a session id, as TLS 1.3 over TCP has for the sake of middleboxes (RFC 9001 §8.4).
    CompatibilityMode,
}

/// The connection begins with something else, or with more than is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoHello;

/// Reads a ClientHello, in however many pieces and records it comes. Each byte is looked at once.
#[derive(Debug, Default)]
pub(crate) struct HelloReader {
    /// Of the record that is being read.
    header: [u8; RECORD_HEADER],
    /// How much of it has come; all of it while its content comes.
    header_len: usize,
    /// What is missing of the record's content.
    left: usize,
    /// The message as far as it has come.
    message: Vec<u8>,
    taken: usize,
}

impl HelloReader {
    /// Nothing has come yet.
    #[must_use]
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes of the connection; `None` asks for more of them. What follows the message is not looked at.
    ///
    /// # Errors
    /// When this is no ClientHello, or one that leaves open which name it asks for.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> Result<Option<ClientHello>, NoHello> {
        while !bytes.is_empty() {
            let used = if self.left == 0 { self.take_header(bytes)? } else { self.take_content(bytes)? };
            bytes = &bytes[used..];
            self.taken += used;
            if self.taken > MOST_IN_RECORDS {
                return Err(NoHello);
            }
            if !self.message.is_empty() && self.missing()? == 0 {
                return asked(&self.message[MESSAGE_HEADER..]).map(Some);
            }
        }
        Ok(None)
    }

    fn take_header(&mut self, bytes: &[u8]) -> Result<usize, NoHello> {
        let used = bytes.len().min(RECORD_HEADER - self.header_len);
        self.header[self.header_len..self.header_len + used].copy_from_slice(&bytes[..used]);
        self.header_len += used;
        if self.header_len == RECORD_HEADER {
            let [kind, major, _, high, low] = self.header;
            let length = usize::from(u16::from_be_bytes([high, low]));
            // "Implementations MUST NOT send zero-length fragments of Handshake types" (RFC 8446 §5.1).
            if kind != HANDSHAKE || major != 3 || length == 0 || length > MOST_OF_RECORD {
                return Err(NoHello);
            }
            (self.left, self.header_len) = (length, 0);
        }
        Ok(used)
    }

    fn take_content(&mut self, bytes: &[u8]) -> Result<usize, NoHello> {
        let used = bytes.len().min(self.left).min(self.missing()?);
        self.message.extend_from_slice(&bytes[..used]);
        self.left -= used;
        Ok(used)
    }

    /// How many bytes are missing of the message, or of its header while that has not come.
    fn missing(&self) -> Result<usize, NoHello> {
        match self.message[..] {
            [kind, ..] if kind != CLIENT_HELLO => Err(NoHello),
            [_, a, b, c, ..] => {
                let whole = MESSAGE_HEADER + number(&[a, b, c]);
                if whole > MOST_OF_MESSAGE { Err(NoHello) } else { Ok(whole - self.message.len()) }
            }
            _ => Ok(MESSAGE_HEADER - self.message.len()),
        }
    }
}

/// The name in the content of a ClientHello.
fn asked(content: &[u8]) -> Result<ClientHello, NoHello> {
    let mut rest = Cursor(content);
    rest.bytes(SESSION_LENGTH_AT)?;
    let session = rest.vector(1)?;
    let suites = rest.vector(2)?;
    let compressions = rest.vector(1)?;
    if session.len() > 32 || suites.is_empty() || suites.len() % 2 != 0 || compressions.is_empty() {
        return Err(NoHello);
    }
    // Before TLS 1.3 a hello may have no extensions at all (RFC 5246 §7.4.1.2).
    if rest.0.is_empty() {
        return Ok(ClientHello { name: None });
    }
    let mut extensions = Cursor(rest.vector(2)?);
    if !rest.0.is_empty() {
        return Err(NoHello);
    }
    let (mut name, mut is_named) = (None, false);
    while !extensions.0.is_empty() {
        let kind = number(extensions.bytes(2)?);
        let content = extensions.vector(2)?;
        // "There MUST NOT be more than one extension of the same type" (RFC 8446 §4.2).
        if kind == SERVER_NAME {
            if std::mem::replace(&mut is_named, true) {
                return Err(NoHello);
            }
            name = dns_name(server_name(content)?);
        }
    }
    Ok(ClientHello { name })
}

/// "The ServerNameList MUST NOT contain more than one name of the same name_type", and there is one type (RFC 6066 §3).
fn server_name(content: &[u8]) -> Result<&[u8], NoHello> {
    let mut outer = Cursor(content);
    let mut list = Cursor(outer.vector(2)?);
    let kind = number(list.bytes(1)?);
    let name = list.vector(2)?;
    let is_whole = outer.0.is_empty() && list.0.is_empty() && kind == HOST_NAME;
    if is_whole && !name.is_empty() { Ok(name) } else { Err(NoHello) }
}

/// The name as hosts are looked up, if it can be that of a host.
fn dns_name(name: &[u8]) -> Option<Box<str>> {
    let name = host_name(std::str::from_utf8(name).ok()?);
    let is_of_a_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let is_name = !name.is_empty() && name.len() <= MOST_OF_NAME && name.bytes().all(is_of_a_name);
    is_name.then(|| name.into())
}

/// A name that a client asks for, as hosts are looked up: in lower case, and without the dot of the root at its end. RFC 6066 §3
/// forbids the dot, and means the same name.
#[must_use]
pub(crate) fn host_name(asked: &str) -> String {
    asked.strip_suffix('.').unwrap_or(asked).to_ascii_lowercase()
}

/// Bytes that are read from the front.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], NoHello> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(NoHello)?;
        self.0 = rest;
        Ok(taken)
    }

    /// A vector behind its length, which has `width` bytes (RFC 8446 §3.4).
    fn vector(&mut self, width: usize) -> Result<&'a [u8], NoHello> {
        let length = number(self.bytes(width)?);
        self.bytes(length)
    }
}

/// At most three bytes as a number.
fn number(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

#[cfg(test)]
mod checks;
#[cfg(test)]
mod tests;
