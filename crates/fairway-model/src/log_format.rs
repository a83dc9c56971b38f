//! The format of a line of the access log: text with variables in it, read once.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::geo::{GeoField, GeoFields};

/// A format that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogFormat {
    /// The line from its beginning to its end.
    pub pieces: Vec<Piece>,
    /// How values are written.
    pub escape: Escape,
}

/// A part of a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Piece {
    /// Text of the format, which is written as it is.
    Text(Box<str>),
    /// What the exchange has for a variable.
    Value {
        /// The variable.
        variable: Variable,
        /// What ends the value in the line, so that no value may have it unescaped.
        end: Option<char>,
    },
}

/// How values are written, so that none of them ends its line or its quotes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Escape {
    /// `\xHH`, and `-` for a value that is absent.
    #[default]
    Nginx,
    /// As in strings of JSON, and nothing for a value that is absent.
    Json,
}

/// What a format can ask for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Variable {
    /// One with a name of its own.
    Word(Word),
    /// `$http_NAME`: fields of the request. The name has `-` for each `_`.
    RequestField(Box<str>),
    /// `$sent_http_NAME`: fields of the answer. The name has `-` for each `_`.
    AnswerField(Box<str>),
    /// `$upstream_http_NAME`: fields of the endpoint's answer as it came. The name has `-` for each `_`.
    UpstreamField(Box<str>),
    /// `$upstream_cookie_NAME`: a cookie that the endpoint sets.
    UpstreamCookie(Box<str>),
    /// What a database says of the client's address.
    Geo(GeoField),
    /// `$cookie_NAME`.
    Cookie(Box<str>),
    /// `$arg_NAME`.
    Argument(Box<str>),
    /// One that is not known: it has no value.
    Absent,
}

/// A format that was read, and the variables in it that are not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadFormat {
    /// The format.
    pub format: LogFormat,
    /// Names without the dollar sign, each once.
    pub unknown: Vec<String>,
}

/// Why a text is not a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormatError {
    /// It has more than [`LogFormat::MOST_BYTES`].
    TooLong,
    /// It has more than [`LogFormat::MOST_VARIABLES`].
    TooManyVariables,
    /// A dollar sign without a name behind it.
    NoName,
    /// `${` without its `}`.
    Unclosed,
}

