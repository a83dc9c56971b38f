//! A connection of either role (RFC 9113): bytes in and one event at a time out, actions in and bytes out.
//!
//! `read` splits the input into frames, `heads` handles field blocks, `body` DATA, `windows` what the peer may send,
//! `control` all other frames. `send` sends heads, `body_sender` schedules and sends bodies. `close`, `linger` and `time` end
//! streams and connections.

mod body;
mod body_sender;
mod close;
mod control;
mod heads;
mod linger;
mod read;
mod send;
mod time;
mod windows;

use crate::abuse::Account;
use crate::fault::Fault;
use crate::fields::Limits;
use crate::flow::{self, Inbound, Outbound, WindowBudget};
use crate::frame::{self, Setting};
use crate::hpack::{Decoder, Encoder, StringCoding};
use crate::outbox::Outbox;
use crate::patience::{Due, Timeouts, WindowStall};
use crate::priority::Priority;
use crate::rare_events::PeerEvents;
use crate::stream::{ClosedStreams, Streams};

/// The client's connection preface (RFC 9113 §3.4).
const CLIENT_PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What the peer is allowed, and how to write.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Maximum concurrent streams.
    pub max_streams: u32,
    /// The initial window of a stream.
    pub stream_window: u32,
    /// The maximum window of a stream with a fast body, within the grants.
    pub max_stream_window: u32,
    /// The window of the connection, without grants.
    pub connection_window: u32,
    /// Limits of a head.
    pub head_limits: Limits,
    /// Bytes of the table that the peer compresses with.
    pub decoder_table_bytes: u32,
    /// Bytes of the table for compression, 0 for none.
    pub encoder_table_bytes: u32,
    /// How to write strings.
    pub string_coding: StringCoding,
    /// Whether to offer `:protocol` (RFC 8441).
    pub extended_connect: bool,
    /// How long the peer may take.
    pub timeouts: Timeouts,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            max_streams: 128,
            stream_window: 64 * 1024,
            max_stream_window: 1024 * 1024,
            connection_window: 1024 * 1024,
            head_limits: Limits::default(),
            decoder_table_bytes: 4096,
            encoder_table_bytes: 0,
            string_coding: StringCoding::Plain,
            extended_connect: false,
            timeouts: Timeouts::default(),
        }
    }
}

/// Which end of the connection this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Server,
    Client,
}

/// What the input continues with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadState {
    /// The client's preface (RFC 9113 §3.4).
    Preface,
    /// The first SETTINGS.
    FirstSettings,
    /// A frame.
    Frame,
    /// CONTINUATION of a field block.
    FieldBlock(OpenBlock),
    /// The rest of a DATA frame.
    Data { stream: u32, remaining: u32, padding: u32, end: bool },
    /// Ignored bytes.
    Skip { left: u32 },
    /// Nothing: the connection failed.
    Failed(Fault),
}

/// A field block without its END_HEADERS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OpenBlock {
    stream: u32,
    end: bool,
    depends_on_itself: bool,
    frames: u32,
}

/// The peer's settings.
#[derive(Debug, Clone, Copy)]
struct PeerSettings {
    max_streams: u32,
    stream_window: u32,
    max_frame_bytes: u32,
    extended_connect: bool,
    /// The last stream of its GOAWAY.
    last_stream: u32,
    /// Whether its SETTINGS were received.
    is_received: bool,
}

/// Used stream ids and what is remembered of them.
#[derive(Debug)]
struct StreamIds {
    /// The highest stream id opened by the client.
    highest: u32,
    closed: ClosedStreams,
    /// Priorities of streams that are not open yet.
    early_priorities: [(u32, Priority); MAX_EARLY_PRIORITIES],
}

/// How many streams may have a priority before they are open.
const MAX_EARLY_PRIORITIES: usize = 4;

impl StreamIds {
    /// Keeps a priority. Of too many, the one with the highest id goes first, because it can be opened last.
    fn keep_priority(&mut self, id: u32, priority: Priority) {
        let known = self.early_priorities.iter().position(|(hinted, _)| *hinted == id);
        let at =
            known.or_else(|| self.early_priorities.iter().position(|(hinted, _)| *hinted <= self.highest));
        let highest = (0..MAX_EARLY_PRIORITIES).max_by_key(|at| self.early_priorities[*at].0).unwrap_or(0);
        self.early_priorities[at.unwrap_or(highest)] = (id, priority);
    }

    /// The priority that was kept for a stream.
    fn early_priority(&self, id: u32) -> Option<Priority> {
        self.early_priorities.iter().find(|(hinted, _)| *hinted == id).map(|(_, priority)| *priority)
    }
}

/// The windows of the connection.
#[derive(Debug)]
struct Windows {
    inbound: Inbound,
    outbound: Outbound,
    /// What windows may grow by.
    budget: WindowBudget,
    /// How long the peer has kept the connection window closed.
    stall: WindowStall,
}

/// The state of a graceful shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shutdown {
    /// New streams are accepted.
    Open,
    /// GOAWAY was sent; streams in flight are accepted until then.
    Announced { until: u64 },
    /// No stream above this one is accepted.
    After { last: u32 },
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    role: Role,
    config: Config,
    read_state: ReadState,
    decoder: Decoder,
    encoder: Encoder,
    /// The start of a field block that spans several frames.
    partial_block: Vec<u8>,
    streams: Streams,
    ids: StreamIds,
    windows: Windows,
    peer: PeerSettings,
    outbox: Outbox,
    peer_record: PeerRecord,
    timers: Timers,
}

