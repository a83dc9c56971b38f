//! Values of the named format variables.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use fairway_http::{Known, Version};
use fairway_model::{HostPattern, ServiceName, Word};

use crate::log::escape::EscapedWriter;
use crate::log::line::{LogLine, SpanId, Trace, TraceId};
use crate::log::user::with_basic_user;

/// Seconds with milliseconds.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0.as_secs(), self.0.subsec_millis())
    }
}

impl<'a> LogLine<'a> {
    /// Writes the value of a word; `None` if there is none.
    pub(crate) fn write_word(&self, word: Word, out: &mut EscapedWriter<'_>) -> Option<()> {
        let parties = &self.identities;
        match word {
            Word::RemoteAddr => out.display(parties.remote),
            Word::RemoteUser => {
                return with_basic_user(self.request.named(b"authorization")?, |user| out.text(user));
            }
            Word::TokenSubject => out.text(non_empty(parties.subject?.as_bytes())?),
            Word::ApiKeyClient => out.text(non_empty(parties.api_client?.as_bytes())?),
            Word::TheRealIp => return write_address(parties.client, out),
            Word::Sender => return write_address(parties.sender, out),
            Word::ProxyProtocolAddr => return write_address(parties.named, out),
            Word::TimeLocal | Word::TimeIso | Word::Msec => self.write_time(word, out),
            Word::ClientVerify
            | Word::ClientSubject
            | Word::ClientIssuer
            | Word::ClientSerial
            | Word::ClientFingerprint => return self.write_certificate(word, out),
            Word::Connection | Word::ConnectionRequests | Word::RemotePort | Word::ProxyProtocolPort => {
                return self.write_connection(word, out);
            }
            Word::TlsVersion
            | Word::TlsSuite
            | Word::TlsGroup
            | Word::TlsName
            | Word::TlsResumed
            | Word::TlsProtocol => return self.write_tls(word, out),
            Word::Pid => out.number(self.process.id),
            Word::Hostname => out.text(non_empty(self.process.hostname.as_bytes())?),
            Word::Reason => out.unescaped(self.reason?),
            Word::TraceId | Word::SpanId => return self.write_trace(word, out),
            Word::Namespace
            | Word::IngressName
            | Word::ServiceName
            | Word::ServicePort
            | Word::LocationPath
            | Word::UpstreamName
            | Word::AlternativeUpstreamName => self.write_rule(word, out),
            Word::UpstreamAddr
            | Word::UpstreamStatus
            | Word::UpstreamResponseTime
            | Word::UpstreamConnectTime
            | Word::UpstreamHeaderTime
            | Word::UpstreamResponseLength => return self.write_upstream(word, out),
            Word::Status
            | Word::BodyBytesSent
            | Word::BytesSent
            | Word::RequestLength
            | Word::RequestTime => self.write_amount(word, out),
            _ => return self.write_request_value(word, out),
        }
        Some(())
    }

    fn write_time(&self, word: Word, out: &mut EscapedWriter<'_>) {
        match word {
            Word::TimeLocal => out.unescaped(self.clock.common_log()),
            Word::TimeIso => {
                out.unescaped(self.clock.iso().trim_end_matches('Z'));
                out.unescaped("+00:00");
            }
            _ => {
                let (second, millisecond) = self.clock.unix();
                out.display(format_args!("{second}.{millisecond:03}"));
            }
        }
    }

    fn write_amount(&self, word: Word, out: &mut EscapedWriter<'_>) {
        let amounts = &self.amounts;
        match word {
            Word::Status => out.number(amounts.status),
            Word::BodyBytesSent => out.number(amounts.body),
            Word::BytesSent => out.number(amounts.sent),
            Word::RequestLength => out.number(amounts.request),
            _ => out.display(Seconds(amounts.duration)),
        }
    }

