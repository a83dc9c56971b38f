//! `fairway run`: wires the source, the pipeline, the data plane and the admin servers together, and starts and stops them.
//!
//! [`feed`] starts the source, [`reporting`] writes to the cluster, and [`gate`] connects the pipeline to the data plane.
//! [`mod@dashboard`] provides the data of the dashboard and [`mod@telemetry`] exports telemetry. [`leases`] requests limit shares
//! from other replicas, and [`mod@location`] finds the node and zone. [`upgrade`] hands sockets over between processes, [`signals`]
//! handles SIGTERM and SIGINT, [`notify`] reports to systemd, and [`cut_requests`] logs the requests that a drain cut.

mod bound_addresses;
mod cut_requests;
mod dashboard;
mod feed;
mod gate;
mod leases;
mod location;
mod notify;
mod reporting;
mod signals;
mod telemetry;
mod upgrade;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::{iter, mem, thread};

use anyhow::{Context, Result, anyhow};
use fairway_control::Pipeline;
use fairway_control::admin::{Admin, AdminServer, Audience, Identity, Pages, ScrapeLimits, TextChunks};
use fairway_model::ProxyLocation;
use fairway_objects::external::refusal;
use fairway_proxy::{
    GeoIp, InheritedSockets, ProxyOptions, SelfSigned, SessionTickets, Stapling, TraceSender, cryptography,
    passed_sockets, refuse_huge_pages,
};

use crate::args::{ReportArgs, RunArgs, TelemetryFlags};
use crate::{allocator, logging, version};
use feed::Feed;
use gate::Gate;
use telemetry::Telemetry;
use upgrade::Start;

/// Serves traffic until a signal to stop.
///
/// `lost` are warnings about flags of another controller that have no effect.
pub(crate) fn run(args: &RunArgs, lost: &[String]) -> Result<ExitCode> {
    cryptography::verify().map_err(|why| anyhow!("the {} cannot be used: {why}", cryptography::MODULE))?;
    // This must happen before any file or socket is opened.
    let passed = passed_sockets().context("the sockets of the service manager")?;
    let source = args.validated()?;
    logging::start(args.logs.log_format, &args.logs.log_level)?;
    lost.iter().for_each(|lost| tracing::warn!("{lost}"));
    if let Err(error) = refuse_huge_pages() {
        tracing::warn!(%error, "cannot disable huge pages: resident memory may exceed the figures in docs/limits.md");
    }
    if args.translation.trust.trusts_every_proxy_header() {
        tracing::warn!(
            "--proxy-protocol without --proxy-protocol-trusted: every peer can claim any client address, so the source \
             ranges of Ingresses do not protect anything"
        );
    }
    let flags = args.telemetry.read()?;
    let mut start = Start::new(args, passed)?;
    let mut admins = bind_admins(args, &mut start.inherited)?;
    let (telemetry, traces) = Telemetry::start(args, &flags)?;
    let telemetry = Arc::new(telemetry);
    let tickets = SessionTickets::rotating(args.listen.session_ticket_rotation);
    let gate = Arc::new(Gate::new(tickets, telemetry.clone()));
    signals::stop_on_signals(gate.clone())?;
    let pipeline = start_pipeline(args, &gate)?;
    let feed = Feed::start(args, &source, &pipeline, &gate)?;
    gate.set_reporting(feed.reporting());
    let pages = Arc::new(admin_pages(args, &pipeline, &gate, &feed, &telemetry));
    if let Some(interval) = args.telemetry.otlp_metrics_interval {
        telemetry.export_metrics(interval, pages.clone());
    }
    // During an upgrade, the admin servers of the running process keep answering until it is replaced.
    let opening = start.opening();
    let mut servers = match opening.hold_connections {
        true => Vec::new(),
        false => serve_admins(mem::take(&mut admins), &pages)?,
    };
    feed.wait_for_first(args, &pipeline)?;
    let location = location::location(&args.topology, feed.client().as_ref())?;
    let traced = TelemetryOptions { flags, traces, telemetry: &telemetry };
    let proxy =
        gate.start_proxy(ProxyOptions { location, ..proxy_options(args, &gate, traced)? }, opening)?;
    start.wait_until_adopted(&proxy.publisher(), &gate)?;
    servers.extend(serve_admins(admins, &pages)?);
    let replaced = start.replace_predecessor(&proxy.publisher());
    start.wait_for_successors(&gate, servers);
    notify::ready(replaced);
    let addresses = &args.listen.addresses;
    tracing::info!(
        http = ?addresses.http, https = ?addresses.https, admin = %addresses.admin,
        source = %feed, version = env!("CARGO_PKG_VERSION"), cryptography = cryptography::MODULE, "serving"
    );
    proxy.wait_until_drained();
    if let Err(error) = cut_requests::report_cut_requests(&proxy.handle(), args.drain.options().timeout) {
        tracing::warn!(%error, "cannot determine whether requests were cut");
    }
    let ended = proxy.join();
    feed.stop();
    pipeline.stop();
    telemetry.stop();
    ended.context("a worker failed")?;
    tracing::info!("drained");
    Ok(ExitCode::SUCCESS)
}

