//! The phases of a flood: quiet, flood, recovery, the same load by honest clients at the same times.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::findings::{AttackStats, FloodFindings, Honest, Memory, Recovery};
use super::kind::Kind;
use super::pace::{Allowance, Watch};
use super::passwords::verifies;
use super::plan::{self, Plan};
use super::probe::{Clients, ProbeTally};
use super::socket_memory::Port;
use super::threads::{Threads, Work};
use super::usage::{cpu_of_process, cpu_of_threads, forget_peak, peak, resident};
use crate::process::Fairway;
use crate::proof::fleet::Fleet;
use crate::proof::site::{Scheme, Site};
use crate::wait::{WAIT_TIMEOUT, eventually};

/// Endpoints of the one backend.
const ENDPOINTS: usize = 2;
/// Time for attackers and pace to settle, at most half of a flood's time.
const SETTLE_TIME: Duration = Duration::from_millis(800);
/// Requests in a row that must be served on new connections.
const REQUIRED_SUCCESSES: usize = 20;
const RECOVERED_WITHIN: Duration = Duration::from_secs(30);
/// A smaller load counts as none.
const NO_LOAD: f64 = 0.005;

/// The effort.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Effort {
    /// The measured time of the flood; each phase around it takes at most as long.
    pub time: Duration,
    /// Number of connections for attacks that hold connections open, unless they need more.
    pub connections: usize,
    /// Requests of well-behaved clients per second.
    pub rate: f64,
    /// CPUs that attackers may keep busy in the proxy, so that honest clients can do the same on this machine. The
    /// threads that verify passwords come on top.
    pub cores: f64,
    /// Whether honest clients do the same afterwards.
    pub compared: bool,
}

impl Effort {
    fn settling(&self) -> Duration {
        SETTLE_TIME.min(self.time / 2)
    }
}

/// Floods a separate proxy.
pub async fn run(binary: &Path, kind: Kind, effort: &Effort) -> FloodFindings {
    allow_many_files();
    let site = Site::new();
    plan::furnish(kind, &site);
    let fleet = Fleet::start(&site, binary, ENDPOINTS).await;
    let mut stage = FloodRun::open(binary, kind, *effort, &site, &fleet).await;
    let quiet =
        stage.probe_clients((effort.time / 2).clamp(Duration::from_secs(1), Duration::from_secs(5))).await;
    let (mut found, work) = stage.flood(quiet).await;
    if effort.compared {
        found.honest = Some(stage.compare(&work, &found.attacked).await);
    }
    found
}

/// Attackers hold thousands of connections; the proxy inherits the limit. Where it cannot be raised it stays.
fn allow_many_files() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// The proxy's memory when it serves without an attack.
async fn at_rest(binary: &Path, site: &Site, effort: Effort) -> u64 {
    let mut fairway = site.serve(binary, &[]).await;
    Clients::new(site.endpoint(&fairway, Scheme::Plain)).send_requests(effort.rate, effort.settling()).await;
    resident(fairway.program().id())
}

/// The proxy, its clients, and its costs without an attack.
struct FloodRun {
    kind: Kind,
    plan: Plan,
    effort: Effort,
    fairway: Fairway,
    clients: Clients,
    process: u32,
    backends: Vec<u32>,
    ports: Vec<Port>,
    /// CPUs that well-behaved clients keep busy.
    quiet_cores: f64,
}

impl FloodRun {
    async fn open(binary: &Path, kind: Kind, effort: Effort, site: &Site, fleet: &Fleet) -> Self {
        let plan = Plan::for_kind(kind);
        let budget = match plan.room {
            Some(room) => Some((at_rest(binary, site, effort).await + room).to_string()),
            None => None,
        };
        let arguments: Vec<&str> = budget.iter().flat_map(|bytes| ["--max-memory", bytes]).collect();
        let mut fairway = match plan.open_files {
            None => site.serve(binary, &arguments).await,
            Some(limit) => site.serve_with_open_files(limit, binary, &arguments).await,
        };
        let process = fairway.program().id();
        let own_ports = [fairway.http, fairway.https].map(|address| Port::Own(address.port()));
        let others = fleet.addresses().into_iter().map(|address| Port::Other(address.port()));
        let ports = own_ports.into_iter().chain(others).collect();
        let clients = Clients::new(site.endpoint(&fairway, plan.scheme));
        let backends = fleet.processes();
        Self { kind, plan, effort, fairway, clients, process, backends, ports, quiet_cores: 0.0 }
    }

    async fn probe_clients(&mut self, time: Duration) -> ProbeTally {
        // The first requests open connections and fill caches.
        self.clients.send_requests(self.effort.rate, self.effort.settling()).await;
        let (began, before) = (Instant::now(), cpu_of_process(self.process));
        let probed = self.clients.send_requests(self.effort.rate, time).await;
        let spent = cpu_of_process(self.process).saturating_sub(before);
        self.quiet_cores = spent.as_secs_f64() / began.elapsed().as_secs_f64();
        probed
    }

