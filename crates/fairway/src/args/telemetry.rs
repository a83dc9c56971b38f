//! The flags of `fairway run` for tracing and OTLP export.

use std::convert::Infallible;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use fairway_model::{Collector, OtlpProtocol, Propagation, SampleRatio, Tracing};
use fairway_telemetry::{Credentials, EndpointError, Headers, check_endpoint, read_certificates};

use super::durations::seconds;

/// The maximum size of a file with headers or certificates.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Tracing and OTLP export.
#[derive(Debug, Args)]
#[command(next_help_heading = "Telemetry (docs/observe.md)")]
pub(crate) struct TelemetryArgs {
    /// URL of the OpenTelemetry collector for traces and, if enabled, metrics and logs; such as http://collector:4317. The
    /// ConfigMap key otlp-collector-host takes precedence
    #[arg(long, env = "FAIRWAY_OTLP_ENDPOINT", value_name = "URL")]
    pub(crate) otlp_endpoint: Option<String>,
    /// Protocol of the collector: grpc, usually on port 4317, or http, usually on port 4318 [default: grpc]
    #[arg(long, env = "FAIRWAY_OTLP_PROTOCOL", value_name = "PROTOCOL", hide_possible_values = true)]
    pub(crate) otlp_protocol: Option<OtlpProtocolChoice>,
    /// Header for every request to the collector; may be repeated
    #[arg(long, env = "FAIRWAY_OTLP_HEADER", value_name = "NAME=VALUE", hide_env_values = true)]
    pub(crate) otlp_header: Vec<HiddenText>,
    /// File with such headers, one NAME=VALUE per line; use it for credentials
    #[arg(long, env = "FAIRWAY_OTLP_HEADERS_FILE", value_name = "FILE")]
    pub(crate) otlp_headers_file: Option<PathBuf>,
    /// PEM file with the CA certificates that verify an https collector [default: those of the system]
    #[arg(long, env = "FAIRWAY_OTLP_CA_FILE", value_name = "FILE")]
    pub(crate) otlp_ca_file: Option<PathBuf>,
    /// Attribute service.name of all exported telemetry [default: fairway]
    #[arg(long, env = "FAIRWAY_OTLP_SERVICE_NAME", value_name = "NAME")]
    pub(crate) otlp_service_name: Option<String>,
    /// Also export the metrics of /metrics, at this interval
    #[arg(long, env = "FAIRWAY_OTLP_METRICS_INTERVAL", value_name = "SECONDS", value_parser = metrics_interval)]
    pub(crate) otlp_metrics_interval: Option<Duration>,
    /// Also export the lines of the access log
    #[arg(long, env = "FAIRWAY_OTLP_LOGS")]
    pub(crate) otlp_logs: bool,
    /// Share of requests to trace, from 0 to 1, unless the settings ConfigMap or an object sets one
    /// [default: no request is traced]
    #[arg(long, env = "FAIRWAY_TRACE_SAMPLE_RATIO", value_name = "RATIO", value_parser = ratio)]
    pub(crate) trace_sample_ratio: Option<SampleRatio>,
    /// Follow the client's decision whether a request is traced; the ratio applies to requests without one [default: true]
    #[arg(long, env = "FAIRWAY_TRACE_PARENT_BASED", value_name = "true|false", hide_possible_values = true)]
    pub(crate) trace_parent_based: Option<bool>,
    /// Continue the traces of clients. false removes their trace headers and starts each trace at Fairway [default: true]
    #[arg(
        long,
        env = "FAIRWAY_TRACE_TRUST_INCOMING",
        value_name = "true|false",
        hide_possible_values = true
    )]
    pub(crate) trace_trust_incoming: Option<bool>,
    /// Headers that carry the trace context: w3c is traceparent, w3c-b3 is traceparent and B3 [default: w3c]
    #[arg(long, env = "FAIRWAY_TRACE_PROPAGATION", value_name = "HEADERS", hide_possible_values = true)]
    pub(crate) trace_propagation: Option<PropagationChoice>,
}

/// Values of `--otlp-protocol`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OtlpProtocolChoice {
    Grpc,
    Http,
}

/// Values of `--trace-propagation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PropagationChoice {
    #[value(name = "w3c")]
    W3c,
    #[value(name = "w3c-b3")]
    W3cAndB3,
}

