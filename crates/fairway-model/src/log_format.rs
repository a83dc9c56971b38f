//! The format of access log lines: text with variables, parsed once.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::geo::{GeoField, GeoFields};

/// A parsed format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogFormat {
    /// The parts of a line in order.
    pub pieces: Vec<LogFormatPart>,
    /// How values are escaped.
    pub escape: LogEscape,
}

/// A part of a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogFormatPart {
    /// Text that is written unchanged.
    Text(Box<str>),
    /// The value of a variable.
    Value {
        /// The variable.
        variable: LogVariable,
        /// The character that ends the value in the line and must be escaped in it.
        end: Option<char>,
    },
}

/// How values are escaped, so that none can end its line or its quotes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogEscape {
    /// `\xHH`; `-` for an absent value.
    #[default]
    Nginx,
    /// As in JSON strings; nothing for an absent value.
    Json,
}

/// A variable of a format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogVariable {
    /// A variable with a fixed name.
    Word(Word),
    /// `$http_NAME`: a request header, with `-` for each `_` in the name.
    #[serde(rename = "RequestField")]
    RequestHeader(Box<str>),
    /// `$sent_http_NAME`: a response header, with `-` for each `_` in the name.
    #[serde(rename = "AnswerField")]
    ResponseHeader(Box<str>),
    /// `$upstream_http_NAME`: a header of the endpoint's original response, with `-` for each `_` in the name.
    #[serde(rename = "UpstreamField")]
    UpstreamHeader(Box<str>),
    /// `$upstream_cookie_NAME`: a cookie set by the endpoint.
    UpstreamCookie(Box<str>),
    /// GeoIP data about the client address.
    Geo(GeoField),
    /// `$cookie_NAME`.
    Cookie(Box<str>),
    /// `$arg_NAME`.
    Argument(Box<str>),
    /// An unknown variable; it has no value.
    Absent,
}

/// A parsed format and its unknown variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedLogFormat {
    /// The format.
    pub format: LogFormat,
    /// Names without the dollar sign, each once.
    pub unknown: Vec<String>,
}

/// Why a text is not a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormatError {
    /// It has more than [`LogFormat::MAX_BYTES`].
    TooLong,
    /// It has more than [`LogFormat::MAX_VARIABLES`].
    TooManyVariables,
    /// A dollar sign without a name after it.
    NoName,
    /// `${` without a closing `}`.
    Unclosed,
}

