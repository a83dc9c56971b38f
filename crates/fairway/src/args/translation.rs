//! Flags that decide what objects mean, shared by `run`, `check` and `explain`.

use anyhow::{Context, Result};
use clap::Args;
use fairway_translate::{
    ClassCompat, LoopbackEndpoints, ObjectKey, Options, PublicPorts, UnsupportedProtection, WithoutClass,
};

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
    /// The value of the annotation kubernetes.io/ingress.class that is served
    #[arg(long, env = "FAIRWAY_INGRESS_CLASS", value_name = "NAME", default_value = "fairway")]
    pub(crate) ingress_class: String,
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
    /// Serve Ingresses without the protection that they ask for and Fairway does not give yet (else they answer 503)
    #[arg(long, env = "FAIRWAY_IGNORE_UNSUPPORTED_PROTECTION")]
    pub(crate) ignore_unsupported_protection: bool,
    /// Whose word is taken, and where external names may lead
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
    /// The port on which clients see the plain listener: for redirects, headers and logs
    #[arg(long, env = "FAIRWAY_PUBLIC_HTTP_PORT", value_name = "PORT", default_value_t = 80)]
    pub(crate) public_http_port: u16,
    /// The port on which clients see the TLS listener
    #[arg(long, env = "FAIRWAY_PUBLIC_HTTPS_PORT", value_name = "PORT", default_value_t = 443)]
    pub(crate) public_https_port: u16,
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

impl TranslationArgs {
    /// The translator's options.
    ///
    /// # Errors
    /// A flag is no `NAMESPACE/NAME`, or flags contradict each other.
    pub(crate) fn options(&self) -> Result<Options> {
        Ok(Options {
            ingress_classes: vec![self.ingress_class.as_str().into()],
            class_compat: if self.classes.ingress_class_compat {
                ClassCompat::IngressNginx
            } else {
                ClassCompat::Own
            },
            without_class: if self.classes.watch_ingress_without_class {
                WithoutClass::Served
            } else {
                WithoutClass::Ignored
            },
            default_certificate: key("--default-certificate", self.default_certificate.as_deref())?,
            configmap: key("--configmap", self.configmap.as_deref())?,
            annotations_prefix: self.annotations_prefix.trim_end_matches('/').into(),
            trust: self.trust.trust()?,
            loopback_endpoints: LoopbackEndpoints::Accepted,
            unsupported_protection: if self.ignore_unsupported_protection {
                UnsupportedProtection::Ignored
            } else {
                UnsupportedProtection::Closed
            },
            public_ports: PublicPorts { http: self.public_http_port, https: self.public_https_port },
            downstream: fairway_model::DownstreamSettings::default(),
        })
    }
}

fn key(flag: &str, text: Option<&str>) -> Result<Option<ObjectKey>> {
    text.map(|text| ObjectKey::parse(text).with_context(|| format!("{flag} {text}: is no NAMESPACE/NAME")))
        .transpose()
}
