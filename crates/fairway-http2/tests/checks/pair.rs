//! Both ends connected in virtual time: bodies in both directions, resets, slow readers, windows of all sizes and
//! writes split anywhere. Whatever happens, each byte arrives where it belongs, every frame is allowed where it
//! appears, and in the end no streams and no windows are left over.

use std::collections::BTreeMap;

use fairway_http::Head;
use fairway_http2::hpack::StringCoding;
use fairway_http2::{Client, Code, Config, Event, Priority, ResetBy, Server, Session, Wait};

use super::dice::Dice;
use super::watch::Watch;

/// The byte at each position of a body: different for each stream and direction.
fn byte(stream: u32, seed: u8, at: usize) -> u8 {
    (at as u32).wrapping_mul(31).wrapping_add(stream.wrapping_mul(7)).to_le_bytes()[at % 2].wrapping_add(seed)
}

/// One end's view of a stream.
#[derive(Debug, Default)]
struct Body {
    /// How much is still to be sent, and of how much.
    sent: usize,
    length: usize,
    trailers: bool,
    /// How much was received, and how much of it was not consumed yet.
    received: usize,
    bytes_held: u32,
    incoming: Half,
    outgoing: Half,
    reset: bool,
}

/// One direction of a stream.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Half {
    #[default]
    Waiting,
    Open,
    Ended,
}

/// One end, its unsent data, and its unread input.
struct End<R> {
    session: Session<R>,
    watch: Watch,
    seed: u8,
    input: Vec<u8>,
    bodies: BTreeMap<u32, Body>,
    head: Head,
    granted: u32,
    window: u32,
    /// Streams that ended normally, and others.
    finished: usize,
    reset: usize,
}

impl<R> End<R> {
    fn new(session: Session<R>, seed: u8, config: Config) -> Self {
        End {
            session,
            watch: Watch::new(seed == CLIENT),
            seed,
            input: Vec::new(),
            bodies: BTreeMap::new(),
            head: Head::new(),
            granted: 0,
            window: config.connection_window.max(65_535),
            finished: 0,
            reset: 0,
        }
    }

    /// Processes input. Returns the streams whose head arrived.
    fn receive(&mut self, now: u64) -> Vec<u32> {
        let (mut at, mut heads) = (0, Vec::new());
        loop {
            let (used, event) = self.session.receive(now, &self.input[at..], &mut self.head);
            at += used;
            let (stream, end) = match event {
                Event::NeedMore | Event::Wait(Wait::Flush | Wait::Release) => break,
                Event::Head { stream, .. } if (100..200).contains(&self.head.status()) => {
                    assert_eq!(self.bodies[&stream].incoming, Half::Waiting);
                    continue;
                }
                Event::Head { stream, end, .. } => {
                    heads.push(stream);
                    assert_eq!(self.head.named(b"x-stream"), Some(stream.to_string().as_bytes()));
                    let body = self.bodies.entry(stream).or_default();
                    assert_eq!(std::mem::replace(&mut body.incoming, Half::Open), Half::Waiting);
                    (stream, end)
                }
                Event::Data { stream, bytes, end } => {
                    let body = self.bodies.get_mut(&stream).expect("a body of a stream that is open");
                    assert_eq!(body.incoming, Half::Open);
                    let expected = |at| byte(stream, self.seed ^ 1, body.received + at);
                    let same = bytes.iter().enumerate().all(|(at, got)| *got == expected(at));
                    assert!(same, "bytes of another stream, or of another place");
                    body.received += bytes.len();
                    body.bytes_held += u32::try_from(bytes.len()).expect("a piece of a frame");
                    (stream, end)
                }
                Event::Trailers { stream } => (stream, true),
                Event::Reset { stream, reset_by: by, code } => {
                    assert!(by == ResetBy::Peer, "{by:?} {code:?}");
                    if let Some(body) = self.bodies.get_mut(&stream) {
                        // NO_ERROR after a complete response loses nothing.
                        body.reset |= !(code == Code::NoError && body.incoming == Half::Ended);
                        body.outgoing = Half::Ended;
                    }
                    continue;
                }
                Event::GoAway { last_stream: last, code } => {
                    assert_eq!(code, Code::NoError);
                    // Streams above that one were not acted on; a client's GOAWAY concerns streams that a server opens.
                    let above = last.saturating_add(1).max(if self.seed == CLIENT { 0 } else { u32::MAX });
                    self.bodies.range_mut(above..).for_each(|(_, body)| body.reset = true);
                    continue;
                }
                Event::Settings | Event::Writable { .. } | Event::Pong(_) | Event::Priority { .. } => {
                    continue;
                }
                event => panic!("{event:?}"),
            };
            if end {
                self.bodies.get_mut(&stream).expect("it was there").incoming = Half::Ended;
            }
        }
        self.input.drain(..at);
        let held_bytes: u32 = self.bodies.values().map(|body| body.bytes_held).sum();
        assert!(held_bytes <= self.window + self.granted, "{held_bytes} bytes are held");
        heads
    }