/// Names, in one table for reading and for documents.
macro_rules! words {
    ($($(#[$doc:meta])+ $word:ident: $($name:literal),+;)+) => {
        /// A variable with a name of its own.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Word {
            $($(#[$doc])+ $word,)+
        }

        impl Word {
            /// All names that are known, with what they mean.
            pub const NAMES: &'static [(&'static str, Self)] = &[$($(($name, Self::$word),)+)+];
        }
    };
}

words! {
    /// The client, as the transport or the PROXY protocol names it.
    RemoteAddr: "remote_addr";
    /// The user of Basic credentials.
    RemoteUser: "remote_user";
    /// The client once trust is settled.
    TheRealIp: "the_real_ip";
    /// The subject of the verified token.
    TokenSubject: "jwt_claim_sub";
    /// The client whose API key the request had.
    ApiKeyClient: "api_key_client";
    /// The port of the client.
    RemotePort: "remote_port";
    /// Who sent the bytes.
    Sender: "realip_remote_addr";
    /// Whom the PROXY protocol named.
    ProxyProtocolAddr: "proxy_protocol_addr";
    /// The client's port by the PROXY protocol.
    ProxyProtocolPort: "proxy_protocol_port";
    /// The number of the connection.
    Connection: "connection";
    /// Requests of the connection up to this one.
    ConnectionRequests: "connection_requests";
    /// The end of the exchange, as nginx writes it.
    TimeLocal: "time_local";
    /// The same in ISO 8601.
    TimeIso: "time_iso8601";
    /// The same in seconds with milliseconds.
    Msec: "msec";
    /// The request line.
    Request: "request";
    /// The method.
    Method: "request_method";
    /// Path and query as received.
    RequestUri: "request_uri";
    /// The path, normalised and decoded.
    Uri: "uri", "document_uri";
    /// The query.
    Args: "args", "query_string";
    /// `?` where there is a query.
    IsArgs: "is_args";
    /// `http` or `https`.
    Scheme: "scheme", "pass_access_scheme";
    /// `on` over TLS.
    Https: "https";
    /// The host that routes.
    Host: "host", "best_http_host";
    /// The `Host` that was received.
    HttpHost: "http_host";
    /// The host of the rule.
    ServerName: "server_name";
    /// The port of the listener, as clients see it.
    ServerPort: "server_port", "pass_server_port";
    /// The version of HTTP.
    Protocol: "server_protocol";
    /// `h2` for HTTP/2 over TLS, `h2c` in the clear.
    Http2: "http2";
    /// `h3` for HTTP/3.
    Http3: "http3";
    /// The status of the answer.
    Status: "status";
    /// The answer's body.
    BodyBytesSent: "body_bytes_sent";
    /// Everything that was sent to the client.
    BytesSent: "bytes_sent";
    /// Head and body of the request.
    RequestLength: "request_length";
    /// From the request's head to the answer's last byte.
    RequestTime: "request_time";
    /// `X-Request-ID`, sent by the client or generated.
    RequestId: "req_id", "request_id";
    /// The endpoint.
    UpstreamAddr: "upstream_addr";
    /// The status of its answer.
    UpstreamStatus: "upstream_status";
    /// From the first byte sent to the last of the answer.
    UpstreamResponseTime: "upstream_response_time";
    /// Connecting.
    UpstreamConnectTime: "upstream_connect_time";
    /// From the first byte sent to the answer's head.
    UpstreamHeaderTime: "upstream_header_time";
    /// The body of its answer.
    UpstreamResponseLength: "upstream_response_length";
    /// `NAMESPACE-SERVICE-PORT`.
    UpstreamName: "proxy_upstream_name";
    /// Empty.
    AlternativeUpstreamName: "proxy_alternative_upstream_name";
    /// The namespace of the rule's object.
    Namespace: "namespace";
    /// Its name.
    IngressName: "ingress_name";
    /// The rule's Service.
    ServiceName: "service_name";
    /// Its port.
    ServicePort: "service_port";
    /// The rule's path.
    LocationPath: "location_path";
    /// What the check of the client's certificate came to.
    ClientVerify: "ssl_client_verify";
    /// Whom the client's certificate is for.
    ClientSubject: "ssl_client_s_dn";
    /// Who issued it.
    ClientIssuer: "ssl_client_i_dn";
    /// Its serial number.
    ClientSerial: "ssl_client_serial";
    /// Its SHA-1 fingerprint.
    ClientFingerprint: "ssl_client_fingerprint";
    /// The version of TLS.
    TlsVersion: "ssl_protocol";
    /// The cipher suite, as OpenSSL names it.
    TlsSuite: "ssl_cipher";
    /// The group in which keys were exchanged.
    TlsGroup: "ssl_curve";
    /// The host that the client asked for in its handshake.
    TlsName: "ssl_server_name";
    /// `r` for a session that was resumed, else `.`.
    TlsResumed: "ssl_session_reused";
    /// The protocol that was agreed on in the handshake.
    TlsProtocol: "ssl_alpn_protocol";
    /// The name of this machine.
    Hostname: "hostname";
    /// The number of this process.
    Pid: "pid";
    /// The trace that the request is part of.
    TraceId: "opentelemetry_trace_id";
    /// Its span in the trace.
    SpanId: "opentelemetry_span_id";
    /// Why the answer is not the endpoint's.
    Reason: "fairway_reason";
}

impl LogFormat {
    /// Bytes that the text of a format may have.
    pub const MOST_BYTES: usize = 8 * 1024;
    /// Variables that a format may have.
    pub(crate) const MOST_VARIABLES: usize = 128;

    /// The default of ingress-nginx (`log-format-upstream`) with the reason behind it.
    pub const BUILT_IN: &'static str = concat!(
        "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent ",
        "\"$http_referer\" \"$http_user_agent\" $request_length $request_time [$proxy_upstream_name] ",
        "[$proxy_alternative_upstream_name] $upstream_addr $upstream_response_length ",
        "$upstream_response_time $upstream_status $req_id $fairway_reason"
    );

    /// Reads a format, with the escapes of nginx's configuration: `\"`, `\'`, `\\`, `\t`, `\r` and `\n`.
    ///
    /// # Errors
    /// The text is not a format.
    pub fn read(text: &str, escape: Escape) -> Result<ReadFormat, LogFormatError> {
        if text.len() > Self::MOST_BYTES {
            return Err(LogFormatError::TooLong);
        }
        let text = unescaped(text);
        let (mut pieces, mut unknown): (Vec<Piece>, Vec<String>) = (Vec::new(), Vec::new());
        let mut rest = &*text;
        while !rest.is_empty() {
            let (before, behind) = rest.split_once('$').map_or((rest, None), |(it, then)| (it, Some(then)));
            if !before.is_empty() {
                pieces.push(Piece::Text(before.into()));
            }
            let Some(behind) = behind else { break };
            let (name, behind) = name(behind)?;
            let name = name.to_ascii_lowercase();
            let variable = Variable::named(&name);
            if variable == Variable::Absent && !unknown.contains(&name) {
                unknown.push(name);
            }
            pieces.push(Piece::Value { variable, end: None });
            rest = behind;
        }
        set_ends(&mut pieces);
        let variables = pieces.iter().filter(|piece| matches!(piece, Piece::Value { .. })).count();
        if variables > Self::MOST_VARIABLES {
            return Err(LogFormatError::TooManyVariables);
        }
        Ok(ReadFormat { format: Self { pieces, escape }, unknown })
    }

    /// Whether lines have the value of this word.
    #[must_use]
    pub fn has(&self, word: Word) -> bool {
        self.variables().any(|variable| *variable == Variable::Word(word))
    }

    /// Whether lines have what must be noted when a connection begins.
    #[must_use]
    pub fn has_connection(&self) -> bool {
        self.variables().any(|variable| matches!(variable, Variable::Word(word) if word.is_of_connection()))
    }

    /// The fields of endpoints' answers that lines have as they came, each once.
    #[must_use]
    pub fn upstream_fields(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        for variable in self.variables() {
            match variable {
                Variable::UpstreamField(name) => _ = names.insert(&**name),
                Variable::UpstreamCookie(_) => _ = names.insert("set-cookie"),
                _ => {}
            }
        }
        names
    }

    /// What lines have of databases of addresses.
    #[must_use]
    pub fn geo_fields(&self) -> GeoFields {
        let field = |variable: &Variable| match variable {
            Variable::Geo(field) => Some(*field),
            _ => None,
        };
        self.variables().filter_map(field).collect()
    }

    fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Value { variable, .. } => Some(variable),
            Piece::Text(_) => None,
        })
    }
}

