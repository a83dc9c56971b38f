//! Fairway's own responses to gRPC clients: the gRPC status of each fault, in a response without messages.

use fairway_http::grpc::{Code, Dialect, Encoder, read_status, trailer_line, trailer_prefix, write_message};
use fairway_http::{Head, Known, Malformed, Version};

use crate::fault::Fault;

/// The state of a gRPC call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Call {
    /// The dialect of its responses.
    pub dialect: Dialect,
    /// `grpc-status`, once it is known.
    pub status: Option<u32>,
}

/// The gRPC dialect of a head.
#[inline]
pub(crate) fn dialect_of(head: &Head) -> Dialect {
    head.first(Known::ContentType).map_or(Dialect::None, Dialect::from_content_type)
}

/// The dialect of the responses to a request. A gRPC-Web client may ask for text or binary, whatever it sends itself.
#[inline]
pub(crate) fn response_dialect(request: &Head, dialect: Dialect) -> Dialect {
    if !dialect.is_web() {
        return dialect;
    }
    let accepted = request.named(b"Accept").map_or(Dialect::None, Dialect::from_content_type);
    if accepted.is_web() { accepted } else { dialect }
}

/// The `grpc-status` in the headers or trailers of a response.
pub(crate) fn status_of<'a>(mut fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Option<u32> {
    let status = fields.find(|(name, _)| name.eq_ignore_ascii_case(b"grpc-status"));
    status.and_then(|(_, value)| read_status(value))
}

/// The gRPC status of a fault. Without a better one, it is what a client would derive from the HTTP status
/// (http-grpc-status-mapping.md).
pub(crate) fn status_code(fault: Fault) -> Code {
    match fault {
        // The client ended the call itself, or stalled.
        Fault::ClientGone | Fault::ClientStalled | Fault::ClientTimeout => Code::Cancelled,
        // The deadline was the client's own, or the rule's.
        Fault::DeadlineExceeded | Fault::RequestTimeout => Code::DeadlineExceeded,
        // "some resource has been exhausted": the room for a message or its head, or what one client may use.
        Fault::BodyTooLarge
        | Fault::Malformed(
            Malformed::HeadTooLarge
            | Malformed::TooManyFields
            | Malformed::ConnectionTooLong
            | Malformed::StartLineTooLong,
        )
        | Fault::TooManyRequests(_)
        | Fault::TooMuchUnderWay(_) => Code::ResourceExhausted,
        // No such method is served here.
        Fault::Unsupported | Fault::MethodNotAllowed | Fault::NoListener | Fault::NoRoute => {
            Code::Unimplemented
        }
        // The caller is not authenticated.
        Fault::CertificateMissing | Fault::CertificateRefused => Code::Unauthenticated,
        // Another connection can serve it.
        Fault::Misdirected => Code::Unavailable,
        // The call had no effect and may succeed later. Gateway API asks for this where a rule names no backend
        // (GRPCRoute, `backendRefs`).
        Fault::NoBackend
        | Fault::NoEndpoint
        | Fault::EndpointsFull
        | Fault::BackendFull(_)
        | Fault::ProtectionUnavailable
        | Fault::ExtensionUnavailable
        | Fault::MissingReference
        | Fault::Undecided
        | Fault::ExtensionFailed
        | Fault::KeysUnavailable
        | Fault::ProviderUnavailable
        | Fault::ListenerFull
        | Fault::BufferFull
        | Fault::Overloaded
        | Fault::LocalShortage
        | Fault::Drained => Code::Unavailable,
        // No response: like a broken connection of gRPC itself.
        Fault::ConnectFailed
        | Fault::ConnectTimeout
        | Fault::UpstreamTls
        | Fault::UpstreamClosed
        | Fault::UpstreamUnreachable
        | Fault::UpstreamTruncated
        | Fault::UpstreamTimeout => Code::Unavailable,
        // The response is broken; a retry would not help.
        Fault::UpstreamMalformed(_) | Fault::UpstreamNoWebsocket => Code::Internal,
        // The same as a client derives from HTTP.
        Fault::Malformed(_)
        | Fault::AccessDenied
        | Fault::AddressUnknown
        | Fault::Denied(_)
        | Fault::Credential(_) => Code::of_http(fault.status()),
    }
}

