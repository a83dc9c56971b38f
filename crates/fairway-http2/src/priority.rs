//! The priority of a response (RFC 9218 §4).

use fairway_http::bytes::trimmed;

/// The urgency of a response, and whether it can be used incrementally.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Priority {
    /// 0 is the most urgent, 7 the least.
    pub urgency: u8,
    /// Whether it may be interleaved with others of its urgency.
    pub incremental: bool,
}

impl Default for Priority {
    fn default() -> Self {
        Priority { urgency: 3, incremental: false }
    }
}

impl Priority {
    /// The priority of a stream without priority signals: default urgency, interleaved with others. The client may not
    /// support priorities and send unrelated requests, and a server is free in how it "chooses to ... allocate" (RFC
    /// 9218 §10).
    pub const UNSPECIFIED: Priority = Priority { urgency: 3, incremental: true };

    /// Parses a `priority` field or PRIORITY_UPDATE. Unknown members and values out of range are ignored: "receivers
    /// ... MUST ignore" them (RFC 9218 §4).
    #[must_use]
    pub fn parse(text: &[u8]) -> Priority {
        Priority::default().merged(text)
    }

    /// The priority with the changes of a response's `priority` field: "parameters ... absent ... indicate that the
    /// server is not modifying" them (RFC 9218 §8).
    #[must_use]
    pub fn merged(self, text: &[u8]) -> Priority {
        let mut priority = self;
        for member in text.split(|&byte| byte == b',') {
            let bare = member.split(|&byte| byte == b';').next().unwrap_or(member);
            match trimmed(bare) {
                [b'u', b'=', digit @ b'0'..=b'7'] => priority.urgency = digit - b'0',
                b"i" | b"i=?1" => priority.incremental = true,
                b"i=?0" => priority.incremental = false,
                _ => {}
            }
        }
        priority
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc9218_4_members_are_parsed_and_invalid_ones_ignored() {
        let parsed = |text: &str| {
            let priority = Priority::parse(text.as_bytes());
            (priority.urgency, priority.incremental)
        };
        assert_eq!(parsed("u=5, i"), (5, true));
        assert_eq!(parsed("i;x=1,u=0;y"), (0, true));
        assert_eq!(parsed("i=?1, i=?0"), (3, false));
        let merged = Priority { urgency: 5, incremental: true }.merged(b"u=1");
        assert_eq!((merged.urgency, merged.incremental), (1, true), "RFC 9218 §8");
        for text in ["", "u=8", "u=-1", "u=33", "u", "i=1", "a=b", ",,,"] {
            assert_eq!(parsed(text), (3, false), "{text}");
        }
    }
}
