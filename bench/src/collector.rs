//! A trace collector that accepts everything: peers that trace export their spans here over OTLP/HTTP.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;

/// Maximum size of a message, in bytes.
const MAX_MESSAGE_BYTES: u64 = 16 * 1024 * 1024;
/// Its only response: an export without problems is an empty message.
const ACCEPTED: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n";

/// Listens on a loopback address, which it returns, until the process ends.
pub(crate) fn listen() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A peer that disconnects is still measured.
            thread::spawn(move || serve(&stream).ok());
        }
    });
    Ok(address)
}

fn serve(mut stream: &TcpStream) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut length, mut line) = (None, String::new());
        while line != "\r\n" {
            line.clear();
            if reader.by_ref().take(64 * 1024).read_line(&mut line)? == 0 {
                return Ok(());
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse::<u64>().ok();
            }
        }
        match length {
            Some(length @ 0..=MAX_MESSAGE_BYTES) => {
                io::copy(&mut reader.by_ref().take(length), &mut io::sink())?
            }
            _ => return Err(io::Error::other("a message without a length, or with too large a one")),
        };
        stream.write_all(ACCEPTED)?;
    }
}
