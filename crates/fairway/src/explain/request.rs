//! The request to explain, parsed as the data plane would parse it.

use anyhow::{Context, Result, anyhow, bail};
use fairway_http::{Head, Method, Target, parse_authority, path};
use fairway_routing::{Fields, Request};

/// `http` or `https`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// A request.
pub(super) struct RequestToExplain {
    pub(super) scheme: Scheme,
    /// Lower case, without a port.
    pub(super) host: String,
    /// The port of the URL, or the default port of its scheme.
    pub(super) port: u16,
    pub(super) method: String,
    pub(super) target: String,
    normalised: Vec<u8>,
    decoded: Vec<u8>,
    query: String,
    headers: Headers,
}

struct Headers(Vec<(String, String)>);

impl Fields for Headers {
    fn first(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_bytes())
    }
}

impl RequestToExplain {
    /// The request head as the data plane represents it.
    pub(super) fn head(&self) -> Head {
        let mut head = Head::new();
        head.start_request(self.method.as_bytes(), self.target.as_bytes());
        self.headers.0.iter().for_each(|(name, value)| head.append(name.as_bytes(), value.as_bytes()));
        head
    }

    /// Parses a URL as a client would; fragments are never sent.
    pub(super) fn read(url: &str, method: &str, headers: &[String]) -> Result<Self> {
        let url = url.split('#').next().unwrap_or(url);
        let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        let scheme = match url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase()).as_deref() {
            Some("https") => Scheme::Https,
            Some("http") => Scheme::Http,
            _ => bail!("{url}: only http and https URLs are served"),
        };
        let parsed =
            Target::parse(Method::Get, url.as_bytes()).map_err(|error| anyhow!("{url}: {error:?}"))?;
        let headers = headers.iter().map(|header| parse_header(header)).collect::<Result<Vec<_>>>()?;
        let named = headers.iter().find(|(name, _)| name == "host").map(|(_, value)| value.as_bytes());
        let authority = named.or(parsed.authority).with_context(|| format!("{url}: has no host"))?;
        let authority = parse_authority(authority).map_err(|error| anyhow!("{url}: the host: {error:?}"))?;
        let of_url = parsed.authority.and_then(|it| parse_authority(it).ok()).and_then(|it| it.port);
        let (mut normalised, mut decoded) = (Vec::new(), Vec::new());
        path::normalise(parsed.path, &mut normalised)
            .map_err(|error| anyhow!("{url}: the path: {error:?}"))?;
        path::decode(parsed.path, &mut decoded).map_err(|error| anyhow!("{url}: the path: {error:?}"))?;
        let query = String::from_utf8_lossy(parsed.query.unwrap_or_default()).into_owned();
        let path = String::from_utf8_lossy(parsed.path);
        let target = if parsed.query.is_some() { format!("{path}?{query}") } else { path.into_owned() };
        Ok(Self {
            scheme,
            port: of_url.unwrap_or(scheme.port()),
            host: authority.host.to_ascii_lowercase(),
            method: method.to_owned(),
            target,
            normalised,
            decoded,
            query,
            headers: Headers(headers),
        })
    }

    /// The request in the form that the lookup takes.
    pub(super) fn lookup_request(&self) -> Request<'_, impl Fields> {
        Request {
            host: &self.host,
            method: self.method.as_bytes(),
            normalised: &self.normalised,
            decoded: &self.decoded,
            query: self.query.as_bytes(),
            fields: &self.headers,
        }
    }
}

fn parse_header(text: &str) -> Result<(String, String)> {
    let (name, value) = text.split_once(':').with_context(|| format!("-H {text:?}: is not 'name: value'"))?;
    Ok((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_parsed_to_a_lookup_request() {
        let explained = RequestToExplain::read(
            "https://Shop.Example.com:8443/a%2Fb/../c?x=1#top",
            "GET",
            &["X-A: b".into()],
        )
        .unwrap();
        let request = explained.lookup_request();
        assert_eq!((request.host, explained.target.as_str()), ("shop.example.com", "/a%2Fb/../c?x=1"));
        assert_eq!((request.normalised, request.decoded), (&b"/c"[..], &b"/a/c"[..]));
        assert_eq!((request.query, request.fields.first("x-a")), (&b"x=1"[..], Some(&b"b"[..])));
        assert_eq!((explained.scheme.as_str(), explained.port), ("https", 8443));
        assert_eq!(RequestToExplain::read("http://a", "GET", &[]).unwrap().port, 80);
    }

    #[test]
    fn invalid_urls_and_headers_are_refused() {
        for (url, header) in
            [("ftp://a/", None), ("http://a b/", None), ("http:///x", None), ("http://a/", Some("bad"))]
        {
            let headers: Vec<_> = header.map(str::to_owned).into_iter().collect();
            assert!(RequestToExplain::read(url, "GET", &headers).is_err(), "{url}");
        }
    }
}
