//! The request target and the authority of a request (RFC 9112 §3.2, §3.3). Normalisation is in `path`.

use memchr::{memchr, memmem};

use crate::authority::{Authority, parse_authority};
use crate::head::{Head, Known, Method, Version};
use crate::malformed::Malformed;
use crate::swar::any_byte;

/// The four forms of RFC 9112 §3.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetForm {
    /// `/path?query`
    Origin,
    /// `http://host/path?query`
    Absolute,
    /// `host:port`, CONNECT only.
    Authority,
    /// `*`, OPTIONS only.
    Asterisk,
}

/// A parsed request target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target<'a> {
    /// Which form it came in.
    pub form: TargetForm,
    /// `http` or `https` of the absolute form, as written.
    pub scheme: Option<&'a [u8]>,
    /// The authority of the absolute and authority forms, not checked yet.
    pub authority: Option<&'a [u8]>,
    /// The path: `/` if an absolute form has none, `*` for the asterisk form, empty for the authority form.
    pub path: &'a [u8],
    /// The text after `?`, if present.
    pub query: Option<&'a [u8]>,
}

impl<'a> Target<'a> {
    /// Parses a target. "#" would begin a fragment, which no form allows.
    #[inline]
    pub fn parse(method: Method, raw: &'a [u8]) -> Result<Self, Malformed> {
        if any_byte(raw, |bytes| bytes.invisible() | bytes.are(b'#')) {
            return Err(Malformed::TargetInvalid);
        }
        match (method, raw) {
            (Method::Connect, raw) => Target::authority_form(raw),
            (_, [b'/', ..]) => {
                let (path, query) = split_query(raw);
                Ok(Target { form: TargetForm::Origin, scheme: None, authority: None, path, query })
            }
            (Method::Options, b"*") => Ok(Target {
                form: TargetForm::Asterisk,
                scheme: None,
                authority: None,
                path: raw,
                query: None,
            }),
            _ => Target::absolute_form(method, raw),
        }
    }

    /// `uri-host ":" port`: "a client MUST send the port" (RFC 9112 §3.2.3).
    #[cold]
    fn authority_form(raw: &'a [u8]) -> Result<Self, Malformed> {
        match parse_authority(raw) {
            Ok(Authority { port: Some(_), .. }) => Ok(Target {
                form: TargetForm::Authority,
                scheme: None,
                authority: Some(raw),
                path: b"",
                query: None,
            }),
            _ => Err(Malformed::TargetInvalid),
        }
    }

    /// `scheme "://" authority path-abempty [ "?" query ]` with a supported scheme.
    #[cold]
    fn absolute_form(method: Method, raw: &'a [u8]) -> Result<Self, Malformed> {
        let colon = memmem::find(raw, b"://").ok_or(Malformed::TargetInvalid)?;
        let (scheme, rest) = (&raw[..colon], &raw[colon + 3..]);
        if !scheme.eq_ignore_ascii_case(b"http") && !scheme.eq_ignore_ascii_case(b"https") {
            return Err(Malformed::TargetInvalid);
        }
        let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
        let (path, query) = split_query(&rest[end..]);
        let path: &[u8] = match (path, query, method) {
            // OPTIONS without path and query concerns the whole server (RFC 9112 §3.2.4).
            ([], None, Method::Options) => b"*",
            ([], _, _) => b"/",
            _ => path,
        };
        let authority = Some(&rest[..end]);
        Ok(Target { form: TargetForm::Absolute, scheme: Some(scheme), authority, path, query })
    }
}

#[inline]
fn split_query(raw: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr(b'?', raw) {
        Some(at) => (&raw[..at], Some(&raw[at + 1..])),
        None => (raw, None),
    }
}

/// The authority of a request: that of the target, which takes precedence (RFC 9112 §3.2.2) but must agree with `Host`,
/// or the single `Host`.
///
/// "A server MUST respond with a 400 (Bad Request) status code to any HTTP/1.1 request message that lacks a Host header
/// field and to any request message that contains more than one Host header field line or a Host header field with an
/// invalid field value" (RFC 9112 §3.2). An empty value is for targets without an authority; an http URI always has one
/// (RFC 9110 §4.2.1), so only the asterisk form may have it.
#[inline]
pub fn request_authority<'a>(
    head: &'a Head,
    target: &Target<'a>,
) -> Result<Option<Authority<'a>>, Malformed> {
    let mut hosts = head.all(Known::Host);
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(Malformed::HostRepeated);
    }
    if host.is_none() && head.version() != Version::Http10 {
        return Err(Malformed::HostMissing);
    }
    let host = match host {
        Some(b"") if target.form == TargetForm::Asterisk => None,
        Some(host) => Some(parse_authority(host)?),
        None => None,
    };
    match target.authority {
        None => Ok(host),
        Some(raw) => agreed(parse_authority(raw)?, host, target.scheme).map(Some),
    }
}

/// The authority of the target, if `Host` is absent or names the same, ignoring a default port.
#[cold]
fn agreed<'a>(
    asked: Authority<'a>,
    host: Option<Authority<'_>>,
    scheme: Option<&[u8]>,
) -> Result<Authority<'a>, Malformed> {
    let default = match scheme {
        Some(scheme) if scheme.eq_ignore_ascii_case(b"https") => Some(443),
        Some(_) => Some(80),
        None => None,
    };
    match host {
        Some(host)
            if !host.host.eq_ignore_ascii_case(asked.host)
                || host.port.or(default) != asked.port.or(default) =>
        {
            Err(Malformed::HostDisagrees)
        }
        _ => Ok(asked),
    }
}

#[cfg(test)]
mod tests;