/// Converts a response of Fairway's own for a gRPC client: without messages, with the gRPC status, and its text as the message.
/// Other headers are kept. Successful responses are not changed.
pub(crate) fn convert_response(
    response: &mut Head,
    text: &mut Vec<u8>,
    call: &mut Call,
    fault: Option<Fault>,
) {
    if call.dialect == Dialect::None || response.status() < 300 {
        return;
    }
    let code = fault.map_or_else(|| Code::of_http(response.status()), status_code);
    call.status = Some(code.number());
    response.set_status(200);
    response.set(Known::ContentType.name().as_bytes(), call.dialect.content_type());
    let message = std::mem::take(text);
    let fields = status_fields(code, message.trim_ascii_end());
    if call.dialect == Dialect::Native {
        fields.iter().for_each(|(name, value)| response.append(name.as_bytes(), value));
        return;
    }
    let mut lines = Vec::new();
    fields.iter().for_each(|(name, value)| trailer_line(name.as_bytes(), value, &mut lines));
    let mut encoder = Encoder::new(call.dialect == Dialect::WebText);
    let written = write_trailers(&mut encoder, &lines, |bytes| {
        text.extend_from_slice(bytes);
        Ok::<_, std::convert::Infallible>(())
    });
    written.unwrap_or_else(|never| match never {});
}

/// The headers or trailers that end a call with this status.
pub(crate) fn status_fields(code: Code, message: &[u8]) -> [(&'static str, Vec<u8>); 2] {
    let mut encoded = Vec::new();
    write_message(message, &mut encoded);
    [("grpc-status", code.number().to_string().into_bytes()), ("grpc-message", encoded)]
}

/// Writes trailer lines as the last frame.
pub(crate) fn write_trailers<E>(
    encoder: &mut Encoder,
    lines: &[u8],
    mut sink: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    encoder.write(&trailer_prefix(lines), &mut sink)?;
    encoder.write(lines, &mut sink)
}

/// Whether an empty response needs a `Content-Length`: native gRPC over HTTP/2 and HTTP/3 ends with its head.
pub(crate) fn needs_length(call: &Call, version: Version) -> bool {
    call.dialect != Dialect::Native || !version.has_streams()
}

#[cfg(test)]
mod tests {
    use fairway_connection::upstream::LimitReached;

    use super::*;
    use crate::fault::Denial;

    /// Every fault, with the values that make a difference.
    fn all() -> Vec<Fault> {
        let mut all = vec![
            Fault::ClientGone,
            Fault::ClientTimeout,
            Fault::ClientStalled,
            Fault::BodyTooLarge,
            Fault::Unsupported,
            Fault::MethodNotAllowed,
            Fault::NoListener,
            Fault::NoRoute,
            Fault::NoBackend,
            Fault::NoEndpoint,
            Fault::EndpointsFull,
            Fault::BackendFull(LimitReached::Requests),
            Fault::BackendFull(LimitReached::Concurrency),
            Fault::BackendFull(LimitReached::Connections),
            Fault::BackendFull(LimitReached::Pending),
            Fault::ProtectionUnavailable,
            Fault::ExtensionUnavailable,
            Fault::MissingReference,
            Fault::AccessDenied,
            Fault::AddressUnknown,
            Fault::CertificateMissing,
            Fault::CertificateRefused,
            Fault::Misdirected,
            Fault::TooManyRequests(503),
            Fault::TooMuchUnderWay(429),
            Fault::Denied(401),
            Fault::Denied(403),
            Fault::Undecided,
            Fault::ExtensionFailed,
            Fault::KeysUnavailable,
            Fault::ProviderUnavailable,
            Fault::ConnectFailed,
            Fault::ConnectTimeout,
            Fault::UpstreamTls,
            Fault::UpstreamClosed,
            Fault::UpstreamUnreachable,
            Fault::UpstreamTruncated,
            Fault::UpstreamTimeout,
            Fault::DeadlineExceeded,
            Fault::RequestTimeout,
            Fault::UpstreamMalformed(Malformed::StatusLine),
            Fault::UpstreamNoWebsocket,
            Fault::ListenerFull,
            Fault::BufferFull,
            Fault::Overloaded,
            Fault::LocalShortage,
            Fault::Drained,
        ];
        all.extend(Denial::all().map(Fault::Credential));
        all.extend(Malformed::ALL.iter().copied().map(Fault::Malformed));
        all
    }

    #[test]
    fn every_fault_has_the_status_that_the_documentation_says() {
        let text = include_str!("../../../docs/grpc.md");
        let row = |label: &str, status: &str| {
            let begins = |line: &str| line.contains(&format!("`{label}`"));
            text.lines().any(|line| line.starts_with(&format!("| `{status}` |")) && begins(line))
        };
        for fault in all() {
            let status = Code::name_of(status_code(fault).number());
            let label = match fault {
                Fault::Malformed(rule) if status_code(fault) == Code::of_http(rule.status()) => continue,
                Fault::Denied(status) => format!("{} {status}", fault.label()),
                _ => fault.label().to_owned(),
            };
            assert!(row(&label, status), "{label} is {status}");
        }
    }

    #[test]
    fn no_fault_was_forgotten_here() {
        let labels = include_str!("fault.rs").lines().filter(|line| line.contains("=> \""));
        for label in labels.filter_map(|line| line.split('"').nth(1)) {
            assert!(all().iter().any(|fault| fault.label() == label), "{label}");
        }
    }
}
