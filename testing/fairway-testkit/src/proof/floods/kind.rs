//! The attacks by name. Values only; `plan` says how each is carried out.

use serde::Serialize;

/// An attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Request heads that arrive at 1 byte per second and never end.
    SlowHeads,
    /// Request bodies that arrive at 1 byte per second.
    SlowBodies,
    /// Large answers that are read at 1 byte per second.
    SlowReads,
    /// Large answers that are not read at all.
    NoReads,
    /// A whole ClientHello, then silence.
    SilentHandshakes,
    /// Half a ClientHello, then silence.
    HalfHandshakes,
    /// One recorded ClientHello over and over: the client computes nothing, the server a full key exchange.
    ReplayedHellos,
    /// Full handshakes, one after the other.
    Handshakes,
    /// Connections that are made and reset.
    ConnectionChurn,
    /// More connections than the proxy may have open files.
    Descriptors,
    /// Heads of 28 KiB in two pieces, against a small memory budget.
    MemoryHeads,
    /// Bodies that are just fast enough, against a small memory budget.
    MemoryBodies,
    /// Large answers that are not read, against a small memory budget.
    MemoryReads,
    /// Random paths of 8 KiB against the most expensive regular expressions that are accepted.
    Regex,
    /// Wrong passwords, each sent once, for a user whose password is hashed with bcrypt at cost 10.
    Passwords,
    /// Heads of 31 KiB with 90 fields.
    LargeHeads,
    /// Pipelined requests that are answered 404.
    Pipelined,
    /// Bodies in chunks of 1 byte.
    TinyChunks,
    /// Bodies in chunks of 1 byte, each with 900 bytes of extensions.
    ChunkExtensions,
    /// Requests that their client resets at once (CVE-2023-44487).
    H2RapidReset,
    /// Requests to a slow backend that their client resets in batches, once they are under way.
    H2LateResets,
    /// Requests that the proxy must reset, because their window is to grow by 0 (CVE-2025-8671, as the next five).
    H2ZeroIncrements,
    /// Requests whose window is to grow beyond the largest.
    H2LargeIncrements,
    /// Requests with PRIORITY of a wrong length.
    H2PriorityLengths,
    /// Requests that depend on themselves.
    H2PriorityLoops,
    /// Requests with HEADERS after their end.
    H2HeadersAfterEnd,
    /// Requests with DATA after their end.
    H2DataAfterEnd,
    /// A field block that goes on without end in frames without content.
    H2Continuations,
    /// A body in frames without content.
    H2EmptyData,
    /// SETTINGS, each of which must be acknowledged.
    H2Settings,
    /// PINGs, each of which must be answered.
    H2Pings,
    /// PRIORITY frames.
    H2Priorities,
    /// WINDOW_UPDATEs of one byte.
    H2WindowUpdates,
    /// A large field that is named thousands of times by its index.
    H2HpackBomb,
    /// A small crumb of a cookie that is named thousands of times by its index.
    H2CrumbBomb,
    /// Many streams whose windows grow by one byte per second.
    H2TinyWindows,
    /// Large answers on many streams that are not read at all.
    H2NoReads,
    /// Connections of HTTP/2 that ask once and then stay.
    H2Connections,
}

impl Kind {
    /// All of them, in the order of a table.
    pub const ALL: [Self; 38] = [
        Self::SlowHeads,
        Self::SlowBodies,
        Self::SlowReads,
        Self::NoReads,
        Self::SilentHandshakes,
        Self::HalfHandshakes,
        Self::ReplayedHellos,
        Self::Handshakes,
        Self::ConnectionChurn,
        Self::Descriptors,
        Self::MemoryHeads,
        Self::MemoryBodies,
        Self::MemoryReads,
        Self::Regex,
        Self::Passwords,
        Self::LargeHeads,
        Self::Pipelined,
        Self::TinyChunks,
        Self::ChunkExtensions,
        Self::H2RapidReset,
        Self::H2LateResets,
        Self::H2ZeroIncrements,
        Self::H2LargeIncrements,
        Self::H2PriorityLengths,
        Self::H2PriorityLoops,
        Self::H2HeadersAfterEnd,
        Self::H2DataAfterEnd,
        Self::H2Continuations,
        Self::H2EmptyData,
        Self::H2Settings,
        Self::H2Pings,
        Self::H2Priorities,
        Self::H2WindowUpdates,
        Self::H2HpackBomb,
        Self::H2CrumbBomb,
        Self::H2TinyWindows,
        Self::H2NoReads,
        Self::H2Connections,
    ];