    /// Reads some of the available data, at the reader's own pace.
    fn consume(&mut self, dice: &mut Dice<'_>) {
        for (stream, body) in &mut self.bodies {
            let bytes = match dice.roll(4) {
                0 => 0,
                1 => body.bytes_held.min(100),
                _ => body.bytes_held,
            };
            body.bytes_held -= bytes;
            self.session.consume(*stream, bytes);
        }
    }

    /// Sends bodies and pending output to the other end; the socket accepts any amount.
    fn send(&mut self, now: u64, dice: &mut Dice<'_>, to: &mut Vec<u8>) {
        let before = to.len();
        for (stream, body) in &mut self.bodies {
            if body.outgoing != Half::Open {
                continue;
            }
            if body.sent < body.length {
                self.session.queue_for_sending(now, *stream);
            } else {
                body.outgoing = Half::Ended;
                match body.trailers {
                    true => _ = self.session.send_trailers(*stream, [(&b"a"[..], &b"b"[..])].into_iter()),
                    false => _ = self.session.send_data(*stream, b"", true),
                }
            }
        }
        for _ in 0..dice.roll(20) {
            let Some(turn) = self.session.next_turn(now) else { break };
            let body = self.bodies.get_mut(&turn.stream).expect("only who wants to send has a turn");
            let (from, stream, seed) = (body.sent, turn.stream, self.seed);
            let count = (body.length - from).min(turn.bytes).min(1 + dice.roll(100_000));
            let chunk: Vec<u8> = (from..from + count).map(|at| byte(stream, seed, at)).collect();
            let cut = dice.roll(150_000);
            let sent = self.session.send_data_with(stream, &chunk, false, |slices| {
                let all: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
                to.extend_from_slice(&all[..cut.min(all.len())]);
                cut.min(all.len())
            });
            assert!(sent > 0, "a turn has room");
            body.sent += sent;
        }
        let count = dice.roll(200_000).min(self.session.pending().len());
        to.extend_from_slice(&self.session.pending()[..count]);
        self.session.mark_written(count);
        self.watch.observe(&to[before..]);
    }

    /// Releases finished streams on both sides.
    fn settle(&mut self) {
        // The rest of every third stream is not read.
        let over = |(id, body): &(&u32, &Body)| {
            let ended = (body.incoming, body.outgoing) == (Half::Ended, Half::Ended);
            body.reset || (ended && (body.bytes_held == 0 || *id % 3 == 0))
        };
        let done: Vec<u32> = self.bodies.iter().filter(over).map(|(id, _)| *id).collect();
        done.into_iter().for_each(|stream| self.release(stream));
        let given_back = self.session.reclaim_window();
        self.granted = self.granted.checked_sub(given_back).expect("only what was granted is given back");
    }

    fn release(&mut self, stream: u32) {
        self.session.release(stream);
        let body = self.bodies.remove(&stream).expect("it is released once");
        match (body.reset, body.incoming, body.outgoing) {
            (false, Half::Ended, Half::Ended) => self.finished += 1,
            _ => self.reset += 1,
        }
    }

