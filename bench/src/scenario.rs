//! The table of scenarios: requests, protocols and connections. Never measures.

use fairway_lab_measure::results::Settings;
use fairway_lab_traffic::backend::Spoken;

use crate::body::Body;

/// The host name of every request; the certificate is made for it.
pub(crate) const HOST: &str = "bench.example";

#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Load {
    /// Requests on connections that stay open.
    KeepAlive,
    /// A new connection for each request.
    Once,
    /// The same, and each continues the TLS session of one before.
    Resumed,
    /// Connections that stay idle after one request each; memory is measured instead of CPU.
    Idle,
    /// Streams whose responses are held until memory has been measured.
    Waiting,
}

/// The protocol of clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Downstream {
    Http1,
    /// HTTP/2 with this many streams open at a time on each connection.
    Http2 {
        streams: usize,
    },
    /// HTTP/3 with this many streams per connection.
    Http3 {
        streams: usize,
    },
}

impl Downstream {
    pub(crate) fn streams(self) -> usize {
        match self {
            Self::Http1 => 1,
            Self::Http2 { streams } | Self::Http3 { streams } => streams,
        }
    }
}

/// The only version of TLS that is spoken, with one cipher suite.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
pub(crate) enum Tls {
    /// As study 2 of the laboratory measured it: ECDHE-RSA-AES256-GCM-SHA384.
    #[serde(rename = "1.2")]
    V12,
    /// `TLS_AES_256_GCM_SHA384`.
    #[serde(rename = "1.3")]
    V13,
}

/// The unit that a proxy forwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ForwardedUnit {
    /// Requests, each by itself.
    Requests,
    /// Connections, as they come: it sees no request in them.
    Connections,
    /// Datagrams, as they come.
    Datagrams,
}

/// The edits a proxy makes to requests and responses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Edits {
    Nothing,
    /// Strips [`PREFIX`] from the path, allows other origins to read the response, and adds a header to it.
    Usual,
    /// Requires a JSON Web Token and passes its subject to the backend.
    Token,
}

/// The prefix of request paths if the path is edited.
pub(crate) const PREFIX: &str = "/app";

#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// Its name in tables.
    pub(crate) title: &'static str,
    pub(crate) load: Load,
    pub(crate) tls: Option<Tls>,
    pub(crate) body: Body,
    pub(crate) connections: usize,
    pub(crate) downstream: Downstream,
    pub(crate) upstream: Spoken,
    pub(crate) forwarded: ForwardedUnit,
    pub(crate) edits: Edits,
    pub(crate) settings: Settings,
}

impl Scenario {
    /// Whether clients speak HTTP/2.
    pub(crate) fn is_http2(&self) -> bool {
        matches!(self.downstream, Downstream::Http2 { .. })
    }

    /// Whether clients speak HTTP/3.
    pub(crate) fn is_http3(&self) -> bool {
        matches!(self.downstream, Downstream::Http3 { .. })
    }

    /// Whether a proxy sees no request.
    pub(crate) fn is_stream(&self) -> bool {
        self.forwarded != ForwardedUnit::Requests
    }

    /// Whether a proxy edits what it forwards.
    pub(crate) fn is_edited(&self) -> bool {
        self.edits == Edits::Usual
    }

    /// Whether a proxy requires a token.
    pub(crate) fn asks_for_token(&self) -> bool {
        self.edits == Edits::Token
    }

    /// The path that clients request.
    pub(crate) fn path(&self) -> String {
        let prefix = if self.is_edited() { PREFIX } else { "" };
        format!("{prefix}{}", self.body.path())
    }

    /// Whether all peers have equal settings instead of their defaults.
    pub(crate) fn is_recommended(&self) -> bool {
        self.settings == Settings::Recommended
    }

    /// HTTP/1 on both sides.
    const fn http1(
        name: &'static str,
        title: &'static str,
        load: Load,
        tls: Option<Tls>,
        body: Body,
        connections: usize,
    ) -> Self {
        Self {
            name,
            title,
            load,
            tls,
            body,
            connections,
            downstream: Downstream::Http1,
            upstream: Spoken::Http1,
            forwarded: ForwardedUnit::Requests,
            edits: Edits::Nothing,
            settings: Settings::Recommended,
        }
    }

    /// TCP: the connections carry HTTP/1, so every response is checked as in the other scenarios.
    const fn tcp(
        name: &'static str,
        title: &'static str,
        load: Load,
        body: Body,
        connections: usize,
    ) -> Self {
        Self {
            forwarded: ForwardedUnit::Connections,
            ..Self::http1(name, title, load, None, body, connections)
        }
    }

