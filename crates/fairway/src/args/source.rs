//! The flags that say where configuration comes from, and what a cluster is told in return.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use fairway_cluster::source::{Credentials, Namespaces, Selection};
use fairway_objects::options::{GatewayOptions, GatewayScope, LoopbackEndpoints, Options, Places};

use super::gateways;

/// Where configuration comes from.
#[derive(Debug, Args)]
#[command(next_help_heading = "Where configuration comes from")]
pub(crate) struct SourceArgs {
    /// A directory of Kubernetes YAML or JSON; changes are followed
    #[arg(long, env = "FAIRWAY_MANIFESTS", value_name = "DIR")]
    pub(crate) manifests: Option<PathBuf>,
    /// Read the objects of a cluster from the Kubernetes API
    #[arg(long, env = "FAIRWAY_KUBERNETES")]
    pub(crate) kubernetes: bool,
    /// Which cluster, and what of it
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// A directory for the last good configuration, which is served if the API does not answer after a start
    #[arg(long, env = "FAIRWAY_STATE_DIR", value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
}

/// Which cluster, and what of it.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "The cluster")]
pub(crate) struct ClusterArgs {
    /// A kubeconfig [default: the pod's ServiceAccount, else KUBECONFIG, else ~/.kube/config]
    #[arg(long, env = "FAIRWAY_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, env = "FAIRWAY_CONTEXT", value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Serve only what is in these namespaces [default: all]
    #[arg(long, env = "FAIRWAY_WATCH_NAMESPACE", value_name = "NS", value_delimiter = ',')]
    pub(crate) watch_namespace: Vec<String>,
    /// Serve only what is in namespaces with these labels, as in team=shop,env!=test
    #[arg(long, env = "FAIRWAY_WATCH_NAMESPACE_SELECTOR", value_name = "LABELS")]
    pub(crate) watch_namespace_selector: Option<String>,
}

/// What is written to the cluster.
#[derive(Debug, Args)]
#[command(next_help_heading = "What is written to the cluster")]
pub(crate) struct ReportArgs {
    /// The Service whose addresses are written to the status of Ingresses
    #[arg(long, env = "FAIRWAY_PUBLISH_SERVICE", value_name = "NS/NAME")]
    pub(crate) publish_service: Option<String>,
    /// Addresses or names to write to the status of Ingresses instead
    #[arg(long, env = "FAIRWAY_PUBLISH_STATUS_ADDRESS", value_name = "ADDR", value_delimiter = ',')]
    pub(crate) publish_status_address: Vec<String>,
    /// The addresses of the nodes with ready pods, to write to the status of Ingresses instead; internal ones count for a node
    /// that has no external one
    #[arg(long, env = "FAIRWAY_PUBLISH_NODES", value_name = "WHICH")]
    pub(crate) publish_nodes: Option<NodeAddressChoice>,
    /// The Lease, in the pod's namespace, that elects the replica that writes [default: fairway-leader]
    #[arg(long, env = "FAIRWAY_ELECTION_ID", value_name = "NAME")]
    pub(crate) election_id: Option<String>,
    /// Write no status, Events or Lease, to run alongside another controller of the same Ingresses
    #[arg(long, env = "FAIRWAY_NO_STATUS")]
    pub(crate) no_status: bool,
    /// Share no ticket keys of TLS sessions with the other replicas: each resumes only the sessions that it began
    #[arg(long, env = "FAIRWAY_OWN_SESSION_TICKETS")]
    pub(crate) own_session_tickets: bool,
    /// The name of this pod
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub(crate) pod_name: Option<String>,
    /// The namespace of this pod
    #[arg(long, env = "POD_NAMESPACE", value_name = "NS")]
    pub(crate) pod_namespace: Option<String>,
    /// Where the validating webhook answers
    #[command(flatten)]
    pub(crate) webhook: WebhookArgs,
}

/// Where the validating webhook answers.
#[derive(Debug, Args)]
#[command(next_help_heading = "What is written to the cluster")]
pub(crate) struct WebhookArgs {
    /// The address of the validating webhook [default: none]
    #[arg(long = "webhook", env = "FAIRWAY_WEBHOOK", value_name = "ADDR", requires_all = ["webhook_certificate", "webhook_key"])]
    pub(crate) address: Option<SocketAddr>,
    /// Its certificate chain, a PEM file; reloaded when it changes
    #[arg(long, env = "FAIRWAY_WEBHOOK_CERTIFICATE", value_name = "FILE")]
    pub(crate) webhook_certificate: Option<PathBuf>,
    /// Its key, a PEM file
    #[arg(long, env = "FAIRWAY_WEBHOOK_KEY", value_name = "FILE")]
    pub(crate) webhook_key: Option<PathBuf>,
    /// Authorities that must have issued the API server's client certificate, a PEM file; reloaded when it changes
    /// [default: no client certificate is requested]
    #[arg(long, env = "FAIRWAY_WEBHOOK_CLIENT_CA", value_name = "FILE")]
    pub(crate) webhook_client_ca: Option<PathBuf>,
}

