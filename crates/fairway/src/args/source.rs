//! The flags for the configuration source, and for the status and webhook in a cluster.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use fairway_cluster::source::{Credentials, Namespaces, Selection};
use fairway_objects::options::{GatewayOptions, GatewayPlacement, GatewayScope, LoopbackEndpoints, Options};

use super::gateways;

/// The configuration source.
#[derive(Debug, Args)]
#[command(next_help_heading = "Configuration source")]
pub(crate) struct SourceArgs {
    /// Directory of Kubernetes YAML or JSON manifests; changes are followed
    #[arg(long, env = "FAIRWAY_MANIFESTS", value_name = "DIR")]
    pub(crate) manifests: Option<PathBuf>,
    /// Read the objects of a cluster from the Kubernetes API
    #[arg(long, env = "FAIRWAY_KUBERNETES")]
    pub(crate) kubernetes: bool,
    /// The cluster and its namespaces
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Directory for the last good configuration, which is served after a start while the API server does not respond
    #[arg(long, env = "FAIRWAY_STATE_DIR", value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
}

/// The cluster and its namespaces.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterArgs {
    /// Path of a kubeconfig [default: the pod's ServiceAccount, else KUBECONFIG, else ~/.kube/config]
    #[arg(long, env = "FAIRWAY_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: the current context]
    #[arg(long, env = "FAIRWAY_CONTEXT", value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Serve only the objects of these namespaces [default: all]
    #[arg(long, env = "FAIRWAY_WATCH_NAMESPACE", value_name = "NS", value_delimiter = ',')]
    pub(crate) watch_namespace: Vec<String>,
    /// Serve only the objects of namespaces with these labels, such as team=shop,env!=test
    #[arg(long, env = "FAIRWAY_WATCH_NAMESPACE_SELECTOR", value_name = "LABELS")]
    pub(crate) watch_namespace_selector: Option<String>,
}

/// Status, Events, leader election and the webhook.
#[derive(Debug, Args)]
#[command(next_help_heading = "Status and webhook")]
pub(crate) struct ReportArgs {
    /// Service whose addresses are written to the status of Ingresses
    #[arg(long, env = "FAIRWAY_PUBLISH_SERVICE", value_name = "NS/NAME")]
    pub(crate) publish_service: Option<String>,
    /// Addresses or host names to write to the status of Ingresses instead
    #[arg(long, env = "FAIRWAY_PUBLISH_STATUS_ADDRESS", value_name = "ADDR", value_delimiter = ',')]
    pub(crate) publish_status_address: Vec<String>,
    /// Write the addresses of the nodes with ready pods to the status of Ingresses instead; a node without an external address
    /// is listed with its internal one
    #[arg(long, env = "FAIRWAY_PUBLISH_NODES", value_name = "WHICH")]
    pub(crate) publish_nodes: Option<NodeAddressChoice>,
    /// Lease in the pod's namespace that elects the replica that writes status [default: fairway-leader]
    #[arg(long, env = "FAIRWAY_ELECTION_ID", value_name = "NAME")]
    pub(crate) election_id: Option<String>,
    /// Write no status, Events or Lease, for running next to another controller of the same Ingresses
    #[arg(long, env = "FAIRWAY_NO_STATUS")]
    pub(crate) no_status: bool,
    /// Do not share TLS session ticket keys with other replicas: each replica resumes only its own sessions
    #[arg(long, env = "FAIRWAY_OWN_SESSION_TICKETS")]
    pub(crate) own_session_tickets: bool,
    /// Name of this pod
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub(crate) pod_name: Option<String>,
    /// Namespace of this pod
    #[arg(long, env = "POD_NAMESPACE", value_name = "NS")]
    pub(crate) pod_namespace: Option<String>,
    /// The validating webhook
    #[command(flatten)]
    pub(crate) webhook: WebhookArgs,
}

/// The validating webhook.
#[derive(Debug, Args)]
#[command(next_help_heading = "Status and webhook")]
pub(crate) struct WebhookArgs {
    /// Address of the validating webhook [default: none]
    #[arg(long = "webhook", env = "FAIRWAY_WEBHOOK", value_name = "ADDR", requires_all = ["webhook_certificate", "webhook_key"])]
    pub(crate) address: Option<SocketAddr>,
    /// PEM file with the webhook's certificate chain; reloaded when it changes
    #[arg(long, env = "FAIRWAY_WEBHOOK_CERTIFICATE", value_name = "FILE")]
    pub(crate) webhook_certificate: Option<PathBuf>,
    /// PEM file with the webhook's private key
    #[arg(long, env = "FAIRWAY_WEBHOOK_KEY", value_name = "FILE")]
    pub(crate) webhook_key: Option<PathBuf>,
    /// PEM file with the CA certificates that verify the API server's client certificate; reloaded when it changes
    /// [default: no client certificate is requested]
    #[arg(long, env = "FAIRWAY_WEBHOOK_CLIENT_CA", value_name = "FILE")]
    pub(crate) webhook_client_ca: Option<PathBuf>,
}

