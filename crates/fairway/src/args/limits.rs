//! The flags of `fairway run` that bound what clients and endpoints may cost: docs/limits.md.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fairway_model::{DatagramSettings, DownstreamSettings};
use fairway_proxy::{BufferOptions, Limits, MemoryBudget};

use super::seconds::seconds;

/// Limits: docs/limits.md.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits (docs/limits.md)")]
pub(crate) struct LimitArgs {
    /// Downstream connections of the process [default: half of the limit of open files, less a reserve]
    #[arg(long, env = "FAIRWAY_MAX_CONNECTIONS", value_name = "N")]
    pub(crate) max_connections: Option<usize>,
    /// Memory of the process with the buffers of its sockets, as in 512MiB; above it new requests are answered 503. 0 for
    /// no such limit [default: 85% of the memory limit of its cgroup, if it has one]
    #[arg(long, env = "FAIRWAY_MAX_MEMORY", value_name = "SIZE", value_parser = size)]
    pub(crate) max_memory: Option<u64>,
    /// Bytes of a request or response head
    #[arg(long, env = "FAIRWAY_MAX_HEAD_BYTES", value_name = "BYTES", default_value_t = Limits::default().head_bytes,
        value_parser = clap::value_parser!(u32).range(1024..=1 << 20))]
    pub(crate) max_head_bytes: u32,
    /// Header fields of a request or response
    #[arg(long, env = "FAIRWAY_MAX_HEAD_FIELDS", value_name = "N", default_value_t = Limits::default().head_fields,
        value_parser = clap::value_parser!(u16).range(10..=1000))]
    pub(crate) max_head_fields: u16,
    /// Bytes of a request line
    #[arg(long, env = "FAIRWAY_MAX_REQUEST_LINE_BYTES", value_name = "BYTES",
        default_value_t = Limits::default().request_line_bytes, value_parser = clap::value_parser!(u32).range(256..=1 << 20))]
    pub(crate) max_request_line_bytes: u32,
    /// Bytes of a request body that are held for a retry
    #[arg(long, env = "FAIRWAY_REPLAY_BYTES", value_name = "BYTES", default_value_t = Limits::default().replay_bytes)]
    pub(crate) replay_bytes: usize,
    /// How long written bytes to an endpoint may stay unacknowledged
    #[arg(long, env = "FAIRWAY_UPSTREAM_UNACKNOWLEDGED", value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub(crate) upstream_unacknowledged: Duration,
    /// How long a connect to an endpoint may take before another endpoint is tried as well; less where connects are
    /// usually fast, at least 0.05. 0 tries no other endpoint before the connect fails
    #[arg(long, env = "FAIRWAY_CONNECT_HEDGE", value_name = "SECONDS", default_value = "0.25", value_parser = seconds)]
    pub(crate) connect_hedge: Duration,
    /// How long a client may take, and how slow it may be
    #[command(flatten)]
    pub(crate) patience: PatienceArgs,
    /// Bodies that are held
    #[command(flatten)]
    pub(crate) buffer: BufferArgs,
    /// Sessions of UDP
    #[command(flatten)]
    pub(crate) datagrams: DatagramArgs,
}

/// How long a client may take, and how slow it may be.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits (docs/limits.md)")]
pub(crate) struct PatienceArgs {
    /// How long a whole request head may take; the key client-header-timeout overrides it
    #[arg(long, env = "FAIRWAY_HEAD_TIMEOUT", value_name = "SECONDS", default_value = "10", value_parser = patience)]
    pub(crate) head_timeout: Duration,
    /// How long a TLS handshake may take
    #[arg(long, env = "FAIRWAY_HANDSHAKE_TIMEOUT", value_name = "SECONDS", default_value = "10", value_parser = patience)]
    pub(crate) handshake_timeout: Duration,
    /// How long a client may go without reading a byte of an answer
    #[arg(long, env = "FAIRWAY_WRITE_STALL", value_name = "SECONDS", default_value = "30", value_parser = patience)]
    pub(crate) write_stall: Duration,
    /// How long a client may send nothing of a body that it announced
    #[arg(long, env = "FAIRWAY_BODY_IDLE", value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub(crate) body_idle: Duration,
    /// Bytes per second that a request body must bring on average after its first five seconds; 0 for no such limit
    #[arg(long, env = "FAIRWAY_BODY_RATE", value_name = "BYTES", default_value_t = Limits::default().body_rate)]
    pub(crate) body_rate: u64,
    /// Bytes per second of an answer that a client must receive on average while Fairway waits for it, after the first
    /// five seconds; 0 for no such limit
    #[arg(long, env = "FAIRWAY_ANSWER_RATE", value_name = "BYTES", default_value_t = Limits::default().answer_rate)]
    pub(crate) answer_rate: u64,
}

