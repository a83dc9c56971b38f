//! The flags of `fairway run`, and what they must not say together.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use fairway_control::admin::Healthz;
use fairway_model::DownstreamSettings;
use fairway_objects::options::{ClientDefaults, LogFormatChoice, LoopbackEndpoints, Options, Places};
use fairway_proxy::{AccessLogFormat, DrainOptions, RecorderOptions};

use super::addresses::AddressArgs;
use super::gateways::GatewayPlaceArgs;
use super::limits::LimitArgs;
use super::place::PlaceArgs;
use super::seconds::seconds;
use super::source::{ReportArgs, Source, SourceArgs};
use super::telemetry::TelemetryArgs;
use super::translation::TranslationArgs;
use crate::own_addresses;

/// Serves traffic by a cluster's objects or the manifests in a directory, and follows their changes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fairway run --manifests ./manifests
  fairway run --kubernetes --publish-service ingress/fairway --state-dir /var/lib/fairway
  fairway run --manifests ./manifests --http 0.0.0.0:80 --https 0.0.0.0:443 --access-log json
  FAIRWAY_MANIFESTS=./manifests fairway run

The first SIGTERM or SIGINT drains (see --drain-delay, --drain-timeout), a second one ends the process at once.")]
pub(crate) struct RunArgs {
    /// Where configuration comes from
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// What is written to the cluster
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    /// Where traffic arrives
    #[command(flatten)]
    pub(crate) listen: ListenArgs,
    /// Where Fairway runs
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// What objects mean
    #[command(flatten)]
    pub(crate) translation: TranslationArgs,
    /// Where Gateways are in a cluster
    #[command(flatten)]
    pub(crate) gateways: GatewayPlaceArgs,
    /// What is known of client addresses
    #[command(flatten)]
    pub(crate) geoip: GeoIpArgs,
    /// What is written to the standard output
    #[command(flatten)]
    pub(crate) logs: LogArgs,
    /// What is remembered of the last requests
    #[command(flatten)]
    pub(crate) recorder: RecorderArgs,
    /// Which requests are traced, and where telemetry goes
    #[command(flatten)]
    pub(crate) telemetry: TelemetryArgs,
    /// How the process stops
    #[command(flatten)]
    pub(crate) drain: DrainArgs,
    /// Limits
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
}

/// Where traffic arrives.
#[derive(Debug, Args)]
#[command(next_help_heading = "Where traffic arrives")]
pub(crate) struct ListenArgs {
    /// The addresses that the process binds
    #[command(flatten)]
    pub(crate) addresses: AddressArgs,
    /// When /healthz returns 200: alive, while the process lives; ready, from the first served configuration until the process
    /// gets a signal to stop, for manifests of ingress-nginx, which probe no other path
    #[arg(long, env = "FAIRWAY_HEALTHZ", value_name = "WHEN", default_value = "alive")]
    pub(crate) healthz: HealthzArg,
    /// Threads that serve traffic [default: the CPUs this process may use, cgroup quota included]
    #[arg(long, env = "FAIRWAY_WORKERS", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) workers: Option<u16>,
    /// A Unix socket at which the next process with this flag takes over the listening sockets of this one, which then drains and
    /// ends [default: none]
    #[arg(long, env = "FAIRWAY_UPGRADE_SOCKET", value_name = "PATH")]
    pub(crate) upgrade_socket: Option<PathBuf>,
    /// How often the key of TLS session tickets changes; each opens tickets for twice as long
    #[arg(
        long, env = "FAIRWAY_SESSION_TICKET_ROTATION", value_name = "SECONDS", default_value = "43200",
        value_parser = ticket_rotation
    )]
    pub(crate) session_ticket_rotation: Duration,
}

/// From a minute to the 12 hours after which a stolen key should be worth less each day.
fn ticket_rotation(text: &str) -> Result<Duration, String> {
    let rotation = seconds(text)?;
    let (least, most) = (Duration::from_secs(60), Duration::from_secs(12 * 60 * 60));
    if (least..=most).contains(&rotation) { Ok(rotation) } else { Err("is not from 60 to 43200".to_owned()) }
}

/// When `/healthz` answers 200.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HealthzArg {
    /// While the process lives.
    Alive,
    /// While it also serves and was not told to stop.
    Ready,
}

impl From<HealthzArg> for Healthz {
    fn from(healthz: HealthzArg) -> Self {
        match healthz {
            HealthzArg::Alive => Self::Alive,
            HealthzArg::Ready => Self::Serving,
        }
    }
}

