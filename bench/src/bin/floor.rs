//! The floor: a single-threaded forwarder on bare epoll that parses nothing. It shows what the kernel and one loop cost any
//! proxy; Fairway is judged by its distance from it.
//!
//! Owns one upstream connection per downstream connection and never inspects data: no routing, limits, timeouts or headers.
//! A keep-alive request costs two reads and two writes: an edge-triggered read that did not fill the buffer has drained the
//! socket, so the read that would only return EAGAIN is left out.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use anyhow::Context;
use clap::Parser;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

const BUFFER: usize = 64 * 1024;
const LISTENER: u64 = u64::MAX;

/// A bare epoll forwarder that parses nothing: the floor of the benchmark.
#[derive(Parser)]
struct Arguments {
    /// The listening address.
    #[arg(long)]
    listen: SocketAddr,
    /// The upstream address.
    #[arg(long)]
    upstream: SocketAddr,
}

/// Side 0 faces the client, side 1 the upstream. `held[s]` was read from side `s` and not yet taken by the other.
struct Pair {
    sides: [TcpStream; 2],
    scratch: [Vec<u8>; 2],
}

enum Flow {
    Open,
    Over,
}

impl Pair {
    fn connect(downstream: TcpStream, upstream: SocketAddr) -> io::Result<Self> {
        let upstream = TcpStream::connect(upstream)?;
        for side in [&downstream, &upstream] {
            side.set_nonblocking(true)?;
            side.set_nodelay(true)?;
        }
        Ok(Self { sides: [downstream, upstream], scratch: [Vec::new(), Vec::new()] })
    }

    /// Moves data from side `from` to the other side until it is drained or the other side would block.
    fn forward(&mut self, from: usize, buffer: &mut [u8]) -> io::Result<Flow> {
        while self.scratch[from].is_empty() {
            let read = match self.sides[from].read(buffer) {
                Ok(0) => return Ok(Flow::Over),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let written = write_some(&self.sides[1 - from], &buffer[..read])?;
            self.scratch[from].extend_from_slice(&buffer[written..read]);
            if read < buffer.len() {
                break;
            }
        }
        Ok(Flow::Open)
    }

    /// Side `to` is writable again: writes what was held for it, then resumes reading.
    fn resume(&mut self, to: usize, buffer: &mut [u8]) -> io::Result<Flow> {
        let from = 1 - to;
        if self.scratch[from].is_empty() {
            return Ok(Flow::Open);
        }
        let written = write_some(&self.sides[to], &self.scratch[from])?;
        self.scratch[from].drain(..written);
        self.forward(from, buffer)
    }
}

fn write_some(mut to: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    let mut written = 0;
    while written < bytes.len() {
        match to.write(&bytes[written..]) {
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}

struct Forwarder {
    epoll: OwnedFd,
    listener: TcpListener,
    upstream: SocketAddr,
    pairs: Vec<Option<Pair>>,
    free: Vec<usize>,
}

impl Forwarder {
    fn new(arguments: &Arguments) -> anyhow::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let listener = TcpListener::bind(arguments.listen).context("cannot listen")?;
        listener.set_nonblocking(true)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        Ok(Self { epoll, listener, upstream: arguments.upstream, pairs: Vec::new(), free: Vec::new() })
    }

    fn run(&mut self) -> anyhow::Result<()> {
        let mut events = Vec::with_capacity(512);
        let mut buffer = vec![0; BUFFER];
        loop {
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error).context("cannot wait for events"),
            }
            for event in events.drain(..) {
                match event.data.u64() {
                    LISTENER => self.accept()?,
                    token => self.serve(token, event.flags, &mut buffer),
                }
            }
        }
    }

    fn accept(&mut self) -> anyhow::Result<()> {
        while let Ok((downstream, _)) = self.listener.accept() {
            let Ok(pair) = Pair::connect(downstream, self.upstream) else { continue };
            let index = self.free.pop().unwrap_or(self.pairs.len());
            for (side, stream) in pair.sides.iter().enumerate() {
                let token = EventData::new_u64((index * 2 + side) as u64);
                epoll::add(&self.epoll, stream, token, EventFlags::IN | EventFlags::OUT | EventFlags::ET)?;
            }
            if index == self.pairs.len() {
                self.pairs.push(None);
            }
            self.pairs[index] = Some(pair);
        }
        Ok(())
    }

    fn serve(&mut self, token: u64, flags: EventFlags, buffer: &mut [u8]) {
        let (index, side) = ((token / 2) as usize, (token % 2) as usize);
        let Some(pair) = &mut self.pairs[index] else { return };
        let mut flow = Ok(Flow::Open);
        if flags.contains(EventFlags::OUT) {
            flow = pair.resume(side, buffer);
        }
        if matches!(flow, Ok(Flow::Open))
            && flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR)
        {
            flow = pair.forward(side, buffer);
        }
        if !matches!(flow, Ok(Flow::Open)) {
            self.pairs[index] = None;
            self.free.push(index);
        }
    }
}

fn main() -> anyhow::Result<()> {
    Forwarder::new(&Arguments::parse())?.run()
}
