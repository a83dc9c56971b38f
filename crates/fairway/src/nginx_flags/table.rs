//! The meaning of other controllers' flags: all flags of ingress-nginx (`cli-arguments.md` of its documentation, version 1.15) and
//! the common ones of NGINX's own controller.

/// The controller that a command line belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// kubernetes/ingress-nginx.
    IngressNginx,
    /// nginx/kubernetes-ingress.
    NginxInc,
}

/// A flag of another controller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flag {
    pub(super) name: &'static str,
    pub(super) meaning: Meaning,
    kind: FlagKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FlagKind {
    Value,
    Switch,
}

/// The meaning of a flag.
#[derive(Clone, Copy, Debug)]
pub(super) enum Meaning {
    /// This flag of Fairway, with the same value.
    Is(&'static str),
    /// This flag of Fairway, with an address that may be only a port.
    Address(&'static str),
    /// This flag of Fairway, with a name in the namespace of the pod.
    OfThisNamespace(&'static str),
    /// The port of a listener.
    Port(ListeningPart),
    /// This switch of Fairway, if the flag is true.
    Switch(&'static str),
    /// This switch of Fairway, which is on by default.
    SwitchOn(&'static str),
    /// Whether status is written.
    Status,
    /// Whether the status gets the internal addresses of nodes if no flag names the addresses.
    InternalNodes,
    /// No effect. `what` explains the loss; there is none with one of the values `without`.
    Lost { without: &'static [&'static str], consequence: &'static str },
    /// No effect and no loss: it concerns something that Fairway does not have or need.
    Needless(&'static str),
}

/// A listener of the other controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListeningPart {
    Http,
    Https,
    /// Probes, and metrics unless they have their own port.
    Health,
    Metrics,
}

/// The ports of the listeners.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    http: u16,
    https: u16,
    health: u16,
    /// 0 or the same as `health` if metrics have no port of their own.
    metrics: u16,
}

impl Ports {
    pub(super) fn port_mut(&mut self, part: ListeningPart) -> &mut u16 {
        match part {
            ListeningPart::Http => &mut self.http,
            ListeningPart::Https => &mut self.https,
            ListeningPart::Health => &mut self.health,
            ListeningPart::Metrics => &mut self.metrics,
        }
    }

    /// Fairway's flags for these ports, without dashes, and their values.
    pub(super) fn addresses(self) -> [(&'static str, String); 4] {
        let Self { http, https, health, metrics } = self;
        let probes = match metrics == 0 || metrics == health {
            true => format!("0.0.0.0:{health}"),
            false => format!("0.0.0.0:{health},0.0.0.0:{metrics}"),
        };
        [
            ("http", format!("0.0.0.0:{http}")),
            ("https", format!("0.0.0.0:{https}")),
            // The admin server shows the configuration, so it is not reachable from outside the pod.
            ("admin", format!("127.0.0.1:{}", health.wrapping_add(1))),
            ("probe", probes),
        ]
    }
}

impl Flag {
    /// Whether the flag takes a value.
    pub(super) fn takes_value(&self) -> bool {
        self.kind == FlagKind::Value
    }
}

impl Dialect {
    pub(super) const ALL: [Self; 2] = [Self::IngressNginx, Self::NginxInc];

    /// The file name of the program.
    pub(super) fn program(self) -> &'static str {
        match self {
            Self::IngressNginx => "nginx-ingress-controller",
            Self::NginxInc => "nginx-ingress",
        }
    }

    pub(super) fn flags(self) -> &'static [Flag] {
        match self {
            Self::IngressNginx => INGRESS_NGINX,
            Self::NginxInc => NGINX_INC,
        }
    }

    /// The flag of this name.
    pub(super) fn flag(self, name: &str) -> Option<&'static Flag> {
        self.flags().iter().find(|flag| flag.name == name)
    }

    /// Whether a command line without a program's name belongs to this controller, because it starts with one of its flags.
    pub(super) fn recognizes(self, words: &[String]) -> bool {
        let first = words.first().filter(|word| word.starts_with('-'));
        first.is_some_and(|word| {
            let flag = word.trim_start_matches('-');
            let name = flag.split_once('=').map_or(flag, |(name, _)| name);
            name != VERSION && self.flag(name).is_some()
        })
    }

    /// The default ports.
    pub(super) fn ports(self) -> Ports {
        match self {
            Self::IngressNginx => Ports { http: 80, https: 443, health: 10254, metrics: 0 },
            Self::NginxInc => Ports { http: 80, https: 443, health: 8081, metrics: 9113 },
        }
    }

    /// Whether the controller writes status by default.
    pub(super) fn writes_status(self) -> bool {
        self == Self::IngressNginx
    }

    /// Fairway's flags for the defaults of the controller.
    pub(super) fn defaults(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::IngressNginx => &[
                ("controller-class", "k8s.io/ingress-nginx"),
                ("ingress-class", "nginx"),
                ("election-id", "ingress-controller-leader"),
                // Its manifests probe /healthz for both.
                ("healthz", "ready"),
            ],
            Self::NginxInc => &[
                ("controller-class", "nginx.org/ingress-controller"),
                ("ingress-class", "nginx"),
                ("election-id", "nginx-ingress-leader-election"),
            ],
        }
    }

    /// Warnings that apply regardless of the flags.
    pub(super) fn always_lost(self) -> Vec<String> {
        match self {
            Self::IngressNginx => Vec::new(),
            Self::NginxInc => vec![
                "annotations nginx.org/...: they are not read; those of ingress-nginx, nginx.ingress.kubernetes.io/..., are"
                    .to_owned(),
            ],
        }
    }

    /// Whether the status gets the addresses of nodes if no flag names the addresses.
    pub(super) fn publishes_nodes(self) -> bool {
        self == Self::IngressNginx
    }

    /// All flags of Fairway in the table.
    #[cfg(test)]
    pub(super) fn own_flags(self) -> impl Iterator<Item = &'static str> {
        let flags = self.flags().iter().filter_map(|flag| match flag.meaning {
            Meaning::Is(own)
            | Meaning::Address(own)
            | Meaning::OfThisNamespace(own)
            | Meaning::Switch(own)
            | Meaning::SwitchOn(own) => Some(own),
            Meaning::Port(_)
            | Meaning::Status
            | Meaning::InternalNodes
            | Meaning::Lost { .. }
            | Meaning::Needless(_) => None,
        });
        flags.chain(self.defaults().iter().map(|(own, _)| *own))
    }
}