impl Word {
    /// Whether it must be noted when a connection begins, for nothing tells of it later.
    fn is_of_connection(self) -> bool {
        matches!(
            self,
            Self::RemotePort
                | Self::ProxyProtocolPort
                | Self::Connection
                | Self::TlsVersion
                | Self::TlsSuite
                | Self::TlsGroup
                | Self::TlsName
                | Self::TlsResumed
                | Self::TlsProtocol
        )
    }
}

impl Variable {
    /// The variable of a name in lower case.
    fn named(name: &str) -> Self {
        if let Some((_, word)) = Word::NAMES.iter().find(|(known, _)| *known == name) {
            return Self::Word(*word);
        }
        if let Some(field) = GeoField::named(name) {
            return Self::Geo(field);
        }
        let field = |name: &str| name.replace('_', "-").into_boxed_str();
        // nginx has variables of its own for these fields.
        if let "content_length" | "content_type" = name {
            return Self::RequestField(field(name));
        }
        let after = |prefix: &str| name.strip_prefix(prefix).filter(|rest| !rest.is_empty());
        if let Some(name) = after("sent_http_") {
            Self::AnswerField(field(name))
        } else if let Some(name) = after("upstream_http_") {
            Self::UpstreamField(field(name))
        } else if let Some(name) = after("upstream_cookie_") {
            Self::UpstreamCookie(name.into())
        } else if let Some(name) = after("http_") {
            Self::RequestField(field(name))
        } else if let Some(name) = after("cookie_") {
            Self::Cookie(name.into())
        } else if let Some(name) = after("arg_") {
            Self::Argument(name.into())
        } else {
            Self::Absent
        }
    }
}

