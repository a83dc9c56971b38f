//! `fairway run`: the directory, the pipeline, the data plane and the admin server, wired together. The only file of the
//! binary that knows how the data plane is started, fed and stopped.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use fairway_control::admin::{Admin, Pages, Readiness};
use fairway_control::{Directory, FlagSettings, Pipeline};
use fairway_model::ForwardedTrust;
use fairway_proxy::{Proxy, ProxyHandle, ProxyOptions, Publisher, SelfSigned, StartError};
use fairway_routing::Snapshot;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::RunArgs;
use crate::logging;

/// How long the first configuration may take; 10,000 files take about a second.
const FIRST_CONFIGURATION: Duration = Duration::from_secs(600);

/// Serves until it is told to stop.
pub(crate) fn run(args: &RunArgs) -> Result<ExitCode> {
    let manifests = args.validated()?;
    logging::start(args.logs.log_format, &args.logs.log_level)?;
    let admin = Admin::bind(args.listen.admin).with_context(|| format!("--admin {}", args.listen.admin))?;
    let gate = Arc::new(Gate::default());
    stop_on_signals(gate.clone())?;
    let (pipeline, directory) = {
        let gate = gate.clone();
        let flags = FlagSettings {
            forwarded: ForwardedTrust { ranges: args.listen.trusted_forwarders.clone(), append: false },
        };
        let publish = Box::new(move |snapshot| gate.publish(snapshot));
        let pipeline = Pipeline::start(args.translation.options()?, flags, publish)?;
        let directory = Directory::start(&manifests, pipeline.inlet()).context("--manifests")?;
        (pipeline, directory)
    };
    serve_admin(admin, &pipeline, &gate)?;
    pipeline
        .wait_for_first(FIRST_CONFIGURATION)
        .context("the first configuration took more than ten minutes")?;
    let proxy = gate.open(options(args)?)?;
    tracing::info!(
        http = ?args.listen.http, https = ?args.listen.https, admin = %args.listen.admin,
        manifests = %manifests.display(), version = env!("CARGO_PKG_VERSION"), "serving"
    );
    let ended = proxy.join();
    directory.stop();
    pipeline.stop();
    ended.context("a worker failed")?;
    tracing::info!("drained");
    Ok(ExitCode::SUCCESS)
}

/// Between the pipeline, which may publish before the data plane stands, and the data plane, which starts with the
/// latest snapshot.
#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    draining: AtomicBool,
}

#[derive(Default)]
struct GateState {
    latest: Option<Arc<Snapshot>>,
    proxy: Option<(Publisher, ProxyHandle)>,
}

impl Gate {
    fn publish(&self, snapshot: Arc<Snapshot>) {
        let mut state = self.lock();
        if let Some((publisher, _)) = &state.proxy {
            for problem in publisher.publish(snapshot.clone()) {
                tracing::warn!(certificate = %problem.certificate, error = %problem.error, "a certificate cannot be used");
            }
        }
        state.latest = Some(snapshot);
    }

    /// Starts the data plane with the latest snapshot; no publication can fall in between.
    fn open(&self, mut options: ProxyOptions) -> Result<Proxy> {
        let mut state = self.lock();
        let first = state.latest.clone().context("the first configuration is there")?;
        // The settings ConfigMap goes before the flag; later changes wait for the next start and say so.
        if let Some(workers) = first.config().settings.workers {
            options.workers = usize::try_from(workers)?.max(1);
        }
        let proxy = Proxy::start(options, first).map_err(|error| match error {
            StartError::Bind(error) => anyhow!("--{} {}: {}", error.listener, error.address, error.error),
            error => error.into(),
        })?;
        state.proxy = Some((proxy.publisher(), proxy.handle()));
        Ok(proxy)
    }

    fn readiness(&self) -> Readiness {
        if self.draining.load(Ordering::Acquire) {
            return Readiness::Draining;
        }
        let state = self.lock();
        let adopted = state.proxy.as_ref().map_or(0, |(publisher, _)| publisher.adopted_version());
        Readiness::judge(state.latest.as_ref().map(|snapshot| snapshot.version()), adopted)
    }

    fn handle(&self) -> Option<ProxyHandle> {
        self.lock().proxy.as_ref().map(|(_, handle)| handle.clone())
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        // Every change under the lock is one assignment: a panic elsewhere leaves a good value.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn serve_admin(admin: Admin, pipeline: &Pipeline, gate: &Arc<Gate>) -> Result<()> {
    let (for_readiness, for_metrics) = (gate.clone(), gate.clone());
    let pages = Pages {
        viewer: pipeline.viewer(),
        readiness: Box::new(move || for_readiness.readiness()),
        metrics: Box::new(move || {
            let handle = for_metrics.handle();
            Box::pin(async move {
                match handle {
                    Some(handle) => handle.metrics_text().await,
                    None => String::new(),
                }
            })
        }),
    };
    admin.serve(pages).context("the admin server")
}

fn options(args: &RunArgs) -> Result<ProxyOptions> {
    Ok(ProxyOptions {
        http: args.listen.http.clone(),
        https: args.listen.https.clone(),
        workers: match args.listen.workers {
            Some(workers) => usize::from(workers),
            // The quota of the cgroup is part of what the standard library counts.
            None => thread::available_parallelism().map_or(1, usize::from),
        },
        access_log: args.logs.access_log.into(),
        proxy_protocol: args.listen.proxy_protocol(),
        limits: args.limits.limits(),
        drain: args.drain.options(),
        fallback_certificate: self_signed()?,
    })
}

fn self_signed() -> Result<SelfSigned> {
    let made = rcgen::generate_simple_self_signed(["fairway.invalid".to_owned()])
        .context("making the self-signed certificate for clients that name no known host")?;
    Ok(SelfSigned { chain: vec![made.cert.der().to_vec()], private_key: made.signing_key.serialize_der() })
}

/// The first SIGTERM or SIGINT drains, the second ends the process at once. Stands before anything is served, so that
/// whoever sees the process ready can end it politely.
fn stop_on_signals(gate: Arc<Gate>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut terminate, mut interrupt) = {
        let _inside = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
    };
    let wait = async move {
        let mut next = async || {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        next().await;
        gate.draining.store(true, Ordering::Release);
        let Some(proxy) = gate.handle() else {
            tracing::info!("ended before anything was served");
            std::process::exit(0);
        };
        tracing::info!("draining; a second signal ends the process at once");
        proxy.drain();
        next().await;
        tracing::warn!("ended by a second signal");
        std::process::exit(1);
    };
    thread::Builder::new().name("fairway-signal".into()).spawn(move || runtime.block_on(wait))?;
    Ok(())
}
