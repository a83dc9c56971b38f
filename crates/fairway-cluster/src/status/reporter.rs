//! The thread that writes to the cluster: starts and stops its tasks in order.

use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{io, thread};

use fairway_control::input::Inlet;
use fairway_control::pipeline::{View, Viewer};
use fairway_objects::object::ObjectKey;
use kube::Client;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::election::{Election, ElectionOptions, LeadershipWish, Role};
use super::fleet::{OtherReplica, OwnFleet};
use super::gateways::{GatewayKeeper, GatewayKeeperOptions, GatewaySignals};
use super::lease::RETRY_INTERVAL;
use super::object_writer::{ObjectWriter, Versions};
use super::permission::RefusedPermissions;
use super::publish::{self, PublishAddresses};
use super::recorder::{EventRecorder, RecorderSources};
use super::shared_state::ReporterState;
use super::tickets::{TicketKeeper, TicketOptions};
use super::updates::ViewUpdates;
use super::writer::{self, IngressStatusWriter, WriterCommand};

/// How often the configuration is checked for status changes.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Reserved from the stop timeout so that the Lease is always released.
const RELEASE_RESERVE: Duration = Duration::from_secs(1);
/// The pause before the pod's labels are read again.
const LABELS_RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// The consequence if the API does not say whether the pod is deleted.
const UNKNOWN_DELETION: &str = "it is unknown whether this pod is being deleted: its probe fails while it drains, and long requests \
                                over HTTP/3 may be cut";

/// Creates the client on the thread that uses it.
pub type Connect = Box<dyn FnOnce() -> Result<Client, kube::Error> + Send>;

/// The identity of this replica and what it writes.
#[derive(Clone, Debug)]
pub struct ReporterOptions {
    /// The pod of this process. Its name is the identity in the Lease, its labels select the fleet, its namespace holds the
    /// Lease.
    pub pod: ObjectKey,
    /// The name of the Lease (`--election-id`), unique per fleet.
    pub election_id: String,
    /// What is written.
    pub mode: StatusMode,
    /// What the Gateway API adds; `None` if its objects are not served.
    pub gateways: Option<GatewayStatusOptions>,
    /// How replicas share TLS session ticket keys; `None` if each has its own.
    pub tickets: Option<TicketOptions>,
}

/// What the Gateway API adds.
#[derive(Clone)]
pub struct GatewayStatusOptions {
    /// The API versions in which its kinds are requested.
    pub versions: Versions,
    /// What Gateways get; `None` if the Service of Fairway's pods is not configured.
    pub placement: Option<GatewayKeeperOptions>,
    /// The way into the pipeline, for the addresses of Ingresses.
    pub inlet: Inlet,
}

impl std::fmt::Debug for GatewayStatusOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GatewayDuties").field("places", &self.placement).finish_non_exhaustive()
    }
}

/// What is written to the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatusMode {
    /// The leader writes these addresses into the status of Ingresses, and Events.
    Written(PublishAddresses),
    /// Nothing is written and no request is sent: no status, no Lease, no Events. For running next to another controller to
    /// compare them, without confusing the owners of objects with two opinions. What would be reported is in the log, in
    /// `/config`, and in the output of `fairway check`.
    Shadow,
}

/// The running thread.
#[derive(Debug)]
pub struct Reporter {
    standing: ReporterState,
    running: Option<RunningReporter>,
}

#[derive(Debug)]
struct RunningReporter {
    stop: oneshot::Sender<Duration>,
    ended: mpsc::Receiver<()>,
}