    /// Datagrams of 100 bytes, and their echoes.
    const fn udp(name: &'static str, title: &'static str, load: Load, sessions: usize) -> Self {
        Self {
            forwarded: ForwardedUnit::Datagrams,
            upstream: Spoken::Datagrams,
            ..Self::http1(name, title, load, None, Body::Datagram, sessions)
        }
    }

    /// HTTP/2 over TLS, keep-alive, 1 KiB.
    const fn http2(name: &'static str, title: &'static str, connections: usize, streams: usize) -> Self {
        Self {
            downstream: Downstream::Http2 { streams },
            ..Self::http1(name, title, Load::KeepAlive, Some(Tls::V13), Body::Kilobyte, connections)
        }
    }

    /// HTTP/3, keep-alive.
    const fn http3(
        name: &'static str,
        title: &'static str,
        body: Body,
        connections: usize,
        streams: usize,
    ) -> Self {
        Self {
            downstream: Downstream::Http3 { streams },
            ..Self::http1(name, title, Load::KeepAlive, Some(Tls::V13), body, connections)
        }
    }

    const fn with_upstream(self, upstream: Spoken) -> Self {
        Self { upstream, ..self }
    }

    const fn with_edits(self) -> Self {
        Self { edits: Edits::Usual, ..self }
    }

    const fn with_token(self) -> Self {
        Self { edits: Edits::Token, ..self }
    }

    const fn with_defaults(self) -> Self {
        Self { settings: Settings::Defaults, ..self }
    }

    const fn with_load(self, load: Load, tls: Option<Tls>) -> Self {
        Self { load, tls, ..self }
    }
}