    async fn flood(&mut self, quiet: ProbeTally) -> (FloodFindings, Work) {
        let (kind, effort) = (self.kind, self.effort);
        let resident_before = resident(self.process);
        let work = plan::work(kind, &self.fairway).await;
        let connections = self.plan.connections(effort.connections);
        let address = match self.plan.scheme {
            Scheme::Plain => self.fairway.http,
            Scheme::Tls => self.fairway.https,
        };
        forget_peak(self.process);
        let threads = Threads::start(&work, address, connections);
        let watch = self.watch(&threads, &work, effort.cores);
        eventually("an attacker is connected", WAIT_TIMEOUT, || async { threads.control.opened() > 0 }).await;
        // Requests sent in the meantime count too: the start of the flood is part of it.
        let settling = self.clients.send_requests(effort.rate, effort.settling()).await;
        let (mut attacked, mut flooded) = self.measure(&threads, connections).await;
        flooded.add_outcomes(&settling);
        attacked.opened = threads.control.opened();
        let sockets_peak = watch.end();
        let resident_peak = peak(self.process);
        let well = threads.stop();
        let recovery = self.recover(well).await;
        let memory = Memory {
            resident_before,
            resident_peak,
            resident_after: resident(self.process),
            resident_bound: self.plan.bound(resident_before, connections),
            sockets_peak,
        };
        (
            FloodFindings {
                kind,
                what: kind.description(),
                attacked,
                memory,
                quiet,
                flooded,
                honest: None,
                recovery,
            },
            work,
        )
    }

    fn watch(&self, threads: &Threads, work: &Work, cores: f64) -> Watch {
        let step = work.step().unwrap_or_default();
        let control = Arc::clone(&threads.control);
        let allowance = Allowance { control, cores, others: self.quiet_cores, step };
        Watch::start(self.process, self.ports.clone(), allowance)
    }

    /// Runs well-behaved clients for the whole time and measures the CPU of both sides.
    async fn measure(&self, threads: &Threads, connections: usize) -> (AttackStats, ProbeTally) {
        let counted = self.counts().await;
        // CPU time is read within the measured time, so no thread can exceed it.
        let (began, spent) = (Instant::now(), self.spent(threads));
        let probed = self.clients.send_requests(self.effort.rate, self.effort.time).await;
        let [proxy, verifying, backend, attacker] = since(spent, self.spent(threads));
        let seconds = began.elapsed().as_secs_f64();
        let [requests, denied, forwarded, upstream_connections] = since(counted, self.counts().await);
        let attacked = AttackStats {
            seconds,
            connections,
            opened: threads.control.opened(),
            requests: (requests - probed.sent as f64).max(0.0),
            denied,
            forwarded,
            upstream_connections,
            attacker_cpu_seconds: attacker,
            proxy_cpu_seconds: (proxy - self.quiet_cores * seconds).max(0.0),
            verifying_cpu_seconds: verifying,
            backend_cpu_seconds: backend,
        };
        (attacked, probed)
    }

    /// The proxy's counts: requests, those answered with 401, those sent to backends, and backend connections; 0 if it does
    /// not respond.
    async fn counts(&self) -> [f64; 4] {
        let Ok(metrics) = self.fairway.try_metrics().await else { return [0.0; 4] };
        [
            metrics.sum("nginx_ingress_controller_requests", &[]),
            metrics.sum("nginx_ingress_controller_requests", &[("status", "401")]),
            metrics.sum("fairway_upstream_requests_total", &[]),
            metrics.sum("fairway_upstream_connections_total", &[]),
        ]
    }

    /// CPU seconds of the proxy, of its threads that verify passwords, of the backends, and of the threads of clients.
    fn spent(&self, threads: &Threads) -> [f64; 4] {
        let backends = self.backends.iter().map(|backend| cpu_of_process(*backend)).sum();
        let proxy = cpu_of_process(self.process);
        [proxy, cpu_of_threads(self.process, verifies), backends, threads.cpu()].map(|cpu| cpu.as_secs_f64())
    }

    async fn recover(&mut self, well: bool) -> Recovery {
        let began = Instant::now();
        let (mut row, mut first) = (0, None);
        while row < REQUIRED_SUCCESSES && began.elapsed() < RECOVERED_WITHIN {
            if self.clients.is_served().await {
                first = first.or_else(|| Some(began.elapsed()));
                row += 1;
            } else {
                (row, first) = (0, None);
                sleep(Duration::from_millis(5)).await;
            }
        }
        let served_after_ms =
            first.filter(|_| row == REQUIRED_SUCCESSES).map(|after: Duration| after.as_secs_f64() * 1_000.0);
        let ready = self.fairway.admin("/readyz").await.is_ok_and(|answer| answer.status == 200);
        let metrics = self.fairway.try_metrics().await.ok();
        let ejections = metrics.map(|metrics| metrics.sum("fairway_upstream_ejections_total", &[]));
        Recovery { served_after_ms, ready, alive: well && self.fairway.program().is_running(), ejections }
    }

    /// Honest clients that make the proxy spend as much as `flood` did when it `attacked`, at the same times.
    async fn compare(&self, flood: &Work, attacked: &AttackStats) -> Honest {
        let cores = attacked.cores();
        if cores < NO_LOAD {
            let probed = self.clients.send_requests(self.effort.rate, self.effort.time).await;
            return Honest { cores: 0.0, connections: 0, together_ms: None, probed };
        }
        let (work, connections) = self.plan.honest(flood, attacked.connections);
        let threads = Threads::start(&work, self.fairway.http, connections);
        // They connect first, so that connecting is not counted as the cost of requests.
        self.clients.send_requests(self.effort.rate, self.effort.settling()).await;
        let watch = self.watch(&threads, &work, cores);
        let learning = self.effort.settling().max(work.step().unwrap_or_default());
        self.clients.send_requests(self.effort.rate, learning).await;
        let (measured, probed) = self.measure(&threads, connections).await;
        watch.end();
        threads.stop();
        let together_ms = work.step().map(|step| step.as_millis() as u64);
        Honest { cores: measured.cores(), connections, together_ms, probed }
    }
}

fn since(before: [f64; 4], now: [f64; 4]) -> [f64; 4] {
    std::array::from_fn(|index| (now[index] - before[index]).max(0.0))
}