/// What is known of client addresses.
#[derive(Debug, Args)]
#[command(next_help_heading = "GeoIP (docs/geoip.md)")]
pub(crate) struct GeoIpArgs {
    /// Databases in MaxMind's format (MMDB), one of countries or cities and one of autonomous systems: for authorization, headers and
    /// the access log. They are held in memory, and read again when they change
    #[arg(long, env = "FAIRWAY_GEOIP", value_name = "FILE", value_delimiter = ',')]
    pub(crate) geoip: Vec<PathBuf>,
}

/// What is written to the standard output and error.
#[derive(Debug, Args)]
#[command(next_help_heading = "Logs")]
pub(crate) struct LogArgs {
    /// The access log on the standard output: the default format of ingress-nginx, the same with the resolved client and
    /// the peer at the end, JSON, or none. The key log-format-upstream of the settings ConfigMap replaces the first two
    #[arg(long, env = "FAIRWAY_ACCESS_LOG", value_name = "FORMAT", default_value = "nginx")]
    pub(crate) access_log: AccessLogChoice,
    /// The format of messages on the standard error
    #[arg(long, env = "FAIRWAY_LOG_FORMAT", value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,
    /// Which messages: error, warn, info, debug, trace, or as in info,fairway_control=debug
    #[arg(long, env = "FAIRWAY_LOG_LEVEL", value_name = "LEVEL", default_value = "info")]
    pub(crate) log_level: String,
}

/// What is remembered of the last requests.
#[derive(Debug, Args)]
#[command(next_help_heading = "Flight recorder (docs/observe.md)")]
pub(crate) struct RecorderArgs {
    /// How many exchanges each worker remembers, in about 1.2 KiB each, without header values that may be credentials, queries
    /// and bodies: the last ones, and for longer those that failed. Pages of --admin and explain --request-id show them. 0
    /// remembers none
    #[arg(long, env = "FAIRWAY_RECORDER_EXCHANGES", value_name = "N",
        default_value_t = RecorderOptions::default().exchanges, value_parser = recorder_exchanges)]
    pub(crate) recorder_exchanges: usize,
    /// How long an exchange is remembered at most
    #[arg(long, env = "FAIRWAY_RECORDER_TIME", value_name = "SECONDS", default_value = "3600", value_parser = seconds)]
    pub(crate) recorder_time: Duration,
}

impl RecorderArgs {
    /// Those of the proxy.
    pub(crate) fn options(&self) -> RecorderOptions {
        RecorderOptions { exchanges: self.recorder_exchanges, keep: self.recorder_time }
    }
}

/// At most 12 MiB for each worker, and a few milliseconds for a search.
fn recorder_exchanges(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(exchanges @ 0..=10_000) => Ok(exchanges),
        _ => Err("is not a number from 0 to 10000".to_owned()),
    }
}

/// How the process stops.
#[derive(Debug, Args)]
#[command(next_help_heading = "Stopping")]
pub(crate) struct DrainArgs {
    /// How long connections are still accepted after the signal to stop, so that load balancers notice first
    #[arg(long, env = "FAIRWAY_DRAIN_DELAY", value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    pub(crate) drain_delay: Duration,
    /// How long requests in flight may take after that
    #[arg(long, env = "FAIRWAY_DRAIN_TIMEOUT", value_name = "SECONDS", default_value = "240", value_parser = seconds)]
    pub(crate) drain_timeout: Duration,
}

/// Values of `--access-log`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum AccessLogChoice {
    Nginx,
    NginxAddresses,
    Json,
    Off,
}

impl AccessLogChoice {
    /// Whether the settings ConfigMap may choose a format in place of this one.
    fn choice(self) -> LogFormatChoice {
        match self {
            Self::Nginx | Self::NginxAddresses => LogFormatChoice::Settings,
            Self::Json | Self::Off => LogFormatChoice::Flag,
        }
    }
}

/// Values of `--log-format`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

impl RunArgs {
    /// Where configuration comes from.
    ///
    /// # Errors
    /// The flags contradict each other.
    pub(crate) fn validated(&self) -> Result<Source<'_>> {
        let source = self.source.validated()?;
        self.report.validate(&source)?;
        self.gateways.validate(self.source.kubernetes)?;
        if self.source.kubernetes {
            if self.listen.upgrade_socket.is_some() {
                bail!("--upgrade-socket is for --manifests: in a cluster, Kubernetes replaces pods");
            }
            self.translation.gateways.refuse_address_in_a_cluster()?;
        }
        self.listen.addresses.validate(self.report.webhook.address)?;
        self.translation.trust()?;
        self.telemetry.validate(!matches!(self.logs.access_log, AccessLogChoice::Off))?;
        if self.limits.max_request_line_bytes > self.limits.max_head_bytes {
            bail!(
                "--max-request-line-bytes is larger than --max-head-bytes, of which the request line is a part"
            );
        }
        Ok(source)
    }
}

