//! Observes one end's output from the other end's perspective: whether each frame is allowed where it appears, and
//! whether windows add up. Independent of the observed code except for frame constants.

use std::collections::BTreeMap;

use fairway_http2::frame::{FLAG_ACK, FLAG_END_HEADERS, FLAG_END_STREAM, FrameKind, HEADER_BYTES, Header};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// One direction of a stream on the wire.
#[derive(Default)]
struct Lane {
    ended: bool,
    reset: bool,
    /// Bytes of DATA.
    sent: u64,
}

/// One direction of a connection.
pub(crate) struct Watch {
    bytes: Vec<u8>,
    preface: bool,
    begun: bool,
    /// The incomplete block, and whether the stream ends with it.
    block: Option<(u32, bool)>,
    lanes: BTreeMap<u32, Lane>,
    /// Bytes of all DATA.
    sent: u64,
    /// What was announced to the other end, by stream.
    announced: BTreeMap<u32, u64>,
    /// The initial window of streams in its SETTINGS.
    stream_window: u64,
    /// The last stream of each GOAWAY.
    last: u32,
}

impl Watch {
    /// For a client's or a server's output.
    pub(crate) fn new(is_client: bool) -> Self {
        Watch {
            bytes: Vec::new(),
            preface: is_client,
            begun: false,
            block: None,
            lanes: BTreeMap::new(),
            sent: 0,
            announced: BTreeMap::new(),
            stream_window: 65_535,
            last: u32::MAX,
        }
    }

    /// Processes further output.
    pub(crate) fn observe(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        if self.preface && self.bytes.len() >= PREFACE.len() {
            assert!(self.bytes.starts_with(PREFACE));
            self.bytes.drain(..PREFACE.len());
            self.preface = false;
        }
        let mut at = 0;
        while let Some(header) = self.bytes[at..].first_chunk::<HEADER_BYTES>().filter(|_| !self.preface) {
            let header = Header::read(header);
            let end = at + HEADER_BYTES + header.length as usize;
            if end > self.bytes.len() {
                break;
            }
            let payload = self.bytes[at + HEADER_BYTES..end].to_vec();
            self.frame(&header, &payload);
            at = end;
        }
        self.bytes.drain(..at);
    }

    /// Whether the output consists of complete frames, without an open block.
    pub(crate) fn is_between_frames(&self) -> bool {
        self.bytes.is_empty() && self.block.is_none()
    }

    fn frame(&mut self, header: &Header, payload: &[u8]) {
        let kind = FrameKind::from_number(header.kind).expect("known frames are written");
        assert!(header.length <= 16_384, "{header:?}");
        assert!(
            self.begun || (kind == FrameKind::Settings && !header.has_flag(FLAG_ACK)),
            "SETTINGS come first: {header:?}"
        );
        self.begun = true;
        match self.block {
            Some((stream, _)) => assert_eq!((kind, header.stream), (FrameKind::Continuation, stream)),
            None => assert_ne!(kind, FrameKind::Continuation),
        }
        match kind {
            FrameKind::Headers => self.headers(header),
            FrameKind::Continuation if header.has_flag(FLAG_END_HEADERS) => self.block_ends(),
            FrameKind::Continuation => {}
            FrameKind::Data => self.data(header, payload),
            FrameKind::Reset => {
                let lane = self.lanes.entry(header.stream).or_default();
                assert!(!std::mem::replace(&mut lane.reset, true), "reset twice: {header:?}");
            }
            FrameKind::WindowUpdate => self.window_update(header.stream, payload),
            FrameKind::Settings => self.settings(payload),
            FrameKind::GoAway => {
                let last = word(payload);
                assert!(last <= self.last, "GOAWAY rises");
                self.last = last;
            }
            FrameKind::Ping => assert_eq!((header.stream, payload.len()), (0, 8)),
            FrameKind::Priority | FrameKind::PushPromise | FrameKind::PriorityUpdate => {
                panic!("{header:?} is never written")
            }
        }
    }

    fn headers(&mut self, header: &Header) {
        let lane = self.lanes.entry(header.stream).or_default();
        assert!(!lane.ended && !lane.reset, "HEADERS behind the end of {}", header.stream);
        self.block = Some((header.stream, header.has_flag(FLAG_END_STREAM)));
        if header.has_flag(FLAG_END_HEADERS) {
            self.block_ends();
        }
    }

    fn block_ends(&mut self) {
        let (stream, end) = self.block.take().expect("a block is open");
        self.lanes.entry(stream).or_default().ended |= end;
    }

    fn data(&mut self, header: &Header, payload: &[u8]) {
        let lane = self.lanes.get_mut(&header.stream).expect("DATA comes behind HEADERS");
        assert!(!lane.ended && !lane.reset, "DATA behind the end of {}", header.stream);
        lane.ended = header.has_flag(FLAG_END_STREAM);
        lane.sent += payload.len() as u64;
        self.sent += payload.len() as u64;
    }

    fn window_update(&mut self, stream: u32, payload: &[u8]) {
        let increment = u64::from(word(payload));
        assert!(increment > 0 && payload.len() == 4);
        let reset = self.lanes.get(&stream).is_some_and(|lane| lane.reset);
        assert!(!reset, "a window for a stream that was reset: {stream}");
        *self.announced.entry(stream).or_default() += increment;
    }

    fn settings(&mut self, payload: &[u8]) {
        for setting in payload.chunks(6) {
            if setting[..2] == [0, 4] {
                self.stream_window = u64::from(word(&setting[2..]));
            }
        }
    }

    /// The part of the connection window that the other end has not used.
    pub(crate) fn remaining_window(&self, other: &Watch) -> u64 {
        let announced = self.announced.get(&0).copied().unwrap_or_default();
        (65_535 + announced).checked_sub(other.sent).expect("nobody sends more than it may")
    }

    /// Whether the other end respected every window announced to it.
    pub(crate) fn kept_by(&self, other: &Watch) {
        self.remaining_window(other);
        for (stream, lane) in &other.lanes {
            // Before it knew our SETTINGS, it could use the initial one.
            let announced = self.announced.get(stream).copied().unwrap_or_default();
            let window = announced + self.stream_window.max(65_535);
            assert!(lane.sent <= window, "{} on stream {stream}, of {window}", lane.sent);
        }
    }
}

fn word(payload: &[u8]) -> u32 {
    let word = payload.first_chunk::<4>().expect("four bytes");
    u32::from_be_bytes(*word) & 0x7fff_ffff
}