#[rustfmt::skip]
pub(crate) const ALL: [Scenario; 34] = [
    Scenario::http1("http-1k-50", "1 KiB, plain keep-alive, 50 connections", Load::KeepAlive, None, Body::Kilobyte, 50),
    Scenario::http1("http-1k-200", "1 KiB, plain keep-alive, 200 connections", Load::KeepAlive, None, Body::Kilobyte, 200),
    Scenario::http1("https-1k-50", "1 KiB, TLS 1.3 keep-alive, 50 connections", Load::KeepAlive, Some(Tls::V13), Body::Kilobyte, 50),
    Scenario::http1("tls13-handshakes", "full TLS 1.3 handshake (RSA-2048) and one request", Load::Once, Some(Tls::V13), Body::Kilobyte, 50),
    Scenario::http1("tls13-resumed", "resumed TLS 1.3 handshake and one request", Load::Resumed, Some(Tls::V13), Body::Kilobyte, 50),
    Scenario::http1("http-1m", "1 MiB, plain", Load::KeepAlive, None, Body::Megabyte, 20),
    Scenario::http1("https-1m", "1 MiB, TLS 1.3", Load::KeepAlive, Some(Tls::V13), Body::Megabyte, 20),
    Scenario::http1("edits-1k-50", "1 KiB, plain keep-alive, 50 connections, with CORS, a rewrite and one more field", Load::KeepAlive, None, Body::Kilobyte, 50).with_edits(),
    Scenario::http1("jwt-1k-50", "1 KiB, plain keep-alive, 50 connections, with a JSON Web Token (RS256) that comes again", Load::KeepAlive, None, Body::Kilobyte, 50).with_token(),
    Scenario::http2("h2-1k-50x1", "HTTP/2, 1 KiB, TLS 1.3, 50 connections with 1 stream", 50, 1),
    Scenario::http2("h2-1k-10x10", "HTTP/2, 1 KiB, TLS 1.3, 10 connections with 10 streams", 10, 10),
    Scenario::http2("h2-1k-10x100", "HTTP/2, 1 KiB, TLS 1.3, 10 connections with 100 streams", 10, 100),
    Scenario::http2("h2c-upstream-1k-10x100", "HTTP/2 on both sides, 1 KiB, TLS 1.3, 10 connections with 100 streams", 10, 100).with_upstream(Spoken::H2c),
    Scenario { body: Body::Message, ..Scenario::http2("grpc-10x10", "gRPC, unary calls, TLS 1.3, 10 connections with 10 streams", 10, 10).with_upstream(Spoken::Grpc) },
    Scenario::http3("h3-1k-50x1", "HTTP/3, 1 KiB, 50 connections with 1 stream", Body::Kilobyte, 50, 1),
    Scenario::http3("h3-1k-10x10", "HTTP/3, 1 KiB, 10 connections with 10 streams", Body::Kilobyte, 10, 10),
    Scenario::http3("h3-1m", "HTTP/3, 1 MiB, for each MiB", Body::Megabyte, 20, 1),
    Scenario::http1("https12-1k-50", "1 KiB, TLS 1.2 keep-alive, 50 connections", Load::KeepAlive, Some(Tls::V12), Body::Kilobyte, 50),
    Scenario::http1("tls12-handshakes", "full TLS 1.2 handshake (RSA-2048) and one request", Load::Once, Some(Tls::V12), Body::Kilobyte, 50),
    Scenario::http1("https12-1m", "1 MiB, TLS 1.2", Load::KeepAlive, Some(Tls::V12), Body::Megabyte, 20),
    Scenario::http1("defaults-http-1k-50", "1 KiB, plain keep-alive, 50 connections, every proxy as it comes", Load::KeepAlive, None, Body::Kilobyte, 50).with_defaults(),
    Scenario::http1("defaults-https-1k-50", "1 KiB, TLS 1.3 keep-alive, 50 connections, every proxy as it comes", Load::KeepAlive, Some(Tls::V13), Body::Kilobyte, 50).with_defaults(),
    Scenario::tcp("tcp-1m", "TCP, 1 MiB over long connections, for each MiB", Load::KeepAlive, Body::Megabyte, 20),
    Scenario::tcp("tcp-1k-50", "TCP, 1 KiB over long connections, for each exchange", Load::KeepAlive, Body::Kilobyte, 50),
    Scenario::tcp("tcp-connections", "TCP, a connection for each 1 KiB, for each connection", Load::Once, Body::Kilobyte, 50),
    Scenario::udp("udp-50", "UDP, 100 bytes and their echo in long sessions, for each pair of datagrams", Load::KeepAlive, 50),
    Scenario::udp("udp-sessions", "UDP, a session for each 100 bytes and their echo, for each session", Load::Once, 50),
    Scenario::http1("idle-memory", "idle connections", Load::Idle, None, Body::Kilobyte, 5000),
    Scenario::http1("idle-memory-tls", "idle connections over TLS", Load::Idle, Some(Tls::V13), Body::Kilobyte, 5000),
    Scenario::http2("idle-memory-h2", "idle connections of HTTP/2", 5000, 1).with_load(Load::Idle, None),
    Scenario::http2("idle-memory-h2-tls", "idle connections of HTTP/2 over TLS", 5000, 1).with_load(Load::Idle, Some(Tls::V13)),
    Scenario::http3("idle-memory-h3", "idle connections of HTTP/3", Body::Kilobyte, 5000, 1).with_load(Load::Idle, Some(Tls::V13)),
    Scenario::http2("waiting-streams", "streams that wait, HTTP/1 to the backend", 100, 100).with_load(Load::Waiting, None),
    Scenario::http2("waiting-streams-h2c", "streams that wait, HTTP/2 to the backend", 100, 100).with_load(Load::Waiting, None).with_upstream(Spoken::H2c),
];

/// The scenarios whose name starts with one of the comma-separated names; all if there are none.
pub(crate) fn matching_scenarios(names: &[String]) -> anyhow::Result<Vec<Scenario>> {
    if names.is_empty() {
        return Ok(ALL.to_vec());
    }
    let known = || ALL.map(|scenario| scenario.name).join(", ");
    for name in names {
        anyhow::ensure!(
            ALL.iter().any(|scenario| matches(scenario, name)),
            "no scenario {name}; there are {}",
            known()
        );
    }
    Ok(ALL.into_iter().filter(|scenario| names.iter().any(|name| matches(scenario, name))).collect())
}

/// A full name means itself only, so that `idle-memory` does not bring its TLS twin along.
fn matches(scenario: &Scenario, name: &str) -> bool {
    if ALL.iter().any(|other| other.name == name) {
        scenario.name == name
    } else {
        scenario.name.starts_with(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_name_selects_itself_and_a_beginning_selects_all_that_begin_so() {
        let names = |named_in: &str| -> Vec<&str> {
            matching_scenarios(&[named_in.to_owned()]).unwrap().iter().map(|scenario| scenario.name).collect()
        };
        assert_eq!(names("idle-memory"), ["idle-memory"]);
        assert_eq!(names("http-1k"), ["http-1k-50", "http-1k-200"]);
        assert_eq!(names("h2-1k"), ["h2-1k-50x1", "h2-1k-10x10", "h2-1k-10x100"]);
        assert!(matching_scenarios(&["http-2".to_owned()]).is_err());
    }
}