    /// Occasionally does something that peers do.
    fn disturb(&mut self, now: u64, dice: &mut Dice<'_>) {
        if dice.roll(3) == 0 && self.session.wanted_window_bytes() > 0 {
            let bytes = self.session.wanted_window_bytes();
            self.granted += bytes;
            self.session.grant_window(bytes);
        }
        match dice.roll(250) {
            0 => self.session.ping([1; 8]),
            1 => self.session.release_memory(),
            2 if dice.roll(8) == 0 => self.session.go_away(now),
            _ => {}
        }
        let disturbed = self.bodies.keys().copied().nth(dice.roll(40));
        let Some(stream) = disturbed else { return };
        if dice.roll(30) == 0 {
            let urgency = u8::try_from(dice.roll(8)).expect("one of eight");
            self.session.set_priority(stream, Priority { urgency, incremental: dice.roll(2) == 0 });
        }
        match dice.roll(90) {
            0 => {
                self.session.reset(stream, Code::Cancel);
                self.bodies.get_mut(&stream).expect("it is one of them").reset = true;
            }
            // Whatever was received and whatever is missing.
            1 => self.release(stream),
            // It has nothing to send for now.
            2 => self.session.unqueue(stream),
            _ => {}
        }
    }

    fn take_turn(&mut self, now: u64, dice: &mut Dice<'_>, to: &mut Vec<u8>) {
        self.consume(dice);
        self.disturb(now, dice);
        self.send(now, dice, to);
        self.settle();
        if self.session.deadline().is_some_and(|deadline| deadline <= now) {
            assert_eq!(self.session.handle_timeout(now), None);
        }
    }

    fn progress(&self) -> (usize, usize, usize) {
        let bodies = self.bodies.values();
        (
            self.finished + self.reset,
            bodies.clone().map(|body| body.sent).sum(),
            bodies.map(|body| body.received).sum(),
        )
    }

    /// No stream is left, nothing waits for a turn, and the windows have their expected size.
    fn is_at_rest(&mut self, other: &Watch, now: u64) {
        assert!(self.bodies.is_empty() && self.session.open_streams() == 0);
        assert_eq!(self.session.next_turn(now), None);
        assert!(self.session.pending().is_empty() && self.watch.is_between_frames());
        let given_back = self.session.reclaim_window();
        self.granted = self.granted.checked_sub(given_back).expect("only what was granted is given back");
        self.watch.kept_by(other);
        let window = self.watch.remaining_window(other);
        let (least, most) = (u64::from(self.window) / 2, u64::from(self.window + self.granted));
        assert!(window > least && window <= most, "a window of {window}, not of {least} to {most}");
        self.session.release_memory();
        let kept_bytes = self.session.kept_bytes();
        assert!(kept_bytes <= 16 * 1024, "{kept_bytes} bytes are kept at rest");
    }
}

const CLIENT: u8 = 2;
const SERVER: u8 = 3;

/// Delivers some of the bytes in transit.
fn deliver(dice: &mut Dice<'_>, from: &mut Vec<u8>, to: &mut Vec<u8>) {
    let count = [from.len(), 1, dice.roll(100), dice.roll(50_000)][dice.roll(4)].min(from.len());
    to.extend(from.drain(..count));
}

fn length(dice: &mut Dice<'_>) -> usize {
    let limit = [1, 300, 20_000, 400_000][dice.roll(4)];
    dice.roll(limit)
}

/// Fields that identify the stream; sometimes too many for one frame.
fn fill(head: &mut Head, stream: u32, dice: &mut Dice<'_>) {
    head.append(b"X-Stream", stream.to_string().as_bytes());
    match dice.roll(16) {
        0 => (0..3).for_each(|_| head.append(b"X-Long", &[b'x'; 7_000])),
        1 => head.append(b"priority", b"u=1, i"),
        2..5 => head.append(b"X-Same", b"in every head"),
        _ => {}
    }
}

/// A client, a server, and the data in transit.
struct Play {
    client: End<fairway_http2::ClientRole>,
    server: End<fairway_http2::ServerRole>,
    up: Vec<u8>,
    down: Vec<u8>,
    now: u64,
    next: u32,
    requested: usize,
}

