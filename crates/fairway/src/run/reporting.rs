//! Starts and stops the threads that write status and Events to the cluster and serve the webhook.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fairway_cluster::source::{Cluster, ServeGateways};
use fairway_cluster::status::{
    Bindings, GatewayKeeperOptions, GatewayStatusOptions, LogoutNotice, NodeAddresses, PublishAddresses,
    ReplicaClient, Reporter, ReporterOptions, ReporterState, StatusMode, TicketOptions,
};
use fairway_cluster::webhook::{CertificateFiles, Reviews, Webhook};
use fairway_control::Pipeline;
use fairway_objects::object::ObjectKey;
use fairway_proxy::{Logouts, SessionTickets};
use tokio::sync::{mpsc, oneshot};

use crate::args::{NodeAddressChoice, ReportArgs, RunArgs, WebhookArgs};

/// Timeout for the last writes to the cluster when this replica stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of logouts that wait to be shared with the other replicas.
const MAX_PENDING_LOGOUTS: usize = 1000;

/// The default of `--election-id`.
const DEFAULT_LEASE: &str = "fairway-leader";

/// The running threads. Clones share them.
#[derive(Clone)]
pub(super) struct Reporting {
    standing: Option<ReporterState>,
    lease: Arc<str>,
    reviews: Option<Reviews>,
    reporter: Arc<Mutex<Option<Reporter>>>,
}

/// State that the data plane and the reporting share.
pub(super) struct SharedWithDataPlane {
    pub(super) bindings: Bindings,
    pub(super) tickets: SessionTickets,
    pub(super) logouts: Logouts,
}

impl Reporting {
    pub(super) fn start(
        args: &RunArgs,
        cluster: &Cluster,
        pipeline: &Pipeline,
        shared: SharedWithDataPlane,
    ) -> Result<Self> {
        let SharedWithDataPlane { bindings, tickets, logouts } = shared;
        let gateways = gateway_duties(args, cluster, pipeline, bindings)?;
        let duties = ticket_duties(args.listen.session_ticket_rotation, tickets, logouts);
        // Without ticket duties, a logout notification gets the response that the other replicas do not know of it.
        let tickets = (!args.report.own_session_tickets).then_some(duties);
        let args = &args.report;
        let mut reviews = None;
        if let WebhookArgs {
            address: Some(address),
            webhook_certificate: Some(chain),
            webhook_key: Some(key),
            webhook_client_ca,
        } = &args.webhook
        {
            let files = CertificateFiles {
                chain: chain.clone(),
                key: key.clone(),
                client_ca: webhook_client_ca.clone(),
            };
            let webhook = Webhook::bind(*address, files).context("--webhook")?;
            reviews = Some(webhook.serve(pipeline.inlet()).context("--webhook")?);
        }
        let reporter = match reporter_options(args)? {
            Some(options) => {
                let options = ReporterOptions { gateways, tickets, ..options };
                let client = cluster.client();
                Some(Reporter::start(Box::new(move || Ok(client)), options, pipeline.viewer())?)
            }
            None => None,
        };
        let standing = reporter.as_ref().map(Reporter::standing);
        Ok(Self {
            standing,
            lease: lease_name(args).into(),
            reviews,
            reporter: Arc::new(Mutex::new(reporter)),
        })
    }

    /// The metrics of status, Lease, Events and webhook. `identity` are the labels that all metrics of ingress-nginx have.
    pub(super) fn metrics_text(&self, identity: &str) -> String {
        let standing = self.standing.as_ref();
        let standing =
            standing.map(|standing| standing.metrics_text() + &standing.election_text(&self.lease, identity));
        let reviews = self.reviews.as_ref().map(|reviews| reviews.metrics_text(identity));
        standing.into_iter().chain(reviews).collect()
    }

    /// Whether the ports of Gateways are bound; true if this process does not manage them.
    pub(super) fn has_placed_gateways(&self) -> bool {
        self.standing.as_ref().is_none_or(ReporterState::has_placed_gateways)
    }

    /// Whether the shared ticket keys have been read; true if the replicas share none.
    pub(super) fn knows_ticket_keys(&self) -> bool {
        self.standing.as_ref().is_none_or(ReporterState::knows_ticket_keys)
    }

    /// Whether the API server has reported, after the signal to stop, that the pod is being deleted.
    pub(super) fn pod_is_deleted(&self) -> bool {
        self.standing.as_ref().is_some_and(ReporterState::pod_is_deleted)
    }

