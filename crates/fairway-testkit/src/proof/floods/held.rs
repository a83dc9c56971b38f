//! Attackers that hold connections: they open many, send a beginning on each, and then go on slowly or not at all.
//! One thread goes over all of them once a round; a connection that the proxy ended is made again.

use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::control::Control;
use super::socket::{Heard, Waste, dial, discard, waste};

/// What is done with every connection.
#[derive(Clone, Debug)]
pub(super) struct Holding {
    /// Sent first, one piece a round.
    pub(super) pieces: Vec<Vec<u8>>,
    /// What follows, once a round.
    pub(super) then: Then,
    /// The time between two turns.
    pub(super) step: Duration,
    /// How many connections are made in a round at most.
    pub(super) new_in_a_turn: usize,
    /// The receive buffer; the system's when there is none.
    pub(super) receive_buffer: Option<usize>,
}

/// What follows the beginning.
#[derive(Clone, Debug)]
pub(super) enum Then {
    /// These bytes again; answers are thrown away.
    Send(Vec<u8>),
    /// This many bytes of the answer are read.
    Read(usize),
    /// Nothing is read.
    Hold,
    /// Nothing is sent; answers are thrown away.
    Listen,
    /// Once the answer begins, the connection is reset and made again.
    Leave,
}

/// How long it sleeps at most before it looks whether it is to end.
const GLANCE: Duration = Duration::from_millis(10);
const BUFFER: usize = 64 * 1024;

/// Holds `connections` to `address` until it is told to end.
pub(super) fn hold(holding: &Holding, address: SocketAddr, connections: usize, control: &Control) {
    let mut held: Vec<Option<Connection>> = (0..connections).map(|_| None).collect();
    let mut room = waste(BUFFER);
    let mut next = Instant::now();
    while !control.is_over() {
        let mut new = 0;
        for slot in &mut held {
            if slot.is_none() && new < holding.new_in_a_turn {
                *slot = dial(address, holding.receive_buffer).ok().map(Connection::new);
                control.count_opened(1);
                new += 1;
            }
            let goes_on = slot.as_mut().is_none_or(|connection| connection.step(holding, &mut room));
            if !goes_on {
                *slot = None;
            }
        }
        next = (next + holding.step).max(Instant::now());
        while !control.is_over() && Instant::now() < next {
            std::thread::sleep(GLANCE.min(next.saturating_duration_since(Instant::now())));
        }
    }
}

struct Connection {
    stream: TcpStream,
    /// Pieces sent, and bytes of the next one.
    sent: (usize, usize),
}

impl Connection {
    fn new(stream: TcpStream) -> Self {
        Self { stream, sent: (0, 0) }
    }

    /// Whether it goes on after this round.
    fn step(&mut self, holding: &Holding, room: &mut Waste) -> bool {
        if let Some(piece) = holding.pieces.get(self.sent.0) {
            return self.send_rest(piece);
        }
        match &holding.then {
            Then::Send(bytes) => {
                while discard(&self.stream, room) == Heard::Bytes {}
                self.send_rest(bytes) && discard(&self.stream, room) != Heard::End
            }
            Then::Read(count) => discard(&self.stream, &mut room[..*count]) != Heard::End,
            Then::Hold => matches!(self.stream.take_error(), Ok(None)),
            Then::Listen => discard(&self.stream, room) != Heard::End,
            Then::Leave => discard(&self.stream, room) == Heard::Silence,
        }
    }

    fn send_rest(&mut self, piece: &[u8]) -> bool {
        match (&self.stream).write(&piece[self.sent.1..]) {
            Ok(length) => {
                self.sent.1 += length;
                if self.sent.1 == piece.len() {
                    self.sent = (self.sent.0 + 1, 0);
                }
                true
            }
            Err(error) => error.kind() == ErrorKind::WouldBlock || error.kind() == ErrorKind::NotConnected,
        }
    }
}
