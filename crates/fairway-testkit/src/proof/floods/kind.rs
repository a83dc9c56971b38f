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
    /// Heads of 31 KiB with 90 fields.
    LargeHeads,
    /// Pipelined requests that are answered 404.
    Pipelined,
    /// Bodies in chunks of 1 byte.
    TinyChunks,
    /// Bodies in chunks of 1 byte, each with 900 bytes of extensions.
    ChunkExtensions,
}

impl Kind {
    /// All of them, in the order of a table.
    pub const ALL: [Self; 18] = [
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
        Self::LargeHeads,
        Self::Pipelined,
        Self::TinyChunks,
        Self::ChunkExtensions,
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
    pub fn exhausts(self) -> bool {
        matches!(self, Self::Descriptors | Self::MemoryHeads | Self::MemoryBodies | Self::MemoryReads)
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
            Self::LargeHeads => ("large-heads", "heads of 31 KiB with 90 fields"),
            Self::Pipelined => ("pipelined", "pipelined requests that are answered 404"),
            Self::TinyChunks => ("tiny-chunks", "bodies in chunks of 1 byte"),
            Self::ChunkExtensions => ("chunk-extensions", "chunks of 1 byte with 900 bytes of extensions"),
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