    /// Releases the Lease, so that another replica becomes the leader; the last replica clears its addresses. Blocks. Later calls
    /// wait for the first one, so that the process does not exit before the cluster has been updated.
    pub(super) fn stop(&self) {
        let mut reporter = self.reporter.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reporter) = reporter.take() {
            reporter.stop(STOP_TIMEOUT);
        }
    }
}

/// The reporting duties for Gateway API objects; `None` if the Gateway API is off.
fn gateway_duties(
    args: &RunArgs,
    cluster: &Cluster,
    pipeline: &Pipeline,
    bindings: Bindings,
) -> Result<Option<GatewayStatusOptions>> {
    let options = args.options()?;
    let selection = args.source.cluster.selection(options.clone())?;
    if selection.gateways == ServeGateways::No {
        return Ok(None);
    }
    let mut bind: Vec<_> = args.listen.addresses.http.iter().map(SocketAddr::ip).collect();
    bind.sort_unstable();
    bind.dedup();
    let keeper_options = args.gateways.pods_service()?.map(|pods| GatewayKeeperOptions {
        controller: options.gateways.controller,
        pods,
        ports: args.gateways.gateway_ports.unwrap_or_default(),
        service_type: args.gateways.gateway_service_type.unwrap_or_default(),
        bind,
        namespaces: selection.namespaces,
        bindings,
        asker: args.listen.addresses.probe.first().map(|probe| ReplicaClient::new(*probe)),
        inlet: pipeline.inlet(),
    });
    Ok(Some(GatewayStatusOptions {
        versions: Arc::new(cluster.versions()),
        placement: keeper_options,
        inlet: pipeline.inlet(),
    }))
}

/// Connects shared ticket keys and logouts to the data plane, and the data plane's logouts to the other replicas.
fn ticket_duties(rotation: Duration, tickets: SessionTickets, logouts: Logouts) -> TicketOptions {
    let (notices, received) = mpsc::channel(MAX_PENDING_LOGOUTS);
    logouts.set_share(Box::new(move |logout| {
        let (shared, told) = oneshot::channel();
        notices.try_send(LogoutNotice { logout, shared }).ok().map(|()| told)
    }));
    TicketOptions::new(
        rotation,
        Arc::new(move |keys| tickets.adopt(keys)),
        Arc::new(move |shared| logouts.adopt_shared(shared)),
        received,
    )
}

/// The name of the Lease.
fn lease_name(args: &ReportArgs) -> &str {
    args.election_id.as_deref().unwrap_or(DEFAULT_LEASE)
}

/// The options of the reporter; `None` if the pod's name is unknown, so that it cannot take part in the election.
fn reporter_options(args: &ReportArgs) -> Result<Option<ReporterOptions>> {
    let publish = match (&args.publish_service, args.publish_status_address.as_slice(), args.publish_nodes) {
        (Some(_), [_, ..], _) => {
            bail!("--publish-service and --publish-status-address contradict each other: give one of them")
        }
        (Some(_), _, Some(_)) | (_, [_, ..], Some(_)) => bail!(
            "--publish-nodes contradicts --publish-service and --publish-status-address: give one of them"
        ),
        (Some(text), [], None) => PublishAddresses::Service(
            ObjectKey::parse(text)
                .with_context(|| format!("--publish-service {text}: is not a NAMESPACE/NAME"))?,
        ),
        (None, [], None) => PublishAddresses::Unset,
        (None, [], Some(NodeAddressChoice::External)) => PublishAddresses::Nodes(NodeAddresses::External),
        (None, [], Some(NodeAddressChoice::Internal)) => PublishAddresses::Nodes(NodeAddresses::Internal),
        (None, addresses, None) => PublishAddresses::Addresses(addresses.to_vec()),
    };
    let mode = if args.no_status { StatusMode::Shadow } else { StatusMode::Written(publish.clone()) };
    let pod = match (&args.pod_namespace, &args.pod_name) {
        (Some(namespace), Some(name)) => ObjectKey::new(namespace, name),
        _ if args.no_status || publish == PublishAddresses::Unset => return Ok(None),
        _ => {
            bail!("writing status needs leader election: set POD_NAME and POD_NAMESPACE, or give --no-status")
        }
    };
    Ok(Some(ReporterOptions {
        pod,
        election_id: lease_name(args).to_owned(),
        mode,
        gateways: None,
        tickets: None,
    }))
}
