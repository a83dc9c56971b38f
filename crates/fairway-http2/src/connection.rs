//! One connection of either role (RFC 9113): bytes in and one event at a time out, actions in and bytes out.
//!
//! `read` cuts the input into frames, `heads` has field blocks, `body` has DATA, `windows` what may come, `control` the rest;
//! `send` has heads that go, `turn` bodies and whose turn it is; `close`, `linger` and `time` how a connection and its streams
//! end.

mod body;
mod close;
mod control;
mod heads;
mod linger;
mod read;
mod send;
mod time;
mod turn;
mod windows;

use crate::abuse::Account;
use crate::fault::Fault;
use crate::fields::Limits;
use crate::flow::{self, Budget, Inbound, Outbound};
use crate::frame::{self, Setting};
use crate::hpack::{Decoder, Encoder, Strings};
use crate::notes::Notes;
use crate::outbox::Outbox;
use crate::patience::{Due, Patience, Timeouts};
use crate::priority::Priority;
use crate::stream::{Memory, Streams};

/// What a client begins with (RFC 9113 §3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What we allow the peer and how we write.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Streams that may be open at once.
    pub streams: u32,
    /// What may come on a stream before it is consumed, at first.
    pub stream_window: u32,
    /// What that may grow to for a body that comes fast, within what was granted.
    pub largest_stream_window: u32,
    /// What may come on all streams before it is consumed, without what was granted.
    pub connection_window: u32,
    /// How large a head may be.
    pub limits: Limits,
    /// Bytes of the table that the peer compresses with.
    pub decoder_table: u32,
    /// Bytes of the table that we compress with, 0 for none.
    pub encoder_table: u32,
    /// How we write strings.
    pub strings: Strings,
    /// Whether `:protocol` is offered (RFC 8441).
    pub extended_connect: bool,
    /// How long the peer may take.
    pub timeouts: Timeouts,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            streams: 128,
            stream_window: 64 * 1024,
            largest_stream_window: 1024 * 1024,
            connection_window: 1024 * 1024,
            limits: Limits::default(),
            decoder_table: 4096,
            encoder_table: 0,
            strings: Strings::Plain,
            extended_connect: false,
            timeouts: Timeouts::default(),
        }
    }
}

/// Which end of the connection we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Server,
    Client,
}

/// What comes next in the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// The client's preface (RFC 9113 §3.4).
    Preface,
    /// The first SETTINGS.
    First,
    /// A frame.
    Frame,
    /// CONTINUATION of a block.
    Block(OpenBlock),
    /// The rest of a DATA frame.
    Data { stream: u32, left: u32, padding: u32, end: bool },
    /// Bytes that mean nothing.
    Skip { left: u32 },
    /// Nothing any more.
    Nothing(Fault),
}

/// A field block whose end has not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OpenBlock {
    stream: u32,
    end: bool,
    depends_on_itself: bool,
    frames: u32,
}

/// What the peer allows us.
#[derive(Debug, Clone, Copy)]
struct Peer {
    streams: u32,
    window: u32,
    frame_bytes: u32,
    extended_connect: bool,
    /// The last stream of its GOAWAY.
    last: u32,
    /// Whether its SETTINGS came.
    known: bool,
}

/// Ids that were used, and what is remembered of them.
#[derive(Debug)]
struct Ids {
    /// The highest stream that the peer opened, or that we did as a client.
    highest: u32,
    memory: Memory,
    /// Priorities of streams that are not open yet.
    hints: [(u32, Priority); HINTS],
}

/// How many streams may have a priority before they are open.
const HINTS: usize = 4;

impl Ids {
    /// Keeps a priority. The highest of too many ids is the last that can be opened, so it goes first.
    fn hint(&mut self, id: u32, priority: Priority) {
        let known = self.hints.iter().position(|(hinted, _)| *hinted == id);
        let at = known.or_else(|| self.hints.iter().position(|(hinted, _)| *hinted <= self.highest));
        let highest = (0..HINTS).max_by_key(|at| self.hints[*at].0).unwrap_or(0);
        self.hints[at.unwrap_or(highest)] = (id, priority);
    }

    /// The priority that was kept.
    fn hinted(&self, id: u32) -> Option<Priority> {
        self.hints.iter().find(|(hinted, _)| *hinted == id).map(|(_, priority)| *priority)
    }
}

/// The windows of the connection.
#[derive(Debug)]
struct Windows {
    inbound: Inbound,
    outbound: Outbound,
    /// What windows may grow by.
    budget: Budget,
    /// How long the peer may leave the window of the connection closed.
    patience: Patience,
}

/// How far the end is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// New streams are taken.
    No,
    /// GOAWAY was sent, and until then streams that were under way are taken.
    Announced { until: u64 },
    /// No stream above this one is taken.
    After { last: u32 },
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    role: Role,
    config: Config,
    reading: Reading,
    decoder: Decoder,
    encoder: Encoder,
    /// The beginning of a block that comes in several frames.
    block: Vec<u8>,
    streams: Streams,
    ids: Ids,
    windows: Windows,
    peer: Peer,
    outbox: Outbox,
    conduct: Conduct,
    times: Times,
}

