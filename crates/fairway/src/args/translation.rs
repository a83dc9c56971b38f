//! Flags that decide what objects mean, shared by `run`, `check` and `explain`.

use std::sync::Arc;

use anyhow::Result;
use clap::{ArgAction, Args, ValueEnum};
use fairway_model::{DownstreamSettings, ForwardedPath, Http3Settings};
use fairway_objects::options::{
    CONTROLLER, ClientDefaults, Compat, Defaults, Firewall, HostOptions, HostOwnership, LoopbackEndpoints,
    Options, Trust, UnsupportedProtection, WithoutClass,
};
use fairway_objects::service_url::firewall;

use super::gateways::GatewayArgs;
use super::ports::{PortArgs, key};
use super::trust::TrustArgs;

/// What objects mean.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "What objects mean")]
pub(crate) struct TranslationArgs {
    /// The settings ConfigMap
    #[arg(long, env = "FAIRWAY_CONFIGMAP", value_name = "NS/NAME")]
    pub(crate) configmap: Option<String>,
    /// The TLS Secret for clients that name no known host; without it a self-signed certificate is made
    #[arg(long, env = "FAIRWAY_DEFAULT_CERTIFICATE", value_name = "NS/NAME")]
    pub(crate) default_certificate: Option<String>,
    /// The Service, by its first port, for requests that no rule of an Ingress serves, and for pages of custom-http-errors
    /// of Ingresses without default-backend (else 404)
    #[arg(long, env = "FAIRWAY_DEFAULT_BACKEND", value_name = "NS/NAME")]
    pub(crate) default_backend: Option<String>,
    /// The value of the annotation kubernetes.io/ingress.class that is served
    #[arg(long, env = "FAIRWAY_INGRESS_CLASS", value_name = "NAME", default_value = "fairway")]
    pub(crate) ingress_class: String,
    /// The spec.controller of the IngressClass objects that are served
    #[arg(
        long,
        env = "FAIRWAY_CONTROLLER_CLASS",
        value_name = "NAME",
        value_delimiter = ',',
        default_value = CONTROLLER
    )]
    pub(crate) controller_class: Vec<String>,
    /// The prefix of annotations
    #[arg(
        long,
        env = "FAIRWAY_ANNOTATIONS_PREFIX",
        value_name = "PREFIX",
        default_value = "nginx.ingress.kubernetes.io"
    )]
    pub(crate) annotations_prefix: String,
    /// What is served although it is not by default
    #[command(flatten)]
    pub(crate) classes: ClassArgs,
    /// Serve Ingresses that ask for protection that is not supported yet, without that protection (else they return 503)
    #[arg(long, env = "FAIRWAY_IGNORE_UNSUPPORTED_PROTECTION")]
    pub(crate) ignore_unsupported_protection: bool,
    /// The web application firewall, fairway-waf: IP:PORT, or a Service as NAME.NAMESPACE.svc:PORT. With it enable-modsecurity and the
    /// annotations and keys beside it work; without it what they ask for returns 503
    #[arg(long, env = "FAIRWAY_WAF", value_name = "HOST:PORT", value_parser = firewall)]
    pub(crate) waf: Option<Firewall>,
    /// Whose word is taken, and where external names may lead
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
    /// What holds for all hosts and paths
    #[command(flatten)]
    pub(crate) hosts: HostArgs,
    /// What objects of the Gateway API mean
    #[command(flatten)]
    pub(crate) gateways: GatewayArgs,
    /// The ports that clients see
    #[command(flatten)]
    pub(crate) ports: PortArgs,
}

/// Which classes are served.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "What objects mean")]
pub(crate) struct ClassArgs {
    /// Serve the classes of ingress-nginx too: controller k8s.io/ingress-nginx, annotation value nginx
    #[arg(long, env = "FAIRWAY_INGRESS_CLASS_COMPAT")]
    pub(crate) ingress_class_compat: bool,
    /// Serve Ingresses that name no class
    #[arg(long, env = "FAIRWAY_WATCH_INGRESS_WITHOUT_CLASS")]
    pub(crate) watch_ingress_without_class: bool,
}

impl ClassArgs {
    /// Names, and the one that ingress-nginx has where its classes are served too.
    fn with(&self, names: &[impl AsRef<str>], of_ingress_nginx: &str) -> Vec<Arc<str>> {
        let compat = self.ingress_class_compat.then(|| of_ingress_nginx.into());
        names.iter().map(|name| name.as_ref().into()).chain(compat).collect()
    }
}

