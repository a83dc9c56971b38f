//! Transport settings announced to the clients of a port before their listener is known.

use std::sync::Arc;
use std::time::Duration;

use fairway_routing::Port;
use quinn_proto::{IdleTimeout, MtuDiscoveryConfig, ServerConfig, TransportConfig, VarInt};

use super::keys::SharedEndpoints;
use super::session::QuicTls;
use crate::listening::{ConnectionTarget, Listening};

/// Unidirectional streams of the client: control, two for QPACK (RFC 9114 §6.2), and a few reserved ones
/// without meaning (RFC 9114 §6.2.3).
const UNIDIRECTIONAL_STREAMS: u32 = 8;

/// Concurrent requests per connection: the minimum that RFC 9114 §6.1 recommends. quinn-proto keeps a table
/// with an entry for each stream a client may open. These and the [`UNIDIRECTIONAL_STREAMS`] fit in tables of
/// 128 slots; the next size costs 5 KiB more per connection.
const MAX_STREAMS: u32 = 100;

/// Bytes of a request body in flight or waiting for an endpoint.
const STREAM_WINDOW: u32 = 512 * 1024;

/// The same for all streams of a connection.
const CONNECTION_WINDOW: u32 = 1024 * 1024;

/// Unacknowledged bytes that a connection keeps.
const SEND_WINDOW: u64 = 1024 * 1024;

/// Packets by which a packet may be reordered before it counts as lost: three is the minimum of RFC 9002
/// §6.1.1, and too few for networks that reorder. Losses are then detected at most an eighth of a round trip
/// later (§6.1.2).
const REORDERED_PACKETS: u32 = 16;

/// Incoming connections queued at an endpoint, and bytes buffered for each. They are accepted or refused at
/// once.
const MAX_INCOMING: usize = 16;
const INCOMING_BYTES: u64 = 64 * 1024;

/// Lifetime of a Retry token.
const RETRY_LIFETIME: Duration = Duration::from_secs(15);

/// Limits common to the listeners of a port, valid whichever one is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PortLimits {
    /// The longest of all listeners.
    pub(super) idle_timeout: Duration,
    /// The fewest of all listeners; each connection gets those of its listener later.
    pub(super) streams: u32,
}

impl PortLimits {
    /// For the listeners of a port.
    pub(super) fn from_listeners(listening: &Listening, carries: &Port<ConnectionTarget>) -> Option<Self> {
        let text_of = |choice: &ConnectionTarget| match choice {
            ConnectionTarget::Listener(id) => Some(listening.client_limits(*id)),
            ConnectionTarget::Closed => None,
        };
        let each = || carries.carried().filter_map(text_of);
        let idle_timeout = each().map(|clients| clients.idle_timeout).max()?;
        let streams = each().map(|clients| clients.streams).min()?;
        Some(Self { idle_timeout, streams: max_streams(streams) })
    }

    /// The base configuration with these limits.
    pub(super) fn server_config(self, base_config: &ServerConfig) -> ServerConfig {
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
        let mut config = base_config.clone();
        config.transport_config(Arc::new(transport));
        config
    }
}

/// Configuration common to all ports.
pub(super) fn base_config(sessions: QuicTls, shared: &SharedEndpoints) -> ServerConfig {
    let mut config = ServerConfig::new(Arc::new(sessions), Arc::clone(shared.retry_key()) as _);
    config
        .retry_token_lifetime(RETRY_LIFETIME)
        .max_incoming(MAX_INCOMING)
        .incoming_buffer_size(INCOMING_BYTES)
        .incoming_buffer_size_total(MAX_INCOMING as u64 * INCOMING_BYTES);
    config
}

/// Concurrent requests for a listener with this stream limit.
pub(super) fn max_streams(streams: u32) -> u32 {
    streams.clamp(1, MAX_STREAMS)
}