    /// Empty without a rule, as in ingress-nginx.
    fn write_rule(&self, word: Word, out: &mut EscapedWriter<'_>) {
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

    fn write_upstream(&self, word: Word, out: &mut EscapedWriter<'_>) -> Option<()> {
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

    /// As in nginx, also for unsampled traces. The span is then the one that the endpoint sees as its parent.
    fn write_trace(&self, word: Word, out: &mut EscapedWriter<'_>) -> Option<()> {
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

    /// The client certificate of a TLS connection.
    fn write_certificate(&self, word: Word, out: &mut EscapedWriter<'_>) -> Option<()> {
        let certificate = self.connection.certificate;
        match (word, certificate.map(|shown| shown.verdict)) {
            (Word::ClientVerify, _) if self.target.scheme != "https" => return None,
            (Word::ClientVerify, None) => out.unescaped("NONE"),
            (Word::ClientVerify, Some(Ok(()))) => out.unescaped("SUCCESS"),
            (Word::ClientVerify, Some(Err(why))) => {
                out.unescaped("FAILED:");
                out.text(why.as_bytes());
            }
            (Word::ClientSubject, _) => out.text(certificate?.subject.as_bytes()),
            (Word::ClientSerial, _) => out.text(certificate?.serial.as_bytes()),
            (Word::ClientFingerprint, _) => out.text(certificate?.fingerprint.as_bytes()),
            _ => out.text(certificate?.issuer.as_bytes()),
        }
        Some(())
    }

    fn write_connection(&self, word: Word, out: &mut EscapedWriter<'_>) -> Option<()> {
        match word {
            Word::ConnectionRequests => out.number(self.connection.requests),
            Word::Connection => out.number(self.connection.logged?.number),
            Word::ProxyProtocolPort if self.identities.named.is_none() => return None,
            _ => out.number(self.connection.logged?.port),
        }
        Some(())
    }

    fn write_tls(&self, word: Word, out: &mut EscapedWriter<'_>) -> Option<()> {
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

    /// Values of the request.
    fn write_request_value(&self, word: Word, out: &mut EscapedWriter<'_>) -> Option<()> {
        let target = &self.target;
        match word {
            Word::Request => {
                out.text(self.request.method_bytes());
                out.unescaped(" ");
                out.text(self.request.target());
                out.unescaped(" ");
                out.unescaped(self.protocol());
            }
            Word::Method => out.text(non_empty(self.request.method_bytes())?),
            Word::RequestUri => out.text(non_empty(self.received_target())?),
            Word::Uri => out.text(non_empty(self.path())?),
            Word::Args => out.text(self.query()?),
            Word::IsArgs if self.query().is_some_and(|query| !query.is_empty()) => out.unescaped("?"),
            Word::Scheme => out.unescaped(target.scheme),
            Word::Https if target.scheme == "https" => out.unescaped("on"),
            Word::Host => out.text(non_empty(target.host.as_bytes())?),
            Word::HttpHost => {
                let received = non_empty(target.received_host);
                out.text(received.or_else(|| self.request.first(Known::Host))?);
            }
            Word::ServerName => match self.served_by.host? {
                HostPattern::Any => out.unescaped("_"),
                host => out.display(host),
            },
            Word::ServerPort => out.number(target.port?),
            Word::Protocol => out.unescaped(self.protocol()),
            Word::Http2 if self.request.version() != Version::Http2 => {}
            Word::Http2 if target.scheme == "https" => out.unescaped("h2"),
            Word::Http2 => out.unescaped("h2c"),
            Word::Http3 if self.request.version() == Version::Http3 => out.unescaped("h3"),
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
    fn received_target(&self) -> &'a [u8] {
        if self.target.origin.is_empty() { self.request.target() } else { self.target.origin }
    }

    fn path(&self) -> &'a [u8] {
        if !self.target.decoded.is_empty() {
            return self.target.decoded;
        }
        self.received_target().split(|byte| *byte == b'?').next().unwrap_or_default()
    }

    /// The query after the question mark, if there is one.
    pub(crate) fn query(&self) -> Option<&'a [u8]> {
        let received = self.received_target();
        received.get(received.iter().position(|byte| *byte == b'?')? + 1..)
    }
}

/// Writes a Service and port in the form of ingress-nginx's upstream names.
fn upstream_name([namespace, name, port]: [&str; 3], out: &mut EscapedWriter<'_>) {
    for part in [namespace, "-", name, "-", port] {
        out.unescaped(part);
    }
}

fn write_address(address: Option<IpAddr>, out: &mut EscapedWriter<'_>) -> Option<()> {
    out.display(address?);
    Some(())
}

fn non_empty(bytes: &[u8]) -> Option<&[u8]> {
    (!bytes.is_empty()).then_some(bytes)
}
