//! Both ends against each other in virtual time: bodies in both directions, resets, slow readers, windows of all sizes and
//! writes that are cut anywhere. Whatever happens, each byte arrives where it belongs, and in the end nothing is left.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::collections::BTreeMap;

use fairway_http2::{By, Client, Code, Config, Event, Priority, Server, Session, Wait};
use fairway_message::Head;
use proptest::prelude::*;

/// Numbers that follow from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 11) % sides).unwrap()
    }
}

/// What a body has at each place: other bytes for each stream and direction.
fn byte(stream: u32, seed: u8, at: usize) -> u8 {
    (at as u32).wrapping_mul(31).wrapping_add(stream.wrapping_mul(7)).to_le_bytes()[at % 2].wrapping_add(seed)
}

/// One stream as one end sees it.
#[derive(Debug, Default)]
struct Body {
    /// What is still to be sent, of how much.
    sent: usize,
    length: usize,
    trailers: bool,
    /// What came, and of that what was not consumed yet.
    received: usize,
    held: u32,
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

/// One end, what it sends, and what it has not read.
struct End<R> {
    session: Session<R>,
    seed: u8,
    input: Vec<u8>,
    bodies: BTreeMap<u32, Body>,
    head: Head,
    granted: u32,
    window: u32,
    finished: usize,
    reset: usize,
}

impl<R> End<R> {
    fn new(session: Session<R>, seed: u8, config: Config) -> Self {
        let window = config.connection_window;
        let (input, bodies, head) = (Vec::new(), BTreeMap::new(), Head::new());
        End { session, seed, input, bodies, head, granted: 0, window, finished: 0, reset: 0 }
    }

    /// Handles what came. Gives streams whose head did.
    fn receive(&mut self, now: u64) -> Vec<u32> {
        let (mut at, mut heads) = (0, Vec::new());
        loop {
            let (used, event) = self.session.receive(now, &self.input[at..], &mut self.head);
            at += used;
            let (stream, end) = match event {
                Event::NeedMore | Event::Wait(Wait::Flush | Wait::Release) => break,
                Event::Head { stream, end, .. } => {
                    heads.push(stream);
                    self.bodies.entry(stream).or_default();
                    (stream, end)
                }
                Event::Data { stream, bytes, end } => {
                    let body = self.bodies.get_mut(&stream).expect("a body of a stream that is open");
                    for (at, got) in bytes.iter().enumerate() {
                        assert_eq!(
                            *got,
                            byte(stream, self.seed ^ 1, body.received + at),
                            "of another stream"
                        );
                    }
                    body.received += bytes.len();
                    body.held += u32::try_from(bytes.len()).unwrap();
                    (stream, end)
                }
                Event::Trailers { stream } => (stream, true),
                Event::Reset { stream, by, code } => {
                    assert!(by == By::Peer, "{by:?} {code:?}");
                    if let Some(body) = self.bodies.get_mut(&stream) {
                        // NO_ERROR behind a whole answer takes nothing away.
                        body.reset |= !(code == Code::NoError && body.incoming == Half::Ended);
                        body.outgoing = Half::Ended;
                    }
                    continue;
                }
                Event::Settings | Event::Writable { .. } | Event::Pong(_) | Event::Priority { .. } => {
                    continue;
                }
                event => panic!("{event:?}"),
            };
            if end {
                self.bodies.get_mut(&stream).unwrap().incoming = Half::Ended;
            }
        }
        self.input.drain(..at);
        let held: u32 = self.bodies.values().map(|body| body.held).sum();
        assert!(held <= self.window.max(65_535) + self.granted, "{held} bytes are held");
        heads
    }

    /// Reads something of what is there, at the reader's own pace.
    fn consume(&mut self, dice: &mut Dice) {
        for (stream, body) in &mut self.bodies {
            let bytes = match dice.roll(4) {
                0 => 0,
                1 => body.held.min(100),
                _ => body.held,
            };
            body.held -= bytes;
            self.session.consume(*stream, bytes);
        }
    }

    /// Sends bodies, and what waits, to the other end; the socket takes what it likes.
    fn send(&mut self, now: u64, dice: &mut Dice, to: &mut Vec<u8>) {
        for (stream, body) in &mut self.bodies {
            if body.outgoing != Half::Open {
                continue;
            }
            if body.sent < body.length {
                self.session.want_to_send(now, *stream);
            } else {
                body.outgoing = Half::Ended;
                match body.trailers {
                    true => _ = self.session.send_trailers(*stream, [(&b"a"[..], &b"b"[..])].into_iter()),
                    false => _ = self.session.send_data(*stream, b"", true),
                }
            }
        }
        for _ in 0..dice.roll(20) {
            let Some(turn) = self.session.next_to_send(now) else { break };
            let body = self.bodies.get_mut(&turn.stream).expect("only who wants to send has a turn");
            let (from, stream, seed) = (body.sent, turn.stream, self.seed);
            let count = (body.length - from).min(turn.bytes).min(1 + dice.roll(100_000));
            let piece: Vec<u8> = (from..from + count).map(|at| byte(stream, seed, at)).collect();
            let cut = dice.roll(150_000);
            let taken = self.session.send_data_with(stream, &piece, false, |slices| {
                let all: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
                to.extend_from_slice(&all[..cut.min(all.len())]);
                cut.min(all.len())
            });
            assert!(taken > 0, "a turn has room");
            body.sent += taken;
        }
        let count = dice.roll(200_000).min(self.session.pending().len());
        to.extend_from_slice(&self.session.pending()[..count]);
        self.session.wrote(count);
    }

