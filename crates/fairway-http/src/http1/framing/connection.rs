//! Hop-by-hop fields: persistence, connection options, expectations, upgrades (RFC 9110 §7.6.1, §7.8, §10.1.1; RFC 9112
//! §9.3). Which upgrades a route allows is decided elsewhere.

use crate::bytes::trimmed;
use crate::{Head, Known, Malformed, Version};

/// Fields that naming them in `Connection` does not remove: the authority, the body length, the fields used to block
/// clients, and what trusted proxies say about the client. A client must not be able to remove those from its own
/// request.
const NEVER_NAMED: u64 = Known::Host.bit()
    | Known::ContentLength.bit()
    | Known::UserAgent.bit()
    | Known::Referer.bit()
    | Known::Forwarded.bit()
    | Known::XForwardedFor.bit()
    | Known::XForwardedProto.bit()
    | Known::XForwardedHost.bit()
    | Known::XForwardedPort.bit()
    | Known::XForwardedScheme.bit()
    | Known::XForwardedPrefix.bit()
    | Known::XScheme.bit()
    | Known::XRealIp.bit()
    | Known::XRequestId.bit()
    | Known::XOriginalForwardedFor.bit()
    | Known::XOriginalForwardedHost.bit();

/// Whether the connection persists after this message (RFC 9112 §9.3): `close` ends it, HTTP/1.1 persists, HTTP/1.0
/// persists with `keep-alive`.
///
/// A 204 that declares a body ends it as well: what the sender will send cannot be known (RFC 9112 §6.1, RFC 9110 §8.6:
/// it must not declare one).
#[inline]
pub fn keep_alive(head: &Head) -> bool {
    if head.status() == 204 && declares_body(head) {
        return false;
    }
    if !head.may_have(Known::Connection.bit()) {
        return head.version() == Version::Http11;
    }
    !connection_has(head, b"close")
        && (head.version() == Version::Http11 || connection_has(head, b"keep-alive"))
}

fn declares_body(head: &Head) -> bool {
    head.first(Known::TransferEncoding).is_some()
        || head.first(Known::ContentLength).is_some_and(|n| n != b"0")
}

/// Whether a `Connection` field has this option, in any case.
#[inline]
pub fn connection_has(head: &Head, token: &[u8]) -> bool {
    head.all(Known::Connection).any(|value| {
        value.eq_ignore_ascii_case(token) || options(value).any(|option| option.eq_ignore_ascii_case(token))
    })
}

fn options(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(trimmed).filter(|option| !option.is_empty())
}

/// Removes hop-by-hop fields: the standard ones and those named in `Connection` (RFC 9110 §7.6.1), except those that
/// must always be forwarded. The named ones remain among the received fields ([`Head::received_fields`]).
///
/// Call it after reading the framing, the persistence and the upgrade, and before adding our own fields.
pub fn strip_hop_by_hop(head: &mut Head) {
    if names_fields(head) {
        strip_named(head);
    }
    head.remove_hop_by_hop();
}

/// Whether there are options other than the usual ones, which name no field or one that is removed anyway.
fn names_fields(head: &Head) -> bool {
    let usual: [&[u8]; 4] = [b"keep-alive", b"close", b"upgrade", b"te"];
    let is_usual = |option: &[u8]| usual.iter().any(|usual| option.eq_ignore_ascii_case(usual));
    head.all(Known::Connection).any(|value| options(value).any(|option| !is_usual(option)))
}

fn strip_named(head: &mut Head) {
    let mut named = Vec::new();
    for value in head.all(Known::Connection) {
        named.extend_from_slice(value);
        named.push(b',');
    }
    head.nominate(|field| {
        field.known.bit() & NEVER_NAMED == 0
            && options(&named).any(|option| option.eq_ignore_ascii_case(field.name))
    });
}

/// Whether the client waits for a 100 (Continue). "A server that receives a 100-continue expectation in an HTTP/1.0
/// request MUST ignore that expectation"; any other expectation is refused with 417 (RFC 9110 §10.1.1).
#[inline]
pub fn expects_continue(head: &Head) -> Result<bool, Malformed> {
    if head.version() == Version::Http10 || !head.may_have(Known::Expect.bit()) {
        return Ok(false);
    }
    let mut expects = false;
    for value in head.all(Known::Expect) {
        if !value.eq_ignore_ascii_case(b"100-continue") {
            return Err(Malformed::ExpectationUnsupported);
        }
        expects = true;
    }
    Ok(expects)
}

/// The requested protocol, if `Connection: upgrade` is present. "A server MUST ignore an Upgrade header field that is
/// received in an HTTP/1.0 request" (RFC 9110 §7.8); a repeated field is ignored too.
#[inline]
pub fn upgrade_to(head: &Head) -> Option<&[u8]> {
    let mut values = head.all(Known::Upgrade);
    let protocol = values.next()?;
    let alone = values.next().is_none();
    (alone && head.version() == Version::Http11 && connection_has(head, b"upgrade")).then_some(protocol)
}
