//! What the flags of other controllers mean here: ingress-nginx (`cli-arguments.md` of its documentation, version 1.15) and
//! NGINX's own controller, as far as the studies use it.

/// Whose command line it is.
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
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Value,
    Switch,
}

/// What a flag means.
#[derive(Clone, Copy, Debug)]
pub(super) enum Meaning {
    /// This flag of Fairway, with the value.
    Is(&'static str),
    /// The same with an address, which may be a port alone.
    Address(&'static str),
    /// The same with a name in the namespace of the pod.
    OfThisNamespace(&'static str),
    /// Where something listens.
    Port(Place),
    /// This switch of Fairway, where the flag is true.
    Switch(&'static str),
    /// This switch of Fairway, which is on by default.
    SwitchOn(&'static str),
    /// Whether status is written.
    Status,
    /// Whether the internal addresses of nodes are written to it, where no flag says which addresses.
    InternalNodes,
    /// Nothing. `what` is lost, or why there is nothing to lose; not with one of the values `without`.
    Lost { without: &'static [&'static str], what: &'static str },
    /// Nothing, and nothing is lost: it is about what Fairway does not have or need.
    Needless(&'static str),
}

/// What listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Http,
    Https,
    /// Probes, and metrics where they have no port of their own.
    Health,
    Metrics,
}

/// Where everything listens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    http: u16,
    https: u16,
    health: u16,
    /// The same as `health` where it has none of its own.
    metrics: u16,
}

impl Ports {
    pub(super) fn at(&mut self, place: Place) -> &mut u16 {
        match place {
            Place::Http => &mut self.http,
            Place::Https => &mut self.https,
            Place::Health => &mut self.health,
            Place::Metrics => &mut self.metrics,
        }
    }

    /// Fairway's flags for them, without dashes, and their values.
    pub(super) fn addresses(self) -> [(&'static str, String); 4] {
        let Self { http, https, health, metrics } = self;
        let probes = match metrics == 0 || metrics == health {
            true => format!("0.0.0.0:{health}"),
            false => format!("0.0.0.0:{health},0.0.0.0:{metrics}"),
        };
        [
            ("http", format!("0.0.0.0:{http}")),
            ("https", format!("0.0.0.0:{https}")),
            // The pages that show the configuration are for this pod alone.
            ("admin", format!("127.0.0.1:{}", health.wrapping_add(1))),
            ("probe", probes),
        ]
    }
}

impl Flag {
    /// Whether a value follows.
    pub(super) fn takes_value(&self) -> bool {
        self.kind == Kind::Value
    }
}

impl Dialect {
    pub(super) const ALL: [Self; 2] = [Self::IngressNginx, Self::NginxInc];

    /// The file of the program.
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

    /// Whether a line without a program's name is one of its: it begins with one of its flags.
    pub(super) fn begins(self, words: &[String]) -> bool {
        let first = words.first().filter(|word| word.starts_with('-'));
        first.is_some_and(|word| {
            let flag = word.trim_start_matches('-');
            let name = flag.split_once('=').map_or(flag, |(name, _)| name);
            name != VERSION && self.flag(name).is_some()
        })
    }

    /// Where it listens by default.
    pub(super) fn ports(self) -> Ports {
        match self {
            Self::IngressNginx => Ports { http: 80, https: 443, health: 10254, metrics: 0 },
            Self::NginxInc => Ports { http: 80, https: 443, health: 8081, metrics: 9113 },
        }
    }

    /// Whether it writes status where no flag says otherwise.
    pub(super) fn writes_status(self) -> bool {
        self == Self::IngressNginx
    }

    /// What it does where no flag says otherwise.
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

    /// What is lost whatever the flags are.
    pub(super) fn lost(self) -> Vec<String> {
        match self {
            Self::IngressNginx => Vec::new(),
            Self::NginxInc => vec![
                "annotations nginx.org/...: they are not read; those of ingress-nginx, nginx.ingress.kubernetes.io/..., are"
                    .to_owned(),
            ],
        }
    }

    /// Whether the addresses of nodes are written to the status where no flag says which addresses.
    pub(super) fn publishes_nodes(self) -> bool {
        self == Self::IngressNginx
    }

    /// Every flag of Fairway that is named.
    #[cfg(test)]
    pub(super) fn owns(self) -> impl Iterator<Item = &'static str> {
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

const fn value(name: &'static str, meaning: Meaning) -> Flag {
    Flag { name, meaning, kind: Kind::Value }
}

const fn switch(name: &'static str, meaning: Meaning) -> Flag {
    Flag { name, meaning, kind: Kind::Switch }
}

/// A flag with a value whose loss is said.
const fn lost(name: &'static str, what: &'static str) -> Flag {
    value(name, Meaning::Lost { without: &[], what })
}

/// A switch whose loss is said unless it has this value.
const fn unless(name: &'static str, without: &'static [&'static str], what: &'static str) -> Flag {
    switch(name, Meaning::Lost { without, what })
}

/// A flag about nginx or the controller's own inside.
const fn inner(name: &'static str) -> Flag {
    value(name, Meaning::Needless("Fairway has no counterpart, and nothing is lost"))
}

/// A flag that programs of any kind have, so it says nothing about whose command line it is.
const VERSION: &str = "version";
const NO_NATIVE_HISTOGRAMS: &str = "metrics have no native histograms, only histograms with fixed buckets";
const NO_DOWNLOADS: &str = "Fairway downloads no GeoIP database: let geoipupdate do it, and name its files with --geoip (docs/geoip.md)";
const OFF: &[&str] = &["false"];
const ON: &[&str] = &["true"];
/// Any: a switch about the inside.
const EITHER: &[&str] = &["true", "false"];

const INGRESS_NGINX: &[Flag] = &[
    value("annotations-prefix", Meaning::Is("annotations-prefix")),
    lost("apiserver-host", "the API server is that of the pod's ServiceAccount, or of --kubeconfig"),
    unless("alsologtostderr", EITHER, ""),
    value("bucket-factor", Meaning::Lost { without: &["0"], what: NO_NATIVE_HISTOGRAMS }),
    value(
        "certificate-authority",
        Meaning::Lost { without: &[], what: "it is taken from the ServiceAccount or --kubeconfig" },
    ),
    value("configmap", Meaning::Is("configmap")),
    value("controller-class", Meaning::Is("controller-class")),
    unless("deep-inspect", EITHER, ""),
    value("default-backend-service", Meaning::Is("default-backend")),
    inner("default-server-port"),
    value("default-ssl-certificate", Meaning::Is("default-certificate")),
    unless("disable-catch-all", OFF, "Ingresses without a host are served"),
    unless("disable-full-test", EITHER, ""),
    unless("disable-leader-election", OFF, "leader election is always on: one replica writes status"),
    unless(
        "disable-svc-external-name",
        ON,
        "Services of type ExternalName are refused unless --enable-external-name is given",
    ),
    unless("disable-sync-events", OFF, "Events are written"),
    inner("dynamic-configuration-retries"),
    value("election-id", Meaning::Is("election-id")),
    inner("election-ttl"),
    unless("enable-annotation-validation", ON, "annotations are always validated"),
    unless("enable-metrics", EITHER, ""),
    unless("enable-ssl-chain-completion", OFF, "chains are sent as the Secret has them"),
    switch("enable-ssl-passthrough", Meaning::SwitchOn("enable-ssl-passthrough")),
    switch("enable-topology-aware-routing", Meaning::Needless("hints of EndpointSlices always count")),
    unless("exclude-socket-metrics", EITHER, ""),
    value("health-check-path", Meaning::Lost { without: &["/healthz"], what: "the path is /healthz" }),
    inner("health-check-timeout"),
    lost("healthz-host", "probes are answered on every address"),
    value("healthz-port", Meaning::Port(Place::Health)),
    value("http-port", Meaning::Port(Place::Http)),
    value("https-port", Meaning::Port(Place::Https)),
    value("ingress-class", Meaning::Is("ingress-class")),
    unless(
        "ingress-class-by-name",
        OFF,
        "spec.controller of an IngressClass decides; its name decides only where there is no object",
    ),
    inner("internal-logger-address"),
    value("kubeconfig", Meaning::Is("kubeconfig")),
    value("length-buckets", Meaning::Lost { without: &[], what: "histograms have their own buckets" }),
    inner("log_backtrace_at"),
    inner("log_dir"),
    inner("log_file"),
    unless("logtostderr", EITHER, ""),
    value("max-buckets", Meaning::Lost { without: &[], what: NO_NATIVE_HISTOGRAMS }),
    lost("maxmind-edition-ids", NO_DOWNLOADS),
    lost("maxmind-license-key", NO_DOWNLOADS),
    lost("maxmind-mirror", NO_DOWNLOADS),
    lost("maxmind-retries-count", NO_DOWNLOADS),
    lost("maxmind-retries-timeout", NO_DOWNLOADS),
    unless("metrics-per-host", ON, "metrics have the host of the rule as a label"),
    unless(
        "metrics-per-undefined-host",
        OFF,
        "metrics have the host of the rule as a label, not the client's",
    ),
    inner("monitor-max-batch-size"),
    inner("post-shutdown-grace-period"),
    unless("profiling", EITHER, ""),
    inner("profiler-address"),
    inner("profiler-port"),
    value("publish-service", Meaning::Is("publish-service")),
    value("publish-status-address", Meaning::Is("publish-status-address")),
    switch("report-node-internal-ip-address", Meaning::InternalNodes),
    unless("report-status-classes", OFF, "metrics have whole statuses"),
    value("shutdown-grace-period", Meaning::Is("drain-delay")),
    value("size-buckets", Meaning::Lost { without: &[], what: "histograms have their own buckets" }),
    inner("ssl-passthrough-proxy-port"),
    inner("status-port"),
    inner("status-update-interval"),
    inner("stderrthreshold"),
    inner("stream-port"),
    inner("sync-period"),
    value(
        "sync-rate-limit",
        Meaning::Needless("changes are not held back and take effect within milliseconds, without a reload"),
    ),
    value("tcp-services-configmap", Meaning::Is("tcp-services-configmap")),
    value("time-buckets", Meaning::Lost { without: &[], what: "histograms have their own buckets" }),
    value("udp-services-configmap", Meaning::Is("udp-services-configmap")),
    switch("update-status", Meaning::Status),
    unless("update-status-on-shutdown", ON, "the last replica clears the status when it ends"),
    value("v", Meaning::Lost { without: &["0", "1", "2"], what: "messages are chosen with --log-level" }),
    value("validating-webhook", Meaning::Address("webhook")),
    value("validating-webhook-certificate", Meaning::Is("webhook-certificate")),
    value("validating-webhook-key", Meaning::Is("webhook-key")),
    unless(VERSION, OFF, "Fairway starts instead of printing its version; `fairway --version` prints it"),
    inner("vmodule"),
    switch("watch-ingress-without-class", Meaning::Switch("watch-ingress-without-class")),
    value("watch-namespace", Meaning::Is("watch-namespace")),
    value("watch-namespace-selector", Meaning::Is("watch-namespace-selector")),
];

const NGINX_INC: &[Flag] = &[
    value("default-http-listener-port", Meaning::Port(Place::Http)),
    value("default-https-listener-port", Meaning::Port(Place::Https)),
    value("default-server-tls-secret", Meaning::Is("default-certificate")),
    unless("disable-ipv6", ON, "listeners are bound to 0.0.0.0"),
    unless("enable-app-protect", OFF, "there is no web application firewall"),
    unless("enable-custom-resources", OFF, "VirtualServer, Policy and TransportServer are not read"),
    unless("enable-leader-election", ON, "leader election is always on"),
    unless("enable-prometheus-metrics", EITHER, ""),
    unless("enable-snippets", OFF, "snippets of nginx.org annotations are not read"),
    unless("enable-tls-passthrough", OFF, "TransportServer is not read; for Ingresses, use ssl-passthrough"),
    value("external-service", Meaning::OfThisNamespace("publish-service")),
    lost("global-configuration", "GlobalConfiguration is not read"),
    unless(
        "health-status",
        OFF,
        "the path /nginx-health is not served on the ports of clients; use /healthz of the probe port",
    ),
    unless("include-year", EITHER, ""),
    value("ingress-class", Meaning::Is("ingress-class")),
    lost("ingress-template-path", "there are no templates"),
    value("leader-election-lock-name", Meaning::Is("election-id")),
    value(
        "log-format",
        Meaning::Lost { without: &["glog"], what: "the format of messages is chosen with --log-format" },
    ),
    value("log-level", Meaning::Is("log-level")),
    lost("main-template-path", "there are no templates"),
    value("nginx-configmaps", Meaning::Is("configmap")),
    unless("nginx-debug", EITHER, ""),
    unless("nginx-plus", OFF, "this is not NGINX Plus"),
    inner("nginx-reload-timeout"),
    unless("nginx-status", EITHER, ""),
    inner("nginx-status-allow-cidrs"),
    inner("nginx-status-port"),
    value("prometheus-metrics-listen-port", Meaning::Port(Place::Metrics)),
    unless("ready-status", ON, "readiness is always reported"),
    value("ready-status-port", Meaning::Port(Place::Health)),
    switch("report-ingress-status", Meaning::Status),
    value(
        "v",
        Meaning::Lost { without: &["0", "1", "2", "3"], what: "messages are chosen with --log-level" },
    ),
    value("watch-namespace", Meaning::Is("watch-namespace")),
    value("watch-namespace-label", Meaning::Is("watch-namespace-selector")),
    lost("wildcard-tls-secret", "hosts without a certificate of their own get the default certificate"),
];