impl fmt::Display for LogFormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "it has more than {} bytes", LogFormat::MOST_BYTES),
            Self::TooManyVariables => write!(f, "it has more than {} variables", LogFormat::MOST_VARIABLES),
            Self::NoName => f.write_str("a \"$\" has no name behind it"),
            Self::Unclosed => f.write_str("a \"${\" has no \"}\" behind its name"),
        }
    }
}

impl std::error::Error for LogFormatError {}

/// The name behind a dollar sign, and what follows it.
fn name(behind: &str) -> Result<(&str, &str), LogFormatError> {
    let (braced, text) = behind.strip_prefix('{').map_or((false, behind), |text| (true, text));
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let rest = match (braced, rest.strip_prefix('}')) {
        (true, None) => return Err(LogFormatError::Unclosed),
        (true, Some(rest)) => rest,
        (false, _) => rest,
    };
    if name.is_empty() { Err(LogFormatError::NoName) } else { Ok((name, rest)) }
}

/// Text of a quoted parameter in nginx's configuration, which is where ingress-nginx writes the format.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        let (plain, taken) = match (c, rest.as_str().chars().next()) {
            ('\\', Some(quoted @ ('"' | '\'' | '\\'))) => (quoted, true),
            ('\\', Some('t')) => ('\t', true),
            ('\\', Some('r')) => ('\r', true),
            ('\\', Some('n')) => ('\n', true),
            _ => (c, false),
        };
        out.push(plain);
        if taken {
            rest.next();
        }
    }
    out
}

