//! Finds the credential of a request: in a header, a cookie or a query parameter.

use fairway_model::CredentialLocation;

use crate::buffers::Buffers;
use crate::request::validation::Intake;

/// The credential at the first location that has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Credential<'b> {
    /// No location has one.
    Absent,
    /// This.
    Found(&'b [u8]),
    /// More than one: other parties might read another one.
    Ambiguous,
}

/// Finds the credential of the request in the buffers.
pub(crate) fn find<'b>(
    locations: &'b [CredentialLocation],
    intake: &Intake,
    buffers: &'b Buffers,
) -> Credential<'b> {
    let candidates = locations.iter().map(|location| match location {
        CredentialLocation::Header { name, prefix } => {
            let values = buffers.request.all_named(name.as_bytes());
            only_value(values.filter_map(|value| strip_scheme(value, prefix.as_bytes())))
        }
        CredentialLocation::Cookie(name) => {
            let lines = buffers.request.all_named(b"Cookie");
            only_value(lines.flat_map(|line| values(line, b';', name.as_bytes())))
        }
        CredentialLocation::Query(name) => only_value(values(intake.query(buffers), b'&', name.as_bytes())),
    });
    let mut found = candidates.filter(|credential| *credential != Credential::Absent);
    found.next().unwrap_or(Credential::Absent)
}

fn only_value<'b>(mut values: impl Iterator<Item = &'b [u8]>) -> Credential<'b> {
    match (values.next(), values.next()) {
        (None, _) => Credential::Absent,
        (Some(value), None) => Credential::Found(value),
        (Some(_), Some(_)) => Credential::Ambiguous,
    }
}

/// The value after a prefix and spaces (RFC 9110 §11.4); schemes are case-insensitive (§11.1).
pub(super) fn strip_scheme<'b>(value: &'b [u8], prefix: &[u8]) -> Option<&'b [u8]> {
    let (start, rest) = value.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then(|| rest.trim_ascii())
}

/// The values of a name in a list of pairs.
fn values<'b>(list: &'b [u8], separator: u8, name: &'b [u8]) -> impl Iterator<Item = &'b [u8]> {
    let pairs = list.split(move |byte| *byte == separator).map(<[u8]>::trim_ascii);
    pairs.filter_map(move |pair| pair.strip_prefix(name)?.strip_prefix(b"="))
}