/// A text that may be a secret; `Debug` does not show it.
#[derive(Clone)]
pub(crate) struct HiddenText(String);

impl FromStr for HiddenText {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for HiddenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<hidden>")
    }
}

/// The parsed flags, with the contents of the files they name.
pub(crate) struct TelemetryFlags {
    pub(crate) collector: Option<Arc<Collector>>,
    /// The headers and CA certificates for the collector.
    pub(crate) credentials: Credentials,
    /// The tracing defaults, which the settings ConfigMap and objects override.
    pub(crate) tracing: Option<Arc<Tracing>>,
}

impl TelemetryArgs {
    /// # Errors
    /// A flag cannot be used, or has no effect without another one.
    pub(crate) fn validate(&self, has_access_log: bool) -> Result<()> {
        self.collector()?;
        self.headers()?;
        let collector_flags = [
            (self.otlp_protocol.is_some(), "--otlp-protocol"),
            (!self.otlp_header.is_empty(), "--otlp-header"),
            (self.otlp_headers_file.is_some(), "--otlp-headers-file"),
            (self.otlp_service_name.is_some(), "--otlp-service-name"),
        ];
        if let (None, Some(flag)) = (&self.otlp_endpoint, first_given(collector_flags)) {
            bail!("{flag} without --otlp-endpoint: it applies to that collector only");
        }
        let is_secure = self.otlp_endpoint.as_ref().is_some_and(|url| is_https(url));
        if self.otlp_ca_file.is_some() && !is_secure {
            bail!("--otlp-ca-file without --otlp-endpoint https://...: there is no TLS connection to verify");
        }
        if self.otlp_logs && !has_access_log {
            bail!("--otlp-logs and --access-log off contradict each other: there are no lines to export");
        }
        let trace_flags = [
            (self.trace_parent_based.is_some(), "--trace-parent-based"),
            (self.trace_trust_incoming.is_some(), "--trace-trust-incoming"),
            (self.trace_propagation.is_some(), "--trace-propagation"),
        ];
        if let (None, Some(flag)) = (self.trace_sample_ratio, first_given(trace_flags)) {
            bail!(
                "{flag} without --trace-sample-ratio: the flags enable no tracing. --trace-sample-ratio 0 traces only the \
                 requests that clients trace"
            );
        }
        Ok(())
    }

    /// Parses the flags and reads the files that they name.
    ///
    /// # Errors
    /// A file cannot be used.
    pub(crate) fn read(&self) -> Result<TelemetryFlags> {
        let collector = self.collector()?;
        let mut headers = self.headers()?;
        if let Some(path) = &self.otlp_headers_file {
            let flag = || format!("--otlp-headers-file {}", path.display());
            let text = read_file(path).with_context(flag)?;
            let text = String::from_utf8(text).map_err(|_| anyhow!("{}: is not UTF-8", flag()))?;
            headers.add_lines(&text).map_err(|(line, error)| anyhow!("{}, line {line}: {error}", flag()))?;
        }
        let authorities = match &self.otlp_ca_file {
            None => None,
            Some(path) => {
                let flag = || format!("--otlp-ca-file {}", path.display());
                let pem = read_file(path).with_context(flag)?;
                Some(read_certificates(&pem).map_err(|error| anyhow!("{} {error}", flag()))?)
            }
        };
        let endpoint = collector.as_ref().map(|it| Arc::clone(&it.endpoint));
        let credentials = Credentials { endpoint, headers, authorities };
        Ok(TelemetryFlags { collector, credentials, tracing: self.tracing() })
    }

    /// The tracing settings; `None` without `--trace-sample-ratio`.
    fn tracing(&self) -> Option<Arc<Tracing>> {
        let ratio = self.trace_sample_ratio?;
        Some(Arc::new(Tracing {
            ratio,
            parent_based: self.trace_parent_based.unwrap_or(true),
            trust_incoming: self.trace_trust_incoming.unwrap_or(true),
            propagation: match self.trace_propagation {
                Some(PropagationChoice::W3cAndB3) => Propagation::W3cAndB3,
                Some(PropagationChoice::W3c) | None => Propagation::W3c,
            },
            span_name: None,
        }))
    }