/// Names in one table, used for parsing and documentation.
macro_rules! words {
    ($($(#[$doc:meta])+ $word:ident: $($name:literal),+;)+) => {
        /// A variable with a fixed name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Word {
            $($(#[$doc])+ $word,)+
        }

        impl Word {
            /// All known names with their variables.
            pub const NAMES: &'static [(&'static str, Self)] = &[$($(($name, Self::$word),)+)+];
        }
    };
}

words! {
    /// The client address from the transport or the PROXY protocol.
    RemoteAddr: "remote_addr";
    /// The user of Basic credentials.
    RemoteUser: "remote_user";
    /// The client address after trusted forwarding headers are applied.
    TheRealIp: "the_real_ip";
    /// The subject of the verified token.
    TokenSubject: "jwt_claim_sub";
    /// The client whose API key the request had.
    ApiKeyClient: "api_key_client";
    /// The port of the client.
    RemotePort: "remote_port";
    /// The peer that sent the bytes.
    Sender: "realip_remote_addr";
    /// The client address from the PROXY protocol.
    ProxyProtocolAddr: "proxy_protocol_addr";
    /// The client port from the PROXY protocol.
    ProxyProtocolPort: "proxy_protocol_port";
    /// The number of the connection.
    Connection: "connection";
    /// Requests on the connection so far, including this one.
    ConnectionRequests: "connection_requests";
    /// End of the exchange, in nginx's format.
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
    /// `?` if there is a query.
    IsArgs: "is_args";
    /// `http` or `https`.
    Scheme: "scheme", "pass_access_scheme";
    /// `on` over TLS.
    Https: "https";
    /// The routing host.
    Host: "host", "best_http_host";
    /// The received `Host`.
    HttpHost: "http_host";
    /// The host of the rule.
    ServerName: "server_name";
    /// The port of the listener, as clients see it.
    ServerPort: "server_port", "pass_server_port";
    /// The HTTP version.
    Protocol: "server_protocol";
    /// `h2` for HTTP/2 over TLS, `h2c` in plain text.
    Http2: "http2";
    /// `h3` for HTTP/3.
    Http3: "http3";
    /// The response status.
    Status: "status";
    /// Response body bytes.
    BodyBytesSent: "body_bytes_sent";
    /// All bytes sent to the client.
    BytesSent: "bytes_sent";
    /// Bytes of request head and body.
    RequestLength: "request_length";
    /// From the request head to the last byte of the response.
    RequestTime: "request_time";
    /// `X-Request-ID`, from the client or generated.
    RequestId: "req_id", "request_id";
    /// The endpoint address.
    UpstreamAddr: "upstream_addr";
    /// The endpoint's response status.
    UpstreamStatus: "upstream_status";
    /// From the first byte sent to the last response byte.
    UpstreamResponseTime: "upstream_response_time";
    /// Time to connect.
    UpstreamConnectTime: "upstream_connect_time";
    /// From the first byte sent to the response head.
    UpstreamHeaderTime: "upstream_header_time";
    /// Body bytes of the endpoint's response.
    UpstreamResponseLength: "upstream_response_length";
    /// `NAMESPACE-SERVICE-PORT`.
    UpstreamName: "proxy_upstream_name";
    /// Empty.
    AlternativeUpstreamName: "proxy_alternative_upstream_name";
    /// The namespace of the rule's object.
    Namespace: "namespace";
    /// The name of the rule's object.
    IngressName: "ingress_name";
    /// The rule's Service.
    ServiceName: "service_name";
    /// The port of the rule's Service.
    ServicePort: "service_port";
    /// The rule's path.
    LocationPath: "location_path";
    /// The result of client certificate verification.
    ClientVerify: "ssl_client_verify";
    /// The subject of the client certificate.
    ClientSubject: "ssl_client_s_dn";
    /// The issuer of the client certificate.
    ClientIssuer: "ssl_client_i_dn";
    /// The serial number of the client certificate.
    ClientSerial: "ssl_client_serial";
    /// The SHA-1 fingerprint of the client certificate.
    ClientFingerprint: "ssl_client_fingerprint";
    /// The TLS version.
    TlsVersion: "ssl_protocol";
    /// The cipher suite, by its OpenSSL name.
    TlsSuite: "ssl_cipher";
    /// The key exchange group.
    TlsGroup: "ssl_curve";
    /// The server name from the handshake (SNI).
    TlsName: "ssl_server_name";
    /// `r` for a resumed session, else `.`.
    TlsResumed: "ssl_session_reused";
    /// The negotiated ALPN protocol.
    TlsProtocol: "ssl_alpn_protocol";
    /// The host name of this machine.
    Hostname: "hostname";
    /// The process id.
    Pid: "pid";
    /// The trace id of the request.
    TraceId: "opentelemetry_trace_id";
    /// The span id of the request.
    SpanId: "opentelemetry_span_id";
    /// Why the response is not the endpoint's.
    Reason: "fairway_reason";
}

impl LogFormat {
    /// Maximum bytes of a format text.
    pub const MAX_BYTES: usize = 8 * 1024;
    /// Maximum variables of a format.
    pub(crate) const MAX_VARIABLES: usize = 128;

    /// The default of ingress-nginx (`log-format-upstream`), followed by the reason.
    pub const BUILT_IN: &'static str = concat!(
        "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent ",
        "\"$http_referer\" \"$http_user_agent\" $request_length $request_time [$proxy_upstream_name] ",
        "[$proxy_alternative_upstream_name] $upstream_addr $upstream_response_length ",
        "$upstream_response_time $upstream_status $req_id $fairway_reason"
    );

    /// Parses a format with the escapes of nginx's configuration: `\"`, `\'`, `\\`, `\t`, `\r` and `\n`.
    ///
    /// # Errors
    /// The text is not a format.
    pub fn read(text: &str, escape: LogEscape) -> Result<ParsedLogFormat, LogFormatError> {
        if text.len() > Self::MAX_BYTES {
            return Err(LogFormatError::TooLong);
        }
        let text = unescape(text);
        let (mut pieces, mut unknown): (Vec<LogFormatPart>, Vec<String>) = (Vec::new(), Vec::new());
        let mut rest = &*text;
        while !rest.is_empty() {
            let (before, behind) = rest.split_once('$').map_or((rest, None), |(it, then)| (it, Some(then)));
            if !before.is_empty() {
                pieces.push(LogFormatPart::Text(before.into()));
            }
            let Some(behind) = behind else { break };
            let (name, behind) = name(behind)?;
            let name = name.to_ascii_lowercase();
            let variable = LogVariable::from_name(&name);
            if variable == LogVariable::Absent && !unknown.contains(&name) {
                unknown.push(name);
            }
            pieces.push(LogFormatPart::Value { variable, end: None });
            rest = behind;
        }
        set_value_ends(&mut pieces);
        let variables = pieces.iter().filter(|piece| matches!(piece, LogFormatPart::Value { .. })).count();
        if variables > Self::MAX_VARIABLES {
            return Err(LogFormatError::TooManyVariables);
        }
        Ok(ParsedLogFormat { format: Self { pieces, escape }, unknown })
    }

    /// Whether lines contain this variable.
    #[must_use]
    pub fn has(&self, word: Word) -> bool {
        self.variables().any(|variable| *variable == LogVariable::Word(word))
    }

    /// Whether lines contain values that must be recorded when the connection begins.
    #[must_use]
    pub fn uses_connection_values(&self) -> bool {
        self.variables()
            .any(|variable| matches!(variable, LogVariable::Word(word) if word.is_connection_scoped()))
    }

    /// Headers of the endpoint's original response that lines contain, each once.
    #[must_use]
    pub fn upstream_headers(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        for variable in self.variables() {
            match variable {
                LogVariable::UpstreamHeader(name) => _ = names.insert(&**name),
                LogVariable::UpstreamCookie(_) => _ = names.insert("set-cookie"),
                _ => {}
            }
        }
        names
    }

    /// GeoIP fields that lines contain.
    #[must_use]
    pub fn geo_fields(&self) -> GeoFields {
        let field = |variable: &LogVariable| match variable {
            LogVariable::Geo(field) => Some(*field),
            _ => None,
        };
        self.variables().filter_map(field).collect()
    }

    fn variables(&self) -> impl Iterator<Item = &LogVariable> {
        self.pieces.iter().filter_map(|piece| match piece {
            LogFormatPart::Value { variable, .. } => Some(variable),
            LogFormatPart::Text(_) => None,
        })
    }
}

