//! Lines of one block into a head, with the rules between them (RFC 9113 §8.2, §8.3) and the bounds of a list. Never stops
//! reading: what is refused is dropped, so that the compression table stays in step.

use fairway_http::{Head, Known, Span};

use super::request::Pseudo;
use crate::hpack::Line;
use crate::verdict::{Defect, Verdict, length};

/// How large a list of fields may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all names and values and 32 for each field (RFC 9113 §6.5.2), every crumb of a cookie counted.
    pub list_bytes: u32,
    /// Number of fields, pseudo-header fields and crumbs included.
    pub fields: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { list_bytes: 32 * 1024, fields: 128 }
    }
}

/// Which message a block is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// A request. `extended` says whether `:protocol` was offered (RFC 8441).
    Request {
        /// Whether we sent SETTINGS_ENABLE_CONNECT_PROTOCOL.
        extended: bool,
    },
    /// A response.
    Response,
    /// Trailers of either.
    Trailers,
}

/// What became of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The head is complete.
    Complete {
        /// `content-length`, if it was there.
        length: Option<u64>,
        /// `:protocol`, if it was there.
        protocol: Option<Span>,
    },
    /// The message breaks a rule.
    Malformed(Defect),
    /// The list is over a limit; nothing of it is kept.
    TooLarge,
}

/// Reads one block.
#[derive(Debug)]
pub struct Intake<'h> {
    head: &'h mut Head,
    message: Message,
    limits: Limits,
    size: usize,
    count: u32,
    defect: Option<Defect>,
    /// What came so far.
    regular: Regular,
    pseudo: Pseudo,
    length: Option<u64>,
}

/// How far the regular fields are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Regular {
    /// Only pseudo-header fields came.
    None,
    /// The last field is a crumb.
    Crumb,
    /// The last field is another one, and there were crumbs before it.
    AfterCrumbs,
    /// The last field is a crumb, and there were others between crumbs.
    Scattered,
    /// There was no crumb.
    Others,
}

impl<'h> Intake<'h> {
    /// For a block of this message. The head is cleared.
    #[inline]
    pub fn new(head: &'h mut Head, message: Message, limits: Limits) -> Self {
        head.clear();
        Intake {
            head,
            message,
            limits,
            size: 0,
            count: 0,
            defect: None,
            regular: Regular::None,
            pseudo: Pseudo::default(),
            length: None,
        }
    }

    /// Takes the next line.
    #[inline]
    pub fn take(&mut self, line: Line<'_>) {
        self.size = self.size.saturating_add(line.size());
        self.count = self.count.saturating_add(1);
        if self.is_too_large() || self.defect.is_some() {
            return;
        }
        if let Err(defect) = self.lay(line) {
            self.defect = Some(defect);
        }
    }

    /// The block is over.
    pub fn finish(mut self) -> Outcome {
        let protocol = match self.defect {
            Some(defect) => Err(defect),
            None if self.is_too_large() => {
                self.head.clear();
                return Outcome::TooLarge;
            }
            None => self.start(),
        };
        match protocol {
            Ok(protocol) => Outcome::Complete { length: self.length, protocol },
            Err(defect) => {
                self.head.clear();
                Outcome::Malformed(defect)
            }
        }
    }

    #[inline]
    fn is_too_large(&self) -> bool {
        self.size > self.limits.list_bytes as usize || self.count > self.limits.fields
    }

    #[inline]
    fn lay(&mut self, line: Line<'_>) -> Result<(), Defect> {
        match line.verdict {
            Verdict::Regular => self.lay_regular(line),
            Verdict::Cookie => self.lay_crumb(line),
            Verdict::Host => return self.lay_host(line),
            Verdict::Length => return self.lay_length(line),
            Verdict::Bad(defect) => return Err(defect),
            pseudo => return self.lay_pseudo(pseudo, line.value()),
        }
        Ok(())
    }

    /// Fields for routing, framing or one hop have no place in trailers (RFC 9110 §6.5.1).
    #[inline]
    fn lay_regular(&mut self, line: Line<'_>) {
        if self.message == Message::Trailers && !line.known.may_be_trailer() {
            return;
        }
        self.regular = match self.regular {
            Regular::None | Regular::Others => Regular::Others,
            Regular::Scattered => Regular::AfterCrumbs,
            Regular::Crumb | Regular::AfterCrumbs => Regular::AfterCrumbs,
        };
        self.head.lay_line(line.bytes, line.name_bytes, line.known, line.sensitive);
    }

    /// "these MUST be concatenated into a single octet string using the two-octet delimiter of 0x3b, 0x20 ... before being
    /// passed into a non-HTTP/2 context" (RFC 9113 §8.2.3). Crumbs in a row are joined at once, others at the end.
    #[inline]
    fn lay_crumb(&mut self, line: Line<'_>) {
        if self.message == Message::Trailers {
            return;
        }
        // Joined with others, an empty one would leave a blank at the end, which no value may have (§8.2.1).
        if line.value().is_empty() {
            return self.seen_regular();
        }
        if matches!(self.regular, Regular::Crumb | Regular::Scattered) {
            return self.head.extend_last(b"; ", line.value(), line.sensitive);
        }
        self.regular = match self.regular {
            Regular::AfterCrumbs => Regular::Scattered,
            _ => Regular::Crumb,
        };
        self.head.lay_line(line.bytes, line.name_bytes, line.known, line.sensitive);
    }

    /// `:authority` replaces `host`, which must agree with it.
    fn lay_host(&mut self, line: Line<'_>) -> Result<(), Defect> {
        if let Message::Request { .. } = self.message {
            if let Some(authority) = self.pseudo.authority(self.head) {
                let agrees = self.pseudo.agrees(authority, line.value());
                self.seen_regular();
                return if agrees { Ok(()) } else { Err(Defect::Host) };
            }
            if self.head.first(Known::Host).is_some() {
                return Err(Defect::Host);
            }
        }
        self.lay_regular(line);
        Ok(())
    }

    fn lay_length(&mut self, line: Line<'_>) -> Result<(), Defect> {
        if self.message == Message::Trailers {
            return Ok(());
        }
        if self.length.is_some() {
            return Err(Defect::ContentLength);
        }
        self.length = length(line.value());
        self.lay_regular(line);
        Ok(())
    }

    /// A regular field came that the head does not get.
    fn seen_regular(&mut self) {
        if self.regular == Regular::None {
            self.regular = Regular::Others;
        }
    }

    fn lay_pseudo(&mut self, verdict: Verdict, value: &[u8]) -> Result<(), Defect> {
        if self.message == Message::Trailers {
            return Err(Defect::PseudoInTrailers);
        }
        if self.regular != Regular::None {
            return Err(Defect::PseudoLate);
        }
        if self.message != Message::Response {
            return self.pseudo.take(verdict, value, self.head);
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
    fn start(&mut self) -> Result<Option<Span>, Defect> {
        let protocol = match self.message {
            Message::Request { extended } => self.pseudo.finish(self.head, extended)?,
            Message::Response if self.head.status() == 0 => return Err(Defect::PseudoMissing),
            Message::Response | Message::Trailers => None,
        };
        if matches!(self.regular, Regular::Scattered | Regular::AfterCrumbs) {
            self.head.join(b"cookie", b"; ");
        }
        Ok(protocol)
    }
}