/// Runs a complete connection with this many requests.
pub(crate) fn play(dice: &mut Dice<'_>, requests: usize, stream_window: u32, connection_window: u32) {
    let (encoder_table, strings) =
        [(0, StringCoding::Plain), (4096, StringCoding::Huffman), (300, StringCoding::Plain)][dice.roll(3)];
    let config = Config {
        max_streams: 9,
        stream_window,
        connection_window,
        encoder_table_bytes: encoder_table,
        string_coding: strings,
        ..Config::default()
    };
    let mut play = Play {
        client: End::new(Client::new(config, 0), CLIENT, config),
        server: End::new(Server::new(config, 0), SERVER, config),
        up: Vec::new(),
        down: Vec::new(),
        now: 0,
        next: 1,
        requested: 0,
    };
    let mut quiet = 0;
    while (play.requested < requests && !play.client.session.is_going_away()) || play.is_busy() {
        let before = play.progress();
        play.step(requests, dice);
        quiet = if before == play.progress() { quiet + 1 } else { 0 };
        assert!(quiet < 20_000, "nothing happens: {:?} {:?}", play.client.bodies, play.server.bodies);
    }
    play.flush();
    assert_eq!(play.client.finished + play.client.reset, play.requested);
    play.client.is_at_rest(&play.server.watch, play.now);
    play.server.is_at_rest(&play.client.watch, play.now);
}

/// Any bytes as the decisions of a run.
pub(crate) fn pair(input: &[u8]) {
    let mut dice = Dice::new(input);
    let (stream_window, connection_window) =
        [(65_536, 1 << 20), (65_535, 65_535), (1_000, 65_535), (300_000, 70_000)][dice.roll(4)];
    let requests = 1 + dice.roll(12);
    play(&mut dice, requests, stream_window, connection_window);
}

impl Play {
    fn is_busy(&self) -> bool {
        !self.client.bodies.is_empty() || !self.server.bodies.is_empty()
    }

    fn progress(&self) -> [(usize, usize, usize); 2] {
        [self.client.progress(), self.server.progress()]
    }

    fn step(&mut self, requests: usize, dice: &mut Dice<'_>) {
        self.now += dice.roll(30_000) as u64;
        if self.requested < requests && self.client.session.can_open() && dice.roll(3) == 0 {
            self.send_request(dice);
        }
        self.client.receive(self.now);
        for stream in self.server.receive(self.now) {
            self.respond(stream, dice);
        }
        self.client.take_turn(self.now, dice, &mut self.up);
        self.server.take_turn(self.now, dice, &mut self.down);
        deliver(dice, &mut self.up, &mut self.server.input);
        deliver(dice, &mut self.down, &mut self.client.input);
    }

    fn send_request(&mut self, dice: &mut Dice<'_>) {
        let client = &mut self.client;
        client.head.start_request(b"POST", b"/");
        client.head.append(b"Host", b"a");
        fill(&mut client.head, self.next, dice);
        let stream = client.session.send_head(&client.head, b"/", b"http", false).expect("there was room");
        assert_eq!(stream, self.next);
        let (length, trailers) = (length(dice), dice.roll(5) == 0);
        client.bodies.insert(stream, Body { length, trailers, outgoing: Half::Open, ..Body::default() });
        self.next += 2;
        self.requested += 1;
    }

    fn respond(&mut self, stream: u32, dice: &mut Dice<'_>) {
        let mut response = Head::new();
        let interim = dice.roll(10);
        for _ in 0..interim.saturating_sub(7) {
            response.start_response(103);
            self.server.session.send_head(stream, &response, false);
        }
        response.clear();
        response.start_response(200);
        fill(&mut response, stream, dice);
        let sent = self.server.session.send_head(stream, &response, false);
        let (length, trailers) = (length(dice), dice.roll(5) == 0);
        let body = self.server.bodies.get_mut(&stream).expect("its head came");
        assert_ne!(sent, body.reset);
        (body.length, body.trailers) = (length, trailers);
        if sent {
            body.outgoing = Half::Open;
        }
    }

    /// Delivers everything in transit. Streams that a GOAWAY declared unprocessed no longer exist.
    fn flush(&mut self) {
        for _ in 0..4 {
            self.client.watch.observe(self.client.session.pending());
            self.up.extend_from_slice(self.client.session.pending());
            self.client.session.mark_written(self.client.session.pending().len());
            self.server.input.append(&mut self.up);
            self.server.watch.observe(self.server.session.pending());
            self.down.extend_from_slice(self.server.session.pending());
            self.server.session.mark_written(self.server.session.pending().len());
            self.client.input.append(&mut self.down);
            self.client.receive(self.now);
            self.server.receive(self.now);
            self.client.settle();
            self.server.settle();
        }
    }
}
