//! The header names that the proxy itself reads or writes, one byte each.

macro_rules! known {
    ($($name:ident = $text:literal;)+) => {
        /// A header name known to the proxy; all others are [`Known::Other`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Known {
            $(#[doc = concat!("`", $text, "`")] $name,)+
            /// Any other name.
            Other,
        }

        impl Known {
            /// Every known name.
            pub const ALL: &[Known] = &[$(Known::$name),+];

            /// The usual spelling; empty for [`Known::Other`].
            pub const fn name(self) -> &'static str {
                match self { $(Known::$name => $text,)+ Known::Other => "" }
            }

            /// The start of a line with this name, up to its value.
            pub(crate) const fn line_start(self) -> &'static [u8] {
                match self { $(Known::$name => concat!($text, ": ").as_bytes(),)+ Known::Other => b": " }
            }
        }
    };
}

known! {
    Host = "Host";
    ContentLength = "Content-Length";
    ContentType = "Content-Type";
    TransferEncoding = "Transfer-Encoding";
    Connection = "Connection";
    KeepAlive = "Keep-Alive";
    ProxyConnection = "Proxy-Connection";
    Upgrade = "Upgrade";
    Expect = "Expect";
    Te = "TE";
    Trailer = "Trailer";
    Proxy = "Proxy";
    Forwarded = "Forwarded";
    XForwardedFor = "X-Forwarded-For";
    XForwardedProto = "X-Forwarded-Proto";
    XForwardedHost = "X-Forwarded-Host";
    XForwardedPort = "X-Forwarded-Port";
    XForwardedScheme = "X-Forwarded-Scheme";
    XForwardedPrefix = "X-Forwarded-Prefix";
    XScheme = "X-Scheme";
    XRealIp = "X-Real-IP";
    XRequestId = "X-Request-ID";
    XOriginalForwardedFor = "X-Original-Forwarded-For";
    XOriginalForwardedHost = "X-Original-Forwarded-Host";
    Origin = "Origin";
    UserAgent = "User-Agent";
    Referer = "Referer";
    Server = "Server";
    Date = "Date";
    Location = "Location";
    StrictTransportSecurity = "Strict-Transport-Security";
    SecWebsocketKey = "Sec-WebSocket-Key";
    AccessControlRequestMethod = "Access-Control-Request-Method";
    XPad = "X-Pad";
    XAccelBuffering = "X-Accel-Buffering";
    XAccelCharset = "X-Accel-Charset";
    XAccelExpires = "X-Accel-Expires";
    XAccelLimitRate = "X-Accel-Limit-Rate";
    XAccelRedirect = "X-Accel-Redirect";
    TraceParent = "traceparent";
    TraceState = "tracestate";
    B3 = "b3";
    XB3TraceId = "X-B3-TraceId";
    XB3SpanId = "X-B3-SpanId";
    XB3ParentSpanId = "X-B3-ParentSpanId";
    XB3Sampled = "X-B3-Sampled";
    XB3Flags = "X-B3-Flags";
}

impl Known {
    /// Looks up a name. `name` must be a token: only then is `|0x20` a valid lower case.
    #[inline]
    pub fn from_name(name: &[u8]) -> Known {
        use Known::*;
        let Some(&first) = name.first() else { return Other };
        match (name.len(), first | 0x20) {
            (2, b't') => pick(name, b"te", Te),
            (2, b'b') => pick(name, b"b3", B3),
            (4, b'h') => pick(name, b"host", Host),
            (4, b'd') => pick(name, b"date", Date),
            (5, b'p') => pick(name, b"proxy", Proxy),
            (5, b'x') => pick(name, b"x-pad", XPad),
            (6, b'e') => pick(name, b"expect", Expect),
            (6, b'o') => pick(name, b"origin", Origin),
            (6, b's') => pick(name, b"server", Server),
            (7, b'u') => pick(name, b"upgrade", Upgrade),
            (7, b't') => pick(name, b"trailer", Trailer),
            (7, b'r') => pick(name, b"referer", Referer),
            (8, b'l') => pick(name, b"location", Location),
            (8, b'x') => pick(name, b"x-scheme", XScheme),
            (9, b'f') => pick(name, b"forwarded", Forwarded),
            (9, b'x') => pick(name, b"x-real-ip", XRealIp),
            (10, b'c') => pick(name, b"connection", Connection),
            (10, b'k') => pick(name, b"keep-alive", KeepAlive),
            (10, b'u') => pick(name, b"user-agent", UserAgent),
            (10, b't') => pick(name, b"tracestate", TraceState),
            (11, b't') => pick(name, b"traceparent", TraceParent),
            (12, b'c') => pick(name, b"content-type", ContentType),
            (12, b'x') if name[2] | 0x20 == b'r' => pick(name, b"x-request-id", XRequestId),
            (14, b'c') => pick(name, b"content-length", ContentLength),
            (15, b'x') if name[14] | 0x20 == b'r' => pick(name, b"x-forwarded-for", XForwardedFor),
            _ => Known::of_long(name, first | 0x20),
        }
    }

