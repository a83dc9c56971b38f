//! Attackers that hold connections: they open many, send the start of a request on each, and continue slowly or not at all.
//! One thread visits all of them once per round and reopens connections that the proxy closed. It also runs honest clients
//! that hold as many connections and send at the same moments: in each round only as many continue as the pace allows.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::pace::Control;
use super::socket::{DiscardBuffer, Heard, Sender, dial, discard, discard_buffer};

/// The work on each connection.
#[derive(Clone)]
pub(super) struct Holding {
    /// Sent first, one piece a round.
    pub(super) chunks: Vec<Vec<u8>>,
    /// The work of each round.
    pub(super) afterwards: Then,
    /// The time between two turns.
    pub(super) step: Duration,
    /// Maximum number of connections opened per round.
    pub(super) new_in_a_turn: usize,
    /// The receive buffer; `None` for the system's default.
    pub(super) receive_buffer: Option<usize>,
    /// Whether only as many connections continue per round as the pace allows, in turn, instead of all.
    pub(super) paced: bool,
}

impl Holding {
    /// Once per second on every connection.
    pub(super) fn new(parts: Vec<Vec<u8>>, then: Then) -> Self {
        let step = Duration::from_secs(1);
        Self {
            chunks: parts,
            afterwards: then,
            step,
            new_in_a_turn: AT_ONCE,
            receive_buffer: None,
            paced: false,
        }
    }

    /// With a receive buffer so small that it costs the attacker nothing.
    pub(super) fn with_small_buffer(self) -> Self {
        Self { receive_buffer: Some(4 * 1024), ..self }
    }
}

/// What follows the first bytes.
#[derive(Clone)]
pub(super) enum Then {
    /// Send these bytes again; discard responses.
    Send(Vec<u8>),
    /// Read this many bytes of the response.
    Read(usize),
    /// Does not read.
    Hold,
    /// Send nothing; discard responses.
    Listen,
    /// Reset and reopen the connection once the response starts.
    Leave,
}

/// New connections per round: a burst that overflows the listen queue says nothing about later behaviour.
const AT_ONCE: usize = 2_000;
/// How often it checks whether to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
const BUFFER: usize = 64 * 1024;

/// Holds `connections` to `address` until stopped.
pub(super) fn hold(holding: &Holding, address: SocketAddr, connections: usize, control: &Control) {
    let mut all = All::closed(connections);
    let mut next = Instant::now();
    while !control.is_over() {
        all.round(holding, address, control);
        next = (next + holding.step).max(Instant::now());
        while !control.is_over() && Instant::now() < next {
            std::thread::sleep(POLL_INTERVAL.min(next.saturating_duration_since(Instant::now())));
        }
    }
}

/// All connections of a thread.
struct All {
    slots: Vec<Option<Sender>>,
    room: DiscardBuffer,
    /// Index of the first connection to continue.
    first: usize,
    /// The work that the pace allows and that is not done yet.
    owed: f64,
}

impl All {
    fn closed(connections: usize) -> Self {
        let slots = (0..connections).map(|_| None).collect();
        Self { slots, room: discard_buffer(BUFFER), first: 0, owed: 0.0 }
    }

    fn round(&mut self, holding: &Holding, address: SocketAddr, control: &Control) {
        let (most, count) = (self.max_in_round(holding, control), self.slots.len());
        let (mut new, mut gone_on) = (0, 0);
        for place in self.first..self.first + count {
            let slot = &mut self.slots[place % count];
            if slot.is_none() && new < holding.new_in_a_turn {
                *slot = dial(address, holding.receive_buffer).ok().map(Sender::new);
                control.count_opened();
                new += 1;
            }
            if gone_on < most {
                gone_on += 1;
                let stays = slot
                    .as_mut()
                    .is_none_or(|connection| step_connection(connection, holding, &mut self.room));
                if !stays {
                    *slot = None;
                }
            }
        }
        self.first = (self.first + gone_on) % count.max(1);
        control.count_rounds(gone_on as u64);
    }

    /// How many connections continue in this round.
    fn max_in_round(&mut self, holding: &Holding, control: &Control) -> usize {
        let count = self.slots.len();
        if !holding.paced {
            return count;
        }
        // A shortfall is not made up for later.
        self.owed = (self.owed.fract() + control.due_in(holding.step)).min(count as f64);
        self.owed as usize
    }
}

/// Steps a connection; returns whether it continues.
fn step_connection(connection: &mut Sender, holding: &Holding, room: &mut DiscardBuffer) -> bool {
    if let Some(piece) = holding.chunks.get(connection.pieces_sent) {
        return connection.send(piece).is_ok();
    }
    match &holding.afterwards {
        Then::Send(bytes) => {
            while discard(&connection.stream, room) == Heard::Bytes {}
            connection.send(bytes).is_ok() && discard(&connection.stream, room) != Heard::End
        }
        Then::Read(count) => discard(&connection.stream, &mut room[..*count]) != Heard::End,
        Then::Hold => matches!(connection.stream.take_error(), Ok(None)),
        Then::Listen => discard(&connection.stream, room) != Heard::End,
        Then::Leave => discard(&connection.stream, room) == Heard::Silence,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// How often each of `connections` continued after some rounds of half a second at this pace.
    fn rounds(connections: usize, paced: bool) -> Vec<usize> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let step = Duration::from_millis(500);
        let holding = Holding { step, paced, ..Holding::new(Vec::new(), Then::Send(b"x".to_vec())) };
        let control = Control::new(1);
        control.set_pace(Duration::from_millis(10), 0.05);
        let mut all = All::closed(connections);
        (0..4).for_each(|_| all.round(&holding, address, &control));
        let accepted: Vec<_> = (0..connections).map(|_| listener.accept().unwrap().0).collect();
        all.slots.iter().flatten().for_each(|held| held.stream.shutdown(std::net::Shutdown::Write).unwrap());
        let length_of = |mut stream: TcpStream| stream.read_to_end(&mut Vec::new()).unwrap();
        let mut lengths: Vec<_> = accepted.into_iter().map(length_of).collect();
        lengths.sort_unstable();
        lengths
    }

    #[test]
    fn attackers_go_on_with_every_connection_and_honest_clients_with_as_many_as_the_pace_allows() {
        assert_eq!(rounds(4, false), [4; 4]);
        // Five per second are two and a half per round, in turn.
        assert_eq!(rounds(4, true), [2, 2, 3, 3]);
        assert_eq!(rounds(2, true), [4; 2], "there are only two");
    }
}