impl Reporter {
    /// Starts the thread, which waits for the first configuration.
    ///
    /// # Errors
    /// No thread or runtime can be started.
    pub fn start(connect: Connect, options: ReporterOptions, viewer: Viewer) -> io::Result<Self> {
        let standing = ReporterState::default();
        if options.gateways.as_ref().is_none_or(|duties| duties.placement.is_none()) {
            standing.set_gateways_placed();
        }
        if options.tickets.is_none() {
            standing.set_ticket_keys_known();
        }
        let StatusMode::Written(publish) = options.mode else {
            standing.set_gateways_placed();
            standing.set_ticket_keys_known();
            tracing::info!("shadow mode: no status, no Lease and no Events are written");
            return Ok(Self { standing, running: None });
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let (ends, ended) = mpsc::channel();
        let (pod, election_id, told) = (options.pod, options.election_id, standing.clone());
        let (gateways, tickets) = (options.gateways, options.tickets);
        let work = async move {
            let keeper = match connect() {
                Ok(client) => {
                    let setting = ReporterSetup {
                        client,
                        pod,
                        election_id,
                        publish,
                        viewer,
                        standing: told,
                        gateways,
                        tickets,
                    };
                    run(setting, stopped).await
                }
                Err(error) => {
                    told.set_ticket_keys_known();
                    tracing::error!(
                        %error, "no connection to the API server can be prepared; neither status nor Events are written"
                    );
                    None
                }
            };
            _ = ends.send(());
            // While requests are still served, providers may report logouts.
            if let Some(keeper) = keeper {
                _ = keeper.await;
            }
        };
        thread::Builder::new().name("fairway-status".into()).spawn(move || runtime.block_on(work))?;
        Ok(Self { standing, running: Some(RunningReporter { stop, ended }) })
    }

    /// The state for metrics and diagnostics.
    #[must_use]
    pub fn standing(&self) -> ReporterState {
        self.standing.clone()
    }

    /// Removes this fleet's addresses from status if no other replica stays, releases the Lease, and ends; takes at most
    /// `patience`. Call it when the drain starts, so that another replica leads at once.
    pub fn stop(self, patience: Duration) {
        let Some(RunningReporter { stop, ended }) = self.running else { return };
        if stop.send(patience).is_ok() && ended.recv_timeout(patience).is_err() {
            tracing::warn!(?patience, "the API server was too slow: the shutdown is not complete");
        }
    }
}

/// What the thread needs.
pub(super) struct ReporterSetup {
    pub(super) client: Client,
    pub(super) pod: ObjectKey,
    pub(super) election_id: String,
    pub(super) publish: PublishAddresses,
    pub(super) viewer: Viewer,
    pub(super) standing: ReporterState,
    pub(super) gateways: Option<GatewayStatusOptions>,
    pub(super) tickets: Option<TicketOptions>,
}

/// The concurrent tasks.
struct ReporterTasks {
    fleet: OwnFleet,
    role: watch::Receiver<Role>,
    order: watch::Sender<WriterCommand>,
    writer: Option<JoinHandle<()>>,
    others: Vec<JoinHandle<()>>,
    standing: ReporterState,
    keeper: Option<JoinHandle<()>>,
    wish: watch::Sender<LeadershipWish>,
    election: JoinHandle<()>,
}

/// Runs until it is stopped, with a timeout; returns the task that continues until the process ends.
pub(super) async fn run(
    setting: ReporterSetup,
    mut stop: oneshot::Receiver<Duration>,
) -> Option<JoinHandle<()>> {
    let mut parts = ReporterTasks::start(setting);
    let patience = loop {
        let learned = async {
            if parts.fleet.load_labels().await.is_err() {
                sleep(LABELS_RETRY_INTERVAL).await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            // A Reporter that is dropped without stop means that the process ends.
            patience = &mut stop => break patience.unwrap_or(RELEASE_RESERVE),
            () = learned => {}
        }
    };
    parts.wind_down(Instant::now() + patience).await
}

impl ReporterTasks {
    fn start(setting: ReporterSetup) -> Self {
        let ReporterSetup { client, pod, election_id, publish, viewer, standing, gateways, tickets } =
            setting;
        let refusals = Arc::<RefusedPermissions>::default();
        let candidacy =
            ElectionOptions { namespace: &pod.namespace, lease: &election_id, identity: &pod.name };
        let election = Election::new(&client, &candidacy, refusals.clone(), standing.clone());
        let (role, order) = (election.role(), watch::Sender::new(WriterCommand::Publish));
        let (wish, wishes) = watch::channel(LeadershipWish::Steady);
        let sources = RecorderSources {
            updates: ViewUpdates::new(viewer.clone(), POLL_INTERVAL),
            contested: standing.conflict_changes(),
            role: role.clone(),
        };
        let recorder = EventRecorder::new(client.clone(), &pod.name, refusals.clone(), standing.clone());
        let mut others = vec![tokio::spawn(recorder.run(sources))];
        let mut inlet = None;
        if let Some(GatewayStatusOptions { versions, placement: places, inlet: into }) = gateways {
            inlet = Some(into);
            let statuses = Box::new(|view: &View| view.outcome.translation.gateway.statuses.clone());
            let (client, refusals) = (client.clone(), refusals.clone());
            let part =
                ObjectWriter::new(client.clone(), refusals.clone(), standing.clone(), versions, statuses);
            others
                .push(tokio::spawn(part.run(ViewUpdates::new(viewer.clone(), POLL_INTERVAL), role.clone())));
            if let Some(places) = places {
                let signals = GatewaySignals {
                    updates: ViewUpdates::new(viewer.clone(), POLL_INTERVAL),
                    role: role.clone(),
                };
                let keeper =
                    GatewayKeeper::new(client, &pod, &election_id, refusals, standing.clone(), places);
                others.push(tokio::spawn(keeper.run(signals)));
            }
        }
        let keeper = tickets.map(|duties| {
            let keeper = TicketKeeper::new(client.clone(), &pod, &election_id, standing.clone(), duties);
            tokio::spawn(keeper.run(role.clone()))
        });
        let mut writer = None;
        if publish != PublishAddresses::Unset {
            let (told, addresses) = watch::channel(None);
            others.extend(inlet.map(|inlet| {
                let updates = ViewUpdates::new(viewer.clone(), POLL_INTERVAL);
                tokio::spawn(publish::send_to_pipeline(told.subscribe(), updates, inlet))
            }));
            let updates = ViewUpdates::new(viewer, POLL_INTERVAL);
            let signals =
                writer::WriterSignals { updates, addresses, role: role.clone(), command: order.subscribe() };
            let part = IngressStatusWriter::new(client.clone(), refusals.clone(), standing.clone());
            writer = Some(tokio::spawn(part.run(signals)));
            others.push(tokio::spawn(publish::follow_addresses(
                client.clone(),
                pod.clone(),
                publish,
                refusals.clone(),
                told,
            )));
        }
        let fleet = OwnFleet::new(&client, pod, refusals);
        let election = tokio::spawn(election.run(wishes));
        Self { fleet, role, order, writer, others, standing, keeper, wish, election }
    }

    async fn wind_down(mut self, end: Instant) -> Option<JoinHandle<()>> {
        let clear_until = end.checked_sub(RELEASE_RESERVE).unwrap_or(end);
        match timeout_at(clear_until, self.fleet.is_own_pod_deleted()).await {
            Ok(Ok(true)) => self.standing.set_pod_deleted(),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "{UNKNOWN_DELETION}"),
            Err(_) => tracing::warn!("{UNKNOWN_DELETION}: the API server does not answer"),
        }
        if let Some(mut writer) = self.writer.take() {
            if timeout_at(clear_until, self.clear_if_last(&mut writer, clear_until)).await.is_err() {
                tracing::warn!("the status of Ingresses is not cleared: the time for it has run out");
            }
            writer.abort();
        }
        self.others.iter().for_each(JoinHandle::abort);
        self.wish.send_replace(LeadershipWish::Ended);
        if timeout_at(end, self.election).await.is_err() {
            tracing::warn!("the Lease is not released in time; another replica takes it when it has run out");
        }
        self.keeper
    }

    async fn clear_if_last(&mut self, writer: &mut JoinHandle<()>, until: Instant) {
        match self.fleet.find_other().await {
            Ok(OtherReplica::Pod(pod)) => {
                return tracing::info!(pod, "status stays: another replica keeps running");
            }
            Err(error) => {
                return tracing::warn!(%error, "status stays: it is unknown whether another replica keeps running");
            }
            Ok(OtherReplica::None) => {}
        }
        // The leader may have left just now; then its Lease is free, or soon will be.
        self.wish.send_replace(LeadershipWish::Urgent);
        let time_left = until.saturating_duration_since(Instant::now()).min(RETRY_INTERVAL * 3);
        let leads = self.role.wait_for(|role| *role == Role::Leader);
        if !matches!(timeout(time_left, leads).await, Ok(Ok(_))) {
            return tracing::info!("status is left to the holder of the Lease");
        }
        self.order.send_replace(WriterCommand::Clear);
        match writer.await {
            Ok(()) => tracing::info!("the status of Ingresses is cleared: this was the last replica"),
            Err(error) => tracing::error!(%error, "the status writer failed"),
        }
    }
}
