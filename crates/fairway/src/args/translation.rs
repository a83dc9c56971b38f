//! The flags that configure the translation of objects, shared by the commands that translate them.

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

/// The translation of objects.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Ingress options")]
pub(crate) struct TranslationArgs {
    /// ConfigMap with global settings
    #[arg(long, env = "FAIRWAY_CONFIGMAP", value_name = "NS/NAME")]
    pub(crate) configmap: Option<String>,
    /// TLS Secret for clients without SNI or with an unknown host [default: a generated self-signed certificate]
    #[arg(long, env = "FAIRWAY_DEFAULT_CERTIFICATE", value_name = "NS/NAME")]
    pub(crate) default_certificate: Option<String>,
    /// Service, at its first port, for requests that no Ingress rule matches (otherwise they get 404), and for the
    /// custom-http-errors pages of Ingresses without default-backend
    #[arg(long, env = "FAIRWAY_DEFAULT_BACKEND", value_name = "NS/NAME")]
    pub(crate) default_backend: Option<String>,
    /// Value of the annotation kubernetes.io/ingress.class to serve
    #[arg(long, env = "FAIRWAY_INGRESS_CLASS", value_name = "NAME", default_value = "fairway")]
    pub(crate) ingress_class: String,
    /// spec.controller of the IngressClass objects to serve
    #[arg(
        long,
        env = "FAIRWAY_CONTROLLER_CLASS",
        value_name = "NAME",
        value_delimiter = ',',
        default_value = CONTROLLER
    )]
    pub(crate) controller_class: Vec<String>,
    /// Prefix of the annotations
    #[arg(
        long,
        env = "FAIRWAY_ANNOTATIONS_PREFIX",
        value_name = "PREFIX",
        default_value = "nginx.ingress.kubernetes.io"
    )]
    pub(crate) annotations_prefix: String,
    /// Additional classes
    #[command(flatten)]
    pub(crate) classes: ClassArgs,
    /// Serve Ingresses that ask for unsupported protection, without that protection (otherwise they return 503)
    #[arg(long, env = "FAIRWAY_IGNORE_UNSUPPORTED_PROTECTION")]
    pub(crate) ignore_unsupported_protection: bool,
    /// Address of the web application firewall fairway-waf: IP:PORT, or NAME.NAMESPACE.svc:PORT for a Service. Enables
    /// enable-modsecurity and the related annotations and keys; without it, paths that use them return 503
    #[arg(long, env = "FAIRWAY_WAF", value_name = "HOST:PORT", value_parser = firewall)]
    pub(crate) waf: Option<Firewall>,
    /// Trusted peers and external names
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
    /// Options for all hosts and paths
    #[command(flatten)]
    pub(crate) hosts: HostArgs,
    /// Translation of Gateway API objects
    #[command(flatten)]
    pub(crate) gateways: GatewayArgs,
    /// The ports that clients see
    #[command(flatten)]
    pub(crate) ports: PortArgs,
}

/// Additional classes to serve.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Ingress options")]
pub(crate) struct ClassArgs {
    /// Also serve the classes of ingress-nginx: controller k8s.io/ingress-nginx and annotation value nginx
    #[arg(long, env = "FAIRWAY_INGRESS_CLASS_COMPAT")]
    pub(crate) ingress_class_compat: bool,
    /// Serve Ingresses without a class
    #[arg(long, env = "FAIRWAY_WATCH_INGRESS_WITHOUT_CLASS")]
    pub(crate) watch_ingress_without_class: bool,
}

impl ClassArgs {
    /// `names`, plus the name that ingress-nginx uses if its classes are served too.
    fn with_compat(&self, names: &[impl AsRef<str>], of_ingress_nginx: &str) -> Vec<Arc<str>> {
        let compat = self.ingress_class_compat.then(|| of_ingress_nginx.into());
        names.iter().map(|name| name.as_ref().into()).chain(compat).collect()
    }
}

/// Options for all hosts and paths.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Ingress options")]
pub(crate) struct HostArgs {
    /// Which Ingresses may serve a host. off: those of every namespace, as in ingress-nginx. namespace: those in the namespace
    /// of the oldest Ingress with the host, and in the namespaces that its annotation fairway.dev/shared-hosts lists
    #[arg(long, env = "FAIRWAY_HOST_OWNERSHIP", value_name = "WHOSE", default_value = "off")]
    pub(crate) host_ownership: OwnershipArg,
    /// Path that backends receive unless an annotation rewrites it. received: as the client sent it. normalised: as it was
    /// matched, without dot segments, double slashes and unnecessary escapes
    #[arg(long, env = "FAIRWAY_FORWARDED_PATH", value_name = "FORM", default_value = "received")]
    pub(crate) forwarded_path: PathArg,
    /// Whether the annotation ssl-passthrough has an effect. false terminates TLS for every host, as ingress-nginx does without
    /// its flag of this name
    #[arg(
        long,
        env = "FAIRWAY_ENABLE_SSL_PASSTHROUGH",
        value_name = "BOOL",
        default_value_t = true,
        action = ArgAction::Set
    )]
    pub(crate) enable_ssl_passthrough: bool,
    /// Whether load balancing, session affinity and canaries of an Ingress also apply to other Ingresses with the same Service
    /// and port. nginx: yes, as in ingress-nginx. strict: no. The annotation fairway.dev/compat overrides it per Ingress
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

/// Values of `--host-ownership`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum OwnershipArg {
    /// Ingresses of every namespace may serve a host.
    Off,
    /// The namespace of the oldest Ingress with the host owns it.
    Namespace,
}

/// Values of `--compat`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum CompatArg {
    /// Ingresses with the same Service share what they share in ingress-nginx.
    Nginx,
    /// Ingresses share nothing.
    Strict,
}

/// Values of `--forwarded-path`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PathArg {
    /// As the client sent it.
    Received,
    /// As it was matched.
    Normalised,
}

impl TranslationArgs {
    /// The trust options.
    ///
    /// # Errors
    /// A flag has no effect without another one.
    pub(crate) fn trust(&self) -> Result<Trust> {
        self.trust.trust(self.ports.tcp_services_configmap.is_some())
    }

    /// The HTTP/3 settings, unless the settings ConfigMap or an object overrides them.
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
    /// A flag is not a `NAMESPACE/NAME`, or flags contradict each other.
    pub(crate) fn options(&self) -> Result<Options> {
        Ok(Options {
            ingress_classes: self.classes.with_compat(&[&self.ingress_class], "nginx"),
            controllers: self.classes.with_compat(&self.controller_class, "k8s.io/ingress-nginx"),
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
