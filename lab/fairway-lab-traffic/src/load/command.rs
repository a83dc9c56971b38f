//! The `fairway-lab load` command: runs one stream, prints progress every second and a summary at the end.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;

use super::compose::Composer;
use super::outcome::{Outcome, write_histogram};
use super::plan::{
    Bounds, Expect, Pace, Plan, Protocol, Records, RequestPlan, Reuse, Shape, TlsPlan, Verify,
};
use super::probe::probe;
use super::stream::Stream;
use super::summary::{Ended, Summary};
use super::target;

/// Where Linux distributions keep their CA certificates.
const SYSTEM_ROOTS: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Arguments of `fairway-lab load`.
#[derive(Args)]
pub struct LoadArguments {
    /// Target URL: http://HOST:PORT/PATH or https://...; add more paths with --path.
    url: String,
    /// Requests per second, independent of earlier responses (open loop, like wrk2 and vegeta). Without it, every
    /// connection is kept busy (closed loop, like wrk).
    #[arg(short = 'R', long)]
    rate: Option<f64>,
    /// Exponentially distributed gaps between requests (a Poisson process) instead of equal ones; needs --rate.
    #[arg(long, requires = "rate")]
    poisson: bool,
    #[command(flatten)]
    bounds: Bounds,
    #[command(flatten)]
    shape: Shape,
    /// Use HTTP/2: negotiated by ALPN for https, with prior knowledge for http.
    #[arg(long, group = "streamed")]
    http2: bool,
    /// Use HTTP/3 over QUIC; needs https.
    #[arg(long, group = "streamed")]
    http3: bool,
    /// Use a new connection for each request.
    #[arg(long, conflicts_with = "streamed")]
    new_connections: bool,
    #[command(flatten)]
    tls: TlsPlan,
    /// Accept any certificate.
    #[arg(short = 'k', long, conflicts_with = "ca")]
    insecure: bool,
    /// CA certificates (PEM) to verify the server with, instead of the system's.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    #[command(flatten)]
    request: RequestPlan,
    #[command(flatten)]
    expect: Expect,
    /// Connect to this address instead of the one in the URL; repeat it to spread connections over several addresses.
    #[arg(long, value_name = "ADDR")]
    connect: Vec<SocketAddr>,
    #[command(flatten)]
    records: Records,
    #[command(flatten)]
    output: OutputFlags,
    /// Allow targets other than loopback and the testbed's own network.
    #[arg(long)]
    yes: bool,
}

/// Output options.
#[derive(Args)]
struct OutputFlags {
    /// Write all results as JSON (the `Load` of results.json) to a file, or to standard output with -.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the latencies as an HDR histogram (V2 deflated, microseconds).
    #[arg(long, value_name = "FILE")]
    histogram: Option<PathBuf>,
    /// Print neither progress nor summary.
    #[arg(short, long)]
    quiet: bool,
}

impl LoadArguments {
    /// Runs the load.
    ///
    /// # Errors
    /// Input that cannot be used.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let plan = self.plan()?;
        plan.check()?;
        // Reports an invalid request before any connection is opened.
        Composer::new(&plan, 0, 0)?;
        target::allow(&plan.target.addresses, self.yes)?;
        let mut output = Output::open(&self.output)?;
        if let Err(error) = probe(&plan) {
            _ = writeln!(io::stderr(), "fairway-lab: no load was sent: {error:#}");
            return Ok(ExitCode::FAILURE);
        }
        let interrupts = interrupts()?;
        let stream = Stream::start(plan.clone())?;
        let ended = watch(&stream, &interrupts, self.output.quiet);
        let outcome = stream.join()?;
        let summary = Summary { plan: &plan, outcome: &outcome, ended };
        if !self.output.quiet && !output.is_stdout {
            write!(io::stdout(), "{summary}").context("write the summary")?;
        }
        output.write(&outcome, ended)?;
        if let Some(place) = &self.output.histogram {
            write_histogram(&outcome.latency, place)?;
        }
        let is_good = outcome.failed() == 0 && ended == Ended::AsPlanned;
        Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn plan(&self) -> anyhow::Result<Plan> {
        let mut plan = if self.connect.is_empty() {
            Plan::for_url(&self.url)?
        } else {
            Plan::for_addresses(&self.url, self.connect.clone())?
        };
        if let Some(rate) = self.rate {
            plan.pace = Pace::Open { rate, poisson: self.poisson };
        }
        let usual = self.bounds.requests.is_none().then_some(Duration::from_secs(10));
        plan.bounds = Bounds { duration: self.bounds.duration.or(usual), ..self.bounds };
        (plan.shape, plan.records, plan.expect) = (self.shape, self.records, self.expect.clone());
        if self.http2 {
            plan.wire.protocol = Protocol::Http2;
        }
        if self.http3 {
            plan.wire.protocol = Protocol::Http3;
        }
        if self.new_connections {
            plan.wire.reuse = Reuse::ConnectionPerRequest;
        }
        match &mut plan.wire.tls {
            Some(tls) if self.insecure => *tls = self.tls.clone(),
            Some(tls) => *tls = TlsPlan { verify: Verify::Roots(self.roots()?), ..self.tls.clone() },
            None => self.check_cleartext()?,
        }
        let mut paths = std::mem::replace(&mut plan.request, self.request.clone()).paths;
        paths.append(&mut plan.request.paths);
        plan.request.paths = paths;
        Ok(plan)
    }

