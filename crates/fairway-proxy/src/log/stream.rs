//! Log lines of forwarded connections and datagram sessions, which have no request and no response.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::Serialize;

use crate::log::clock::WallClock;

/// What was forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarded {
    /// A TCP connection.
    Tcp,
    /// A datagram session.
    Udp,
}

impl Forwarded {
    fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        }
    }
}

/// The endpoint of a connection or session.
#[derive(Clone, Copy, Debug)]
pub struct StreamUpstream {
    /// The last endpoint tried.
    pub endpoint: SocketAddr,
    /// Number of endpoints tried.
    pub attempts: u8,
}

/// A finished connection or session.
#[derive(Clone, Copy, Debug)]
pub struct StreamLine<'a> {
    /// What was forwarded.
    pub forwarded: Forwarded,
    /// The client.
    pub client: IpAddr,
    /// The name of the listener.
    pub listener: &'a str,
    /// The SNI, restricted to letters, digits, `-`, `.` and `_`.
    pub name: Option<&'a str>,
    /// The endpoint, if one was tried.
    pub upstream: Option<StreamUpstream>,
    /// Status as nginx logs it for streams: 200, 502 or 503.
    pub status: u16,
    /// Bytes from the client.
    pub received: u64,
    /// Bytes to the client.
    pub sent: u64,
    /// Duration.
    pub duration: Duration,
    /// Why it ended, unless both sides ended it.
    pub reason: Option<&'a str>,
    /// End time.
    pub clock: &'a WallClock,
}

#[derive(Serialize)]
struct Members<'a> {
    time: &'a str,
    client: String,
    stream: StreamPart<'a>,
    status: u16,
    flag: &'a str,
    received_bytes: u64,
    sent_bytes: u64,
    took_us: u128,
    upstream: Option<UpstreamPart>,
}

#[derive(Serialize)]
struct StreamPart<'a> {
    protocol: &'static str,
    listener: &'a str,
    name: Option<&'a str>,
}

#[derive(Serialize)]
struct UpstreamPart {
    endpoint: String,
    attempts: u8,
}

impl StreamLine<'_> {
    /// Writes the stream format of ingress-nginx (`log-format-stream`), followed by name, endpoint and reason.
    pub fn write(&self, out: &mut Vec<u8>) {
        let Self {
            forwarded, client, name, upstream, status, received, sent, duration, reason, clock, ..
        } = self;
        let endpoint = upstream.map_or_else(|| "-".to_owned(), |upstream| upstream.endpoint.to_string());
        let (time, duration) = (clock.common_log(), duration.as_secs_f64());
        let (name, reason, protocol) = (name.unwrap_or("-"), reason.unwrap_or("-"), forwarded.as_str());
        writeln!(
            out,
            "[{client}] [{time}] {protocol} {status} {sent} {received} {duration:.3} \"{name}\" {endpoint} {reason}"
        )
        .expect("a vector takes every write");
    }

    /// Writes the same as a JSON object followed by a line feed.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        let members = Members {
            time: self.clock.iso(),
            client: self.client.to_string(),
            stream: StreamPart {
                protocol: self.forwarded.as_str(),
                listener: self.listener,
                name: self.name,
            },
            status: self.status,
            flag: self.reason.unwrap_or("-"),
            received_bytes: self.received,
            sent_bytes: self.sent,
            took_us: self.duration.as_micros(),
            upstream: self.upstream.map(|upstream| UpstreamPart {
                endpoint: upstream.endpoint.to_string(),
                attempts: upstream.attempts,
            }),
        };
        serde_json::to_writer(&mut *out, &members).expect("the line has only text and numbers");
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{SystemTime, UNIX_EPOCH};

    fn clock() -> WallClock {
        let (mut clock, time): (_, SystemTime) =
            (WallClock::default(), UNIX_EPOCH + Duration::from_secs(1_700_000_000));
        clock.set(time);
        clock
    }

    fn line(clock: &WallClock) -> StreamLine<'_> {
        StreamLine {
            forwarded: Forwarded::Tcp,
            client: [192, 0, 2, 7].into(),
            listener: "gateway/shop/inner/db",
            name: Some("db.example.com"),
            upstream: Some(StreamUpstream { endpoint: ([10, 0, 0, 1], 5432).into(), attempts: 2 }),
            status: 200,
            received: 517,
            sent: 4_096,
            duration: Duration::from_millis(1_234),
            reason: None,
            clock,
        }
    }

    #[test]
    fn lines_start_in_the_stream_format_of_ingress_nginx() {
        let (clock, mut out) = (clock(), Vec::new());
        line(&clock).write(&mut out);
        let refused = Some("no_route");
        let forwarded = Forwarded::Udp;
        StreamLine { forwarded, name: None, upstream: None, status: 502, reason: refused, ..line(&clock) }
            .write(&mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "[192.0.2.7] [14/Nov/2023:22:13:20 +0000] TCP 200 4096 517 1.234 \"db.example.com\" 10.0.0.1:5432 -\n\
             [192.0.2.7] [14/Nov/2023:22:13:20 +0000] UDP 502 4096 517 1.234 \"-\" - no_route\n"
        );
    }

    #[test]
    fn the_json_object_has_the_same_values() {
        let (clock, mut out) = (clock(), Vec::new());
        line(&clock).write_json(&mut out);
        let line: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(
            line,
            serde_json::json!({
                "time": "2023-11-14T22:13:20Z", "client": "192.0.2.7",
                "stream": {"protocol": "TCP", "listener": "gateway/shop/inner/db", "name": "db.example.com"},
                "status": 200, "flag": "-", "received_bytes": 517, "sent_bytes": 4096, "took_us": 1_234_000,
                "upstream": {"endpoint": "10.0.0.1:5432", "attempts": 2},
            })
        );
    }
}
