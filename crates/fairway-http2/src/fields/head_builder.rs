//! Builds a head from the lines of a field block, with the rules between fields (RFC 9113 §8.2, §8.3) and the limits of
//! a list. Refused fields are read and dropped, to keep the compression table in step.

use fairway_http::{Head, Known, Span};

use super::request::PseudoFields;
use crate::hpack::Line;
use crate::verdict::{Defect, Verdict, parse_length};

/// Limits of a list of fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all names and values plus 32 per field (RFC 9113 §6.5.2), counting every cookie crumb.
    pub list_bytes: u32,
    /// Number of fields, including pseudo-header fields and crumbs.
    pub fields: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { list_bytes: 32 * 1024, fields: 128 }
    }
}

/// The message that a block is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// A request. `extended` says whether `:protocol` was offered (RFC 8441).
    Request {
        /// Whether we sent SETTINGS_ENABLE_CONNECT_PROTOCOL.
        extended: bool,
    },
    /// A response.
    Response,
    /// Trailers of a request or response.
    Trailers,
}

/// The result of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockOutcome {
    /// The head is complete.
    Complete {
        /// `content-length`, if present.
        length: Option<u64>,
        /// `:protocol`, if present.
        protocol: Option<Span>,
    },
    /// The message breaks a rule.
    Malformed(Defect),
    /// The list exceeds a limit; nothing of it is kept.
    TooLarge,
}

/// Builds the head of one block.
#[derive(Debug)]
pub struct HeadBuilder<'h> {
    head: &'h mut Head,
    message: Message,
    limits: Limits,
    size: usize,
    count: u32,
    defect: Option<Defect>,
    /// What was read so far.
    cookie_state: CookieState,
    pseudo: PseudoFields,
    length: Option<u64>,
}

/// Which regular fields were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CookieState {
    /// None: only pseudo-header fields.
    None,
    /// The last field is a cookie crumb.
    Crumb,
    /// The last field is another one, after crumbs.
    AfterCrumbs,
    /// The last field is a crumb, with other fields between crumbs.
    Scattered,
    /// No crumbs.
    Others,
}

impl<'h> HeadBuilder<'h> {
    /// For a block of this message. Clears the head.
    #[inline]
    pub fn new(head: &'h mut Head, message: Message, limits: Limits) -> Self {
        head.clear();
        HeadBuilder {
            head,
            message,
            limits,
            size: 0,
            count: 0,
            defect: None,
            cookie_state: CookieState::None,
            pseudo: PseudoFields::default(),
            length: None,
        }
    }

    /// Adds the next line.
    #[inline]
    pub fn add(&mut self, line: Line<'_>) {
        self.size = self.size.saturating_add(line.size());
        self.count = self.count.saturating_add(1);
        if self.is_too_large() || self.defect.is_some() {
            return;
        }
        if let Err(defect) = self.add_line(line) {
            self.defect = Some(defect);
        }
    }

    /// Ends the block.
    pub fn finish(mut self) -> BlockOutcome {
        let protocol = match self.defect {
            Some(defect) => Err(defect),
            None if self.is_too_large() => {
                self.head.clear();
                return BlockOutcome::TooLarge;
            }
            None => self.start_line(),
        };
        match protocol {
            Ok(protocol) => BlockOutcome::Complete { length: self.length, protocol },
            Err(defect) => {
                self.head.clear();
                BlockOutcome::Malformed(defect)
            }
        }
    }

    #[inline]
    fn is_too_large(&self) -> bool {
        self.size > self.limits.list_bytes as usize || self.count > self.limits.fields
    }

    #[inline]
    fn add_line(&mut self, line: Line<'_>) -> Result<(), Defect> {
        match line.verdict {
            Verdict::Regular => self.add_regular(line),
            Verdict::Cookie => self.add_crumb(line),
            Verdict::Host => return self.add_host(line),
            Verdict::Length => return self.add_length(line),
            Verdict::Bad(defect) => return Err(defect),
            pseudo => return self.add_pseudo(pseudo, line.value()),
        }
        Ok(())
    }