/// Where bodies are held (docs/buffering.md).
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits (docs/limits.md)")]
pub(crate) struct BufferArgs {
    /// Where bodies that a rule buffers are held beyond their share of memory, in one unlinked file. Without it, requests
    /// whose bodies have no room in memory are answered 503
    #[arg(long, env = "FAIRWAY_BUFFER_DIR", value_name = "DIRECTORY")]
    pub(crate) buffer_dir: Option<PathBuf>,
    /// Bytes that all such bodies together may have there, as in 4GiB
    #[arg(long, env = "FAIRWAY_BUFFER_DISK", value_name = "SIZE", default_value = "1GiB", value_parser = size)]
    pub(crate) buffer_disk: u64,
}

impl BufferArgs {
    /// Those of the proxy.
    pub(crate) fn options(&self) -> BufferOptions {
        BufferOptions { directory: self.buffer_dir.clone(), disk: self.buffer_disk }
    }
}

/// Sessions of UDP.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits (docs/limits.md)")]
pub(crate) struct DatagramArgs {
    /// UDP sessions of a listener
    #[arg(long, env = "FAIRWAY_UDP_SESSIONS", value_name = "N",
        default_value_t = DatagramSettings::default().sessions, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) udp_sessions: u32,
    /// UDP sessions of a client address (in IPv6, of its network of 64 bits) at a listener
    #[arg(long, env = "FAIRWAY_UDP_SESSIONS_PER_CLIENT", value_name = "N",
        default_value_t = DatagramSettings::default().sessions_per_client, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) udp_sessions_per_client: u32,
}

impl LimitArgs {
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            head_bytes: self.max_head_bytes,
            head_fields: self.max_head_fields,
            request_line_bytes: self.max_request_line_bytes,
            connections: self.max_connections,
            descriptors: None,
            memory: match self.max_memory {
                Some(0) => MemoryBudget::Unlimited,
                Some(bytes) => MemoryBudget::Bytes(bytes),
                None => MemoryBudget::Cgroup,
            },
            replay_bytes: self.replay_bytes,
            upstream_unacknowledged: self.upstream_unacknowledged,
            connect_hedge: self.connect_hedge,
            body_idle: self.patience.body_idle,
            body_rate: self.patience.body_rate,
            answer_rate: self.patience.answer_rate,
        }
    }
}

impl PatienceArgs {
    /// The clients' side where the settings ConfigMap says nothing.
    pub(crate) fn downstream(&self) -> DownstreamSettings {
        DownstreamSettings {
            head_timeout: self.head_timeout,
            handshake_timeout: self.handshake_timeout,
            write_timeout: self.write_stall,
            ..DownstreamSettings::default()
        }
    }
}

impl DatagramArgs {
    pub(crate) fn settings(&self) -> DatagramSettings {
        DatagramSettings {
            sessions: self.udp_sessions,
            sessions_per_client: self.udp_sessions_per_client,
            ..DatagramSettings::default()
        }
    }
}

/// Reads seconds, more than none.
fn patience(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        none if none.is_zero() => Err("must be more than 0".to_owned()),
        some => Ok(some),
    }
}

/// Reads bytes, as Kubernetes writes quantities: `512Mi`, `512MiB`, `1G`, `1073741824`.
fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].trim_end_matches(['B', 'b']) {
        "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return Err("the unit is none of Ki, Mi, Gi, k, M, G".to_owned()),
    };
    let number = digits.parse::<u64>().map_err(|_| "is no size such as 512MiB".to_owned())?;
    number.checked_mul(unit).ok_or_else(|| "is too much".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_a_unit() {
        for (text, bytes) in
            [("0", 0), ("1024", 1024), ("512Mi", 512 << 20), ("512MiB", 512 << 20), ("2G", 2_000_000_000)]
        {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "Mi", "1Q", "-1", "99999999999Gi"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