const fn value_flag(name: &'static str, meaning: Meaning) -> Flag {
    Flag { name, meaning, kind: FlagKind::Value }
}

const fn switch_flag(name: &'static str, meaning: Meaning) -> Flag {
    Flag { name, meaning, kind: FlagKind::Switch }
}

/// A flag with a value that always gives a warning.
const fn lost_flag(name: &'static str, consequence: &'static str) -> Flag {
    value_flag(name, Meaning::Lost { without: &[], consequence })
}

/// A switch that gives a warning unless it has one of these values.
const fn lost_unless(
    name: &'static str,
    without: &'static [&'static str],
    consequence: &'static str,
) -> Flag {
    switch_flag(name, Meaning::Lost { without, consequence })
}

/// A flag about nginx or the internals of the controller.
const fn internal_flag(name: &'static str) -> Flag {
    value_flag(name, Meaning::Needless("Fairway has no counterpart, and nothing is lost"))
}

/// A flag that many programs have, so it does not identify a controller.
const VERSION: &str = "version";
const NO_NATIVE_HISTOGRAMS: &str = "metrics have no native histograms, only histograms with fixed buckets";
const NO_DOWNLOADS: &str = "Fairway downloads no GeoIP database: let geoipupdate do it, and name its files with --geoip (docs/geoip.md)";
const OFF: &[&str] = &["false"];
const ON: &[&str] = &["true"];
/// Both values: a switch about internals.
const EITHER: &[&str] = &["true", "false"];