    /// Fields for routing, framing or one hop are dropped from trailers (RFC 9110 §6.5.1).
    #[inline]
    fn add_regular(&mut self, line: Line<'_>) {
        if self.message == Message::Trailers && !line.known.may_be_trailer() {
            return;
        }
        self.cookie_state = match self.cookie_state {
            CookieState::None | CookieState::Others => CookieState::Others,
            CookieState::Scattered => CookieState::AfterCrumbs,
            CookieState::Crumb | CookieState::AfterCrumbs => CookieState::AfterCrumbs,
        };
        self.head.lay_line(line.bytes, line.name_bytes, line.known, line.sensitive);
    }

    /// "these MUST be concatenated into a single octet string using the two-octet delimiter of 0x3b, 0x20 ... before
    /// being passed into a non-HTTP/2 context" (RFC 9113 §8.2.3). Consecutive crumbs are joined at once, others at the
    /// end.
    #[inline]
    fn add_crumb(&mut self, line: Line<'_>) {
        if self.message == Message::Trailers {
            return;
        }
        // Joined with others, an empty crumb would leave a trailing space, which no value may have (§8.2.1).
        if line.value().is_empty() {
            return self.skip_regular();
        }
        if matches!(self.cookie_state, CookieState::Crumb | CookieState::Scattered) {
            return self.head.extend_last(b"; ", line.value(), line.sensitive);
        }
        self.cookie_state = match self.cookie_state {
            CookieState::AfterCrumbs => CookieState::Scattered,
            _ => CookieState::Crumb,
        };
        self.head.lay_line(line.bytes, line.name_bytes, line.known, line.sensitive);
    }

    /// `:authority` replaces `host`, which must agree with it.
    fn add_host(&mut self, line: Line<'_>) -> Result<(), Defect> {
        if let Message::Request { .. } = self.message {
            if let Some(authority) = self.pseudo.authority(self.head) {
                let agrees = self.pseudo.is_same_authority(authority, line.value());
                self.skip_regular();
                return if agrees { Ok(()) } else { Err(Defect::Host) };
            }
            if self.head.first(Known::Host).is_some() {
                return Err(Defect::Host);
            }
        }
        self.add_regular(line);
        Ok(())
    }

    fn add_length(&mut self, line: Line<'_>) -> Result<(), Defect> {
        if self.message == Message::Trailers {
            return Ok(());
        }
        if self.length.is_some() {
            return Err(Defect::ContentLength);
        }
        self.length = parse_length(line.value());
        self.add_regular(line);
        Ok(())
    }

    /// Records a regular field that is not added to the head.
    fn skip_regular(&mut self) {
        if self.cookie_state == CookieState::None {
            self.cookie_state = CookieState::Others;
        }
    }

    fn add_pseudo(&mut self, verdict: Verdict, value: &[u8]) -> Result<(), Defect> {
        if self.message == Message::Trailers {
            return Err(Defect::PseudoInTrailers);
        }
        if self.cookie_state != CookieState::None {
            return Err(Defect::PseudoLate);
        }
        if self.message != Message::Response {
            return self.pseudo.add(verdict, value, self.head);
        }
        if verdict != Verdict::Status {
            return Err(Defect::PseudoUnknown);
        }
        if self.head.status() != 0 {
            return Err(Defect::PseudoRepeated);
        }
        let status = value.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'));
        // "HTTP/2 removes support for the 101 (Switching Protocols) informational status code" (RFC 9113 §8.6).
        if status == 101 {
            return Err(Defect::Status);
        }
        self.head.start_response(status);
        Ok(())
    }

    /// Completes the head.
    fn start_line(&mut self) -> Result<Option<Span>, Defect> {
        let protocol = match self.message {
            Message::Request { extended } => self.pseudo.finish(self.head, extended)?,
            Message::Response if self.head.status() == 0 => return Err(Defect::PseudoMissing),
            Message::Response | Message::Trailers => None,
        };
        if matches!(self.cookie_state, CookieState::Scattered | CookieState::AfterCrumbs) {
            self.head.join(b"cookie", b"; ");
        }
        Ok(protocol)
    }
}
