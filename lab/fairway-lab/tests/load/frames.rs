//! A server of HTTP/2 that a test writes frame by frame (RFC 9113 §4.1): what no well-behaved library would send.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

/// RFC 9113 §3.4.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;

/// Of DATA and HEADERS; of SETTINGS the same bit is ACK.
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// `:status: 200` of the static table (RFC 7541 appendix A).
pub(crate) const STATUS_200: &[u8] = &[0x88];

/// A frame that was read.
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

/// A frame as bytes.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A connection of one client.
pub(crate) struct Peer<S> {
    pub(crate) stream: S,
}

impl<S: Read + Write> Peer<S> {
    /// Reads the preface and sends empty SETTINGS.
    pub(crate) fn greet(mut stream: S) -> io::Result<Self> {
        let mut preface = [0; PREFACE.len()];
        stream.read_exact(&mut preface)?;
        assert_eq!(preface, PREFACE);
        let mut peer = Self { stream };
        peer.send(SETTINGS, 0, 0, &[])?;
        Ok(peer)
    }

    pub(crate) fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
        self.stream.write_all(&frame(kind, flags, stream, payload))?;
        self.stream.flush()
    }

    /// The next frame; settings are agreed to.
    pub(crate) fn read(&mut self) -> io::Result<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload)?;
        let (kind, flags) = (head[3], head[4]);
        if kind == SETTINGS && flags == 0 {
            self.send(SETTINGS, 1, 0, &[])?;
        }
        Ok(Frame { kind, flags, stream, payload })
    }

    /// The next frame of that kind.
    pub(crate) fn until(&mut self, kind: u8) -> io::Result<Frame> {
        loop {
            let frame = self.read()?;
            if frame.kind == kind {
                return Ok(frame);
            }
        }
    }

    /// An empty response.
    pub(crate) fn respond(&mut self, stream: u32) -> io::Result<()> {
        self.send(HEADERS, END_HEADERS | END_STREAM, stream, STATUS_200)
    }

    /// The last stream that was or will be worked on, and why.
    pub(crate) fn go_away(&mut self, last: u32, reason: u32) -> io::Result<()> {
        let payload = [last.to_be_bytes(), reason.to_be_bytes()].concat();
        self.send(GOAWAY, 0, 0, &payload)
    }
}

/// A server that calls `talk` for each connection, numbered from 0. Returns when the client has closed the
/// connection.
pub(crate) fn serve(talk: impl Fn(usize, TcpStream) -> io::Result<()> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let talk = Arc::new(talk);
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let (stream, talk) = (stream.unwrap(), talk.clone());
            std::thread::spawn(move || talk(number, stream));
        }
    });
    address
}
