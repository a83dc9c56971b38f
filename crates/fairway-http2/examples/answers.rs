//! A server that answers every request with 200, for conformance suites: `cargo run -p fairway-http2 --example answers
//! -- 127.0.0.1:8089`. One thread per connection; not a proxy.

use std::collections::BTreeMap;
use std::io::{self, IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use fairway_http::Head;
use fairway_http2::{Config, Event, Server, Wait};

/// The body of every response: more than one byte, and less than the smallest window that a suite would consider usual.
const BODY: &[u8] = b"The quick brown fox jumps over the lazy dog.\n";

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listener = TcpListener::bind(address)?;
    writeln!(io::stdout(), "{}", listener.local_addr()?)?;
    for stream in listener.incoming() {
        let stream = stream?;
        std::thread::spawn(move || Connection::new(stream).serve());
    }
    Ok(())
}

/// A connection, and the responses not sent yet.
struct Connection {
    stream: TcpStream,
    server: Server,
    started: Instant,
    responses: BTreeMap<u32, &'static [u8]>,
}

impl Connection {
    fn new(stream: TcpStream) -> Self {
        let server = Server::new(Config::default(), 0);
        Connection { stream, server, started: Instant::now(), responses: BTreeMap::new() }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Serves until the client leaves or the connection ends.
    fn serve(mut self) -> io::Result<()> {
        let (mut input, mut piece, mut head) = (Vec::new(), vec![0; 64 * 1024], Head::new());
        loop {
            while self.take(&mut input, &mut head) | self.write()? {}
            if self.server.is_done() {
                return self.close();
            }
            match self.stream.read(&mut piece)? {
                0 => return Ok(()),
                count => input.extend_from_slice(&piece[..count]),
            }
        }
    }

    /// Processes input. Returns whether output must be written before reading more.
    fn take(&mut self, input: &mut Vec<u8>, head: &mut Head) -> bool {
        let mut at = 0;
        let full = loop {
            let (used, event) = self.server.receive(self.now(), &input[at..], head);
            at += used;
            let is_complete = match event {
                Event::NeedMore | Event::Closed(_) => break false,
                Event::Wait(Wait::Flush | Wait::Release) => break true,
                Event::Head { stream, end, .. } | Event::HeadTooLarge { stream, end } => {
                    end.then_some(stream)
                }
                Event::Data { stream, bytes, end } => {
                    self.server.consume(stream, u32::try_from(bytes.len()).unwrap_or(u32::MAX));
                    end.then_some(stream)
                }
                Event::Trailers { stream } => Some(stream),
                Event::Reset { stream, .. } => {
                    self.responses.remove(&stream);
                    self.server.release(stream);
                    None
                }
                _ => None,
            };
            if let Some(stream) = is_complete {
                self.respond(stream);
            }
        };
        input.drain(..at);
        full
    }

    fn respond(&mut self, stream: u32) {
        let mut head = Head::new();
        head.start_response(200);
        head.append(b"content-type", b"text/plain");
        head.append(b"content-length", BODY.len().to_string().as_bytes());
        if self.server.send_head(stream, &head, false) {
            self.responses.insert(stream, BODY);
            self.server.queue_for_sending(self.now(), stream);
        }
    }

    /// Sends what is due. Returns whether anything was written.
    fn write(&mut self) -> io::Result<bool> {
        while let Some(turn) = self.server.next_turn(self.now()) {
            let Some(left) = self.responses.get_mut(&turn.stream) else {
                self.server.unqueue(turn.stream);
                continue;
            };
            let part = &left[..left.len().min(turn.bytes)];
            let (end, mut failed) = (part.len() == left.len(), None);
            let write = |slices: &[IoSlice<'_>]| match self.stream.write_vectored(slices) {
                Ok(count) => count,
                Err(error) => {
                    failed = Some(error);
                    0
                }
            };
            let sent = self.server.send_data_with(turn.stream, part, end, write);
            failed.map_or(Ok(()), Err)?;
            *left = &left[sent..];
            if left.is_empty() {
                self.responses.remove(&turn.stream);
                self.server.release(turn.stream);
            } else {
                self.server.queue_for_sending(self.now(), turn.stream);
            }
        }
        let pending = self.server.pending();
        self.stream.write_all(pending)?;
        let count = pending.len();
        self.server.mark_written(count);
        Ok(count > 0)
    }

    /// Keeps reading for a while before closing the socket, so that the client receives the last output.
    fn close(&mut self) -> io::Result<()> {
        self.stream.shutdown(std::net::Shutdown::Write)?;
        self.stream.set_read_timeout(Some(std::time::Duration::from_secs(1)))?;
        let mut rest = [0; 4096];
        while self.stream.read(&mut rest)? > 0 {}
        Ok(())
    }
}