    /// Its name on a command line and in a table.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.words().0
    }

    /// What the attacker does, in a line.
    #[must_use]
    pub fn what(self) -> &'static str {
        self.words().1
    }

    /// The attack of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether the flood uses up a resource, so that refusing work with 503 or by closing a new connection is the
    /// right answer, to well-behaved clients too.
    #[must_use]
    pub(crate) fn exhausts(self) -> bool {
        matches!(self, Self::Descriptors | Self::MemoryHeads | Self::MemoryBodies | Self::MemoryReads)
    }

    /// Whether attackers speak HTTP/2.
    #[must_use]
    pub fn is_http2(self) -> bool {
        self.name().starts_with("h2-")
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::SlowHeads => ("slow-heads", "request heads at 1 byte/s that never end"),
            Self::SlowBodies => ("slow-bodies", "request bodies at 1 byte/s"),
            Self::SlowReads => ("slow-reads", "answers of 8 MiB, read at 1 byte/s"),
            Self::NoReads => ("no-reads", "answers of 8 MiB, not read at all"),
            Self::SilentHandshakes => ("silent-handshakes", "a ClientHello, then silence"),
            Self::HalfHandshakes => ("half-handshakes", "half a ClientHello, then silence"),
            Self::ReplayedHellos => {
                ("replayed-hellos", "a recorded ClientHello over and over; the client computes nothing")
            }
            Self::Handshakes => ("handshakes", "full TLS handshakes (RSA-2048), one after the other"),
            Self::ConnectionChurn => ("connection-churn", "connections that are made and reset"),
            Self::Descriptors => ("descriptors", "more connections than the proxy may open files"),
            Self::MemoryHeads => ("memory-heads", "heads of 28 KiB in two pieces, small memory budget"),
            Self::MemoryBodies => ("memory-bodies", "bodies held for a retry, small memory budget"),
            Self::MemoryReads => ("memory-reads", "answers that are not read, small memory budget"),
            Self::Regex => ("regex", "random paths of 8 KiB, the most expensive accepted patterns"),
            Self::Passwords => ("passwords", "wrong passwords, each sent once, for a bcrypt hash of cost 10"),
            Self::LargeHeads => ("large-heads", "heads of 31 KiB with 90 fields"),
            Self::Pipelined => ("pipelined", "pipelined requests that are answered 404"),
            Self::TinyChunks => ("tiny-chunks", "bodies in chunks of 1 byte"),
            Self::ChunkExtensions => ("chunk-extensions", "chunks of 1 byte with 900 bytes of extensions"),
            _ => self.words_of_http2(),
        }
    }

    fn words_of_http2(self) -> (&'static str, &'static str) {
        match self {
            Self::H2RapidReset => ("h2-rapid-reset", "requests that are reset at once"),
            Self::H2LateResets => {
                ("h2-late-resets", "requests that are reset in batches, once they are under way")
            }
            Self::H2ZeroIncrements => {
                ("h2-zero-increments", "requests that the proxy must reset: WINDOW_UPDATE of 0")
            }
            Self::H2LargeIncrements => {
                ("h2-large-increments", "requests that the proxy must reset: WINDOW_UPDATE of too much")
            }
            Self::H2PriorityLengths => {
                ("h2-priority-lengths", "requests that the proxy must reset: PRIORITY of 4 bytes")
            }
            Self::H2PriorityLoops => {
                ("h2-priority-loops", "requests that the proxy must reset: PRIORITY on themselves")
            }
            Self::H2HeadersAfterEnd => {
                ("h2-headers-after-end", "requests that the proxy must reset: HEADERS after their end")
            }
            Self::H2DataAfterEnd => {
                ("h2-data-after-end", "requests that the proxy must reset: DATA after their end")
            }
            Self::H2Continuations => {
                ("h2-continuations", "a field block in empty CONTINUATION frames that never ends")
            }
            Self::H2EmptyData => ("h2-empty-data", "a body in empty DATA frames"),
            Self::H2Settings => ("h2-settings", "SETTINGS without end"),
            Self::H2Pings => ("h2-pings", "PINGs without end"),
            Self::H2Priorities => ("h2-priorities", "PRIORITY frames without end"),
            Self::H2WindowUpdates => ("h2-window-updates", "WINDOW_UPDATEs of 1 byte without end"),
            Self::H2HpackBomb => {
                ("h2-hpack-bomb", "a field of 4,000 bytes that is named 4,000 times with a byte each")
            }
            Self::H2CrumbBomb => ("h2-crumb-bomb", "4,000 crumbs of a cookie with a byte each"),
            Self::H2TinyWindows => {
                ("h2-tiny-windows", "100 streams a connection, windows that grow by 1 byte/s")
            }
            Self::H2NoReads => ("h2-no-reads", "8 answers of 8 MiB a connection, not read at all"),
            _ => ("h2-connections", "connections that ask once and then stay"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attack_is_found_by_its_name_which_is_also_that_of_the_results() {
        for kind in Kind::ALL {
            assert_eq!(Kind::named(kind.name()), Some(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
        assert_eq!(Kind::named("slow"), None);
    }
}
