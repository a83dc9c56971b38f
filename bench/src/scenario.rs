//! The table of scenarios: what is sent, over what, on how many connections. Never measures.

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
    /// Connections that stay idle after one request each; memory is measured instead of CPU.
    Idle,
    /// Streams whose answers do not come until memory was measured.
    Waiting,
}

/// What clients speak.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Downstream {
    Http1,
    /// HTTP/2 with this many streams open at a time on each connection.
    Http2 {
        streams: usize,
    },
}

impl Downstream {
    pub(crate) fn streams(self) -> usize {
        match self {
            Self::Http1 => 1,
            Self::Http2 { streams } => streams,
        }
    }
}

/// What a proxy makes of what clients send.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Forwarded {
    /// Requests, each by itself.
    Requests,
    /// Connections, as they come: it sees no request in them.
    Connections,
    /// Datagrams, as they come.
    Datagrams,
}

/// What a proxy does to requests and answers besides forwarding them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Edits {
    Nothing,
    /// It takes [`PREFIX`] off the path, allows other origins to read the answer, and adds a field to it.
    Usual,
}

/// What clients ask for begins with it where the path is edited.
pub(crate) const PREFIX: &str = "/app";

#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) load: Load,
    pub(crate) tls: bool,
    pub(crate) body: Body,
    pub(crate) connections: usize,
    pub(crate) downstream: Downstream,
    pub(crate) upstream: Spoken,
    pub(crate) forwarded: Forwarded,
    pub(crate) edits: Edits,
}

impl Scenario {
    /// Whether clients speak HTTP/2.
    pub(crate) fn is_http2(&self) -> bool {
        self.downstream != Downstream::Http1
    }

    /// Whether a proxy sees no request.
    pub(crate) fn is_stream(&self) -> bool {
        self.forwarded != Forwarded::Requests
    }

    /// Whether a proxy edits what it forwards.
    pub(crate) fn is_edited(&self) -> bool {
        self.edits == Edits::Usual
    }

    /// What clients ask for.
    pub(crate) fn path(&self) -> String {
        let prefix = if self.is_edited() { PREFIX } else { "" };
        format!("{prefix}{}", self.body.path())
    }

    const fn http1(name: &'static str, load: Load, tls: bool, body: Body, connections: usize) -> Self {
        let (downstream, upstream, forwarded) = (Downstream::Http1, Spoken::Http1, Forwarded::Requests);
        let edits = Edits::Nothing;
        Self { name, load, tls, body, connections, downstream, upstream, forwarded, edits }
    }

    /// TCP: what goes through the connections is HTTP/1, so that every answer is checked as in the other scenarios.
    const fn tcp(name: &'static str, load: Load, body: Body, connections: usize) -> Self {
        Self { forwarded: Forwarded::Connections, ..Self::http1(name, load, false, body, connections) }
    }

    /// Datagrams of 100 bytes, and their echoes.
    const fn udp(name: &'static str, load: Load, sessions: usize) -> Self {
        let http1 = Self::http1(name, load, false, Body::Datagram, sessions);
        Self { forwarded: Forwarded::Datagrams, upstream: Spoken::Datagrams, ..http1 }
    }

    /// HTTP/2 over TLS, keep-alive, 1 KiB.
    const fn http2(name: &'static str, connections: usize, streams: usize) -> Self {
        let downstream = Downstream::Http2 { streams };
        Self { downstream, ..Self::http1(name, Load::KeepAlive, true, Body::Kilobyte, connections) }
    }

    const fn over(self, upstream: Spoken) -> Self {
        Self { upstream, ..self }
    }

    const fn edited(self) -> Self {
        Self { edits: Edits::Usual, ..self }
    }

    const fn measured(self, load: Load, tls: bool) -> Self {
        Self { load, tls, ..self }
    }
}

pub(crate) const ALL: [Scenario; 23] = [
    Scenario::http1("http-1k-50", Load::KeepAlive, false, Body::Kilobyte, 50),
    Scenario::http1("http-1k-200", Load::KeepAlive, false, Body::Kilobyte, 200),
    Scenario::http1("https-1k-50", Load::KeepAlive, true, Body::Kilobyte, 50),
    Scenario::http1("tls13-handshakes", Load::Once, true, Body::Kilobyte, 50),
    Scenario::http1("http-1m", Load::KeepAlive, false, Body::Megabyte, 20),
    Scenario::http1("https-1m", Load::KeepAlive, true, Body::Megabyte, 20),
    Scenario::http1("edits-1k-50", Load::KeepAlive, false, Body::Kilobyte, 50).edited(),
    Scenario::http2("h2-1k-50x1", 50, 1),
    Scenario::http2("h2-1k-10x10", 10, 10),
    Scenario::http2("h2-1k-10x100", 10, 100),
    Scenario::http2("h2c-upstream-1k-10x100", 10, 100).over(Spoken::H2c),
    Scenario { body: Body::Message, ..Scenario::http2("grpc-10x10", 10, 10).over(Spoken::Grpc) },
    Scenario::tcp("tcp-1m", Load::KeepAlive, Body::Megabyte, 20),
    Scenario::tcp("tcp-1k-50", Load::KeepAlive, Body::Kilobyte, 50),
    Scenario::tcp("tcp-connections", Load::Once, Body::Kilobyte, 50),
    Scenario::udp("udp-50", Load::KeepAlive, 50),
    Scenario::udp("udp-sessions", Load::Once, 50),
    Scenario::http1("idle-memory", Load::Idle, false, Body::Kilobyte, 5000),
    Scenario::http1("idle-memory-tls", Load::Idle, true, Body::Kilobyte, 5000),
    Scenario::http2("idle-memory-h2", 5000, 1).measured(Load::Idle, false),
    Scenario::http2("idle-memory-h2-tls", 5000, 1).measured(Load::Idle, true),
    Scenario::http2("waiting-streams", 100, 100).measured(Load::Waiting, false),
    Scenario::http2("waiting-streams-h2c", 100, 100).measured(Load::Waiting, false).over(Spoken::H2c),
];

/// The scenarios that one of the comma-separated names begins; all when there is none.
pub(crate) fn named(names: &[String]) -> anyhow::Result<Vec<Scenario>> {
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
        let names = |asked: &str| -> Vec<&str> {
            named(&[asked.to_owned()]).unwrap().iter().map(|scenario| scenario.name).collect()
        };
        assert_eq!(names("idle-memory"), ["idle-memory"]);
        assert_eq!(names("http-1k"), ["http-1k-50", "http-1k-200"]);
        assert_eq!(names("h2-1k"), ["h2-1k-50x1", "h2-1k-10x10", "h2-1k-10x100"]);
        assert!(named(&["http-2".to_owned()]).is_err());
    }
}