    fn of_long(name: &[u8], first: u8) -> Known {
        use Known::*;
        match (name.len(), first, name[name.len() - 1] | 0x20) {
            (10, b'x', _) => pick(name, b"x-b3-flags", XB3Flags),
            (11, b'x', _) => pick(name, b"x-b3-spanid", XB3SpanId),
            (12, b'x', _) if same(name, b"x-b3-traceid") => XB3TraceId,
            (12, b'x', _) => pick(name, b"x-b3-sampled", XB3Sampled),
            (15, b'x', b't') => pick(name, b"x-accel-charset", XAccelCharset),
            (15, b'x', b's') => pick(name, b"x-accel-expires", XAccelExpires),
            (16, b'p', _) => pick(name, b"proxy-connection", ProxyConnection),
            (16, _, b't') if same(name, b"x-forwarded-host") => XForwardedHost,
            (16, _, b't') if same(name, b"x-forwarded-port") => XForwardedPort,
            (16, _, b't') => pick(name, b"x-accel-redirect", XAccelRedirect),
            (17, b't', _) => pick(name, b"transfer-encoding", TransferEncoding),
            (17, b'x', b'o') => pick(name, b"x-forwarded-proto", XForwardedProto),
            (17, b'x', b'g') => pick(name, b"x-accel-buffering", XAccelBuffering),
            (17, b'x', b'd') => pick(name, b"x-b3-parentspanid", XB3ParentSpanId),
            (17, b's', _) => pick(name, b"sec-websocket-key", SecWebsocketKey),
            (18, _, b'e') if same(name, b"x-forwarded-scheme") => XForwardedScheme,
            (18, _, b'e') => pick(name, b"x-accel-limit-rate", XAccelLimitRate),
            (18, _, b'x') => pick(name, b"x-forwarded-prefix", XForwardedPrefix),
            (24, b'x', _) => pick(name, b"x-original-forwarded-for", XOriginalForwardedFor),
            (25, b'x', _) => pick(name, b"x-original-forwarded-host", XOriginalForwardedHost),
            (25, b's', _) => pick(name, b"strict-transport-security", StrictTransportSecurity),
            (29, b'a', _) => pick(name, b"access-control-request-method", AccessControlRequestMethod),
            _ => Other,
        }
    }

    /// Hop-by-hop headers, removed from every forwarded message whether `Connection` names them or not (RFC 9110
    /// §7.6.1). `Proxy` has no meaning in HTTP, but becomes `HTTP_PROXY` in CGI.
    pub const HOP_BY_HOP: u64 = Known::Connection.bit()
        | Known::KeepAlive.bit()
        | Known::ProxyConnection.bit()
        | Known::Te.bit()
        | Known::Trailer.bit()
        | Known::TransferEncoding.bit()
        | Known::Upgrade.bit()
        | Known::Proxy.bit();

    /// Response headers that control nginx, which never forwards them (`proxy_hide_header`).
    pub const TO_NGINX: u64 = Known::XPad.bit()
        | Known::XAccelBuffering.bit()
        | Known::XAccelCharset.bit()
        | Known::XAccelExpires.bit()
        | Known::XAccelLimitRate.bit()
        | Known::XAccelRedirect.bit();

    /// The W3C Trace Context headers.
    pub const TRACE_CONTEXT: u64 = Known::TraceParent.bit() | Known::TraceState.bit();

    /// The B3 trace context headers, other than [`Known::B3`].
    pub const X_B3: u64 = Known::XB3TraceId.bit()
        | Known::XB3SpanId.bit()
        | Known::XB3ParentSpanId.bit()
        | Known::XB3Sampled.bit()
        | Known::XB3Flags.bit();

