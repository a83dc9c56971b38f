//! What a cluster is told: status, Events, and answers of the webhook. Starts and stops them; owns no rule of theirs.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fairway_cluster::source::{Cluster, ServeGateways};
use fairway_cluster::status::{
    Asker, Bindings, GatewayDuties, LogoutNotice, NodeAddresses, PlaceOptions, PublishAddresses, Reporter,
    ReporterOptions, Standing, StatusMode, TicketDuties,
};
use fairway_cluster::webhook::{Files, Reviews, Webhook};
use fairway_control::Pipeline;
use fairway_objects::object::ObjectKey;
use fairway_proxy::{Logouts, SessionTickets};
use tokio::sync::{mpsc, oneshot};

use crate::args::{NodeAddressChoice, ReportArgs, RunArgs, WebhookArgs};

/// How long the cluster is told that this replica ends.
const FAREWELL: Duration = Duration::from_secs(5);

/// Logouts that may wait to be told to the other replicas.
const MAX_NOTICES: usize = 1000;

/// The Lease where `--election-id` names none.
const DEFAULT_LEASE: &str = "fairway-leader";

/// The running threads. A clone is the same.
#[derive(Clone)]
pub(super) struct Reporting {
    standing: Option<Standing>,
    lease: Arc<str>,
    reviews: Option<Reviews>,
    reporter: Arc<Mutex<Option<Reporter>>>,
}

/// What the data plane and the cluster tell each other by.
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
        let gateways = duties(args, cluster, pipeline, bindings)?;
        let duties = ticket_duties(args.listen.session_ticket_rotation, tickets, logouts);
        // Without them, whoever tells of a logout hears that the other replicas do not know of it.
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
            let files =
                Files { chain: chain.clone(), key: key.clone(), client_ca: webhook_client_ca.clone() };
            let webhook = Webhook::bind(*address, files).context("--webhook")?;
            reviews = Some(webhook.serve(pipeline.inlet()).context("--webhook")?);
        }
        let reporter = match options(args)? {
            Some(options) => {
                let options = ReporterOptions { gateways, tickets, ..options };
                let client = cluster.client();
                Some(Reporter::start(Box::new(move || Ok(client)), options, pipeline.viewer())?)
            }
            None => None,
        };
        let standing = reporter.as_ref().map(Reporter::standing);
        Ok(Self { standing, lease: lease(args).into(), reviews, reporter: Arc::new(Mutex::new(reporter)) })
    }

    /// The metrics of status, Lease, Events and webhook; `identity` are the labels that those of ingress-nginx all have.
    pub(super) fn metrics_text(&self, identity: &str) -> String {
        let standing = self.standing.as_ref();
        let standing =
            standing.map(|standing| standing.metrics_text() + &standing.election_text(&self.lease, identity));
        let reviews = self.reviews.as_ref().map(|reviews| reviews.metrics_text(identity));
        standing.into_iter().chain(reviews).collect()
    }

    /// Whether the ports of Gateways are bound, as far as anybody looks after them.
    pub(super) fn has_placed_gateways(&self) -> bool {
        self.standing.as_ref().is_none_or(Standing::has_placed_gateways)
    }

    /// Whether the keys that replicas share were read, as far as they share some.
    pub(super) fn knows_ticket_keys(&self) -> bool {
        self.standing.as_ref().is_none_or(Standing::knows_ticket_keys)
    }

    /// Whether the API has said, after the process was told to stop, that its pod is deleted.
    pub(super) fn pod_is_deleted(&self) -> bool {
        self.standing.as_ref().is_some_and(Standing::pod_is_deleted)
    }

    /// Another replica shall lead, and the last one takes its addresses away. Blocks for a while; only the first call
    /// does anything, and a second one waits for it, so that the process does not end before the cluster was told.
    pub(super) fn stop(&self) {
        let mut reporter = self.reporter.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reporter) = reporter.take() {
            reporter.stop(FAREWELL);
        }
    }
}

/// What the Gateway API adds to what is written.
fn duties(
    args: &RunArgs,
    cluster: &Cluster,
    pipeline: &Pipeline,
    bindings: Bindings,
) -> Result<Option<GatewayDuties>> {
    let options = args.options()?;
    let selection = args.source.cluster.selection(options.clone())?;
    if selection.gateways == ServeGateways::No {
        return Ok(None);
    }
    let mut bind: Vec<_> = args.listen.addresses.http.iter().map(SocketAddr::ip).collect();
    bind.sort_unstable();
    bind.dedup();
    let places = args.gateways.pods()?.map(|pods| PlaceOptions {
        controller: options.gateways.controller,
        pods,
        ports: args.gateways.gateway_ports.unwrap_or_default(),
        service_type: args.gateways.gateway_service_type.unwrap_or_default(),
        bind,
        namespaces: selection.namespaces,
        bindings,
        asker: args.listen.addresses.probe.first().map(|probe| Asker::at(*probe)),
        inlet: pipeline.inlet(),
    });
    Ok(Some(GatewayDuties { versions: Arc::new(cluster.versions()), places, inlet: pipeline.inlet() }))
}

/// How ticket keys and logouts reach the data plane, and its own logouts the other replicas.
fn ticket_duties(rotation: Duration, tickets: SessionTickets, logouts: Logouts) -> TicketDuties {
    let (notices, received) = mpsc::channel(MAX_NOTICES);
    logouts.share_by(Box::new(move |logout| {
        let (shared, told) = oneshot::channel();
        notices.try_send(LogoutNotice { logout, shared }).ok().map(|()| told)
    }));
    TicketDuties::new(
        rotation,
        Arc::new(move |keys| tickets.adopt(keys)),
        Arc::new(move |shared| logouts.adopt_shared(shared)),
        received,
    )
}

/// The name of the Lease.
fn lease(args: &ReportArgs) -> &str {
    args.election_id.as_deref().unwrap_or(DEFAULT_LEASE)
}

/// Who writes what; `None` when nobody can be elected.
fn options(args: &ReportArgs) -> Result<Option<ReporterOptions>> {
    let publish = match (&args.publish_service, args.publish_status_address.as_slice(), args.publish_nodes) {
        (Some(_), [_, ..], _) => {
            bail!("--publish-service and --publish-status-address contradict each other: give one of them")
        }
        (Some(_), _, Some(_)) | (_, [_, ..], Some(_)) => bail!(
            "--publish-nodes contradicts --publish-service and --publish-status-address: give one of them"
        ),
        (Some(text), [], None) => PublishAddresses::Service(
            ObjectKey::parse(text)
                .with_context(|| format!("--publish-service {text}: is no NAMESPACE/NAME"))?,
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
        _ => bail!(
            "status is written by one pod of the fleet: give POD_NAME and POD_NAMESPACE, or --no-status"
        ),
    };
    Ok(Some(ReporterOptions {
        pod,
        election_id: lease(args).to_owned(),
        mode,
        gateways: None,
        tickets: None,
    }))
}