/// The peer's behaviour.
#[derive(Debug, Default)]
struct PeerRecord {
    account: Account,
    events: PeerEvents,
}

/// Everything with a deadline.
#[derive(Debug)]
struct Timers {
    /// The latest time passed in.
    now: u64,
    /// When our SETTINGS must be acknowledged.
    settings_due: Due,
    /// When the client's unfinished field block must be complete.
    block_due: Due,
    shutdown: Shutdown,
    /// When something was last received.
    last_received: u64,
    /// When the peer was sent a liveness PING.
    pinged_at: Option<u64>,
    /// No stream exceeds the stall timeout before this.
    next_stall_check: Option<u64>,
    /// No lingering stream is reset before this.
    linger_due: Due,
    /// Our PINGs without an answer.
    unanswered_pings: u32,
}

impl Timers {
    fn new(now: u64, settings: u32) -> Self {
        let settings = Due::after(now, settings);
        Timers {
            now,
            settings_due: settings,
            block_due: Due::NEVER,
            shutdown: Shutdown::Open,
            last_received: now,
            pinged_at: None,
            next_stall_check: None,
            linger_due: Due::NEVER,
            unanswered_pings: 0,
        }
    }

    /// Records that something was received.
    fn note_received(&mut self, now: u64) {
        self.last_received = now;
        self.pinged_at = None;
    }
}

impl Connection {
    /// Starts a connection: our SETTINGS are pending.
    pub(crate) fn new(role: Role, config: Config, now: u64) -> Self {
        let mut connection = Connection {
            role,
            config,
            read_state: if role == Role::Server { ReadState::Preface } else { ReadState::FirstSettings },
            decoder: Decoder::new(config.decoder_table_bytes as usize),
            encoder: Encoder::new(config.string_coding, config.encoder_table_bytes as usize),
            partial_block: Vec::new(),
            streams: Streams::default(),
            ids: StreamIds {
                highest: 0,
                closed: ClosedStreams::new(),
                early_priorities: [(0, Priority::UNSPECIFIED); MAX_EARLY_PRIORITIES],
            },
            windows: Windows {
                inbound: Inbound::new(config.connection_window.max(flow::INITIAL_WINDOW)),
                outbound: Outbound::new(flow::INITIAL_WINDOW),
                budget: WindowBudget::default(),
                stall: WindowStall::default(),
            },
            // "It is recommended that this value be no smaller than 100" (RFC 9113 §6.5.2); assumed until SETTINGS
            // arrive.
            peer: PeerSettings {
                max_streams: 100,
                stream_window: flow::INITIAL_WINDOW,
                max_frame_bytes: frame::MAX_FRAME_BYTES,
                extended_connect: false,
                last_stream: flow::MAX_WINDOW,
                is_received: false,
            },
            outbox: Outbox::default(),
            peer_record: PeerRecord::default(),
            timers: Timers::new(now, config.timeouts.settings),
        };
        connection.send_preface();
        connection
    }

    /// Writes the client preface, SETTINGS and the remaining connection window.
    fn send_preface(&mut self) {
        let config = self.config;
        let out = self.outbox.bytes();
        if self.role == Role::Client {
            out.extend_from_slice(CLIENT_PREFACE);
        }
        let mut settings = [(Setting::EnablePush, 0); 7];
        let all = [
            (self.role == Role::Client, Setting::EnablePush, 0),
            (self.role == Role::Server, Setting::MaxConcurrentStreams, config.max_streams),
            (config.decoder_table_bytes != 4096, Setting::HeaderTableSize, config.decoder_table_bytes),
            (true, Setting::InitialWindowSize, config.stream_window),
            (true, Setting::MaxHeaderListSize, config.head_limits.list_bytes),
            (config.extended_connect, Setting::EnableConnectProtocol, 1),
            (self.role == Role::Server, Setting::NoRfc7540Priorities, 1),
        ];
        let mut count = 0;
        for (_, setting, value) in all.into_iter().filter(|(said, ..)| *said) {
            settings[count] = (setting, value);
            count += 1;
        }
        frame::write_settings(&settings[..count], out);
        if config.connection_window > flow::INITIAL_WINDOW {
            frame::write_window_update(0, config.connection_window - flow::INITIAL_WINDOW, out);
        }
    }

    /// The initial window of a new stream. Until the peer acknowledges our SETTINGS, it may use the default one.
    fn stream_window(&self) -> u32 {
        let least = if self.timers.settings_due != Due::NEVER { flow::INITIAL_WINDOW } else { 0 };
        self.config.stream_window.max(least)
    }

    /// Releases memory that an idle connection does not need; the compression tables stay.
    pub(crate) fn release_memory(&mut self) {
        self.outbox.release_memory();
        self.peer_record.events.release_memory();
        if !matches!(self.read_state, ReadState::FieldBlock(_)) {
            self.partial_block = Vec::new();
        }
        self.streams.release_memory();
        self.decoder.release_memory();
        self.encoder.release_memory();
    }

    /// Bytes of memory in use.
    pub(crate) fn kept_bytes(&self) -> usize {
        let tables = self.decoder.kept_bytes() + self.encoder.kept_bytes();
        size_of::<Self>()
            + tables
            + self.partial_block.capacity()
            + self.outbox.kept_bytes()
            + self.streams.kept_bytes()
    }
}