/// What the peer did.
#[derive(Debug, Default)]
struct Conduct {
    account: Account,
    notes: Notes,
}

/// What has a deadline.
#[derive(Debug)]
struct Times {
    /// The time that was told last.
    now: u64,
    /// Our settings must be acknowledged until then.
    settings: Due,
    /// A client's field block that has begun must be whole until then.
    head: Due,
    ending: Ending,
    /// When something came last.
    heard: u64,
    /// When the peer was asked whether it is there.
    asked: Option<u64>,
    /// No stream loses its patience before.
    stalled: Option<u64>,
    /// No stream that lingers is reset before.
    lingering: Due,
    /// PINGs of ours that were not answered.
    pings: u32,
}

impl Times {
    fn new(now: u64, settings: u32) -> Self {
        let settings = Due::after(now, settings);
        Times {
            now,
            settings,
            head: Due::NEVER,
            ending: Ending::No,
            heard: now,
            asked: None,
            stalled: None,
            lingering: Due::NEVER,
            pings: 0,
        }
    }

    /// Something came.
    fn hear(&mut self, now: u64) {
        self.heard = now;
        self.asked = None;
    }
}

impl Connection {
    /// Begins a connection: our settings are in the outbox.
    pub(crate) fn new(role: Role, config: Config, now: u64) -> Self {
        let mut connection = Connection {
            role,
            config,
            reading: if role == Role::Server { Reading::Preface } else { Reading::First },
            decoder: Decoder::new(config.decoder_table as usize),
            encoder: Encoder::new(config.strings, config.encoder_table as usize),
            block: Vec::new(),
            streams: Streams::default(),
            ids: Ids { highest: 0, memory: Memory::new(), hints: [(0, Priority::UNSAID); HINTS] },
            windows: Windows {
                inbound: Inbound::new(config.connection_window.max(flow::INITIAL)),
                outbound: Outbound::new(flow::INITIAL),
                budget: Budget::default(),
                patience: Patience::default(),
            },
            // "It is recommended that this value be no smaller than 100" (RFC 9113 §6.5.2), and so before it is known.
            peer: Peer {
                streams: 100,
                window: flow::INITIAL,
                frame_bytes: frame::FRAME_BYTES,
                extended_connect: false,
                last: flow::LARGEST,
                known: false,
            },
            outbox: Outbox::default(),
            conduct: Conduct::default(),
            times: Times::new(now, config.timeouts.settings),
        };
        connection.introduce();
        connection
    }

    /// The preface of a client, our settings and the rest of the connection's window.
    fn introduce(&mut self) {
        let config = self.config;
        let out = self.outbox.bytes();
        if self.role == Role::Client {
            out.extend_from_slice(PREFACE);
        }
        let mut settings = [(Setting::EnablePush, 0); 7];
        let all = [
            (self.role == Role::Client, Setting::EnablePush, 0),
            (self.role == Role::Server, Setting::MaxConcurrentStreams, config.streams),
            (config.decoder_table != 4096, Setting::HeaderTableSize, config.decoder_table),
            (true, Setting::InitialWindowSize, config.stream_window),
            (true, Setting::MaxHeaderListSize, config.limits.list_bytes),
            (config.extended_connect, Setting::EnableConnectProtocol, 1),
            (self.role == Role::Server, Setting::NoRfc7540Priorities, 1),
        ];
        let mut count = 0;
        for (_, setting, value) in all.into_iter().filter(|(said, ..)| *said) {
            settings[count] = (setting, value);
            count += 1;
        }
        frame::write_settings(&settings[..count], out);
        if config.connection_window > flow::INITIAL {
            frame::write_window_update(0, config.connection_window - flow::INITIAL, out);
        }
    }

    /// The window of a new stream. A peer that has not acknowledged our settings may still take it for the initial one.
    fn stream_window(&self) -> u32 {
        let least = if self.times.settings != Due::NEVER { flow::INITIAL } else { 0 };
        self.config.stream_window.max(least)
    }

    /// Gives back the memory that an idle connection does not need; the tables stay.
    pub(crate) fn rest(&mut self) {
        self.outbox.rest();
        self.conduct.notes.rest();
        if !matches!(self.reading, Reading::Block(_)) {
            self.block = Vec::new();
        }
        self.streams.rest();
        self.decoder.rest();
        self.encoder.rest();
    }

    /// The memory that it keeps, in bytes.
    pub(crate) fn kept_bytes(&self) -> usize {
        let tables = self.decoder.kept_bytes() + self.encoder.kept_bytes();
        size_of::<Self>()
            + tables
            + self.block.capacity()
            + self.outbox.kept_bytes()
            + self.streams.kept_bytes()
    }
}