    /// Releases what is over on both sides.
    fn settle(&mut self) {
        let over = |body: &Body| {
            body.reset || ((body.incoming, body.outgoing) == (Half::Ended, Half::Ended) && body.held == 0)
        };
        let done: Vec<u32> = self.bodies.iter().filter(|(_, body)| over(body)).map(|(id, _)| *id).collect();
        for stream in done {
            self.session.release(stream);
            let body = self.bodies.remove(&stream).unwrap();
            match body.reset {
                true => self.reset += 1,
                false => self.finished += 1,
            }
        }
        let given_back = self.session.reclaim_window();
        self.granted = self.granted.checked_sub(given_back).expect("only what was granted is given back");
    }

    /// Once in a while, something that peers do.
    fn disturb(&mut self, dice: &mut Dice) {
        if dice.roll(3) == 0 && self.session.window_wanted() > 0 {
            let bytes = self.session.window_wanted();
            self.granted += bytes;
            self.session.grant_window(bytes);
        }
        if dice.roll(200) == 0 {
            self.session.ping([1; 8]);
        }
        let some = self.bodies.keys().copied().nth(dice.roll(40));
        let Some(stream) = some else { return };
        if dice.roll(30) == 0 {
            let urgency = u8::try_from(dice.roll(8)).unwrap();
            self.session.set_priority(stream, Priority { urgency, incremental: dice.roll(2) == 0 });
        }
        if dice.roll(60) == 0 {
            self.session.reset(stream, Code::Cancel);
            self.bodies.get_mut(&stream).unwrap().reset = true;
        }
    }
}

/// Some bytes of what is on the way arrive.
fn deliver(dice: &mut Dice, from: &mut Vec<u8>, to: &mut Vec<u8>) {
    let count = [from.len(), 1, dice.roll(100), dice.roll(50_000)][dice.roll(4)].min(from.len());
    to.extend(from.drain(..count));
}

fn length(dice: &mut Dice) -> usize {
    let most = [1, 300, 20_000, 400_000][dice.roll(4)];
    dice.roll(most)
}

/// Plays a whole connection with so many requests.
fn play(seed: u64, requests: usize, windows: (u32, u32)) {
    let mut dice = Dice(seed | 1);
    let config =
        Config { streams: 9, stream_window: windows.0, connection_window: windows.1, ..Config::default() };
    let mut client = End::new(Client::new(config, 0), 2, config);
    let mut server = End::new(Server::new(config, 0), 3, config);
    let (mut up, mut down) = (Vec::new(), Vec::new());
    let (mut now, mut asked, mut quiet) = (0, 0, 0);
    while asked < requests || !client.bodies.is_empty() || !server.bodies.is_empty() {
        now += dice.roll(30_000) as u64;
        if asked < requests && client.session.can_open() && dice.roll(3) == 0 {
            client.head.start_request(b"POST", b"/");
            client.head.append(b"Host", b"a");
            let stream = client.session.send_head(&client.head, b"/", b"http", false).unwrap();
            let (length, trailers) = (length(&mut dice), dice.roll(5) == 0);
            client.bodies.insert(stream, Body { length, trailers, outgoing: Half::Open, ..Body::default() });
            asked += 1;
        }
        let before = (client.progress(), server.progress());
        client.receive(now);
        for stream in server.receive(now) {
            let mut answer = Head::new();
            answer.start_response(200);
            let sent = server.session.send_head(stream, &answer, false);
            let (length, trailers) = (length(&mut dice), dice.roll(5) == 0);
            let body = server.bodies.get_mut(&stream).unwrap();
            assert_ne!(sent, body.reset);
            (body.length, body.trailers) = (length, trailers);
            if sent {
                body.outgoing = Half::Open;
            }
        }
        client.turn(now, &mut dice, &mut up);
        server.turn(now, &mut dice, &mut down);
        deliver(&mut dice, &mut up, &mut server.input);
        deliver(&mut dice, &mut down, &mut client.input);
        quiet = if before == (client.progress(), server.progress()) { quiet + 1 } else { 0 };
        assert!(quiet < 20_000, "nothing happens any more: {:?} {:?}", client.bodies, server.bodies);
    }
    assert_eq!(client.finished + client.reset, requests);
    assert_eq!((client.session.open_streams(), server.session.open_streams()), (0, 0));
    assert!(client.session.next_to_send(now).is_none() && server.session.next_to_send(now).is_none());
    assert!(!client.session.is_done() && !server.session.is_done());
}

impl<R> End<R> {
    fn turn(&mut self, now: u64, dice: &mut Dice, to: &mut Vec<u8>) {
        self.consume(dice);
        self.disturb(dice);
        self.send(now, dice, to);
        self.settle();
        if self.session.deadline().is_some_and(|deadline| deadline <= now) {
            assert_eq!(self.session.pass(now), None);
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
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn bodies_arrive_where_they_belong_and_nothing_is_left(
        seed in any::<u64>(),
        requests in 1..40usize,
        windows in prop_oneof![
            Just((65_536, 1 << 20)),
            Just((65_535, 65_535)),
            Just((1_000, 65_535)),
            Just((300_000, 70_000)),
        ],
    ) {
        play(seed, requests, windows);
    }
}
