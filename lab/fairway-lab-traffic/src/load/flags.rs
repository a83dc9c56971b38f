//! The flags of `fairway-lab load` that describe a request and its TLS, as hey, wrk2 and curl have them.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;

use super::plan::{Plan, TlsPlan, TlsVersion, Verify};

/// Where distributions keep their authorities.
const SYSTEM_ROOTS: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// What is asked for, where, and what a good answer is.
#[derive(Args)]
pub(super) struct RequestFlags {
    /// The method.
    #[arg(short = 'X', long = "method", default_value = "GET")]
    method: String,
    /// A field, `Name: value`; several times for several.
    #[arg(short = 'H', long = "header", value_name = "FIELD")]
    headers: Vec<String>,
    /// One more path beside that of the URL; they are asked for in turn.
    #[arg(long = "path")]
    paths: Vec<String>,
    /// The content of requests.
    #[arg(long, conflicts_with = "body_file")]
    body: Option<String>,
    /// A file with the content of requests.
    #[arg(long, value_name = "FILE")]
    body_file: Option<PathBuf>,
    /// Send X-Lab-Id with a value of its own in each request, by which backends find duplicates.
    #[arg(long)]
    ids: bool,
    /// Statuses that are no errors, e.g. 200 or 200-299,304.
    #[arg(long, default_value = "200-299", value_name = "LIST")]
    expect_status: String,
    /// A field that right answers have, `Name: value`; an answer without it is from the wrong route.
    #[arg(long, value_name = "FIELD")]
    expect_header: Option<String>,
    /// Connect to ADDR when the URL names HOST:PORT, as curl does.
    #[arg(long, value_name = "HOST:PORT:ADDR")]
    resolve: Option<String>,
    /// Connect to this address and port whatever the URL names; several times to share out connections.
    #[arg(long, value_name = "ADDR", conflicts_with = "resolve")]
    connect: Vec<SocketAddr>,
}

/// How TLS is spoken.
#[derive(Args)]
pub(super) struct TlsFlags {
    /// Only this version of TLS: 1.2 or 1.3.
    #[arg(long, value_name = "VERSION", value_parser = ["1.2", "1.3"])]
    tls_version: Option<String>,
    /// Only this cipher suite, by IANA's or OpenSSL's name; several times for several.
    #[arg(long, value_name = "NAME")]
    cipher: Vec<String>,
    /// Every handshake is a full one.
    #[arg(long)]
    no_resumption: bool,
    /// Take any certificate.
    #[arg(short = 'k', long, conflicts_with = "ca")]
    insecure: bool,
    /// A file with the authorities (PEM) that the certificate must come from, instead of the system's.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

impl RequestFlags {
    /// Addresses that are given instead of the URL's own.
    pub(super) fn addresses(&self, url: &str) -> anyhow::Result<Option<Vec<SocketAddr>>> {
        if !self.connect.is_empty() {
            return Ok(Some(self.connect.clone()));
        }
        let Some(resolve) = &self.resolve else { return Ok(None) };
        let wrong = || format!("--resolve {resolve:?} is not HOST:PORT:ADDR");
        let (host, rest) = resolve.split_once(':').with_context(wrong)?;
        let (port, address) = rest.split_once(':').with_context(wrong)?;
        let port: u16 = port.parse().with_context(wrong)?;
        let ip: IpAddr = address.trim_matches(['[', ']']).parse().with_context(wrong)?;
        let uri: http::Uri = url.parse().with_context(|| format!("{url:?} is no URL"))?;
        let usual = if uri.scheme_str() == Some("https") { 443 } else { 80 };
        let is_meant = uri.host() == Some(host) && uri.port_u16().unwrap_or(usual) == port;
        anyhow::ensure!(is_meant, "--resolve is for {host}:{port}, which is not what {url} names");
        Ok(Some(vec![SocketAddr::new(ip, port)]))
    }

