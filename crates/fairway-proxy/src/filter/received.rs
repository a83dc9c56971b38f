//! Rewrites headers of endpoints' responses that name hosts and paths: `Set-Cookie`, `Location`, `Refresh`.

use fairway_model::{CookieRewrite, LocationRewrite, Replacement, UpstreamResponseEdit};
use fairway_routing::CompiledRule;

use crate::buffers::Buffers;
use crate::request::client::Client;

/// Runs the steps for the response heads of endpoints.
#[inline]
pub(crate) fn on_received(rule: &CompiledRule, client: &Client, buffers: &mut Buffers) {
    for step in &rule.steps().responses.received {
        match step {
            // `remove_hidden_headers` has already removed them.
            UpstreamResponseEdit::Hide(_) => {}
            UpstreamResponseEdit::Cookies(rewrite) => rewrite_cookies(rewrite, buffers),
            UpstreamResponseEdit::Location(rewrite) => rewrite_locations(rewrite, client, buffers),
        }
        buffers.text.clear();
    }
}

fn rewrite_cookies(rewrite: &CookieRewrite, buffers: &mut Buffers) {
    let Buffers { response, text, .. } = buffers;
    response.change_each(b"Set-Cookie", text, |cookie, out| rewrite_cookie(rewrite, cookie, out));
}

/// Writes the cookie with its new attributes; returns whether any changed. The text up to the first semicolon is name and value
/// (RFC 6265 §5.2).
fn rewrite_cookie(rewrite: &CookieRewrite, cookie: &[u8], out: &mut Vec<u8>) -> bool {
    let mut changed = false;
    for (number, part) in cookie.split(|byte| *byte == b';').enumerate() {
        if number > 0 {
            out.push(b';');
        }
        let equals = part.iter().position(|byte| *byte == b'=').filter(|_| number > 0);
        let Some(equals) = equals else {
            out.extend_from_slice(part);
            continue;
        };
        let (name, value) = (part[..equals].trim_ascii(), part[equals + 1..].trim_ascii());
        let start = out.len();
        out.extend_from_slice(&part[..=equals]);
        let replaced = if name.eq_ignore_ascii_case(b"domain") {
            rewrite.domain.as_ref().is_some_and(|domain| replace_domain(domain, value, out))
        } else {
            name.eq_ignore_ascii_case(b"path")
                && rewrite.path.as_ref().is_some_and(|path| replace_start(path, value, out))
        };
        if !replaced {
            out.truncate(start);
            out.extend_from_slice(part);
        }
        changed |= replaced;
    }
    changed
}

/// Replaces a domain; a leading dot is kept.
fn replace_domain(replacement: &Replacement, domain: &[u8], out: &mut Vec<u8>) -> bool {
    let bare = domain.strip_prefix(b".").unwrap_or(domain);
    if !bare.eq_ignore_ascii_case(replacement.from.as_bytes()) {
        return false;
    }
    out.extend_from_slice(&domain[..domain.len() - bare.len()]);
    out.extend_from_slice(replacement.to.as_bytes());
    true
}

fn replace_start(replacement: &Replacement, text: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(rest) = text.strip_prefix(replacement.from.as_bytes()) else { return false };
    out.extend_from_slice(replacement.to.as_bytes());
    out.extend_from_slice(rest);
    true
}

fn rewrite_locations(rewrite: &LocationRewrite, client: &Client, buffers: &mut Buffers) {
    let Buffers { response, text, host, .. } = buffers;
    response.change_each(b"Location", text, |location, out| {
        if rewrite.absolute
            && rewrite.url.to.starts_with('/')
            && location.starts_with(rewrite.url.from.as_bytes())
        {
            for part in [client.scheme.as_str(), "://", host.as_str()] {
                out.extend_from_slice(part.as_bytes());
            }
            if client.link_port != client.scheme.default_port() {
                out.push(b':');
                out.extend_from_slice(itoa::Buffer::new().format(client.link_port).as_bytes());
            }
        }
        replace_start(&rewrite.url, location, out)
    });
    response.change_each(b"Refresh", text, |refresh, out| {
        const URL: &[u8] = b"url=";
        let Some(at) = refresh.windows(URL.len()).position(|it| it.eq_ignore_ascii_case(URL)) else {
            return false;
        };
        let (before, url) = refresh.split_at(at + URL.len());
        out.extend_from_slice(before);
        replace_start(&rewrite.url, url, out)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewrite(domain: Option<(&str, &str)>, path: Option<(&str, &str)>) -> CookieRewrite {
        let replacement = |(from, to): (&str, &str)| Replacement { from: from.into(), to: to.into() };
        CookieRewrite { domain: domain.map(replacement), path: path.map(replacement) }
    }

    #[test]
    fn attributes_are_replaced_and_all_else_stays() {
        let both = rewrite(Some(("inner.test", "outer.test")), Some(("/", "/app/")));
        for (cookie, expected) in [
            ("a=b; Path=/; Domain=inner.test", Some("a=b; Path=/app/; Domain=outer.test")),
            ("a=b; domain=.INNER.test;Secure", Some("a=b; domain=.outer.test;Secure")),
            ("a=b; PATH = /x ; HttpOnly", Some("a=b; PATH =/app/x; HttpOnly")),
            ("path=/; Domain=sub.inner.test", None),
            ("a=/; Max-Age=1", None),
            ("", None),
        ] {
            let mut out = Vec::new();
            let changed = rewrite_cookie(&both, cookie.as_bytes(), &mut out);
            let found = changed.then(|| String::from_utf8(out).unwrap());
            assert_eq!(found.as_deref(), expected, "{cookie}");
        }
    }
}
