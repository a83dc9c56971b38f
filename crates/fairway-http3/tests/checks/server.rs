//! A server with a client that sends arbitrary bytes on any streams.

use fairway_http3::{Config, Event};
use quinn_proto::{Dir, StreamId};

use crate::support::serve::{self, response};
use crate::support::{Pair, Setup};

/// The maximum memory of a server: incomplete heads, its table and its records.
const MOST_MEMORY: usize = 768 * 1024;

/// The steps of a client: a byte for the action and the stream, one for the length of the data, and the data.
pub(crate) fn check(input: &[u8]) {
    let config = Config { streams: 8, ..Config::default() };
    let mut pair = Pair::with(&Setup { config, client_window: 4_000, ..Setup::default() });
    let mut owner = Owner::default();
    let mut streams: Vec<StreamId> = Vec::new();
    let mut rest = input;
    while let [step, length, after @ ..] = rest {
        rest = after;
        let chunk = |rest: &mut &[u8]| {
            let (piece, after) = rest.split_at(rest.len().min(usize::from(*length)));
            *rest = after;
            piece.to_vec()
        };
        let stream = streams.get(usize::from(step >> 3) % streams.len().max(1)).copied();
        match (step & 7, stream) {
            (0 | 1, _) => {
                let dir = if step & 7 == 0 { Dir::Bi } else { Dir::Uni };
                let bytes = chunk(&mut rest);
                if let Some(id) = pair.peer().streams().open(dir) {
                    streams.push(id);
                    pair.write(id, &bytes);
                }
            }
            (2, Some(id)) => {
                let bytes = chunk(&mut rest);
                pair.write(id, &bytes);
            }
            // What is over cannot be ended again.
            (3, Some(id)) => _ = pair.peer().send_stream(id).finish(),
            (4, Some(id)) => _ = pair.peer().send_stream(id).reset((0x100 + u32::from(*length)).into()),
            (5, Some(id)) if id.dir() == Dir::Bi => _ = pair.peer().recv_stream(id).stop(0x10cu32.into()),
            (6, _) => owner.serve(&mut pair),
            _ => pair.drive(),
        }
        owner.look(&mut pair);
        if pair.lost.is_some() {
            return;
        }
    }
    owner.serve(&mut pair);
    let now = pair.now;
    pair.peer().close(now, 0x100u32.into(), Default::default());
    owner.look(&mut pair);
}

/// The owner of the server.
#[derive(Default)]
struct Owner {
    /// Streams that were reported and not released.
    open: Vec<StreamId>,
    is_closed: bool,
}

impl Owner {
    /// Processes the server's events.
    fn look(&mut self, pair: &mut Pair) {
        for event in pair.take_events() {
            assert!(!self.is_closed || matches!(event, Event::Lost(_)), "{event:?} after the end");
            match event {
                Event::Head { stream, .. } | Event::HeadTooLarge { stream, .. } => {
                    assert!(!self.open.contains(&stream), "{stream} again");
                    self.open.push(stream);
                }
                Event::Readable { stream } | Event::Writable { stream } | Event::Priority { stream, .. } => {
                    assert!(self.open.contains(&stream), "{event:?}");
                }
                Event::Reset { stream, .. } => {
                    let at = self.open.iter().position(|open| *open == stream);
                    self.open.remove(at.unwrap_or_else(|| panic!("{event:?}")));
                    let (server, quic) = pair.both_mut();
                    server.release(quic, stream);
                }
                Event::GoAway => {}
                Event::Closed(_) | Event::Lost(_) => self.is_closed = true,
            }
        }
        let bytes = pair.server.kept_bytes();
        assert!(bytes <= MOST_MEMORY, "{bytes}");
        if !self.is_closed {
            assert_eq!(pair.server.open_streams(), self.open.len());
        }
    }

    /// Reads all requests and answers complete ones. Reset ones are reported by an event.
    fn serve(&mut self, pair: &mut Pair) {
        pair.drive();
        self.look(pair);
        if self.is_closed {
            return;
        }
        self.open.retain(|&stream| {
            if !serve::read(pair, stream, 1_000).ended {
                return true;
            }
            let (server, quic) = pair.both_mut();
            server.send_head(quic, stream, &response(200, &[("Server", "x")]), false);
            server.send_data(quic, stream, &[b'x'; 3_000]);
            server.finish(quic, stream);
            server.release(quic, stream);
            false
        });
        pair.drive();
    }
}
