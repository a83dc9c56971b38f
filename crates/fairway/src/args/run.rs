//! The flags of `fairway run` and the checks for contradictions between them.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use fairway_control::admin::Healthz;
use fairway_model::DownstreamSettings;
use fairway_objects::options::{
    ClientDefaults, GatewayPlacement, LogFormatChoice, LoopbackEndpoints, Options,
};
use fairway_proxy::{AccessLogFormat, DrainOptions, RecorderOptions};

use super::addresses::AddressArgs;
use super::durations::seconds;
use super::gateways::ClusterGatewayArgs;
use super::limits::LimitArgs;
use super::source::{ReportArgs, Source, SourceArgs};
use super::telemetry::TelemetryArgs;
use super::topology::TopologyArgs;
use super::translation::TranslationArgs;
use crate::own_addresses;

/// Serves traffic for the objects of a cluster or of a directory of manifests, and follows changes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fairway run --manifests ./manifests
  fairway run --kubernetes --publish-service ingress/fairway --state-dir /var/lib/fairway
  fairway run --manifests ./manifests --http 0.0.0.0:80 --https 0.0.0.0:443 --access-log json
  FAIRWAY_MANIFESTS=./manifests fairway run

The first SIGTERM or SIGINT starts draining (see --drain-delay and --drain-timeout), the second ends the process at once.")]
pub(crate) struct RunArgs {
    /// The configuration source
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// Status, Events, leader election and the webhook
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    /// Listeners
    #[command(flatten)]
    pub(crate) listen: ListenArgs,
    /// Node and zone of this process
    #[command(flatten)]
    pub(crate) topology: TopologyArgs,
    /// Translation of objects
    #[command(flatten)]
    pub(crate) translation: TranslationArgs,
    /// Services and ports of Gateways in a cluster
    #[command(flatten)]
    pub(crate) gateways: ClusterGatewayArgs,
    /// GeoIP databases
    #[command(flatten)]
    pub(crate) geoip: GeoIpArgs,
    /// Access log and messages
    #[command(flatten)]
    pub(crate) logs: LogArgs,
    /// The flight recorder
    #[command(flatten)]
    pub(crate) recorder: RecorderArgs,
    /// Tracing and OTLP export
    #[command(flatten)]
    pub(crate) telemetry: TelemetryArgs,
    /// Draining
    #[command(flatten)]
    pub(crate) drain: DrainArgs,
    /// Limits
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
}

/// Listener addresses, worker threads and TLS session tickets.
#[derive(Debug, Args)]
#[command(next_help_heading = "Listeners")]
pub(crate) struct ListenArgs {
    /// The addresses that the process binds
    #[command(flatten)]
    pub(crate) addresses: AddressArgs,
    /// When /healthz returns 200. alive: while the process runs. ready: from the first served configuration until the process
    /// gets a signal to stop, for ingress-nginx manifests, which probe no other path
    #[arg(long, env = "FAIRWAY_HEALTHZ", value_name = "WHEN", default_value = "alive")]
    pub(crate) healthz: HealthzArg,
    /// Number of threads that serve traffic [default: the CPUs this process may use, taking the cgroup quota into account]
    #[arg(long, env = "FAIRWAY_WORKERS", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) workers: Option<u16>,
    /// Unix socket for upgrades without downtime: a new process with the same flag takes over the listening sockets, and the old
    /// one drains and exits [default: none]
    #[arg(long, env = "FAIRWAY_UPGRADE_SOCKET", value_name = "PATH")]
    pub(crate) upgrade_socket: Option<PathBuf>,
    /// How often the TLS session ticket key is rotated; each key stays valid for twice this time
    #[arg(
        long, env = "FAIRWAY_SESSION_TICKET_ROTATION", value_name = "SECONDS", default_value = "43200",
        value_parser = ticket_rotation
    )]
    pub(crate) session_ticket_rotation: Duration,
}

/// Parses a rotation interval between one minute and 12 hours; the upper bound limits what a stolen key can decrypt.
fn ticket_rotation(text: &str) -> Result<Duration, String> {
    let rotation = seconds(text)?;
    let (least, most) = (Duration::from_secs(60), Duration::from_secs(12 * 60 * 60));
    if (least..=most).contains(&rotation) { Ok(rotation) } else { Err("is not from 60 to 43200".to_owned()) }
}

/// Values of `--healthz`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HealthzArg {
    /// 200 while the process runs.
    Alive,
    /// 200 while the process serves a configuration and has not been asked to stop.
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

/// GeoIP databases.
#[derive(Debug, Args)]
#[command(next_help_heading = "GeoIP (docs/geoip.md)")]
pub(crate) struct GeoIpArgs {
    /// MaxMind databases (MMDB), one with countries or cities and one with autonomous systems, for authorization, headers and the
    /// access log. They are kept in memory and reloaded when they change
    #[arg(long, env = "FAIRWAY_GEOIP", value_name = "FILE", value_delimiter = ',')]
    pub(crate) geoip: Vec<PathBuf>,
}

