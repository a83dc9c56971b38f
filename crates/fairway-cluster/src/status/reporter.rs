//! The thread that writes to the cluster: starts and ends its parts in their order. Owns no rule of any of them.

use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{io, thread};

use fairway_control::inlet::Inlet;
use fairway_control::pipeline::{View, Viewer};
use fairway_objects::object::ObjectKey;
use kube::Client;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::election::{Candidacy, Election, Role, Wish};
use super::fleet::{Fleet, Others};
use super::gateways::{Keeper, PlaceOptions, Signals};
use super::lease::RETRY;
use super::object_writer::{ObjectWriter, Versions};
use super::permission::Refusals;
use super::publish::{self, PublishAddresses};
use super::recorder::{Recorder, Sources};
use super::standing::Standing;
use super::tickets::{TicketDuties, TicketKeeper};
use super::updates::Updates;
use super::writer::{self, Order, Writer};

/// How often the configuration is looked at for changes of status.
const LOOK: Duration = Duration::from_millis(100);
/// Kept of the time for stopping so that the Lease is released in any case.
const FOR_RELEASE: Duration = Duration::from_secs(1);
/// The pause before the own pod is asked for again.
const LEARN_AGAIN: Duration = Duration::from_secs(30);

/// What follows where the API does not say whether the pod is deleted.
const UNKNOWN_DELETION: &str = "it is not known whether this pod is deleted: its probe fails while it drains, and long requests \
                                over HTTP/3 may be cut";

/// Makes the client, on the thread that uses it.
pub type Connect = Box<dyn FnOnce() -> Result<Client, kube::Error> + Send>;

/// Who this replica is and what it writes.
#[derive(Clone, Debug)]
pub struct ReporterOptions {
    /// The pod that this process runs in. Its name is the identity in the Lease, its labels are those of the fleet, its
    /// namespace holds the Lease.
    pub pod: ObjectKey,
    /// The name of the Lease (`--election-id`); every fleet needs its own.
    pub election_id: String,
    /// What is written.
    pub mode: StatusMode,
    /// What the Gateway API adds; nothing where its objects are not served.
    pub gateways: Option<GatewayDuties>,
    /// How replicas share the ticket keys of TLS sessions; nothing where each has its own.
    pub tickets: Option<TicketDuties>,
}

/// What the Gateway API adds to what is written.
#[derive(Clone)]
pub struct GatewayDuties {
    /// In which version its kinds are asked for.
    pub versions: Versions,
    /// What Gateways get; nothing where nobody said where Fairway's pods are.
    pub places: Option<PlaceOptions>,
    /// The way into the pipeline, for the addresses that Ingresses get.
    pub inlet: Inlet,
}

impl std::fmt::Debug for GatewayDuties {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GatewayDuties").field("places", &self.places).finish_non_exhaustive()
    }
}

/// What is written to the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatusMode {
    /// The leader writes these addresses into the status of Ingresses, and Events.
    Written(PublishAddresses),
    /// Nothing at all, and no request is made: neither status nor Lease nor Events. For a controller that runs beside
    /// another one to be compared with it: the owners of objects must not see two opinions. What it would say is in its
    /// log, in `/config`, and in what `fairway check` prints.
    Shadow,
}

/// The running thread.
#[derive(Debug)]
pub struct Reporter {
    standing: Standing,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    stop: oneshot::Sender<Duration>,
    ended: mpsc::Receiver<()>,
}

impl Reporter {
    /// Starts the thread; it waits for the first configuration by itself.
    ///
    /// # Errors
    /// No thread or runtime can be started.
    pub fn start(connect: Connect, options: ReporterOptions, viewer: Viewer) -> io::Result<Self> {
        let standing = Standing::default();
        if options.gateways.as_ref().is_none_or(|duties| duties.places.is_none()) {
            standing.gateways_placed();
        }
        if options.tickets.is_none() {
            standing.ticket_keys_known();
        }
        let StatusMode::Written(publish) = options.mode else {
            standing.gateways_placed();
            standing.ticket_keys_known();
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
                    let setting = Setting {
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
                    told.ticket_keys_known();
                    tracing::error!(
                        %error, "no connection to the API server can be prepared; neither status nor Events are written"
                    );
                    None
                }
            };
            _ = ends.send(());
            // While requests are still served, providers may tell of logouts.
            if let Some(keeper) = keeper {
                _ = keeper.await;
            }
        };
        thread::Builder::new().name("fairway-status".into()).spawn(move || runtime.block_on(work))?;
        Ok(Self { standing, running: Some(Running { stop, ended }) })
    }

    /// What it shows of itself.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.standing.clone()
    }

    /// Removes this fleet's addresses from status when no other replica is left, releases the Lease, and ends; takes
    /// `patience` at most. To be called when the drain begins: another replica then leads at once.
    pub fn stop(self, patience: Duration) {
        let Some(Running { stop, ended }) = self.running else { return };
        if stop.send(patience).is_ok() && ended.recv_timeout(patience).is_err() {
            tracing::warn!(?patience, "the API server was too slow to be told that this replica ends");
        }
    }
}