/// What follows a value in the format ends it, unless that could be part of a word.
fn set_ends(pieces: &mut [Piece]) {
    let mut next = None;
    for piece in pieces.iter_mut().rev() {
        match piece {
            Piece::Text(text) => next = text.chars().next().filter(|c| !c.is_ascii_alphanumeric()),
            Piece::Value { end, .. } => *end = next,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

    use super::*;

    fn pieces(text: &str) -> Vec<Piece> {
        LogFormat::read(text, Escape::Nginx).unwrap().format.pieces
    }

    fn text(text: &str) -> Piece {
        Piece::Text(text.into())
    }

    fn value(variable: Variable, end: char) -> Piece {
        Piece::Value { variable, end: Some(end) }
    }

    #[test]
    fn names_end_where_they_do_in_nginx_and_braces_end_them_too() {
        assert_eq!(
            pieces("a $status/${HOST}b$uri?"),
            [
                text("a "),
                value(Variable::Word(Word::Status), '/'),
                text("/"),
                Piece::Value { variable: Variable::Word(Word::Host), end: None },
                text("b"),
                value(Variable::Word(Word::Uri), '?'),
                text("?"),
            ]
        );
    }

    #[test]
    fn a_value_ends_with_the_next_text_of_the_format() {
        let field = |name: &str| Variable::RequestField(name.into());
        let last = Piece::Value { variable: Variable::Cookie("c".into()), end: None };
        assert_eq!(
            pieces("$http_x_a$http_b|$cookie_c"),
            [value(field("x-a"), '|'), value(field("b"), '|'), text("|"), last]
        );
    }

    #[test]
    fn names_with_a_prefix_say_whose_value_it_is() {
        let named = |name| Variable::named(name);
        assert_eq!(named("http_user_agent"), Variable::RequestField("user-agent".into()));
        assert_eq!(named("content_type"), Variable::RequestField("content-type".into()));
        assert_eq!(named("sent_http_x_a"), Variable::AnswerField("x-a".into()));
        assert_eq!(named("arg_page_no"), Variable::Argument("page_no".into()));
        assert_eq!(named("upstream_http_x_a"), Variable::UpstreamField("x-a".into()));
        assert_eq!(named("upstream_cookie_sid"), Variable::UpstreamCookie("sid".into()));
        assert_eq!(named("geoip2_city_country_code"), Variable::Geo(GeoField::CountryCode));
        assert_eq!(named("http2"), Variable::Word(Word::Http2));
        assert_eq!(named("http3"), Variable::Word(Word::Http3));
        for name in ["http_", "geoip_city", "upstream_http_", "upstream_cookie_", "pipe"] {
            assert_eq!(named(name), Variable::Absent, "{name}");
        }
    }

    #[test]
    fn what_has_to_be_noted_is_known_from_the_format() {
        let read = |text: &str| LogFormat::read(text, Escape::Nginx).unwrap().format;
        let fields = read("$geoip2_asn $geoip2_city $geoip2_asn").geo_fields();
        assert_eq!(fields.iter().collect::<Vec<_>>(), [GeoField::City, GeoField::Asn]);
        let plain = read("$remote_addr $connection_requests $ssl_client_serial $sent_http_x_a");
        assert!(!plain.has_connection() && plain.upstream_fields().is_empty());
        for text in ["$remote_port", "$connection", "$ssl_protocol", "a${ssl_server_name}b"] {
            assert!(read(text).has_connection(), "{text}");
        }
        let fields = read("$upstream_http_x_b $upstream_cookie_a $upstream_cookie_b $upstream_http_x_b");
        assert_eq!(fields.upstream_fields(), ["set-cookie", "x-b"].into());
    }

    #[test]
    fn unknown_variables_are_listed_once() {
        let read = LogFormat::read("$a $status $B $a", Escape::Json).unwrap();
        assert_eq!(read.unknown, ["a", "b"]);
        assert_eq!(read.format.escape, Escape::Json);
        assert!(LogFormat::read(LogFormat::BUILT_IN, Escape::Nginx).unwrap().unknown.is_empty());
    }

    #[test]
    fn escapes_of_the_configuration_of_nginx_are_read() {
        assert_eq!(pieces(r#"\"\'\\\t\r\n\x"#), [text("\"'\\\t\r\n\\x")]);
    }

    #[test]
    fn what_is_no_format_is_refused() {
        let error = |text: &str| LogFormat::read(text, Escape::Nginx).unwrap_err();
        assert_eq!(error("a $ b"), LogFormatError::NoName);
        assert_eq!(error("${}"), LogFormatError::NoName);
        assert_eq!(error("costs $"), LogFormatError::NoName);
        assert_eq!(error("${status"), LogFormatError::Unclosed);
        assert_eq!(error("${sta tus}"), LogFormatError::Unclosed);
        assert_eq!(error(&"x".repeat(LogFormat::MOST_BYTES + 1)), LogFormatError::TooLong);
        assert_eq!(pieces(&"x".repeat(LogFormat::MOST_BYTES)).len(), 1);
        assert_eq!(error(&"$pid ".repeat(129)), LogFormatError::TooManyVariables);
        assert_eq!(pieces(&"$pid ".repeat(128)).len(), 256);
    }
}