/// The access log on standard output and messages on standard error.
#[derive(Debug, Args)]
#[command(next_help_heading = "Logs")]
pub(crate) struct LogArgs {
    /// Format of the access log on standard output: nginx is the default format of ingress-nginx, nginx-addresses appends the
    /// resolved client address and the peer address, off writes none. The ConfigMap key log-format-upstream replaces the two
    /// nginx formats
    #[arg(long, env = "FAIRWAY_ACCESS_LOG", value_name = "FORMAT", default_value = "nginx")]
    pub(crate) access_log: AccessLogChoice,
    /// Format of log messages on standard error
    #[arg(long, env = "FAIRWAY_LOG_FORMAT", value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,
    /// Log level: error, warn, info, debug or trace, or a filter such as info,fairway_control=debug
    #[arg(long, env = "FAIRWAY_LOG_LEVEL", value_name = "LEVEL", default_value = "info")]
    pub(crate) log_level: String,
}

/// The flight recorder.
#[derive(Debug, Args)]
#[command(next_help_heading = "Flight recorder (docs/observe.md)")]
pub(crate) struct RecorderArgs {
    /// Number of exchanges each worker records, at about 1.2 KiB each; failed exchanges are kept longer than others. Queries,
    /// bodies and header values that may be credentials are not recorded. The admin server and explain --request-id show them.
    /// 0 turns the recorder off
    #[arg(long, env = "FAIRWAY_RECORDER_EXCHANGES", value_name = "N",
        default_value_t = RecorderOptions::default().exchanges_per_worker, value_parser = recorder_exchanges)]
    pub(crate) recorder_exchanges: usize,
    /// Maximum time an exchange is kept
    #[arg(long, env = "FAIRWAY_RECORDER_TIME", value_name = "SECONDS", default_value = "3600", value_parser = seconds)]
    pub(crate) recorder_time: Duration,
}

impl RecorderArgs {
    /// The proxy's recorder options.
    pub(crate) fn options(&self) -> RecorderOptions {
        RecorderOptions { exchanges_per_worker: self.recorder_exchanges, retention: self.recorder_time }
    }
}

/// Parses a number of exchanges. The maximum bounds a worker's memory at 12 MiB and a search at a few milliseconds.
fn recorder_exchanges(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(exchanges @ 0..=10_000) => Ok(exchanges),
        _ => Err("is not a number from 0 to 10000".to_owned()),
    }
}

/// Draining after a signal to stop.
#[derive(Debug, Args)]
#[command(next_help_heading = "Stopping")]
pub(crate) struct DrainArgs {
    /// How long the process keeps accepting connections after the signal to stop, so that load balancers notice first
    #[arg(long, env = "FAIRWAY_DRAIN_DELAY", value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    pub(crate) drain_delay: Duration,
    /// How long in-flight requests may take after --drain-delay
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
    /// Whether the settings ConfigMap may override this format.
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
    /// Checks the flags and returns the configuration source.
    ///
    /// # Errors
    /// The flags contradict each other.
    pub(crate) fn validated(&self) -> Result<Source<'_>> {
        let source = self.source.validated()?;
        self.report.validate(&source)?;
        self.gateways.validate(self.source.kubernetes)?;
        if self.source.kubernetes {
            if self.listen.upgrade_socket.is_some() {
                bail!("--upgrade-socket is for --manifests only: in a cluster, Kubernetes replaces pods");
            }
            self.translation.gateways.refuse_address_in_a_cluster()?;
        }
        self.listen.addresses.validate(self.report.webhook.address)?;
        self.translation.trust()?;
        self.telemetry.validate(!matches!(self.logs.access_log, AccessLogChoice::Off))?;
        if self.limits.max_request_line_bytes > self.limits.max_head_bytes {
            bail!(
                "--max-request-line-bytes is larger than --max-head-bytes, which includes the request line"
            );
        }
        Ok(source)
    }
}