impl RunArgs {
    /// The translator's options.
    ///
    /// # Errors
    /// A flag is no `NAMESPACE/NAME`.
    pub(crate) fn options(&self) -> Result<Options> {
        let loopback_endpoints = match self.source.kubernetes {
            // There, loopback is the inside of the proxy's own pod.
            true => LoopbackEndpoints::Refused,
            false => LoopbackEndpoints::Accepted,
        };
        let mut options = self.translation.options()?;
        if self.source.kubernetes {
            options.gateways.places = match self.gateways.pods()? {
                Some(_) => Places::Given,
                None => Places::Nowhere,
            };
        }
        self.listen.addresses.place(self.report.webhook.address, &mut options);
        let own = &mut options.trust.external.own;
        (own.addresses, own.gateways) = (own_addresses::all(), self.gateways.ports()?);
        options.listeners.service_maps.reserved.extend(self.gateways.reserved());
        options.hosts.log_format = self.logs.access_log.choice();
        let clients = ClientDefaults {
            downstream: DownstreamSettings {
                http3: options.clients.downstream.http3,
                ..self.limits.patience.downstream()
            },
            datagrams: self.limits.datagrams.settings(),
        };
        Ok(Options { clients, loopback_endpoints, ..options })
    }
}

impl DrainArgs {
    pub(crate) fn options(&self) -> DrainOptions {
        DrainOptions { delay: self.drain_delay, timeout: self.drain_timeout }
    }
}