    fn collector(&self) -> Result<Option<Arc<Collector>>> {
        let Some(url) = &self.otlp_endpoint else { return Ok(None) };
        let protocol = match self.otlp_protocol {
            Some(OtlpProtocolChoice::Http) => OtlpProtocol::Http,
            Some(OtlpProtocolChoice::Grpc) | None => OtlpProtocol::Grpc,
        };
        // The message does not show the URL, which may contain a password.
        check_endpoint(url, protocol).map_err(|error| {
            let instead = match error {
                EndpointError::UserInfo => "give credentials with --otlp-headers-file",
                EndpointError::Path => "remove the path, or use --otlp-protocol http",
                EndpointError::SignalPath => "remove the path of the signal",
                _ => "telemetry cannot be sent there",
            };
            anyhow!("--otlp-endpoint {error}: {instead}")
        })?;
        let mut collector = Collector { protocol, ..Collector::at(url.as_str()) };
        if let Some(name) = &self.otlp_service_name {
            if name.trim().is_empty() {
                bail!("--otlp-service-name is empty: collectors distinguish services by it");
            }
            collector.service_name = name.as_str().into();
        }
        Ok(Some(Arc::new(collector)))
    }

    fn headers(&self) -> Result<Headers> {
        let mut headers = Headers::default();
        for HiddenText(text) in &self.otlp_header {
            headers.add(text).map_err(|error| anyhow!("--otlp-header: {error}"))?;
        }
        Ok(headers)
    }
}

/// Whether the scheme is `https`. Schemes are case-insensitive.
fn is_https(url: &str) -> bool {
    url.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"))
}