impl RunArgs {
    /// The translator's options.
    ///
    /// # Errors
    /// A flag is not a `NAMESPACE/NAME`.
    pub(crate) fn options(&self) -> Result<Options> {
        let loopback_endpoints = match self.source.kubernetes {
            // In a cluster, loopback addresses are inside the proxy's own pod.
            true => LoopbackEndpoints::Refused,
            false => LoopbackEndpoints::Accepted,
        };
        let mut options = self.translation.options()?;
        if self.source.kubernetes {
            options.gateways.placement = match self.gateways.pods_service()? {
                Some(_) => GatewayPlacement::Given,
                None => GatewayPlacement::Nowhere,
            };
        }
        self.listen.addresses.apply_to(self.report.webhook.address, &mut options);
        let own_addresses = &mut options.trust.external.own_addresses;
        (own_addresses.addresses, own_addresses.gateways) = (own_addresses::all(), self.gateways.ports()?);
        options.listeners.service_maps.reserved.extend(self.gateways.reserved_ports());
        options.hosts.log_format = self.logs.access_log.choice();
        let clients = ClientDefaults {
            downstream: DownstreamSettings {
                http3: options.clients.downstream.http3,
                ..self.limits.client_timeouts.downstream()
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
    fn gateway_ports_count_as_own_ports() {
        let own_ports = |flags: &str| {
            let cli =
                Cli::try_parse_from(format!("fairway run --kubernetes {flags}").split_whitespace()).unwrap();
            let Command::Run(run) = cli.command else { panic!() };
            run.options().unwrap().trust.external.own_addresses.gateways
        };
        assert_eq!(own_ports("--gateway-pods a/b --gateway-ports 21000-21009"), Some(21_000..=21_009));
        assert_eq!(own_ports("--gateway-pods a/b"), Some(20_000..=29_999));
        assert_eq!(own_ports(""), None);
    }

    #[test]
    fn flags_set_the_udp_session_limits() {
        let limits = |flags: &str| {
            let cli =
                Cli::try_parse_from(format!("fairway run --manifests m {flags}").split_whitespace()).ok()?;
            let Command::Run(run) = cli.command else { panic!() };
            let datagrams = run.options().unwrap().clients.datagrams;
            Some((datagrams.sessions, datagrams.sessions_per_client, datagrams.idle_timeout.as_secs()))
        };
        assert_eq!(limits(""), Some((16_384, 1_024, 60)));
        assert_eq!(limits("--udp-sessions 5 --udp-sessions-per-client 3"), Some((5, 3, 60)));
        assert_eq!((limits("--udp-sessions 0"), limits("--udp-sessions-per-client 0")), (None, None));
    }

    #[test]
    fn http3_settings_follow_the_http3_and_proxy_protocol_flags() {
        let settings = |flags: &str| {
            let cli =
                Cli::try_parse_from(format!("fairway run --manifests m {flags}").split_whitespace()).unwrap();
            let Command::Run(run) = cli.command else { panic!() };
            let http3 = run.options().unwrap().clients.downstream.http3;
            (http3.offered, http3.behind_proxy_protocol)
        };
        assert_eq!(settings(""), (false, false));
        assert_eq!(settings("--http3"), (true, false));
        assert_eq!(settings("--http3 --proxy-protocol http"), (true, false));
        for both in ["https", "both"] {
            assert_eq!(settings(&format!("--http3 --proxy-protocol {both}")), (true, true));
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
            ("--manifests m --context a", "--context is for --kubernetes only"),
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
                "--webhook is for --kubernetes only",
            ),
            ("--manifests m --publish-service a/b", "--publish-service is for --kubernetes only"),
            (
                "--manifests m --publish-status-address 192.0.2.1",
                "--publish-status-address is for --kubernetes only",
            ),
            ("--manifests m --no-status", "--no-status is for --kubernetes only"),
            ("--manifests m --election-id a", "--election-id is for --kubernetes only"),
            ("--manifests m --own-session-tickets", "--own-session-tickets is for --kubernetes only"),
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
            let message = problem(&format!("fairway run {flags}"));
            assert!(message.contains(part), "{flags}: {message}");
        }
        for good in [
            "--http 127.0.0.1:0 --https 127.0.0.1:0 --drain-delay 0.5",
            "--tcp-services-configmap a/b --proxy-protocol-trusted 10.0.0.0/8",
        ] {
            assert_eq!(problem(&format!("fairway run --manifests m {good}")), "");
        }
    }

    #[test]
    fn tcp_and_udp_services_get_no_port_that_is_already_in_use() {
        let line = "fairway run --kubernetes --http 0.0.0.0:8080 --https 0.0.0.0:8443 --admin 127.0.0.1:10254 \
                    --probe 0.0.0.0:10255 --gateway-pods a/b --gateway-ports 20000-20009 --public-http-port 81 \
                    --tcp-services-configmap edge/tcp --udp-services-configmap edge/udp";
        let cli = Cli::try_parse_from(line.split_whitespace()).unwrap();
        let Command::Run(run) = cli.command else { panic!() };
        let options = run.options().unwrap();
        let (maps, own) = (options.listeners.service_maps, options.trust.external.own_addresses);
        assert_eq!(maps.tcp.unwrap().to_string(), "edge/tcp");
        assert_eq!(maps.udp.unwrap().to_string(), "edge/udp");
        let port_owner = |port, protocol| {
            let at = SocketAddr::from(([0, 0, 0, 0], port));
            let reserved = maps.reserved.iter().find(|it| it.has(port, protocol)).map(|it| &*it.reserved_by);
            reserved.or_else(|| own.conflicting_listener(protocol, &[at]).map(|own| own.flag))
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
            let owners = (port_owner(port, PortProtocol::Tcp), port_owner(port, PortProtocol::Udp));
            assert_eq!(owners, (tcp, udp), "{port}");
        }
    }
}
