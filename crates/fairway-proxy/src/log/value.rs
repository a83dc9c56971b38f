//! What an exchange has for each variable that has a name of its own.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use fairway_http::{Known, Version};
use fairway_model::{HostPattern, ServiceName, Word};

use crate::log::escape::Escaped;
use crate::log::line::{Line, SpanId, Trace, TraceId};
use crate::log::user::user;

/// Seconds with milliseconds.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0.as_secs(), self.0.subsec_millis())
    }
}

impl<'a> Line<'a> {
    /// Writes the value of a word; `None` where there is none.
    pub(crate) fn word(&self, word: Word, out: &mut Escaped<'_>) -> Option<()> {
        let parties = &self.parties;
        match word {
            Word::RemoteAddr => out.display(parties.remote),
            Word::RemoteUser => {
                return user(self.request.named(b"authorization")?, |user| out.text(user));
            }
            Word::TokenSubject => out.text(present(parties.subject?.as_bytes())?),
            Word::ApiKeyClient => out.text(present(parties.api_client?.as_bytes())?),
            Word::TheRealIp => return address(parties.client, out),
            Word::Sender => return address(parties.sender, out),
            Word::ProxyProtocolAddr => return address(parties.named, out),
            Word::TimeLocal | Word::TimeIso | Word::Msec => self.time(word, out),
            Word::ClientVerify
            | Word::ClientSubject
            | Word::ClientIssuer
            | Word::ClientSerial
            | Word::ClientFingerprint => return self.certificate(word, out),
            Word::Connection | Word::ConnectionRequests | Word::RemotePort | Word::ProxyProtocolPort => {
                return self.connection(word, out);
            }
            Word::TlsVersion
            | Word::TlsSuite
            | Word::TlsGroup
            | Word::TlsName
            | Word::TlsResumed
            | Word::TlsProtocol => return self.tls(word, out),
            Word::Pid => out.number(self.process.id),
            Word::Hostname => out.text(present(self.process.hostname.as_bytes())?),
            Word::Reason => out.plain(self.reason?),
            Word::TraceId | Word::SpanId => return self.trace(word, out),
            Word::Namespace
            | Word::IngressName
            | Word::ServiceName
            | Word::ServicePort
            | Word::LocationPath
            | Word::UpstreamName
            | Word::AlternativeUpstreamName => self.rule(word, out),
            Word::UpstreamAddr
            | Word::UpstreamStatus
            | Word::UpstreamResponseTime
            | Word::UpstreamConnectTime
            | Word::UpstreamHeaderTime
            | Word::UpstreamResponseLength => return self.upstream(word, out),
            Word::Status
            | Word::BodyBytesSent
            | Word::BytesSent
            | Word::RequestLength
            | Word::RequestTime => self.amount(word, out),
            _ => return self.asked(word, out),
        }
        Some(())
    }

    fn time(&self, word: Word, out: &mut Escaped<'_>) {
        match word {
            Word::TimeLocal => out.plain(self.clock.local()),
            Word::TimeIso => {
                out.plain(self.clock.iso().trim_end_matches('Z'));
                out.plain("+00:00");
            }
            _ => {
                let (second, millisecond) = self.clock.unix();
                out.display(format_args!("{second}.{millisecond:03}"));
            }
        }
    }

    fn amount(&self, word: Word, out: &mut Escaped<'_>) {
        let amounts = &self.amounts;
        match word {
            Word::Status => out.number(amounts.status),
            Word::BodyBytesSent => out.number(amounts.body),
            Word::BytesSent => out.number(amounts.sent),
            Word::RequestLength => out.number(amounts.request),
            _ => out.display(Seconds(amounts.took)),
        }
    }

    /// Empty without a rule, as ingress-nginx sets them.
    fn rule(&self, word: Word, out: &mut Escaped<'_>) {
        let Some(labels) = self.served_by.rule else { return };
        match word {
            Word::Namespace => out.text(labels.namespace.as_bytes()),
            Word::IngressName => out.text(labels.ingress.as_bytes()),
            Word::ServiceName => out.text(labels.service.as_bytes()),
            Word::ServicePort => out.text(labels.service_port.as_bytes()),
            Word::LocationPath => out.text(labels.path.as_bytes()),
            Word::UpstreamName if !labels.service.is_empty() => {
                upstream_name([&labels.namespace, &labels.service, &labels.service_port], out);
            }
            Word::AlternativeUpstreamName => {
                if let Some(ServiceName { namespace, name, port }) = self.served_by.canary {
                    upstream_name([namespace, name, port], out);
                }
            }
            _ => {}
        }
    }

    fn upstream(&self, word: Word, out: &mut Escaped<'_>) -> Option<()> {
        let upstream = self.upstream?;
        match word {
            Word::UpstreamAddr => out.display(upstream.endpoint),
            Word::UpstreamStatus => out.number(upstream.status),
            Word::UpstreamConnectTime => out.display(Seconds(upstream.connect)),
            Word::UpstreamHeaderTime => out.display(Seconds(upstream.header)),
            Word::UpstreamResponseLength => out.number(self.amounts.body),
            _ => out.display(Seconds(upstream.response)),
        }
        Some(())
    }