const INGRESS_NGINX: &[Flag] = &[
    value_flag("annotations-prefix", Meaning::Is("annotations-prefix")),
    lost_flag("apiserver-host", "the API server is that of the pod's ServiceAccount, or of --kubeconfig"),
    lost_unless("alsologtostderr", EITHER, ""),
    value_flag("bucket-factor", Meaning::Lost { without: &["0"], consequence: NO_NATIVE_HISTOGRAMS }),
    value_flag(
        "certificate-authority",
        Meaning::Lost { without: &[], consequence: "it is taken from the ServiceAccount or --kubeconfig" },
    ),
    value_flag("configmap", Meaning::Is("configmap")),
    value_flag("controller-class", Meaning::Is("controller-class")),
    lost_unless("deep-inspect", EITHER, ""),
    value_flag("default-backend-service", Meaning::Is("default-backend")),
    internal_flag("default-server-port"),
    value_flag("default-ssl-certificate", Meaning::Is("default-certificate")),
    lost_unless("disable-catch-all", OFF, "Ingresses without a host are served"),
    lost_unless("disable-full-test", EITHER, ""),
    lost_unless("disable-leader-election", OFF, "leader election is always on: one replica writes status"),
    lost_unless(
        "disable-svc-external-name",
        ON,
        "Services of type ExternalName are refused unless --enable-external-name is given",
    ),
    lost_unless("disable-sync-events", OFF, "Events are written"),
    internal_flag("dynamic-configuration-retries"),
    value_flag("election-id", Meaning::Is("election-id")),
    internal_flag("election-ttl"),
    lost_unless("enable-annotation-validation", ON, "annotations are always validated"),
    lost_unless("enable-metrics", EITHER, ""),
    lost_unless("enable-ssl-chain-completion", OFF, "chains are sent as the Secret has them"),
    switch_flag("enable-ssl-passthrough", Meaning::SwitchOn("enable-ssl-passthrough")),
    switch_flag("enable-topology-aware-routing", Meaning::Needless("hints of EndpointSlices always count")),
    lost_unless("exclude-socket-metrics", EITHER, ""),
    value_flag(
        "health-check-path",
        Meaning::Lost { without: &["/healthz"], consequence: "the path is /healthz" },
    ),
    internal_flag("health-check-timeout"),
    lost_flag("healthz-host", "probes are answered on every address"),
    value_flag("healthz-port", Meaning::Port(ListeningPart::Health)),
    value_flag("http-port", Meaning::Port(ListeningPart::Http)),
    value_flag("https-port", Meaning::Port(ListeningPart::Https)),
    value_flag("ingress-class", Meaning::Is("ingress-class")),
    lost_unless(
        "ingress-class-by-name",
        OFF,
        "spec.controller of an IngressClass decides; its name decides only where there is no object",
    ),
    internal_flag("internal-logger-address"),
    value_flag("kubeconfig", Meaning::Is("kubeconfig")),
    value_flag(
        "length-buckets",
        Meaning::Lost { without: &[], consequence: "histograms have their own buckets" },
    ),
    internal_flag("log_backtrace_at"),
    internal_flag("log_dir"),
    internal_flag("log_file"),
    lost_unless("logtostderr", EITHER, ""),
    value_flag("max-buckets", Meaning::Lost { without: &[], consequence: NO_NATIVE_HISTOGRAMS }),
    lost_flag("maxmind-edition-ids", NO_DOWNLOADS),
    lost_flag("maxmind-license-key", NO_DOWNLOADS),
    lost_flag("maxmind-mirror", NO_DOWNLOADS),
    lost_flag("maxmind-retries-count", NO_DOWNLOADS),
    lost_flag("maxmind-retries-timeout", NO_DOWNLOADS),
    lost_unless("metrics-per-host", ON, "metrics have the host of the rule as a label"),
    lost_unless(
        "metrics-per-undefined-host",
        OFF,
        "metrics have the host of the rule as a label, not the client's",
    ),
    internal_flag("monitor-max-batch-size"),
    internal_flag("post-shutdown-grace-period"),
    lost_unless("profiling", EITHER, ""),
    internal_flag("profiler-address"),
    internal_flag("profiler-port"),
    value_flag("publish-service", Meaning::Is("publish-service")),
    value_flag("publish-status-address", Meaning::Is("publish-status-address")),
    switch_flag("report-node-internal-ip-address", Meaning::InternalNodes),
    lost_unless("report-status-classes", OFF, "metrics have whole statuses"),
    value_flag("shutdown-grace-period", Meaning::Is("drain-delay")),
    value_flag(
        "size-buckets",
        Meaning::Lost { without: &[], consequence: "histograms have their own buckets" },
    ),
    internal_flag("ssl-passthrough-proxy-port"),
    internal_flag("status-port"),
    internal_flag("status-update-interval"),
    internal_flag("stderrthreshold"),
    internal_flag("stream-port"),
    internal_flag("sync-period"),
    value_flag(
        "sync-rate-limit",
        Meaning::Needless("changes are not held back and take effect within milliseconds, without a reload"),
    ),
    value_flag("tcp-services-configmap", Meaning::Is("tcp-services-configmap")),
    value_flag(
        "time-buckets",
        Meaning::Lost { without: &[], consequence: "histograms have their own buckets" },
    ),
    value_flag("udp-services-configmap", Meaning::Is("udp-services-configmap")),
    switch_flag("update-status", Meaning::Status),
    lost_unless("update-status-on-shutdown", ON, "the last replica clears the status when it ends"),
    value_flag(
        "v",
        Meaning::Lost { without: &["0", "1", "2"], consequence: "messages are chosen with --log-level" },
    ),
    value_flag("validating-webhook", Meaning::Address("webhook")),
    value_flag("validating-webhook-certificate", Meaning::Is("webhook-certificate")),
    value_flag("validating-webhook-key", Meaning::Is("webhook-key")),
    lost_unless(
        VERSION,
        OFF,
        "Fairway starts instead of printing its version; `fairway --version` prints it",
    ),
    internal_flag("vmodule"),
    switch_flag("watch-ingress-without-class", Meaning::Switch("watch-ingress-without-class")),
    value_flag("watch-namespace", Meaning::Is("watch-namespace")),
    value_flag("watch-namespace-selector", Meaning::Is("watch-namespace-selector")),
];

