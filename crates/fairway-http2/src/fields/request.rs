//! The pseudo-header fields of a request, and how they become a start line and `Host` (RFC 9113 §8.3.1, §8.5).

use fairway_http::{Head, Known, Method, Span, parse_authority};

use crate::verdict::{Defect, Verdict};

const METHOD: u8 = 1;
const SCHEME: u8 = 2;
const AUTHORITY: u8 = 4;
const PATH: u8 = 8;
const PROTOCOL: u8 = 16;

/// The pseudo-header fields of a request received so far.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct PseudoFields {
    present: u8,
    is_https: bool,
    method: Span,
    path: Span,
    authority: Span,
    protocol: Span,
}

impl PseudoFields {
    /// Adds a pseudo-header field whose value is valid.
    pub(super) fn add(&mut self, verdict: Verdict, value: &[u8], head: &mut Head) -> Result<(), Defect> {
        let bit = match verdict {
            Verdict::Method => METHOD,
            Verdict::Scheme => SCHEME,
            Verdict::Authority => AUTHORITY,
            Verdict::Path => PATH,
            Verdict::Protocol => PROTOCOL,
            _ => return Err(Defect::PseudoUnknown),
        };
        if self.present & bit != 0 {
            return Err(Defect::PseudoRepeated);
        }
        self.present |= bit;
        match verdict {
            Verdict::Method => self.method = head.append_text(value),
            Verdict::Scheme => self.is_https = value.eq_ignore_ascii_case(b"https"),
            Verdict::Authority => {
                head.append_known(Known::Host, |line| line.extend_from_slice(value));
                let end = head.capacity_hint() - 2;
                self.authority = Span::new(end - value.len(), end);
            }
            Verdict::Path => self.path = head.append_text(value),
            _ => self.protocol = head.append_text(value),
        }
        Ok(())
    }

    /// `:authority`, if present.
    pub(super) fn authority<'h>(&self, head: &'h Head) -> Option<&'h [u8]> {
        (self.present & AUTHORITY != 0).then(|| head.text(self.authority))
    }

    /// Whether `host` names the same authority, ignoring a default port. "A server SHOULD treat a request as malformed
    /// if it contains a Host header field that identifies an entity that differs from the entity in the ":authority"
    /// pseudo-header field" (RFC 9113 §8.3.1).
    pub(super) fn is_same_authority(&self, authority: &[u8], host: &[u8]) -> bool {
        if authority == host {
            return true;
        }
        let default = Some(if self.is_https { 443 } else { 80 });
        match (parse_authority(authority), parse_authority(host)) {
            (Ok(one), Ok(other)) => {
                one.host.eq_ignore_ascii_case(other.host) && one.port.or(default) == other.port.or(default)
            }
            _ => false,
        }
    }

    /// Sets the start line. Returns `:protocol` if present.
    pub(super) fn finish(&self, head: &mut Head, extended: bool) -> Result<Option<Span>, Defect> {
        if self.present & METHOD == 0 {
            return Err(Defect::PseudoMissing);
        }
        let method = Method::from_name(head.text(self.method));
        if self.present & PROTOCOL != 0 {
            if !extended || method != Method::Connect {
                return Err(Defect::Protocol);
            }
            // "the :scheme and :path pseudo-header fields of the target URI MUST also be included" (RFC 8441 §4).
            if self.present != METHOD | SCHEME | AUTHORITY | PATH | PROTOCOL {
                return Err(Defect::PseudoMissing);
            }
        } else if method == Method::Connect {
            // "The ":scheme" and ":path" pseudo-header fields MUST be omitted" (RFC 9113 §8.5).
            if self.present & (SCHEME | PATH) != 0 {
                return Err(Defect::Connect);
            }
            if self.present & AUTHORITY == 0 {
                return Err(Defect::PseudoMissing);
            }
            head.found_request(self.method, self.authority);
            return Ok(None);
        } else if self.present & (SCHEME | PATH) != SCHEME | PATH {
            return Err(Defect::PseudoMissing);
        }
        if head.text(self.path) == b"*" && method != Method::Options {
            return Err(Defect::Path);
        }
        head.found_request(self.method, self.path);
        Ok((self.present & PROTOCOL != 0).then_some(self.protocol))
    }
}