impl From<AccessLogChoice> for AccessLogFormat {
    fn from(choice: AccessLogChoice) -> Self {
        match choice {
            AccessLogChoice::Nginx => Self::Nginx,
            AccessLogChoice::NginxAddresses => Self::NginxAddresses,
            AccessLogChoice::Json => Self::Json,
            AccessLogChoice::Off => Self::Off,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use clap::Parser;

    use fairway_model::PortProtocol;

    use super::super::{Cli, Command};

    fn problem(line: &str) -> String {
        let cli = Cli::try_parse_from(line.split_whitespace()).unwrap();
        let Command::Run(run) = cli.command else { panic!() };
        run.validated().map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn the_ports_of_gateways_are_its_own() {
        let of = |flags: &str| {
            let cli =
                Cli::try_parse_from(format!("fairway run --kubernetes {flags}").split_whitespace()).unwrap();
            let Command::Run(run) = cli.command else { panic!() };
            run.options().unwrap().trust.external.own.gateways
        };
        assert_eq!(of("--gateway-pods a/b --gateway-ports 21000-21009"), Some(21_000..=21_009));
        assert_eq!(of("--gateway-pods a/b"), Some(20_000..=29_999));
        assert_eq!(of(""), None);
    }

    #[test]
    fn the_bounds_of_udp_sessions_are_flags() {
        let of = |flags: &str| {
            let cli =
                Cli::try_parse_from(format!("fairway run --manifests m {flags}").split_whitespace()).ok()?;
            let Command::Run(run) = cli.command else { panic!() };
            let datagrams = run.options().unwrap().clients.datagrams;
            Some((datagrams.sessions, datagrams.sessions_per_client, datagrams.idle_timeout.as_secs()))
        };
        assert_eq!(of(""), Some((16_384, 1_024, 60)));
        assert_eq!(of("--udp-sessions 5 --udp-sessions-per-client 3"), Some((5, 3, 60)));
        assert_eq!((of("--udp-sessions 0"), of("--udp-sessions-per-client 0")), (None, None));
    }

    #[test]
    fn http3_is_a_flag_that_knows_where_the_proxy_protocol_is() {
        let of = |flags: &str| {
            let cli =
                Cli::try_parse_from(format!("fairway run --manifests m {flags}").split_whitespace()).unwrap();
            let Command::Run(run) = cli.command else { panic!() };
            let http3 = run.options().unwrap().clients.downstream.http3;
            (http3.offered, http3.behind_proxy_protocol)
        };
        assert_eq!(of(""), (false, false));
        assert_eq!(of("--http3"), (true, false));
        assert_eq!(of("--http3 --proxy-protocol http"), (true, false));
        for both in ["https", "both"] {
            assert_eq!(of(&format!("--http3 --proxy-protocol {both}")), (true, true));
        }
    }

    #[test]
    fn ticket_keys_rotate_within_bounds() {
        let rotation = |flags: &str| {
            let cli =
                Cli::try_parse_from(format!("fairway run --manifests m {flags}").split_whitespace()).ok()?;
            let Command::Run(run) = cli.command else { panic!() };
            Some(run.listen.session_ticket_rotation.as_secs())
        };
        assert_eq!(rotation(""), Some(12 * 60 * 60));
        assert_eq!(rotation("--session-ticket-rotation 60"), Some(60));
        for outside in ["59", "43201", "-1", "day"] {
            assert_eq!(rotation(&format!("--session-ticket-rotation {outside}")), None, "{outside}");
        }
    }

    #[test]
    fn contradictions_are_named() {
        for (flags, part) in [
            ("--manifests m --kubernetes", "contradict"),
            ("--manifests m --context a", "--context is about a cluster"),
            ("--manifests m --state-dir d", "--state-dir"),
            ("--kubernetes --watch-namespace a --watch-namespace-selector b=c", "contradict"),
            ("", "--manifests DIR"),
            (
                "--manifests m --http 127.0.0.1:1 --https 127.0.0.1:1",
                "--https 127.0.0.1:1 and --http 127.0.0.1:1",
            ),
            ("--manifests m --probe 127.0.0.1:10254", "--probe 127.0.0.1:10254 and --admin"),
            ("--manifests m --http 0.0.0.0:10254", "--admin 127.0.0.1:10254 and --http"),
            ("--manifests m --http [::]:10254", "--admin 127.0.0.1:10254 and --http [::]:10254"),
            ("--manifests m --proxy-protocol-trusted 10.0.0.0/8", "without --proxy-protocol"),
            (
                "--manifests m --webhook 127.0.0.1:0 --webhook-certificate c --webhook-key k",
                "--webhook is about a cluster",
            ),
            ("--manifests m --publish-service a/b", "--publish-service is about a cluster"),
            (
                "--manifests m --publish-status-address 192.0.2.1",
                "--publish-status-address is about a cluster",
            ),
            ("--manifests m --no-status", "--no-status is about a cluster"),
            ("--manifests m --election-id a", "--election-id is about a cluster"),
            ("--manifests m --own-session-tickets", "--own-session-tickets is about a cluster"),
            ("--kubernetes --webhook-client-ca f", "--webhook-client-ca without --webhook"),
            ("--kubernetes --webhook-key f", "--webhook-key without --webhook"),
            (
                "--kubernetes --no-status --publish-service a/b",
                "--publish-service and --no-status contradict",
            ),
            (
                "--kubernetes --webhook 0.0.0.0:8080 --webhook-certificate c --webhook-key k",
                "--webhook 0.0.0.0:8080 and --http",
            ),
            ("--kubernetes --upgrade-socket /run/f/s", "--upgrade-socket is for --manifests"),
            ("--manifests m --max-head-bytes 4096", "--max-request-line-bytes"),
        ] {
            let told = problem(&format!("fairway run {flags}"));
            assert!(told.contains(part), "{flags}: {told}");
        }
        for good in [
            "--http 127.0.0.1:0 --https 127.0.0.1:0 --drain-delay 0.5",
            "--tcp-services-configmap a/b --proxy-protocol-trusted 10.0.0.0/8",
        ] {
            assert_eq!(problem(&format!("fairway run --manifests m {good}")), "");
        }
    }

    #[test]
    fn tcp_and_udp_services_get_no_port_that_something_else_has() {
        let line = "fairway run --kubernetes --http 0.0.0.0:8080 --https 0.0.0.0:8443 --admin 127.0.0.1:10254 \
                    --probe 0.0.0.0:10255 --gateway-pods a/b --gateway-ports 20000-20009 --public-http-port 81 \
                    --tcp-services-configmap edge/tcp --udp-services-configmap edge/udp";
        let cli = Cli::try_parse_from(line.split_whitespace()).unwrap();
        let Command::Run(run) = cli.command else { panic!() };
        let options = run.options().unwrap();
        let (maps, own) = (options.listeners.service_maps, options.trust.external.own);
        assert_eq!(maps.tcp.unwrap().to_string(), "edge/tcp");
        assert_eq!(maps.udp.unwrap().to_string(), "edge/udp");
        let by = |port, protocol| {
            let at = SocketAddr::from(([0, 0, 0, 0], port));
            let reserved = maps.reserved.iter().find(|it| it.has(port, protocol)).map(|it| &*it.by);
            reserved.or_else(|| own.in_the_way(protocol, &[at]).map(|own| own.flag))
        };
        for (port, tcp, udp) in [
            (81, Some("--public-http-port"), None),
            (443, Some("--public-https-port"), None),
            (8080, Some("--http"), None),
            (8443, Some("--https"), None),
            (10254, Some("--admin"), None),
            (10255, Some("--probe"), None),
            (20003, Some("--gateway-ports"), Some("--gateway-ports")),
            (80, None, None),
            (20010, None, None),
        ] {
            assert_eq!((by(port, PortProtocol::Tcp), by(port, PortProtocol::Udp)), (tcp, udp), "{port}");
        }
    }
}
