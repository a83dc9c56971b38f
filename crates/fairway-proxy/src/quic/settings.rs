//! What QUIC promises to the clients of a port, before it is known of which listener they are.

use std::sync::Arc;
use std::time::Duration;

use fairway_routing::Port;
use quinn_proto::{IdleTimeout, MtuDiscoveryConfig, ServerConfig, TransportConfig, VarInt};

use super::keys::SharedEndpoints;
use super::session::Sessions;
use crate::listening::{Choice, Listening};

/// Streams of the client's own that carry no requests: control, the two of QPACK (RFC 9114 §6.2), and a few that mean nothing
/// (RFC 9114 §6.2.3).
const UNIDIRECTIONAL_STREAMS: u32 = 8;

/// Requests that a connection may have open: as many as RFC 9114 §6.1 asks for. quinn-proto keeps a table with an entry for each stream
/// that a client may open. Those and the [`UNIDIRECTIONAL_STREAMS`] fit in tables of 128 places; the next size takes 5 KiB more of each
/// connection.
const MAX_STREAMS: u32 = 100;

/// Bytes of a request's body that may be on their way or wait until an endpoint takes them.
const STREAM_WINDOW: u32 = 512 * 1024;

/// The same of all streams of a connection.
const CONNECTION_WINDOW: u32 = 1024 * 1024;

/// Bytes that a connection keeps until the client has acknowledged them.
const SEND_WINDOW: u64 = 1024 * 1024;

/// How many packets behind a later one that the client has a packet may be before it counts as lost: three are the fewest that RFC 9002
/// §6.1.1 allows, and too few for networks that reorder. What is lost is found out an eighth of a round trip later at most (§6.1.2).
const REORDERED_PACKETS: u32 = 16;

/// Beginnings of connections that wait at an endpoint, each with so many bytes more. It accepts or refuses them at once.
const MAX_INCOMING: usize = 16;
const INCOMING_BYTES: u64 = 64 * 1024;

/// How long a client may take to come back with the token of a Retry packet.
const RETRY_LIFETIME: Duration = Duration::from_secs(15);

/// What the listeners of a port have in common: clients may rely on it whichever of them they get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PortLimits {
    /// The longest of any.
    pub(super) idle_timeout: Duration,
    /// The fewest of any; each connection gets those of its listener later.
    pub(super) streams: u32,
}

impl PortLimits {
    /// Of the listeners of a port.
    pub(super) fn of(listening: &Listening, carries: &Port<Choice>) -> Option<Self> {
        let of = |choice: &Choice| match choice {
            Choice::Listener(id) => Some(listening.clients(*id)),
            Choice::Closed => None,
        };
        let each = || carries.carried().filter_map(of);
        let idle_timeout = each().map(|clients| clients.idle_timeout).max()?;
        let streams = each().map(|clients| clients.streams).min()?;
        Some(Self { idle_timeout, streams: max_streams(streams) })
    }

    /// `everywhere` with what these clients are promised.
    pub(super) fn server_config(self, everywhere: &ServerConfig) -> ServerConfig {
        let mut transport = TransportConfig::default();
        let idle_timeout = IdleTimeout::try_from(self.idle_timeout).ok();
        transport
            .max_idle_timeout(idle_timeout)
            .keep_alive_interval(None)
            .max_concurrent_bidi_streams(VarInt::from_u32(self.streams))
            .max_concurrent_uni_streams(VarInt::from_u32(UNIDIRECTIONAL_STREAMS))
            .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
            .receive_window(VarInt::from_u32(CONNECTION_WINDOW))
            .send_window(SEND_WINDOW)
            .packet_threshold(REORDERED_PACKETS)
            .datagram_receive_buffer_size(None)
            .mtu_discovery_config(Some(MtuDiscoveryConfig::default()));
        let mut config = everywhere.clone();
        config.transport_config(Arc::new(transport));
        config
    }
}

/// What holds at every port.
pub(super) fn everywhere(sessions: Sessions, shared: &SharedEndpoints) -> ServerConfig {
    let mut config = ServerConfig::new(Arc::new(sessions), Arc::clone(shared.retries()) as _);
    config
        .retry_token_lifetime(RETRY_LIFETIME)
        .max_incoming(MAX_INCOMING)
        .incoming_buffer_size(INCOMING_BYTES)
        .incoming_buffer_size_total(MAX_INCOMING as u64 * INCOMING_BYTES);
    config
}

/// The requests that a connection may have open at a listener that allows so many streams.
pub(super) fn max_streams(streams: u32) -> u32 {
    streams.clamp(1, MAX_STREAMS)
}
