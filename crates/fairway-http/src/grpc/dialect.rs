//! gRPC content types.

/// The gRPC dialect of a message, by its content type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Neither gRPC nor gRPC-Web.
    #[default]
    None,
    /// gRPC: the status is in the trailers.
    Native,
    /// gRPC-Web: the status is the last frame of the body.
    Web,
    /// gRPC-Web in base64.
    WebText,
}

const GRPC: &[u8] = b"application/grpc";

impl Dialect {
    /// The dialect of this content type, in any case and with any message format or parameters.
    #[must_use]
    pub fn from_content_type(content_type: &[u8]) -> Self {
        split(content_type).map_or(Self::None, |(dialect, _)| dialect)
    }

    /// Whether it is a gRPC call.
    #[must_use]
    pub fn is_grpc(self) -> bool {
        self != Self::None
    }

    /// Whether it is gRPC-Web.
    #[must_use]
    pub fn is_web(self) -> bool {
        matches!(self, Self::Web | Self::WebText)
    }

    /// The content type without a message format; empty for none.
    #[must_use]
    pub fn content_type(self) -> &'static [u8] {
        match self {
            Self::None => b"",
            Self::Native => GRPC,
            Self::Web => b"application/grpc-web",
            Self::WebText => b"application/grpc-web-text",
        }
    }
}

/// The content type in another dialect; message format and parameters stay.
#[must_use]
pub fn with_dialect(content_type: &[u8], to: Dialect) -> Vec<u8> {
    let rest = split(content_type).map_or(&b""[..], |(_, rest)| rest);
    [to.content_type(), rest].concat()
}

/// The dialect, and the rest of the content type.
fn split(content_type: &[u8]) -> Option<(Dialect, &[u8])> {
    let rest = behind(content_type, GRPC)?;
    let (dialect, rest) = match behind(rest, b"-web") {
        None => (Dialect::Native, rest),
        Some(rest) => match behind(rest, b"-text") {
            None => (Dialect::Web, rest),
            // An encoding may be named; there is only one.
            Some(rest) => (Dialect::WebText, behind(rest, b"-base64").unwrap_or(rest)),
        },
    };
    matches!(rest.first(), None | Some(b'+' | b';' | b' ' | b'\t')).then_some((dialect, rest))
}

fn behind<'t>(text: &'t [u8], beginning: &[u8]) -> Option<&'t [u8]> {
    let (head, rest) = text.split_at_checked(beginning.len())?;
    head.eq_ignore_ascii_case(beginning).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_types_are_known_in_any_case_with_formats_and_parameters() {
        for (content_type, dialect) in [
            ("application/grpc", Dialect::Native),
            ("Application/GRPC+Proto", Dialect::Native),
            ("application/grpc; charset=utf-8", Dialect::Native),
            ("application/grpc ;x", Dialect::Native),
            ("application/grpc-web", Dialect::Web),
            ("application/grpc-Web+proto", Dialect::Web),
            ("application/grpc-web-text", Dialect::WebText),
            ("application/grpc-web-text+proto;x=y", Dialect::WebText),
            ("application/grpc-web-text-base64", Dialect::WebText),
            ("application/grpcweb", Dialect::None),
            ("application/grpc-web-tex", Dialect::None),
            ("application/grpc-", Dialect::None),
            ("application/grp", Dialect::None),
            ("application/json", Dialect::None),
            ("", Dialect::None),
        ] {
            assert_eq!(Dialect::from_content_type(content_type.as_bytes()), dialect, "{content_type}");
        }
    }

    #[test]
    fn another_dialect_keeps_format_and_parameters() {
        for (from, to, expected) in [
            ("application/grpc-web+proto", Dialect::Native, "application/grpc+proto"),
            ("APPLICATION/grpc-web-text", Dialect::Native, "application/grpc"),
            ("application/grpc+json; x=y", Dialect::WebText, "application/grpc-web-text+json; x=y"),
            ("application/grpc", Dialect::Web, "application/grpc-web"),
        ] {
            assert_eq!(with_dialect(from.as_bytes(), to), expected.as_bytes());
        }
    }
}