    /// Rejects TLS options for an http URL. `--insecure` is allowed: it asks for nothing that cleartext lacks.
    fn check_cleartext(&self) -> anyhow::Result<()> {
        let counts = [
            ("--tls-version", self.tls.versions.len() == 1),
            ("--cipher", !self.tls.ciphers.is_empty()),
            ("--no-resumption", !self.tls.resumption),
            ("--ca", self.ca.is_some()),
        ];
        match counts.iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) => {
                anyhow::bail!("{flag} is about TLS, and {} has none: it must begin with https://", self.url)
            }
            None => Ok(()),
        }
    }

    fn roots(&self) -> anyhow::Result<String> {
        if let Some(file) = &self.ca {
            return std::fs::read_to_string(file).with_context(|| format!("--ca {}", file.display()));
        }
        SYSTEM_ROOTS.iter().find_map(|place| std::fs::read_to_string(place).ok()).context(
            "no authorities to verify the certificate with were found on this system: give --ca FILE, or --insecure",
        )
    }
}

/// Where the JSON goes. It is opened before the load, and the histogram's file created, so that a path that cannot be
/// written fails before the run and not after it.
struct Output {
    file: Option<(PathBuf, std::fs::File)>,
    is_stdout: bool,
}

impl Output {
    fn open(flags: &OutputFlags) -> anyhow::Result<Self> {
        let is_stdout = flags.json.as_ref().is_some_and(|place| place.as_os_str() == "-");
        let file = match &flags.json {
            Some(place) if !is_stdout => {
                let file = std::fs::File::create(place)
                    .with_context(|| format!("--json {}: the file cannot be written", place.display()))?;
                Some((place.clone(), file))
            }
            _ => None,
        };
        if let Some(place) = &flags.histogram {
            std::fs::File::create(place)
                .with_context(|| format!("--histogram {}: the file cannot be written", place.display()))?;
        }
        Ok(Self { file, is_stdout })
    }

    fn write(&mut self, outcome: &Outcome, ended: Ended) -> anyhow::Result<()> {
        let document = serde_json::json!({ "partial": ended != Ended::AsPlanned, "load": &outcome.load });
        let text = serde_json::to_vec_pretty(&document).context("turn the result into JSON")?;
        if self.is_stdout {
            return io::stdout().write_all(&text).context("write the JSON to standard output");
        }
        if let Some((place, file)) = &mut self.file {
            file.write_all(&text).and_then(|()| file.sync_all()).with_context(|| {
                format!("--json {}: the file is not complete; is the disk full?", place.display())
            })?;
        }
        Ok(())
    }
}

/// Counts Ctrl-C and SIGTERM. The first ends the load gracefully; the second exits without waiting for responses.
fn interrupts() -> anyhow::Result<Arc<AtomicU8>> {
    let count = Arc::new(AtomicU8::new(0));
    let counted = count.clone();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("listen to Ctrl-C")?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                use tokio::signal::unix::{SignalKind, signal};
                let (Ok(mut interrupt), Ok(mut terminate)) =
                    (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
                else {
                    return;
                };
                loop {
                    tokio::select! { _ = interrupt.recv() => {} _ = terminate.recv() => {} }
                    if counted.fetch_add(1, Ordering::Relaxed) > 0 {
                        std::process::exit(130);
                    }
                }
            });
        })
        .context("listen to Ctrl-C")?;
    Ok(count)
}

/// Prints progress until the stream ends.
fn watch(stream: &Stream, interrupts: &AtomicU8, quiet: bool) -> Ended {
    let mut ended = Ended::AsPlanned;
    let (mut next, mut before) = (stream.begun() + Duration::from_secs(1), 0);
    while !stream.is_finished() {
        std::thread::sleep(Duration::from_millis(20));
        if ended == Ended::AsPlanned && interrupts.load(Ordering::Relaxed) > 0 {
            ended = Ended::Interrupted;
            stream.stop();
        }
        if !quiet && Instant::now() >= next {
            next += Duration::from_secs(1);
            let progress = stream.progress();
            // A failure to print progress must not end the load.
            _ = writeln!(
                io::stderr(),
                "{:>5.0} s  {:>9} requests/s  errors {}  in flight {}",
                stream.begun().elapsed().as_secs_f64(),
                progress.responses - before,
                progress.errors,
                progress.in_flight
            );
            before = progress.responses;
        }
    }
    ended
}