impl Word {
    /// Whether it must be recorded when the connection begins, because it is not available later.
    fn is_connection_scoped(self) -> bool {
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

impl LogVariable {
    /// The variable with this name, in lower case.
    fn from_name(name: &str) -> Self {
        if let Some((_, word)) = Word::NAMES.iter().find(|(known, _)| *known == name) {
            return Self::Word(*word);
        }
        if let Some(field) = GeoField::named(name) {
            return Self::Geo(field);
        }
        let field = |name: &str| name.replace('_', "-").into_boxed_str();
        // nginx has its own variables for these headers.
        if let "content_length" | "content_type" = name {
            return Self::RequestHeader(field(name));
        }
        let after = |prefix: &str| name.strip_prefix(prefix).filter(|rest| !rest.is_empty());
        if let Some(name) = after("sent_http_") {
            Self::ResponseHeader(field(name))
        } else if let Some(name) = after("upstream_http_") {
            Self::UpstreamHeader(field(name))
        } else if let Some(name) = after("upstream_cookie_") {
            Self::UpstreamCookie(name.into())
        } else if let Some(name) = after("http_") {
            Self::RequestHeader(field(name))
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
            Self::TooLong => write!(f, "it has more than {} bytes", LogFormat::MAX_BYTES),
            Self::TooManyVariables => write!(f, "it has more than {} variables", LogFormat::MAX_VARIABLES),
            Self::NoName => f.write_str("a \"$\" has no name behind it"),
            Self::Unclosed => f.write_str("a \"${\" has no \"}\" behind its name"),
        }
    }
}

impl std::error::Error for LogFormatError {}

/// The name after a dollar sign, and the rest of the text.
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

/// Removes the escapes of a quoted parameter of nginx's configuration, where ingress-nginx puts the format.
fn unescape(text: &str) -> String {
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

/// Sets the character after each value as its end, unless it could be part of a word.
fn set_value_ends(chunks: &mut [LogFormatPart]) {
    let mut next = None;
    for piece in chunks.iter_mut().rev() {
        match piece {
            LogFormatPart::Text(text) => next = text.chars().next().filter(|c| !c.is_ascii_alphanumeric()),
            LogFormatPart::Value { end, .. } => *end = next,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

    use super::*;

    fn parse_parts(text: &str) -> Vec<LogFormatPart> {
        LogFormat::read(text, LogEscape::Nginx).unwrap().format.pieces
    }

    fn text(text: &str) -> LogFormatPart {
        LogFormatPart::Text(text.into())
    }

    fn value(variable: LogVariable, end: char) -> LogFormatPart {
        LogFormatPart::Value { variable, end: Some(end) }
    }

    #[test]
    fn names_end_where_they_do_in_nginx_and_braces_end_them_too() {
        assert_eq!(
            parse_parts("a $status/${HOST}b$uri?"),
            [
                text("a "),
                value(LogVariable::Word(Word::Status), '/'),
                text("/"),
                LogFormatPart::Value { variable: LogVariable::Word(Word::Host), end: None },
                text("b"),
                value(LogVariable::Word(Word::Uri), '?'),
                text("?"),
            ]
        );
    }

    #[test]
    fn a_value_ends_with_the_next_text_of_the_format() {
        let field = |name: &str| LogVariable::RequestHeader(name.into());
        let last = LogFormatPart::Value { variable: LogVariable::Cookie("c".into()), end: None };
        assert_eq!(
            parse_parts("$http_x_a$http_b|$cookie_c"),
            [value(field("x-a"), '|'), value(field("b"), '|'), text("|"), last]
        );
    }

    #[test]
    fn prefixes_select_the_source_of_a_value() {
        let named = |name| LogVariable::from_name(name);
        assert_eq!(named("http_user_agent"), LogVariable::RequestHeader("user-agent".into()));
        assert_eq!(named("content_type"), LogVariable::RequestHeader("content-type".into()));
        assert_eq!(named("sent_http_x_a"), LogVariable::ResponseHeader("x-a".into()));
        assert_eq!(named("arg_page_no"), LogVariable::Argument("page_no".into()));
        assert_eq!(named("upstream_http_x_a"), LogVariable::UpstreamHeader("x-a".into()));
        assert_eq!(named("upstream_cookie_sid"), LogVariable::UpstreamCookie("sid".into()));
        assert_eq!(named("geoip2_city_country_code"), LogVariable::Geo(GeoField::CountryCode));
        assert_eq!(named("http2"), LogVariable::Word(Word::Http2));
        assert_eq!(named("http3"), LogVariable::Word(Word::Http3));
        for name in ["http_", "geoip_city", "upstream_http_", "upstream_cookie_", "pipe"] {
            assert_eq!(named(name), LogVariable::Absent, "{name}");
        }
    }

    #[test]
    fn the_format_lists_values_to_record() {
        let read = |text: &str| LogFormat::read(text, LogEscape::Nginx).unwrap().format;
        let fields = read("$geoip2_asn $geoip2_city $geoip2_asn").geo_fields();
        assert_eq!(fields.iter().collect::<Vec<_>>(), [GeoField::City, GeoField::Asn]);
        let plain = read("$remote_addr $connection_requests $ssl_client_serial $sent_http_x_a");
        assert!(!plain.uses_connection_values() && plain.upstream_headers().is_empty());
        for text in ["$remote_port", "$connection", "$ssl_protocol", "a${ssl_server_name}b"] {
            assert!(read(text).uses_connection_values(), "{text}");
        }
        let fields = read("$upstream_http_x_b $upstream_cookie_a $upstream_cookie_b $upstream_http_x_b");
        assert_eq!(fields.upstream_headers(), ["set-cookie", "x-b"].into());
    }

    #[test]
    fn unknown_variables_are_listed_once() {
        let read = LogFormat::read("$a $status $B $a", LogEscape::Json).unwrap();
        assert_eq!(read.unknown, ["a", "b"]);
        assert_eq!(read.format.escape, LogEscape::Json);
        assert!(LogFormat::read(LogFormat::BUILT_IN, LogEscape::Nginx).unwrap().unknown.is_empty());
    }

    #[test]
    fn escapes_of_the_configuration_of_nginx_are_read() {
        assert_eq!(parse_parts(r#"\"\'\\\t\r\n\x"#), [text("\"'\\\t\r\n\\x")]);
    }

    #[test]
    fn rejects_invalid_formats() {
        let error = |text: &str| LogFormat::read(text, LogEscape::Nginx).unwrap_err();
        assert_eq!(error("a $ b"), LogFormatError::NoName);
        assert_eq!(error("${}"), LogFormatError::NoName);
        assert_eq!(error("costs $"), LogFormatError::NoName);
        assert_eq!(error("${status"), LogFormatError::Unclosed);
        assert_eq!(error("${sta tus}"), LogFormatError::Unclosed);
        assert_eq!(error(&"x".repeat(LogFormat::MAX_BYTES + 1)), LogFormatError::TooLong);
        assert_eq!(parse_parts(&"x".repeat(LogFormat::MAX_BYTES)).len(), 1);
        assert_eq!(error(&"$pid ".repeat(129)), LogFormatError::TooManyVariables);
        assert_eq!(parse_parts(&"$pid ".repeat(128)).len(), 256);
    }
}