/// Where configuration comes from, once the flags agree.
#[derive(Clone, Debug)]
pub(crate) enum Source<'a> {
    /// A directory.
    Manifests(&'a PathBuf),
    /// A cluster.
    Kubernetes(&'a ClusterArgs),
}

impl SourceArgs {
    /// The one source.
    ///
    /// # Errors
    /// There is none, or there are two.
    pub(crate) fn validated(&self) -> Result<Source<'_>> {
        match (&self.manifests, self.kubernetes) {
            (Some(_), true) => bail!("--manifests and --kubernetes contradict each other: give one of them"),
            (None, false) => {
                bail!("where does configuration come from? Give --manifests DIR or --kubernetes")
            }
            (Some(manifests), false) => {
                self.cluster.refuse_without_cluster("--manifests")?;
                if self.state_dir.is_some() {
                    bail!("--state-dir is for --kubernetes: manifests are on disk already");
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

/// Which addresses of nodes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum NodeAddressChoice {
    External,
    Internal,
}

impl ReportArgs {
    /// # Errors
    /// A flag would have no effect.
    pub(crate) fn validate(&self, source: &Source<'_>) -> Result<()> {
        if let (Source::Manifests(_), Some(flag)) = (source, self.given()) {
            bail!("{flag} is about a cluster: it goes with --kubernetes, not with --manifests");
        }
        if let (None, Some(flag)) = (self.webhook.address, self.webhook.given()) {
            bail!("{flag} without --webhook: there is no webhook");
        }
        let publishes = [
            (self.publish_service.is_some(), "--publish-service"),
            (!self.publish_status_address.is_empty(), "--publish-status-address"),
            (self.publish_nodes.is_some(), "--publish-nodes"),
        ];
        if let (true, Some(flag)) = (self.no_status, first(publishes)) {
            bail!("{flag} and --no-status contradict each other: no status is written");
        }
        Ok(())
    }

    /// The first flag that was given. The name of the pod is none: every manifest of a pod may bring it.
    fn given(&self) -> Option<&'static str> {
        first([
            (self.webhook.address.is_some(), "--webhook"),
            (self.publish_service.is_some(), "--publish-service"),
            (!self.publish_status_address.is_empty(), "--publish-status-address"),
            (self.publish_nodes.is_some(), "--publish-nodes"),
            (self.election_id.is_some(), "--election-id"),
            (self.no_status, "--no-status"),
            (self.own_session_tickets, "--own-session-tickets"),
        ])
        .or(self.webhook.given())
    }
}

impl WebhookArgs {
    /// The first flag but the address that was given.
    fn given(&self) -> Option<&'static str> {
        first([
            (self.webhook_certificate.is_some(), "--webhook-certificate"),
            (self.webhook_key.is_some(), "--webhook-key"),
            (self.webhook_client_ca.is_some(), "--webhook-client-ca"),
        ])
    }
}

/// The first flag that was given.
fn first<const N: usize>(flags: [(bool, &'static str); N]) -> Option<&'static str> {
    flags.into_iter().find_map(|(given, flag)| given.then_some(flag))
}

impl ClusterArgs {
    /// Which credentials to use.
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
    /// One was given although no cluster is asked.
    pub(crate) fn refuse_without_cluster(&self, instead: &str) -> Result<()> {
        match self.given() {
            Some(flag) => bail!("{flag} is about a cluster: it goes with --kubernetes, not with {instead}"),
            None => Ok(()),
        }
    }

    /// The first flag that was given.
    fn given(&self) -> Option<&'static str> {
        first([
            (self.kubeconfig.is_some(), "--kubeconfig"),
            (self.context.is_some(), "--context"),
            (!self.watch_namespace.is_empty(), "--watch-namespace"),
            (self.watch_namespace_selector.is_some(), "--watch-namespace-selector"),
        ])
    }

    /// What is read of the cluster.
    ///
    /// # Errors
    /// The flags contradict each other.
    pub(crate) fn selection(&self, options: Options) -> Result<Selection> {
        self.validate()?;
        let gateways = gateways::serve(&options.gateways);
        let namespaces = self.namespaces();
        let scope = match namespaces {
            Namespaces::All => GatewayScope::AllNamespaces,
            Namespaces::Listed(_) | Namespaces::Labelled(_) => GatewayScope::SomeNamespaces,
        };
        let of_gateways = GatewayOptions { places: Places::Given, scope, ..options.gateways };
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
