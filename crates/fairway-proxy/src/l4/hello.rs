//! Extracts the SNI from a ClientHello (RFC 8446 §4.1.2, RFC 6066 §3), for a proxy that may have to forward it
//! unchanged. Pure: bytes in, a name out; it sends nothing and verifies nothing else.
//!
//! It is strict about everything that determines the name: whoever terminates TLS behind the proxy must read
//! the same one. Other extensions are skipped unread, so that new ones (GREASE, ECH) make no difference; of an
//! encrypted ClientHello the outer, public name counts.

/// Longest message, including its header. The largest ClientHellos of clients have about 2 KiB.
pub(crate) const MAX_MESSAGE_BYTES: usize = 16 * 1024;

/// Longest message including record headers: one split into fragments of five bytes still fits.
pub(crate) const MAX_RECORDS_BYTES: usize = 2 * MAX_MESSAGE_BYTES;

/// Longest name (RFC 1035 §2.3.4).
const MAX_NAME_BYTES: usize = 253;

/// "The length MUST NOT exceed 2^14 bytes" (RFC 8446 §5.1).
const MAX_RECORD_BYTES: usize = 1 << 14;

/// Type, version and length of a record.
const RECORD_HEADER_BYTES: usize = 5;

/// Type and length of a handshake message.
const MESSAGE_HEADER_BYTES: usize = 4;

/// Offset of the session id length in a ClientHello, behind version and random.
const SESSION_ID_LENGTH_OFFSET: usize = 2 + 32;

/// Record type of handshake messages.
const HANDSHAKE_RECORD: u8 = 22;

/// Handshake message type of a ClientHello.
const CLIENT_HELLO: u8 = 1;

/// Type of the server_name extension.
const SERVER_NAME_EXTENSION: usize = 0;

/// The only name type.
const HOST_NAME_TYPE: usize = 0;

/// The parsed part of a ClientHello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientHello {
    /// The SNI in lower case and without a final dot. `None` without one, or if it is no DNS name: such a
    /// client is treated as in nginx, where no server has that name.
    pub name: Option<Box<str>>,
}

impl ClientHello {
    /// Parses a ClientHello without records, as QUIC carries it (RFC 9001 §4.1.3), with whatever follows it;
    /// `None` if more is needed.
    ///
    /// # Errors
    /// This is no ClientHello of QUIC, or its name is ambiguous.
    pub(crate) fn from_message(bytes: &[u8]) -> Result<Option<Self>, MessageError> {
        let behind_type = match bytes {
            [] => return Ok(None),
            [CLIENT_HELLO, rest @ ..] => rest,
            _ => return Err(MessageError::Unexpected),
        };
        let Some((length, content)) = behind_type.split_at_checked(MESSAGE_HEADER_BYTES - 1) else {
            return Ok(None);
        };
        let length = be_number(length);
        if length > MAX_MESSAGE_BYTES - MESSAGE_HEADER_BYTES {
            return Err(MessageError::Malformed);
        }
        let Some(content) = content.get(..length) else { return Ok(None) };
        let hello = parse_client_hello(content).map_err(|NotClientHello| MessageError::Malformed)?;
        match content[SESSION_ID_LENGTH_OFFSET] {
            0 => Ok(Some(hello)),
            _ => Err(MessageError::CompatibilityMode),
        }
    }
}

/// Why a message is no ClientHello of QUIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageError {
    /// Another message.
    Unexpected,
    /// Malformed, or longer than the limit.
    Malformed,
    /// It has a session id, which TLS 1.3 over TCP uses for middlebox compatibility (RFC 9001 §8.4).
    CompatibilityMode,
}

/// The connection does not start with a ClientHello, or with one that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotClientHello;

/// Reads a ClientHello split into any fragments and records. Looks at each byte once.
#[derive(Debug, Default)]
pub(crate) struct HelloReader {
    /// Header of the current record.
    header: [u8; RECORD_HEADER_BYTES],
    /// Bytes of the header read; 0 while the content is read.
    header_len: usize,
    /// Bytes of the record content still to be read.
    record_bytes_left: usize,
    /// The message so far.
    message: Vec<u8>,
    bytes_read: usize,
}

impl HelloReader {
    /// A reader without input.
    #[must_use]
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Reads the next bytes of the connection; `None` if more are needed. Ignores bytes behind the message.
    ///
    /// # Errors
    /// This is no ClientHello, or its name is ambiguous.
    pub(crate) fn read(&mut self, mut bytes: &[u8]) -> Result<Option<ClientHello>, NotClientHello> {
        while !bytes.is_empty() {
            let consumed = if self.record_bytes_left == 0 {
                self.read_header(bytes)?
            } else {
                self.read_content(bytes)?
            };
            bytes = &bytes[consumed..];
            self.bytes_read += consumed;
            if self.bytes_read > MAX_RECORDS_BYTES {
                return Err(NotClientHello);
            }
            if !self.message.is_empty() && self.missing_bytes()? == 0 {
                return parse_client_hello(&self.message[MESSAGE_HEADER_BYTES..]).map(Some);
            }
        }
        Ok(None)
    }