const NGINX_INC: &[Flag] = &[
    value_flag("default-http-listener-port", Meaning::Port(ListeningPart::Http)),
    value_flag("default-https-listener-port", Meaning::Port(ListeningPart::Https)),
    value_flag("default-server-tls-secret", Meaning::Is("default-certificate")),
    lost_unless("disable-ipv6", ON, "listeners are bound to 0.0.0.0"),
    lost_unless("enable-app-protect", OFF, "there is no web application firewall"),
    lost_unless("enable-custom-resources", OFF, "VirtualServer, Policy and TransportServer are not read"),
    lost_unless("enable-leader-election", ON, "leader election is always on"),
    lost_unless("enable-prometheus-metrics", EITHER, ""),
    lost_unless("enable-snippets", OFF, "snippets of nginx.org annotations are not read"),
    lost_unless(
        "enable-tls-passthrough",
        OFF,
        "TransportServer is not read; for Ingresses, use ssl-passthrough",
    ),
    value_flag("external-service", Meaning::OfThisNamespace("publish-service")),
    lost_flag("global-configuration", "GlobalConfiguration is not read"),
    lost_unless(
        "health-status",
        OFF,
        "the path /nginx-health is not served on the ports of clients; use /healthz of the probe port",
    ),
    lost_unless("include-year", EITHER, ""),
    value_flag("ingress-class", Meaning::Is("ingress-class")),
    lost_flag("ingress-template-path", "there are no templates"),
    value_flag("leader-election-lock-name", Meaning::Is("election-id")),
    value_flag(
        "log-format",
        Meaning::Lost {
            without: &["glog"],
            consequence: "the format of messages is chosen with --log-format",
        },
    ),
    value_flag("log-level", Meaning::Is("log-level")),
    lost_flag("main-template-path", "there are no templates"),
    value_flag("nginx-configmaps", Meaning::Is("configmap")),
    lost_unless("nginx-debug", EITHER, ""),
    lost_unless("nginx-plus", OFF, "this is not NGINX Plus"),
    internal_flag("nginx-reload-timeout"),
    lost_unless("nginx-status", EITHER, ""),
    internal_flag("nginx-status-allow-cidrs"),
    internal_flag("nginx-status-port"),
    value_flag("prometheus-metrics-listen-port", Meaning::Port(ListeningPart::Metrics)),
    lost_unless("ready-status", ON, "readiness is always reported"),
    value_flag("ready-status-port", Meaning::Port(ListeningPart::Health)),
    switch_flag("report-ingress-status", Meaning::Status),
    value_flag(
        "v",
        Meaning::Lost { without: &["0", "1", "2", "3"], consequence: "messages are chosen with --log-level" },
    ),
    value_flag("watch-namespace", Meaning::Is("watch-namespace")),
    value_flag("watch-namespace-label", Meaning::Is("watch-namespace-selector")),
    lost_flag("wildcard-tls-secret", "hosts without a certificate of their own get the default certificate"),
];
