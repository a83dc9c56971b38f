//! The flags of `fairway run` that limit what clients and endpoints can consume (docs/limits.md).

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fairway_model::{DatagramSettings, DownstreamSettings};
use fairway_proxy::{BufferOptions, Limits, MemoryBudget};

use super::durations::seconds;

/// Limits (docs/limits.md).
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits (docs/limits.md)")]
pub(crate) struct LimitArgs {
    /// Maximum number of downstream connections [default: half of the open file limit, less a reserve]
    #[arg(long, env = "FAIRWAY_MAX_CONNECTIONS", value_name = "N")]
    pub(crate) max_connections: Option<usize>,
    /// Memory limit of the process including socket buffers, such as 512MiB; above it new requests get 503. 0 means no limit
    /// [default: 85% of the memory limit of the cgroup, if there is one]
    #[arg(long, env = "FAIRWAY_MAX_MEMORY", value_name = "SIZE", value_parser = parse_bytes)]
    pub(crate) max_memory: Option<u64>,
    /// Maximum size of a request or response head
    #[arg(long, env = "FAIRWAY_MAX_HEAD_BYTES", value_name = "BYTES", default_value_t = Limits::default().head_bytes,
        value_parser = clap::value_parser!(u32).range(1024..=1 << 20))]
    pub(crate) max_head_bytes: u32,
    /// Maximum number of header fields of a request or response
    #[arg(long, env = "FAIRWAY_MAX_HEAD_FIELDS", value_name = "N", default_value_t = Limits::default().head_fields,
        value_parser = clap::value_parser!(u16).range(10..=1000))]
    pub(crate) max_head_fields: u16,
    /// Maximum size of a request line
    #[arg(long, env = "FAIRWAY_MAX_REQUEST_LINE_BYTES", value_name = "BYTES",
        default_value_t = Limits::default().request_line_bytes, value_parser = clap::value_parser!(u32).range(256..=1 << 20))]
    pub(crate) max_request_line_bytes: u32,
    /// Number of request body bytes kept for a retry
    #[arg(long, env = "FAIRWAY_REPLAY_BYTES", value_name = "BYTES", default_value_t = Limits::default().replay_bytes)]
    pub(crate) replay_bytes: usize,
    /// How long bytes sent to an endpoint may stay unacknowledged before the connection is closed
    #[arg(long, env = "FAIRWAY_UPSTREAM_UNACKNOWLEDGED", value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub(crate) upstream_unacknowledged: Duration,
    /// How long a connect may take before Fairway also tries another endpoint. The actual delay is shorter where connects are
    /// usually fast, but at least 0.05. 0 tries another endpoint only after the connect has failed
    #[arg(long, env = "FAIRWAY_CONNECT_HEDGE", value_name = "SECONDS", default_value = "0.25", value_parser = seconds)]
    pub(crate) connect_hedge: Duration,
    /// Timeouts and minimum rates of clients
    #[command(flatten)]
    pub(crate) client_timeouts: ClientTimeoutArgs,
    /// Buffering of bodies
    #[command(flatten)]
    pub(crate) buffer: BufferArgs,
    /// UDP sessions
    #[command(flatten)]
    pub(crate) datagrams: DatagramArgs,
}

/// Timeouts and minimum rates of clients.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits (docs/limits.md)")]
pub(crate) struct ClientTimeoutArgs {
    /// Timeout for receiving a request head; the ConfigMap key client-header-timeout overrides it
    #[arg(long, env = "FAIRWAY_HEAD_TIMEOUT", value_name = "SECONDS", default_value = "10", value_parser = positive_seconds)]
    pub(crate) head_timeout: Duration,
    /// Timeout of a TLS handshake
    #[arg(long, env = "FAIRWAY_HANDSHAKE_TIMEOUT", value_name = "SECONDS", default_value = "10", value_parser = positive_seconds)]
    pub(crate) handshake_timeout: Duration,
    /// How long a client may go without reading any bytes of a response
    #[arg(long, env = "FAIRWAY_WRITE_STALL", value_name = "SECONDS", default_value = "30", value_parser = positive_seconds)]
    pub(crate) write_stall: Duration,
    /// How long a client may pause while it sends a request body
    #[arg(long, env = "FAIRWAY_BODY_IDLE", value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub(crate) body_idle: Duration,
    /// Minimum average rate of a request body after its first five seconds, in bytes per second; 0 means no minimum
    #[arg(long, env = "FAIRWAY_BODY_RATE", value_name = "BYTES", default_value_t = Limits::default().body_rate)]
    pub(crate) body_rate: u64,
    /// Minimum average rate at which a client must receive a response while Fairway waits for the client, after the first five
    /// seconds, in bytes per second; 0 means no minimum
    #[arg(long, env = "FAIRWAY_ANSWER_RATE", value_name = "BYTES", default_value_t = Limits::default().response_rate)]
    pub(crate) answer_rate: u64,
}

/// Buffering of bodies on disk (docs/buffering.md).
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits (docs/limits.md)")]
pub(crate) struct BufferArgs {
    /// Directory for an unlinked file that holds buffered bodies beyond their share of memory. Without it, requests whose bodies
    /// do not fit into memory get 503
    #[arg(long, env = "FAIRWAY_BUFFER_DIR", value_name = "DIRECTORY")]
    pub(crate) buffer_dir: Option<PathBuf>,
    /// Maximum size of that file, such as 4GiB
    #[arg(long, env = "FAIRWAY_BUFFER_DISK", value_name = "SIZE", default_value = "1GiB", value_parser = parse_bytes)]
    pub(crate) buffer_disk: u64,
}

impl BufferArgs {
    /// The proxy's buffer options.
    pub(crate) fn options(&self) -> BufferOptions {
        BufferOptions { directory: self.buffer_dir.clone(), disk_bytes: self.buffer_disk }
    }
}

/// UDP sessions.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits (docs/limits.md)")]
pub(crate) struct DatagramArgs {
    /// Maximum number of UDP sessions per listener
    #[arg(long, env = "FAIRWAY_UDP_SESSIONS", value_name = "N",
        default_value_t = DatagramSettings::default().sessions, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) udp_sessions: u32,
    /// Maximum number of UDP sessions per listener and client address (IPv6: /64 network)
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
            body_idle: self.client_timeouts.body_idle,
            body_rate: self.client_timeouts.body_rate,
            response_rate: self.client_timeouts.answer_rate,
        }
    }
}

impl ClientTimeoutArgs {
    /// The downstream settings, unless the settings ConfigMap overrides them.
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

/// Parses a number of seconds greater than zero.
fn positive_seconds(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        zero if zero.is_zero() => Err("must be more than 0".to_owned()),
        positive => Ok(positive),
    }
}

/// Parses a number of bytes, written as a Kubernetes quantity: `512Mi`, `512MiB`, `1G`, `1073741824`.
fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].trim_end_matches(['B', 'b']) {
        "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return Err("the unit is not one of Ki, Mi, Gi, k, M, G".to_owned()),
    };
    let number = digits.parse::<u64>().map_err(|_| "is not a size such as 512MiB".to_owned())?;
    number.checked_mul(unit).ok_or_else(|| "is too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed_with_and_without_a_unit() {
        for (text, bytes) in
            [("0", 0), ("1024", 1024), ("512Mi", 512 << 20), ("512MiB", 512 << 20), ("2G", 2_000_000_000)]
        {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "Mi", "1Q", "-1", "99999999999Gi"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }
}