/// All that the thread needs.
pub(super) struct Setting {
    pub(super) client: Client,
    pub(super) pod: ObjectKey,
    pub(super) election_id: String,
    pub(super) publish: PublishAddresses,
    pub(super) viewer: Viewer,
    pub(super) standing: Standing,
    pub(super) gateways: Option<GatewayDuties>,
    pub(super) tickets: Option<TicketDuties>,
}

/// The parts that run at the same time.
struct Parts {
    fleet: Fleet,
    role: watch::Receiver<Role>,
    order: watch::Sender<Order>,
    writer: Option<JoinHandle<()>>,
    others: Vec<JoinHandle<()>>,
    standing: Standing,
    keeper: Option<JoinHandle<()>>,
    wish: watch::Sender<Wish>,
    election: JoinHandle<()>,
}

/// Runs until it is stopped, and within which time; gives what goes on until the process ends.
pub(super) async fn run(setting: Setting, mut stop: oneshot::Receiver<Duration>) -> Option<JoinHandle<()>> {
    let mut parts = Parts::start(setting);
    let patience = loop {
        let learned = async {
            if parts.fleet.learn().await.is_err() {
                sleep(LEARN_AGAIN).await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            // Whoever drops the Reporter without stopping it ends the process.
            patience = &mut stop => break patience.unwrap_or(FOR_RELEASE),
            () = learned => {}
        }
    };
    parts.wind_down(Instant::now() + patience).await
}

impl Parts {
    fn start(setting: Setting) -> Self {
        let Setting { client, pod, election_id, publish, viewer, standing, gateways, tickets } = setting;
        let refusals = Arc::<Refusals>::default();
        let candidacy = Candidacy { namespace: &pod.namespace, lease: &election_id, identity: &pod.name };
        let election = Election::new(&client, &candidacy, refusals.clone(), standing.clone());
        let (role, order) = (election.role(), watch::Sender::new(Order::Publish));
        let (wish, wishes) = watch::channel(Wish::Steady);
        let sources = Sources {
            updates: Updates::new(viewer.clone(), LOOK),
            contested: standing.contested(),
            role: role.clone(),
        };
        let recorder = Recorder::new(client.clone(), &pod.name, refusals.clone(), standing.clone());
        let mut others = vec![tokio::spawn(recorder.run(sources))];
        let mut inlet = None;
        if let Some(GatewayDuties { versions, places, inlet: into }) = gateways {
            inlet = Some(into);
            let statuses = Box::new(|view: &View| view.outcome.translation.gateway.statuses.clone());
            let (client, refusals) = (client.clone(), refusals.clone());
            let part =
                ObjectWriter::new(client.clone(), refusals.clone(), standing.clone(), versions, statuses);
            others.push(tokio::spawn(part.run(Updates::new(viewer.clone(), LOOK), role.clone())));
            if let Some(places) = places {
                let signals = Signals { updates: Updates::new(viewer.clone(), LOOK), role: role.clone() };
                let keeper = Keeper::new(client, &pod, &election_id, refusals, standing.clone(), places);
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
                let updates = Updates::new(viewer.clone(), LOOK);
                tokio::spawn(publish::pass_on(told.subscribe(), updates, inlet))
            }));
            let updates = Updates::new(viewer, LOOK);
            let signals =
                writer::Signals { updates, addresses, role: role.clone(), order: order.subscribe() };
            let part = Writer::new(client.clone(), refusals.clone(), standing.clone());
            writer = Some(tokio::spawn(part.run(signals)));
            others.push(tokio::spawn(publish::follow(
                client.clone(),
                pod.clone(),
                publish,
                refusals.clone(),
                told,
            )));
        }
        let fleet = Fleet::new(&client, pod, refusals);
        let election = tokio::spawn(election.run(wishes));
        Self { fleet, role, order, writer, others, standing, keeper, wish, election }
    }

    async fn wind_down(mut self, end: Instant) -> Option<JoinHandle<()>> {
        let clear_until = end.checked_sub(FOR_RELEASE).unwrap_or(end);
        match timeout_at(clear_until, self.fleet.deletes_own_pod()).await {
            Ok(Ok(true)) => self.standing.pod_deleted(),
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
        self.wish.send_replace(Wish::Ended);
        if timeout_at(end, self.election).await.is_err() {
            tracing::warn!("the Lease is not released in time; another replica takes it when it has run out");
        }
        self.keeper
    }

    async fn clear_if_last(&mut self, writer: &mut JoinHandle<()>, until: Instant) {
        match self.fleet.others().await {
            Ok(Others::Pod(pod)) => return tracing::info!(pod, "status stays: another replica goes on"),
            Err(error) => {
                return tracing::warn!(%error, "status stays: it is not known whether another replica goes on");
            }
            Ok(Others::None) => {}
        }
        // The leader may have gone a moment ago; then its Lease is free, or will be.
        self.wish.send_replace(Wish::Urgent);
        let left = until.saturating_duration_since(Instant::now()).min(RETRY * 3);
        let leads = self.role.wait_for(|role| *role == Role::Leader);
        if !matches!(timeout(left, leads).await, Ok(Ok(_))) {
            return tracing::info!("status is left to the holder of the Lease");
        }
        self.order.send_replace(Order::Clear);
        match writer.await {
            Ok(()) => tracing::info!("the status of Ingresses is cleared: the last replica goes"),
            Err(error) => tracing::error!(%error, "the writer of status failed"),
        }
    }
}