fn start_pipeline(args: &RunArgs, gate: &Arc<Gate>) -> Result<Pipeline> {
    let gate = gate.clone();
    let publish = Box::new(move |publication| gate.publish(publication));
    Ok(Pipeline::start(args.options()?, publish)?)
}

fn bind_admins(args: &RunArgs, inherited: &mut InheritedSockets) -> Result<Vec<(Admin, Audience)>> {
    let mut bind = |flag: &str, address: SocketAddr| {
        let admin = match inherited.take(address).pop() {
            Some(socket) => Admin::from_listener(socket),
            None => Admin::bind(address),
        };
        admin.with_context(|| format!("{flag} {address}"))
    };
    let mut admins = vec![(bind("--admin", args.listen.addresses.admin)?, Audience::Operators)];
    for &probe in &args.listen.addresses.probe {
        admins.push((bind("--probe", probe)?, Audience::Probes));
    }
    Ok(admins)
}

fn admin_pages(
    args: &RunArgs,
    pipeline: &Pipeline,
    gate: &Arc<Gate>,
    feed: &Feed,
    telemetry: &Telemetry,
) -> Pages {
    let (for_readiness, for_adopted, for_metrics) = (gate.clone(), gate.clone(), gate.clone());
    let (waiting, told) = (feed.condition(), feed.condition());
    let exported = telemetry.counts();
    let (bindings, fleet) = (gate.bindings(), gate.fleet());
    let identity = identity(args);
    let labels: Arc<str> = identity.labels().into();
    Pages {
        viewer: pipeline.viewer(),
        readiness: Arc::new(move || waiting.explain(for_readiness.readiness())),
        healthz: args.listen.healthz.into(),
        adopted: Box::new(move || for_adopted.adopted()),
        bound: Box::new(move |address| bindings.is_bound(address)),
        answer_replica: Box::new(move |message| fleet.respond(message)),
        identity,
        metrics: Box::new(move || {
            let (handle, labels) = (for_metrics.handle(), labels.clone());
            let control = for_metrics.propagation().metrics_text()
                + &told.metrics_text(&labels)
                + &exported.metrics_text();
            Box::pin(async move {
                let proxy = match handle {
                    Some(handle) => Some(handle.metrics(&labels).await),
                    None => None,
                };
                Box::new(iter::once(control).chain(proxy.into_iter().flatten())) as TextChunks
            })
        }),
        scrapes: ScrapeLimits::default(),
        dashboard: dashboard::dashboard(gate, feed.replicas(args)),
    }
}

/// The identity of this controller in metrics, with the first class that it serves.
fn identity(args: &RunArgs) -> Identity {
    let class = args.translation.controller_class.first().map(String::as_str).unwrap_or_default();
    let ReportArgs { pod_namespace, pod_name, .. } = &args.report;
    let namespace = pod_namespace.as_deref().unwrap_or_default();
    Identity::new(class, namespace, pod_name.as_deref().unwrap_or_default(), version::REVISION)
}

fn serve_admins(admins: Vec<(Admin, Audience)>, pages: &Arc<Pages>) -> Result<Vec<AdminServer>> {
    let serve = |(admin, audience): (Admin, _)| admin.serve(pages.clone(), audience);
    admins.into_iter().map(serve).collect::<Result<_, _>>().context("the admin server")
}

/// The telemetry options of the data plane.
struct TelemetryOptions<'a> {
    flags: TelemetryFlags,
    traces: TraceSender,
    telemetry: &'a Telemetry,
}

fn proxy_options(args: &RunArgs, gate: &Gate, traced: TelemetryOptions<'_>) -> Result<ProxyOptions> {
    let TelemetryOptions { flags, traces, telemetry } = traced;
    let external = args.options()?.trust.external;
    Ok(ProxyOptions {
        workers: match args.listen.workers {
            Some(workers) => usize::from(workers),
            // The standard library takes the cgroup quota into account.
            None => thread::available_parallelism().map_or(1, usize::from),
        },
        access_log: args.logs.access_log.into(),
        access_log_copies: args.telemetry.otlp_logs.then(|| telemetry.line_copies()),
        proxy_protocol: args.translation.trust.proxy_protocol(),
        limits: args.limits.limits(),
        buffer: args.limits.buffer.options(),
        recorder: args.recorder.options(),
        tracing: flags.tracing,
        traces: Some(traces),
        drain: args.drain.options(),
        location: ProxyLocation::default(),
        tickets: gate.tickets(),
        logouts: gate.logouts(),
        geoip: GeoIp::watch(&args.geoip.geoip).context("watching the files of --geoip")?,
        fleet: gate.fleet(),
        stapling: Stapling::new(move |address| refusal(address, &external).map_or(Ok(()), Err)),
        fallback_certificate: self_signed()?,
        return_memory: allocator::return_memory,
    })
}

fn self_signed() -> Result<SelfSigned> {
    let self_signed = rcgen::generate_simple_self_signed(["fairway.invalid".to_owned()])
        .context("generating the self-signed certificate for unknown hosts")?;
    Ok(SelfSigned {
        chain: vec![self_signed.cert.der().to_vec()],
        private_key: self_signed.signing_key.serialize_der(),
    })
}
