//! The attacks by name. Values only; `plan` defines how each is carried out.

use clap::ValueEnum;
use serde::Serialize;

/// An attack; what attackers do is also what the command line says of it. `H2RapidReset` is CVE-2023-44487,
/// `H2ZeroIncrements` and the five after it are CVE-2025-8671.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Request heads at 1 byte/s that never end.
    SlowHeads,
    /// Request bodies at 1 byte/s.
    SlowBodies,
    /// Answers of 8 MiB, read at 1 byte/s.
    SlowReads,
    /// Answers of 8 MiB, not read at all.
    NoReads,
    /// A ClientHello, then silence.
    SilentHandshakes,
    /// Half a ClientHello, then silence.
    HalfHandshakes,
    /// A recorded ClientHello over and over; the client computes nothing.
    ReplayedHellos,
    /// Full TLS handshakes (RSA-2048), one after the other.
    Handshakes,
    /// Connections that are made and reset.
    ConnectionChurn,
    /// More connections than the proxy may open files (256).
    Descriptors,
    /// Heads of 28 KiB in two pieces.
    MemoryHeads,
    /// Bodies held for a retry.
    MemoryBodies,
    /// Answers that are not read.
    MemoryReads,
    /// Random paths of 8 KiB, the most expensive accepted patterns.
    Regex,
    /// Wrong passwords, each sent once, for a bcrypt hash of cost 10.
    Passwords,
    /// Heads of 31 KiB with 90 fields.
    LargeHeads,
    /// Pipelined requests that are answered 404.
    Pipelined,
    /// Bodies in chunks of 1 byte.
    TinyChunks,
    /// Chunks of 1 byte with 900 bytes of extensions.
    ChunkExtensions,
    /// Requests that are reset at once.
    H2RapidReset,
    /// Requests that are reset in batches, once they are under way.
    H2LateResets,
    /// Requests that the proxy must reset: WINDOW_UPDATE of 0.
    H2ZeroIncrements,
    /// Requests that the proxy must reset: WINDOW_UPDATE of too much.
    H2LargeIncrements,
    /// Requests that the proxy must reset: PRIORITY of 4 bytes.
    H2PriorityLengths,
    /// Requests that the proxy must reset: PRIORITY on themselves.
    H2PriorityLoops,
    /// Requests that the proxy must reset: HEADERS after their end.
    H2HeadersAfterEnd,
    /// Requests that the proxy must reset: DATA after their end.
    H2DataAfterEnd,
    /// A field block in empty CONTINUATION frames that never ends.
    H2Continuations,
    /// A body in empty DATA frames.
    H2EmptyData,
    /// SETTINGS without end.
    H2Settings,
    /// PINGs without end.
    H2Pings,
    /// PRIORITY frames without end.
    H2Priorities,
    /// WINDOW_UPDATEs of 1 byte without end.
    H2WindowUpdates,
    /// A field of 4,000 bytes that is named 4,000 times with a byte each.
    H2HpackBomb,
    /// 4,000 crumbs of a cookie with a byte each.
    H2CrumbBomb,
    /// 100 streams a connection, windows that grow by 1 byte/s.
    H2TinyWindows,
    /// 8 answers of 8 MiB a connection, not read at all.
    H2NoReads,
    /// Connections that ask once and then stay.
    H2Connections,
}

impl Kind {
    /// Its name on a command line and in a table.
    pub fn name(self) -> String {
        self.to_possible_value().expect("no attack is hidden").get_name().to_owned()
    }

    /// The attack as described on the command line.
    pub(super) fn description(self) -> String {
        let value = self.to_possible_value();
        let text = value.as_ref().and_then(|value| value.get_help()).map(ToString::to_string);
        let text = text.unwrap_or_default();
        // A sentence there, and a cell of a table elsewhere; names of protocols stay as they are.
        match text.split_at_checked(2) {
            Some((first, rest)) if first.bytes().skip(1).all(|byte| !byte.is_ascii_uppercase()) => {
                first.to_lowercase() + rest
            }
            _ => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_attack_is_also_that_of_the_results() {
        for kind in Kind::value_variants() {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}