    /// Sets the request and what is expected.
    pub(super) fn apply(&self, plan: &mut Plan) -> anyhow::Result<()> {
        plan.request.method.clone_from(&self.method);
        plan.request.paths.extend(self.paths.iter().cloned());
        plan.request.headers = self.headers.iter().map(|text| field(text)).collect::<anyhow::Result<_>>()?;
        if let Some(body) = &self.body {
            plan.request.body = body.clone().into();
        }
        if let Some(file) = &self.body_file {
            plan.request.body =
                std::fs::read(file).with_context(|| format!("--body-file {}", file.display()))?.into();
        }
        plan.request.ids = self.ids;
        plan.expect.statuses = statuses(&self.expect_status)?;
        plan.expect.header = self.expect_header.as_deref().map(field).transpose()?;
        Ok(())
    }
}

impl TlsFlags {
    /// One that was given and means nothing without TLS. `--insecure` asks for nothing that cleartext does not have.
    pub(super) fn given(&self) -> Option<&'static str> {
        [
            ("--tls-version", self.tls_version.is_some()),
            ("--cipher", !self.cipher.is_empty()),
            ("--no-resumption", self.no_resumption),
            ("--ca", self.ca.is_some()),
        ]
        .into_iter()
        .find_map(|(flag, is_given)| is_given.then_some(flag))
    }

    /// The plan of TLS.
    pub(super) fn plan(&self) -> anyhow::Result<TlsPlan> {
        let versions = match self.tls_version.as_deref() {
            Some("1.2") => vec![TlsVersion::Tls12],
            Some("1.3") => vec![TlsVersion::Tls13],
            _ => vec![TlsVersion::Tls12, TlsVersion::Tls13],
        };
        let verify = if self.insecure { Verify::Off } else { Verify::Roots(self.roots()?) };
        let (ciphers, resumption) = (self.cipher.clone(), !self.no_resumption);
        Ok(TlsPlan { versions, ciphers, resumption, verify, ..TlsPlan::default() })
    }

    fn roots(&self) -> anyhow::Result<String> {
        if let Some(file) = &self.ca {
            return std::fs::read_to_string(file).with_context(|| format!("--ca {}", file.display()));
        }
        SYSTEM_ROOTS.iter().find_map(|place| std::fs::read_to_string(place).ok()).context(
            "no authorities to verify the certificate with were found on this system: give --ca FILE, or --insecure",
        )
    }
}

fn field(text: &str) -> anyhow::Result<(String, String)> {
    let (name, value) = text.split_once(':').with_context(|| format!("{text:?} is not `Name: value`"))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn statuses(list: &str) -> anyhow::Result<Vec<RangeInclusive<u16>>> {
    list.split(',')
        .map(|item| {
            let (low, high) = item.trim().split_once('-').unwrap_or((item.trim(), item.trim()));
            let parse = |text: &str| {
                text.parse::<u16>()
                    .ok()
                    .filter(|status| (100..1_000).contains(status))
                    .with_context(|| format!("--expect-status {list:?}: {text:?} is no status"))
            };
            Ok(parse(low)?..=parse(high)?)
        })
        .collect()
}

/// A length of time with its unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let place = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(place);
    let number: f64 =
        number.parse().map_err(|_| format!("{text:?} is no length of time, e.g. 30s or 500ms"))?;
    let factor = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        "" => return Err(format!("{text:?} has no unit: us, ms, s, m or h")),
        _ => return Err(format!("{text:?}: the unit is us, ms, s, m or h")),
    };
    Duration::try_from_secs_f64(number * factor).map_err(|error| format!("{text:?}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_have_a_unit() {
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1_500)));
        assert_eq!(duration("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["10", "s", "-1s", "3 days", ""] {
            assert!(duration(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn lists_of_statuses_have_numbers_and_ranges() {
        assert_eq!(statuses("200-299, 304").unwrap(), [200..=299, 304..=304]);
        assert!(statuses("2xx").is_err() && statuses("").is_err() && statuses("99").is_err());
    }
}