    /// As nginx, also of a trace that is not sampled. The span is then the one that the endpoint sees as its parent.
    fn trace(&self, word: Word, out: &mut Escaped<'_>) -> Option<()> {
        match self.trace {
            Trace::None => return None,
            Trace::Unsampled => {
                let mut parts = self.request.first(Known::TraceParent)?.split(|byte| *byte == b'-');
                out.text(parts.nth(if word == Word::TraceId { 1 } else { 2 })?);
            }
            Trace::Sampled { trace_id, .. } if word == Word::TraceId => out.display(TraceId(trace_id)),
            Trace::Sampled { span_id, .. } => out.display(SpanId(span_id)),
        }
        Some(())
    }

    /// Of the client, over TLS.
    fn certificate(&self, word: Word, out: &mut Escaped<'_>) -> Option<()> {
        let shown = self.connection.certificate;
        match (word, shown.map(|shown| shown.verdict)) {
            (Word::ClientVerify, _) if self.target.scheme != "https" => return None,
            (Word::ClientVerify, None) => out.plain("NONE"),
            (Word::ClientVerify, Some(Ok(()))) => out.plain("SUCCESS"),
            (Word::ClientVerify, Some(Err(why))) => {
                out.plain("FAILED:");
                out.text(why.as_bytes());
            }
            (Word::ClientSubject, _) => out.text(shown?.subject.as_bytes()),
            (Word::ClientSerial, _) => out.text(shown?.serial.as_bytes()),
            (Word::ClientFingerprint, _) => out.text(shown?.fingerprint.as_bytes()),
            _ => out.text(shown?.issuer.as_bytes()),
        }
        Some(())
    }

    fn connection(&self, word: Word, out: &mut Escaped<'_>) -> Option<()> {
        match word {
            Word::ConnectionRequests => out.number(self.connection.requests),
            Word::Connection => out.number(self.connection.noted?.number),
            Word::ProxyProtocolPort if self.parties.named.is_none() => return None,
            _ => out.number(self.connection.noted?.port),
        }
        Some(())
    }

    fn tls(&self, word: Word, out: &mut Escaped<'_>) -> Option<()> {
        let tls = self.connection.tls?;
        let text = match word {
            Word::TlsVersion => tls.version,
            Word::TlsSuite => tls.suite,
            Word::TlsGroup => tls.group?,
            Word::TlsName => tls.name?,
            Word::TlsResumed if tls.resumed => "r",
            Word::TlsResumed => ".",
            _ => tls.protocol?,
        };
        out.text(text.as_bytes());
        Some(())
    }

    /// What the request asks for.
    fn asked(&self, word: Word, out: &mut Escaped<'_>) -> Option<()> {
        let target = &self.target;
        match word {
            Word::Request => {
                out.text(self.request.method_bytes());
                out.plain(" ");
                out.text(self.request.target());
                out.plain(" ");
                out.plain(self.protocol());
            }
            Word::Method => out.text(present(self.request.method_bytes())?),
            Word::RequestUri => out.text(present(self.received())?),
            Word::Uri => out.text(present(self.path())?),
            Word::Args => out.text(self.query()?),
            Word::IsArgs if self.query().is_some_and(|query| !query.is_empty()) => out.plain("?"),
            Word::Scheme => out.plain(target.scheme),
            Word::Https if target.scheme == "https" => out.plain("on"),
            Word::Host => out.text(present(target.host.as_bytes())?),
            Word::HttpHost => {
                let received = present(target.received_host);
                out.text(received.or_else(|| self.request.first(Known::Host))?);
            }
            Word::ServerName => match self.served_by.host? {
                HostPattern::Any => out.plain("_"),
                host => out.display(host),
            },
            Word::ServerPort => out.number(target.port?),
            Word::Protocol => out.plain(self.protocol()),
            Word::Http2 if self.request.version() != Version::Http2 => {}
            Word::Http2 if target.scheme == "https" => out.plain("h2"),
            Word::Http2 => out.plain("h2c"),
            Word::Http3 if self.request.version() == Version::Http3 => out.plain("h3"),
            Word::RequestId => out.text(self.request.first(Known::XRequestId)?),
            _ => {}
        }
        Some(())
    }

    fn protocol(&self) -> &'static str {
        match self.request.version() {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
            Version::Http2 => "HTTP/2.0",
            Version::Http3 => "HTTP/3.0",
        }
    }

    /// Path and query as received.
    fn received(&self) -> &'a [u8] {
        if self.target.origin.is_empty() { self.request.target() } else { self.target.origin }
    }

    fn path(&self) -> &'a [u8] {
        if !self.target.decoded.is_empty() {
            return self.target.decoded;
        }
        self.received().split(|byte| *byte == b'?').next().unwrap_or_default()
    }

    /// What is behind the question mark, if there is one.
    pub(crate) fn query(&self) -> Option<&'a [u8]> {
        let received = self.received();
        received.get(received.iter().position(|byte| *byte == b'?')? + 1..)
    }
}

/// A Service and its port as ingress-nginx names an upstream.
fn upstream_name([namespace, name, port]: [&str; 3], out: &mut Escaped<'_>) {
    for part in [namespace, "-", name, "-", port] {
        out.plain(part);
    }
}

fn address(address: Option<IpAddr>, out: &mut Escaped<'_>) -> Option<()> {
    out.display(address?);
    Some(())
}

fn present(bytes: &[u8]) -> Option<&[u8]> {
    (!bytes.is_empty()).then_some(bytes)
}