/// What holds for all hosts and paths.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "What objects mean")]
pub(crate) struct HostArgs {
    /// Who may serve a host: off, Ingresses of every namespace, as in ingress-nginx; namespace, those in the namespace of
    /// the oldest Ingress that names the host, and in namespaces that its annotation fairway.dev/shared-hosts lists
    #[arg(long, env = "FAIRWAY_HOST_OWNERSHIP", value_name = "WHOSE", default_value = "off")]
    pub(crate) host_ownership: OwnershipArg,
    /// The path that backends see unless an annotation rewrites it: received, as the client sent it; normalised, the
    /// form that was matched, without dot segments, double slashes and needless escapes
    #[arg(long, env = "FAIRWAY_FORWARDED_PATH", value_name = "FORM", default_value = "received")]
    pub(crate) forwarded_path: PathArg,
    /// Whether ssl-passthrough has an effect; false: TLS of every host is terminated, as in ingress-nginx without its flag of this
    /// name
    #[arg(
        long,
        env = "FAIRWAY_ENABLE_SSL_PASSTHROUGH",
        value_name = "BOOL",
        default_value_t = true,
        action = ArgAction::Set
    )]
    pub(crate) enable_ssl_passthrough: bool,
    /// Whether balancing, sessions and canaries of an Ingress also hold for other Ingresses with the same Service and port:
    /// nginx, they do, as in ingress-nginx; strict, they do not. The annotation fairway.dev/compat says it for one Ingress
    #[arg(long, env = "FAIRWAY_COMPAT", value_name = "HOW", default_value = "nginx")]
    pub(crate) compat: CompatArg,
}

impl HostArgs {
    fn options(&self) -> HostOptions {
        let ownership = match self.host_ownership {
            OwnershipArg::Off => HostOwnership::Off,
            OwnershipArg::Namespace => HostOwnership::Namespace,
        };
        let forwarded_path = match self.forwarded_path {
            PathArg::Received => ForwardedPath::AsReceived,
            PathArg::Normalised => ForwardedPath::Normalised,
        };
        let compat = match self.compat {
            CompatArg::Nginx => Compat::Nginx,
            CompatArg::Strict => Compat::Strict,
        };
        HostOptions {
            ownership,
            forwarded_path,
            compat,
            ssl_passthrough: self.enable_ssl_passthrough,
            ..HostOptions::default()
        }
    }
}

/// Who may serve a host.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum OwnershipArg {
    /// Every namespace.
    Off,
    /// That of the oldest Ingress.
    Namespace,
}

/// What Ingresses with the same Service share.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum CompatArg {
    /// What they share in ingress-nginx.
    Nginx,
    /// Nothing.
    Strict,
}

/// Which path backends see.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PathArg {
    /// As the client sent it.
    Received,
    /// As it was matched.
    Normalised,
}

impl TranslationArgs {
    /// Whose word is taken.
    ///
    /// # Errors
    /// A flag has no effect without another one.
    pub(crate) fn trust(&self) -> Result<Trust> {
        self.trust.trust(self.ports.tcp_services_configmap.is_some())
    }

    /// HTTP/3 where the settings ConfigMap and objects say nothing.
    fn http3(&self) -> Http3Settings {
        Http3Settings {
            offered: self.ports.http3,
            early_data: false,
            behind_proxy_protocol: self.trust.expects_header_over_tls(),
        }
    }

    /// The translator's options.
    ///
    /// # Errors
    /// A flag is no `NAMESPACE/NAME`, or flags contradict each other.
    pub(crate) fn options(&self) -> Result<Options> {
        Ok(Options {
            ingress_classes: self.classes.with(&[&self.ingress_class], "nginx"),
            controllers: self.classes.with(&self.controller_class, "k8s.io/ingress-nginx"),
            without_class: if self.classes.watch_ingress_without_class {
                WithoutClass::Served
            } else {
                WithoutClass::Ignored
            },
            defaults: Defaults {
                certificate: key("--default-certificate", self.default_certificate.as_deref())?,
                backend: key("--default-backend", self.default_backend.as_deref())?,
            },
            configmap: key("--configmap", self.configmap.as_deref())?,
            annotations_prefix: self.annotations_prefix.trim_end_matches('/').into(),
            trust: self.trust()?,
            loopback_endpoints: LoopbackEndpoints::Accepted,
            hosts: HostOptions {
                unsupported_protection: if self.ignore_unsupported_protection {
                    UnsupportedProtection::Ignored
                } else {
                    UnsupportedProtection::Closed
                },
                ..self.hosts.options()
            },
            listeners: self.ports.listeners(&self.trust.proxy_protocol_trusted)?,
            clients: ClientDefaults {
                downstream: DownstreamSettings { http3: self.http3(), ..DownstreamSettings::default() },
                ..ClientDefaults::default()
            },
            gateways: self.gateways.options(),
            firewall: self.waf.clone(),
        })
    }
}
