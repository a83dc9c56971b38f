//! The head of an answer in HTTP/1, by RFC 9112 §4 and §5: what of it decides framing, reuse and whether the answer is the
//! expected one. Every other field is checked for its form and forgotten.

use super::reading::Malformed;

/// What a head says.
#[derive(Default)]
pub(super) struct Head {
    /// The status.
    pub(super) status: u16,
    /// Whether the connection ends with this answer.
    pub(super) close: bool,
    /// Whether the expected field is there with its value.
    pub(super) matched: bool,
    /// How the end of the content is found.
    pub(super) framing: Framing,
    /// The status line, for examples of errors.
    line: Vec<u8>,
}

/// What a head says about the end of the content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Framing {
    #[default]
    Unsaid,
    Length(u64),
    Chunked,
}

impl Head {
    /// Reads a whole head, its empty line included.
    pub(super) fn read(&mut self, bytes: &[u8], expected: Option<(&str, &str)>) -> Result<(), Malformed> {
        let mut rest = self.status_line(bytes)?;
        loop {
            let (line, after) = line(rest)?;
            if line.is_empty() {
                return Ok(());
            }
            let (name, value) = field(line)?;
            self.field(name, value)?;
            if let Some((wanted, content)) = expected
                && name.eq_ignore_ascii_case(wanted.as_bytes())
            {
                self.matched |= value == content.as_bytes();
            }
            rest = after;
        }
    }

    /// The status line as text.
    pub(super) fn line(&self) -> String {
        String::from_utf8_lossy(&self.line).into_owned()
    }

    fn status_line<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Malformed> {
        let (line, rest) = line(bytes)?;
        let minor = match line {
            [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor @ (b'0' | b'1'), b' ', ..] => *minor,
            _ => return Err("its status line does not begin with HTTP/1.0 or HTTP/1.1"),
        };
        let code = line.get(9..12).ok_or("its status line has no status")?;
        if !code.iter().all(u8::is_ascii_digit)
            || !matches!(line.get(12), None | Some(b' '))
            || code[0] == b'0'
        {
            return Err("its status is not three digits");
        }
        self.status = code.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'));
        // RFC 9112 §9.3: a connection of HTTP/1.0 ends unless the answer says otherwise.
        self.close = minor == b'0';
        self.line.extend_from_slice(&line[..line.len().min(200)]);
        Ok(rest)
    }

    fn field(&mut self, name: &[u8], value: &[u8]) -> Result<(), Malformed> {
        match name.len() {
            10 if name.eq_ignore_ascii_case(b"connection") => {
                if has_token(value, b"close") {
                    self.close = true;
                } else if has_token(value, b"keep-alive") {
                    self.close = false;
                }
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                let length = number(value)?;
                self.framing = match self.framing {
                    Framing::Chunked => return Err("Content-Length beside Transfer-Encoding"),
                    Framing::Length(before) if before != length => {
                        return Err("two values of Content-Length");
                    }
                    _ => Framing::Length(length),
                };
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                // RFC 9112 §6.1: nothing else was asked for, so nothing else may come.
                if !value.eq_ignore_ascii_case(b"chunked") {
                    return Err("a Transfer-Encoding other than chunked");
                }
                self.framing = match self.framing {
                    Framing::Unsaid => Framing::Chunked,
                    Framing::Chunked => return Err("Transfer-Encoding twice"),
                    Framing::Length(_) => return Err("Content-Length beside Transfer-Encoding"),
                };
            }
            _ => {}
        }
        Ok(())
    }
}

fn line(bytes: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n')).ok_or("a line without its end")?;
    match bytes.get(end..end + 2) {
        Some(b"\r\n") => Ok((&bytes[..end], &bytes[end + 2..])),
        _ => Err("a line that does not end with CR LF"),
    }
}

fn field(line: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let colon = line.iter().position(|byte| *byte == b':').ok_or("a field without a colon")?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    if name.is_empty() || !name.iter().all(|byte| is_token(*byte)) {
        return Err("the name of a field is not a token");
    }
    if value.iter().any(|byte| *byte == 0x7f || (*byte < 0x20 && *byte != b'\t')) {
        return Err("the value of a field has a control character");
    }
    Ok((name, value.trim_ascii()))
}

/// RFC 9110 §5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn has_token(list: &[u8], token: &[u8]) -> bool {
    list.split(|byte| *byte == b',').any(|item| item.trim_ascii().eq_ignore_ascii_case(token))
}

fn number(value: &[u8]) -> Result<u64, Malformed> {
    if value.is_empty() || value.len() > 18 || !value.iter().all(u8::is_ascii_digit) {
        return Err("a Content-Length that is not a number");
    }
    Ok(value.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}