/// The first flag that was given.
fn first_given<const N: usize>(flags: [(bool, &'static str); N]) -> Option<&'static str> {
    flags.into_iter().find_map(|(given, flag)| given.then_some(flag))
}

fn read_file(path: &Path) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        bail!("is larger than {MAX_FILE_BYTES} bytes");
    }
    Ok(text)
}

/// Parses an export interval between one second and one hour.
fn metrics_interval(text: &str) -> Result<Duration, String> {
    let interval = seconds(text)?;
    let (least, most) = (Duration::from_secs(1), Duration::from_secs(60 * 60));
    if (least..=most).contains(&interval) { Ok(interval) } else { Err("is not from 1 to 3600".to_owned()) }
}

fn ratio(text: &str) -> Result<SampleRatio, String> {
    let ratio = text.parse().ok().and_then(SampleRatio::new);
    ratio.ok_or_else(|| "is not a number from 0 (none) to 1 (all)".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::{Cli, Command, RunArgs};
    use super::*;

    fn parse(flags: &str) -> Result<Box<RunArgs>, String> {
        let line = format!("fairway run --manifests m {flags}");
        let cli = Cli::try_parse_from(line.split_whitespace()).map_err(|error| error.to_string())?;
        let Command::Run(run) = cli.command else { panic!() };
        Ok(run)
    }

    fn telemetry(flags: &str) -> TelemetryFlags {
        let run = parse(flags).unwrap();
        run.validated().unwrap();
        run.telemetry.read().unwrap()
    }

    /// The error message for the flags; empty if they are valid.
    fn problem(flags: &str) -> String {
        match parse(flags) {
            Err(error) => error,
            Ok(run) => run.validated().map_or_else(|error| error.to_string(), |_| String::new()),
        }
    }

    #[test]
    fn without_flags_nothing_is_traced_or_sent() {
        let flags = telemetry("");
        assert!(flags.collector.is_none() && flags.tracing.is_none() && flags.credentials.headers.is_empty());
    }

    #[test]
    fn the_flags_set_how_requests_are_traced() {
        let tracing = |flags: &str| Tracing::clone(&telemetry(flags).tracing.unwrap());
        let defaults = Tracing {
            ratio: SampleRatio::new(0.25).unwrap(),
            parent_based: true,
            trust_incoming: true,
            propagation: Propagation::W3c,
            span_name: None,
        };
        assert_eq!(tracing("--trace-sample-ratio 0.25"), defaults);
        let none = tracing("--trace-sample-ratio 0");
        assert_eq!(none, Tracing { ratio: SampleRatio::NONE, ..defaults.clone() });
        let other = "--trace-sample-ratio 0.25 --trace-parent-based false --trace-trust-incoming false \
                     --trace-propagation w3c-b3";
        let propagation = Propagation::W3cAndB3;
        let expected = Tracing { parent_based: false, trust_incoming: false, propagation, ..defaults };
        assert_eq!(tracing(other), expected);
    }

    #[test]
    fn the_flags_name_a_collector() {
        let collector = |flags: &str| Collector::clone(&telemetry(flags).collector.unwrap());
        assert_eq!(collector("--otlp-endpoint http://a:4317"), Collector::at("http://a:4317"));
        let other = collector("--otlp-endpoint https://a/otlp --otlp-protocol http --otlp-service-name edge");
        let expected = Collector {
            protocol: OtlpProtocol::Http,
            service_name: "edge".into(),
            ..Collector::at("https://a/otlp")
        };
        assert_eq!(other, expected);
    }

    #[test]
    fn headers_come_from_flags_and_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("headers");
        let file = path.display();
        std::fs::write(&path, "# ours\nx-tenant=a\n").unwrap();
        let flags = format!("--otlp-endpoint http://a:4317 --otlp-header b=c --otlp-headers-file {file}");
        let credentials = telemetry(&flags).credentials;
        assert_eq!(format!("{:?}", credentials.headers), "[\"b\", \"x-tenant\"]");
        assert_eq!(credentials.endpoint.as_deref(), Some("http://a:4317"));
        std::fs::write(&path, "a=b\ns3cret\n").unwrap();
        let run = parse(&flags).unwrap();
        let error = run.telemetry.read().map(|_| ()).unwrap_err().to_string();
        assert!(error.ends_with("headers, line 2: is not NAME=VALUE"), "{error}");
        assert!(!format!("{run:?}").contains("b=c"));
    }

    #[test]
    fn invalid_flags_are_reported_without_secrets() {
        for (flags, part) in [
            ("--otlp-endpoint collector:4317", "--otlp-endpoint is not a URL"),
            ("--otlp-endpoint ftp://a", "neither with http:// nor with https://"),
            ("--otlp-endpoint http://u:s3cret@a", "--otlp-endpoint has a user or password"),
            ("--otlp-endpoint http://a/v1?k=s3cret --otlp-protocol http", "has a query"),
            ("--otlp-endpoint http://a/x", "has a path, which gRPC does not use"),
            ("--otlp-endpoint http://a/v1/traces --otlp-protocol http", "ends with the path of a signal"),
            ("--otlp-endpoint http://a --otlp-header s3cret", "--otlp-header: is not NAME=VALUE"),
            ("--otlp-endpoint http://a --otlp-header host=s3cret", "host belongs to the protocol"),
            ("--otlp-header a=s3cret", "--otlp-header without --otlp-endpoint"),
            ("--otlp-headers-file f", "--otlp-headers-file without --otlp-endpoint"),
            ("--otlp-protocol http", "--otlp-protocol without --otlp-endpoint"),
            ("--otlp-service-name a", "--otlp-service-name without --otlp-endpoint"),
            ("--otlp-ca-file f", "--otlp-ca-file without --otlp-endpoint https"),
            ("--otlp-endpoint http://a --otlp-ca-file f", "--otlp-ca-file without --otlp-endpoint https"),
            ("--otlp-logs --access-log off", "--otlp-logs and --access-log off"),
            ("--otlp-metrics-interval 0.5", "is not from 1 to 3600"),
            ("--trace-sample-ratio 1.1", "is not a number from 0"),
            ("--trace-sample-ratio 10%", "is not a number from 0"),
            ("--trace-sample-ratio NaN", "is not a number from 0"),
            ("--trace-parent-based false", "--trace-parent-based without --trace-sample-ratio"),
            ("--trace-propagation b3", "--trace-propagation"),
        ] {
            let message = problem(flags);
            assert!(message.contains(part) && !message.contains("s3cret"), "{flags}: {message}");
        }
        for good in [
            "--otlp-logs --otlp-metrics-interval 15s",
            "--otlp-endpoint HTTPS://a:4317 --otlp-ca-file f",
            "--trace-sample-ratio 1",
        ] {
            assert_eq!(problem(good), "", "{good}");
        }
    }
}