    /// Headers that describe the client to an endpoint. Fairway always overwrites them.
    pub const OF_THE_CLIENT: [Known; 7] = [
        Known::XForwardedFor,
        Known::XForwardedHost,
        Known::XForwardedPort,
        Known::XForwardedProto,
        Known::XForwardedScheme,
        Known::XScheme,
        Known::XRealIp,
    ];

    /// Whether Fairway writes this request header itself: [`Known::OF_THE_CLIENT`], and the headers that preserve what
    /// the client sent instead.
    #[must_use]
    pub fn is_of_the_client(self) -> bool {
        Self::OF_THE_CLIENT.contains(&self)
            || matches!(self, Known::XOriginalForwardedFor | Known::XOriginalForwardedHost)
    }

    /// Whether this header concerns the connection or the message framing: only the writer of the message may set it.
    #[inline]
    #[must_use]
    pub const fn is_of_one_hop(self) -> bool {
        self.bit() & (Self::HOP_BY_HOP | Known::ContentLength.bit()) != 0
    }

    /// Whether a field of this name may be a trailer: it does not concern routing, framing or one hop (RFC 9110
    /// §6.5.1).
    #[inline]
    #[must_use]
    pub const fn may_be_trailer(self) -> bool {
        matches!(self, Known::Other | Known::B3) || self.bit() & (Self::TRACE_CONTEXT | Self::X_B3) != 0
    }

    /// This name's bit in a set of names.
    #[inline]
    #[must_use]
    pub const fn bit(self) -> u64 {
        1 << self as u8
    }
}

#[inline]
fn pick<const N: usize>(name: &[u8], lower: &[u8; N], known: Known) -> Known {
    if same(name, lower) { known } else { Known::Other }
}

/// Compares without case, eight bytes at a time; `lower` is lower case. The last eight bytes overlap those before.
#[inline]
fn same<const N: usize>(name: &[u8], lower: &[u8; N]) -> bool {
    const CASE: u64 = u64::from_le_bytes([0x20; 8]);
    let Ok(name) = <&[u8; N]>::try_from(name) else { return false };
    let differs =
        |one: &[u8; 8], other: &[u8; 8]| (u64::from_le_bytes(*one) | CASE) ^ u64::from_le_bytes(*other);
    match (name.last_chunk::<8>(), lower.last_chunk::<8>()) {
        (Some(one), Some(other)) => {
            let (ones, others) = (name.as_chunks::<8>().0, lower.as_chunks::<8>().0);
            let pairs = ones.iter().zip(others);
            pairs.fold(differs(one, other), |all, (one, other)| all | differs(one, other)) == 0
        }
        _ => (0..N).fold(0, |differs, at| differs | ((name[at] | 0x20) ^ lower[at])) == 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::is_token;

    #[test]
    fn every_known_name_is_found_in_any_case() {
        for &known in Known::ALL {
            for name in [known.name().into(), known.name().to_lowercase(), known.name().to_uppercase()] {
                assert_eq!(Known::from_name(name.as_bytes()), known, "{name}");
            }
        }
    }

    #[test]
    fn one_wrong_byte_makes_it_another_name() {
        for &known in Known::ALL {
            for at in 0..known.name().len() {
                let mut name = known.name().as_bytes().to_vec();
                let right = name[at];
                let is_wrong = |byte: &u8| is_token(&[*byte]) && !byte.eq_ignore_ascii_case(&right);
                for wrong in (0..=255).filter(is_wrong) {
                    name[at] = wrong;
                    assert_eq!(Known::from_name(&name), Known::Other, "{name:?}");
                }
            }
            assert_eq!(Known::from_name(format!("{}s", known.name()).as_bytes()), Known::Other);
        }
        assert_eq!(Known::from_name(b""), Known::Other);
    }

    #[test]
    fn trailers_may_carry_trace_context_but_no_other_known_header() {
        let may: Vec<_> = Known::ALL.iter().filter(|known| known.may_be_trailer()).collect();
        assert_eq!(may.len(), 8, "{may:?}");
        assert!(Known::Other.may_be_trailer() && !Known::Host.may_be_trailer());
    }

    #[test]
    fn all_names_fit_a_64_bit_set() {
        assert!(Known::ALL.len() < 64);
    }
}