    fn read_header(&mut self, bytes: &[u8]) -> Result<usize, NotClientHello> {
        let consumed = bytes.len().min(RECORD_HEADER_BYTES - self.header_len);
        self.header[self.header_len..self.header_len + consumed].copy_from_slice(&bytes[..consumed]);
        self.header_len += consumed;
        if self.header_len == RECORD_HEADER_BYTES {
            let [kind, major, _, high, low] = self.header;
            let length = usize::from(u16::from_be_bytes([high, low]));
            // "Implementations MUST NOT send zero-length fragments of Handshake types" (RFC 8446 §5.1).
            if kind != HANDSHAKE_RECORD || major != 3 || length == 0 || length > MAX_RECORD_BYTES {
                return Err(NotClientHello);
            }
            (self.record_bytes_left, self.header_len) = (length, 0);
        }
        Ok(consumed)
    }

    fn read_content(&mut self, bytes: &[u8]) -> Result<usize, NotClientHello> {
        let consumed = bytes.len().min(self.record_bytes_left).min(self.missing_bytes()?);
        self.message.extend_from_slice(&bytes[..consumed]);
        self.record_bytes_left -= consumed;
        Ok(consumed)
    }

    /// Bytes missing from the message, or from its header while that is incomplete.
    fn missing_bytes(&self) -> Result<usize, NotClientHello> {
        match self.message[..] {
            [kind, ..] if kind != CLIENT_HELLO => Err(NotClientHello),
            [_, a, b, c, ..] => {
                let length = MESSAGE_HEADER_BYTES + be_number(&[a, b, c]);
                if length > MAX_MESSAGE_BYTES { Err(NotClientHello) } else { Ok(length - self.message.len()) }
            }
            _ => Ok(MESSAGE_HEADER_BYTES - self.message.len()),
        }
    }
}

/// Parses the content of a ClientHello.
fn parse_client_hello(content: &[u8]) -> Result<ClientHello, NotClientHello> {
    let mut rest = Cursor(content);
    rest.bytes(SESSION_ID_LENGTH_OFFSET)?;
    let session = rest.vector(1)?;
    let suites = rest.vector(2)?;
    let compressions = rest.vector(1)?;
    if session.len() > 32 || suites.is_empty() || suites.len() % 2 != 0 || compressions.is_empty() {
        return Err(NotClientHello);
    }
    // Before TLS 1.3 a hello may have no extensions at all (RFC 5246 §7.4.1.2).
    if rest.0.is_empty() {
        return Ok(ClientHello { name: None });
    }
    let mut extensions = Cursor(rest.vector(2)?);
    if !rest.0.is_empty() {
        return Err(NotClientHello);
    }
    let (mut name, mut is_named) = (None, false);
    while !extensions.0.is_empty() {
        let kind = be_number(extensions.bytes(2)?);
        let content = extensions.vector(2)?;
        // "There MUST NOT be more than one extension of the same type" (RFC 8446 §4.2).
        if kind == SERVER_NAME_EXTENSION {
            if std::mem::replace(&mut is_named, true) {
                return Err(NotClientHello);
            }
            name = dns_name(server_name(content)?);
        }
    }
    Ok(ClientHello { name })
}

/// "The ServerNameList MUST NOT contain more than one name of the same name_type", and there is one type (RFC 6066 §3).
fn server_name(content: &[u8]) -> Result<&[u8], NotClientHello> {
    let mut outer = Cursor(content);
    let mut list = Cursor(outer.vector(2)?);
    let kind = be_number(list.bytes(1)?);
    let name = list.vector(2)?;
    let is_whole = outer.0.is_empty() && list.0.is_empty() && kind == HOST_NAME_TYPE;
    if is_whole && !name.is_empty() { Ok(name) } else { Err(NotClientHello) }
}

/// The name in the form of host lookups, if it is a valid host name.
fn dns_name(name: &[u8]) -> Option<Box<str>> {
    let name = host_name(std::str::from_utf8(name).ok()?);
    let is_of_a_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let is_name = !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.bytes().all(is_of_a_name);
    is_name.then(|| name.into())
}

/// Normalizes a requested name for host lookups: lower case, without the final dot. RFC 6066 §3 forbids the
/// dot, which denotes the same name.
#[must_use]
pub(crate) fn host_name(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// Reads bytes from the front.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], NotClientHello> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(NotClientHello)?;
        self.0 = rest;
        Ok(taken)
    }

    /// A vector with a length prefix of `width` bytes (RFC 8446 §3.4).
    fn vector(&mut self, width: usize) -> Result<&'a [u8], NotClientHello> {
        let length = be_number(self.bytes(width)?);
        self.bytes(length)
    }
}

/// At most three bytes as a big-endian number.
fn be_number(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

#[cfg(test)]
mod checks;
#[cfg(test)]
mod tests;
