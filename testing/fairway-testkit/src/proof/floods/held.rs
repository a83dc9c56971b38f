//! Attackers that hold connections: they open many, send a beginning on each, and then go on slowly or not at all. One
//! thread goes over all of them once a round; a connection that the proxy ended is made again. Honest clients that hold
//! as many and ask at the same moments are these, too: in each round only as many of them go on as the pace allows.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::pace::Control;
use super::socket::{Heard, Sender, Waste, dial, discard, waste};

/// What is done with every connection.
#[derive(Clone)]
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
    /// Whether only as many go on in a round as the pace allows, one after the other, instead of all.
    pub(super) paced: bool,
}

impl Holding {
    /// Once a second on every connection.
    pub(super) fn new(pieces: Vec<Vec<u8>>, then: Then) -> Self {
        let step = Duration::from_secs(1);
        Self { pieces, then, step, new_in_a_turn: AT_ONCE, receive_buffer: None, paced: false }
    }

    /// With a receive buffer that is so small that it costs the attacker nothing.
    pub(super) fn with_small_buffer(self) -> Self {
        Self { receive_buffer: Some(4 * 1024), ..self }
    }
}

/// What follows the beginning.
#[derive(Clone)]
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

/// New connections of a round: a burst that overflows the queue of a listener tells nothing of what comes after.
const AT_ONCE: usize = 2_000;
/// How long it sleeps at most before it looks whether it is to end.
const GLANCE: Duration = Duration::from_millis(10);
const BUFFER: usize = 64 * 1024;

/// Holds `connections` to `address` until it is told to end.
pub(super) fn hold(holding: &Holding, address: SocketAddr, connections: usize, control: &Control) {
    let mut all = All::closed(connections);
    let mut next = Instant::now();
    while !control.is_over() {
        all.round(holding, address, control);
        next = (next + holding.step).max(Instant::now());
        while !control.is_over() && Instant::now() < next {
            std::thread::sleep(GLANCE.min(next.saturating_duration_since(Instant::now())));
        }
    }
}

/// All connections of a thread.
struct All {
    slots: Vec<Option<Sender>>,
    room: Waste,
    /// Whose turn it is first.
    first: usize,
    /// What the pace allows and was not done yet.
    owed: f64,
}

impl All {
    fn closed(connections: usize) -> Self {
        let slots = (0..connections).map(|_| None).collect();
        Self { slots, room: waste(BUFFER), first: 0, owed: 0.0 }
    }

    fn round(&mut self, holding: &Holding, address: SocketAddr, control: &Control) {
        let (most, count) = (self.most(holding, control), self.slots.len());
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
                let stays =
                    slot.as_mut().is_none_or(|connection| goes_on(connection, holding, &mut self.room));
                if !stays {
                    *slot = None;
                }
            }
        }
        self.first = (self.first + gone_on) % count.max(1);
        control.count_rounds(gone_on as u64);
    }

    /// How many go on in this round.
    fn most(&mut self, holding: &Holding, control: &Control) -> usize {
        let count = self.slots.len();
        if !holding.paced {
            return count;
        }
        // What there are too few of is not made up for later.
        self.owed = (self.owed.fract() + control.due_in(holding.step)).min(count as f64);
        self.owed as usize
    }
}

/// A step of a connection, and whether it goes on after it.
fn goes_on(connection: &mut Sender, holding: &Holding, room: &mut Waste) -> bool {
    if let Some(piece) = holding.pieces.get(connection.piece) {
        return connection.send(piece).is_ok();
    }
    match &holding.then {
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

    /// How often each of `connections` was gone on with after some rounds of half a second at this pace.
    fn rounds(connections: usize, paced: bool) -> Vec<usize> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let step = Duration::from_millis(500);
        let holding = Holding { step, paced, ..Holding::new(Vec::new(), Then::Send(b"x".to_vec())) };
        let control = Control::new(1);
        control.aim(Duration::from_millis(10), 0.05);
        let mut all = All::closed(connections);
        (0..4).for_each(|_| all.round(&holding, address, &control));
        let accepted: Vec<_> = (0..connections).map(|_| listener.accept().unwrap().0).collect();
        all.slots.iter().flatten().for_each(|held| held.stream.shutdown(std::net::Shutdown::Write).unwrap());
        let came = |mut stream: TcpStream| stream.read_to_end(&mut Vec::new()).unwrap();
        let mut came: Vec<_> = accepted.into_iter().map(came).collect();
        came.sort_unstable();
        came
    }

    #[test]
    fn attackers_go_on_with_every_connection_and_honest_clients_with_as_many_as_the_pace_allows() {
        assert_eq!(rounds(4, false), [4; 4]);
        // Five a second are two and a half in each round, in turn.
        assert_eq!(rounds(4, true), [2, 2, 3, 3]);
        assert_eq!(rounds(2, true), [4; 2], "there are only two");
    }
}