/// The configuration source, once the flags have been checked.
#[derive(Clone, Debug)]
pub(crate) enum Source<'a> {
    /// A directory of manifests.
    Manifests(&'a PathBuf),
    /// A cluster.
    Kubernetes(&'a ClusterArgs),
}

impl SourceArgs {
    /// The configuration source.
    ///
    /// # Errors
    /// The flags name no source or two.
    pub(crate) fn validated(&self) -> Result<Source<'_>> {
        match (&self.manifests, self.kubernetes) {
            (Some(_), true) => bail!("--manifests and --kubernetes contradict each other: give one of them"),
            (None, false) => {
                bail!("no configuration source: give --manifests DIR or --kubernetes")
            }
            (Some(manifests), false) => {
                self.cluster.refuse_without_cluster("--manifests")?;
                if self.state_dir.is_some() {
                    bail!("--state-dir is for --kubernetes only: manifests are already on disk");
                }
                Ok(Source::Manifests(manifests))
            }
            (None, true) => {
                self.cluster.validate()?;
                Ok(Source::Kubernetes(&self.cluster))
            }
        }
    }
}

/// Values of `--publish-nodes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum NodeAddressChoice {
    External,
    Internal,
}

impl ReportArgs {
    /// # Errors
    /// A flag would have no effect.
    pub(crate) fn validate(&self, source: &Source<'_>) -> Result<()> {
        if let (Source::Manifests(_), Some(flag)) = (source, self.first_given_flag()) {
            bail!("{flag} is for --kubernetes only, not for --manifests");
        }
        if let (None, Some(flag)) = (self.webhook.address, self.webhook.first_given_flag()) {
            bail!("{flag} without --webhook: there is no webhook");
        }
        let publishes = [
            (self.publish_service.is_some(), "--publish-service"),
            (!self.publish_status_address.is_empty(), "--publish-status-address"),
            (self.publish_nodes.is_some(), "--publish-nodes"),
        ];
        if let (true, Some(flag)) = (self.no_status, first_given(publishes)) {
            bail!("{flag} and --no-status contradict each other: no status is written");
        }
        Ok(())
    }

    /// The first flag that was given. The pod's name does not count, because every pod manifest may set it.
    fn first_given_flag(&self) -> Option<&'static str> {
        first_given([
            (self.webhook.address.is_some(), "--webhook"),
            (self.publish_service.is_some(), "--publish-service"),
            (!self.publish_status_address.is_empty(), "--publish-status-address"),
            (self.publish_nodes.is_some(), "--publish-nodes"),
            (self.election_id.is_some(), "--election-id"),
            (self.no_status, "--no-status"),
            (self.own_session_tickets, "--own-session-tickets"),
        ])
        .or(self.webhook.first_given_flag())
    }
}

impl WebhookArgs {
    /// The first flag that was given, apart from the address.
    fn first_given_flag(&self) -> Option<&'static str> {
        first_given([
            (self.webhook_certificate.is_some(), "--webhook-certificate"),
            (self.webhook_key.is_some(), "--webhook-key"),
            (self.webhook_client_ca.is_some(), "--webhook-client-ca"),
        ])
    }
}

/// The first flag that was given.
fn first_given<const N: usize>(flags: [(bool, &'static str); N]) -> Option<&'static str> {
    flags.into_iter().find_map(|(given, flag)| given.then_some(flag))
}

impl ClusterArgs {
    /// The credentials for the API server.
    pub(crate) fn credentials(&self) -> Credentials {
        if self.kubeconfig.is_none() && self.context.is_none() {
            return Credentials::Default;
        }
        Credentials::Kubeconfig { file: self.kubeconfig.clone(), context: self.context.clone() }
    }

    /// The namespaces whose objects are served.
    pub(crate) fn namespaces(&self) -> Namespaces {
        match &self.watch_namespace_selector {
            Some(labels) => Namespaces::Labelled(labels.as_str().into()),
            None if self.watch_namespace.is_empty() => Namespaces::All,
            None => {
                Namespaces::Listed(self.watch_namespace.iter().map(|name| name.as_str().into()).collect())
            }
        }
    }

    /// # Errors
    /// One of the flags was given although the source is not a cluster.
    pub(crate) fn refuse_without_cluster(&self, instead: &str) -> Result<()> {
        match self.first_given_flag() {
            Some(flag) => bail!("{flag} is for --kubernetes only, not for {instead}"),
            None => Ok(()),
        }
    }

    /// The first flag that was given.
    fn first_given_flag(&self) -> Option<&'static str> {
        first_given([
            (self.kubeconfig.is_some(), "--kubeconfig"),
            (self.context.is_some(), "--context"),
            (!self.watch_namespace.is_empty(), "--watch-namespace"),
            (self.watch_namespace_selector.is_some(), "--watch-namespace-selector"),
        ])
    }

    /// Which objects to read from the cluster.
    ///
    /// # Errors
    /// The flags contradict each other.
    pub(crate) fn selection(&self, options: Options) -> Result<Selection> {
        self.validate()?;
        let gateways = gateways::serve_gateways(&options.gateways);
        let namespaces = self.namespaces();
        let scope = match namespaces {
            Namespaces::All => GatewayScope::AllNamespaces,
            Namespaces::Listed(_) | Namespaces::Labelled(_) => GatewayScope::SomeNamespaces,
        };
        let of_gateways = GatewayOptions { placement: GatewayPlacement::Given, scope, ..options.gateways };
        let options =
            Options { loopback_endpoints: LoopbackEndpoints::Refused, gateways: of_gateways, ..options };
        Ok(Selection { namespaces, options, services: Vec::new(), gateways })
    }

    /// # Errors
    /// The flags contradict each other.
    fn validate(&self) -> Result<()> {
        if !self.watch_namespace.is_empty() && self.watch_namespace_selector.is_some() {
            bail!("--watch-namespace and --watch-namespace-selector contradict each other: give one of them");
        }
        Ok(())
    }
}
