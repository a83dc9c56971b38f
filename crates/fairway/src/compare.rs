//! `fairway compare`: sends the same requests to two controllers and explains differences by the objects that cause them.

use std::convert::Infallible;
use std::fs::{self, File};
use std::io::{self, BufReader, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fairway_compare::{Annotated, Findings, Objects, Pacing, Plan, Progress, Report, Stop, Target};
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{CompareArgs, Format};
use crate::offline::{Input, OfflineTranslation};
use crate::terminal::{EscapedJson, PlainText};

/// Interval of the progress messages.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Compares two controllers. Exits with 0 if there are no differences, 1 with differences, 2 if not everything was compared.
pub(crate) fn compare(args: &CompareArgs) -> Result<ExitCode> {
    if args.sending.limit == 0 {
        bail!("--limit 0: no probes would be sent");
    }
    let found = read(args)?;
    let snapshot = &found.outcome.snapshot;
    let mut plan = Plan::from_snapshot(snapshot, args.sending.schemes(), args.sending.limit);
    if let Some(path) = &args.sending.access_log {
        let problem = || format!("--access-log {}", path.display());
        plan.add_log(BufReader::new(File::open(path).with_context(problem)?), snapshot)
            .with_context(problem)?;
    }
    if plan.probes.is_empty() || !plan.is_of_objects {
        bail!(
            "found no Ingress or Gateway API route to compare; is their class served (--ingress-class-compat, \
             --gateway-controller)?"
        );
    }
    let [from, to] = [("--from", &args.from), ("--to", &args.to)]
        .map(|(flag, address)| Target { flag, address: address.clone() });
    let (targets, pacing) = ([&from, &to], pacing(args));
    if !args.sending.yes {
        let mut out = PlainText(io::stdout().lock());
        fairway_compare::write_plan(&mut out, &plan, targets, &pacing)?;
        writeln!(out, "Nothing was sent. Repeat with --yes to send them.")?;
        return Ok(ExitCode::from(2));
    }
    let findings = send_probes(args, &plan, targets, &pacing)?;
    let (changed, note) = changed_since(args, &found);
    let configmap = args.translation.configmap.as_deref();
    let prefix = args.translation.annotations_prefix.trim_end_matches('/');
    let objects = Objects {
        snapshot,
        translation: &found.outcome.translation,
        diagnostics: &found.diagnostics,
        annotated: &found.annotated,
        prefix,
        settings: configmap,
    };
    let mut report = Report::from_answers(&plan, &findings, &objects, targets, &changed);
    report.notes.extend(note);
    write(args.output, &report)?;
    Ok(match (&report.partial, report.is_same()) {
        (Some(_), _) => ExitCode::from(2),
        (None, true) => ExitCode::SUCCESS,
        (None, false) => ExitCode::from(1),
    })
}

fn read(args: &CompareArgs) -> Result<OfflineTranslation> {
    let CompareArgs { manifests, cluster, translation, .. } = args;
    let read = Input { manifests: manifests.as_deref(), cluster, translation, addresses: None }.read()?;
    let seen_kinds = read.seen_kinds();
    let mut found = read.translate()?;
    seen_kinds.soften_unknown_references(&mut found.diagnostics);
    Ok(found)
}

fn pacing(args: &CompareArgs) -> Pacing {
    let sending = &args.sending;
    let (patience, pause) = (sending.timeout, sending.pause);
    Pacing { rate: sending.rate, step_timeout: patience, pause, connections: sending.connections.into() }
}

/// Sends the probes, until all are sent or a signal interrupts it.
fn send_probes(args: &CompareArgs, plan: &Plan, targets: [&Target; 2], pacing: &Pacing) -> Result<Findings> {
    let pem = match &args.sending.ca {
        Some(path) => Some(fs::read(path).with_context(|| format!("--ca {}", path.display()))?),
        None => None,
    };
    let roots = fairway_compare::system_roots(pem.as_deref()).context("--ca")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (progress, stop) = (Progress::default(), Stop::default());
    stop_on_signals(stop.clone())?;
    runtime.block_on(async {
        let probing = fairway_compare::send_probes(plan, targets, pacing, Arc::new(roots), &progress, &stop);
        tokio::select! {
            biased;
            findings = probing => Ok(findings?),
            never = print_progress(&progress) => match never {},
        }
    })
}

async fn print_progress(progress: &Progress) -> Infallible {
    loop {
        tokio::time::sleep(PROGRESS_INTERVAL).await;
        let (sent, planned) = progress.counts();
        // Nothing to do if standard error is closed.
        _ = writeln!(io::stderr(), "{sent} of {planned} probes sent");
    }
}

/// The first signal ends the comparison with a report of the results so far. The second ends the process at once, also while the
/// objects are read again.
fn stop_on_signals(stop: Stop) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut interrupt, mut terminate) = {
        let _inside = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let wait = async move {
        for _ in 0..2 {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            stop.because("interrupted");
        }
        // The process ends even if this cannot be written.
        _ = writeln!(io::stderr(), "fairway: interrupted twice, no report written");
        std::process::exit(2);
    };
    thread::Builder::new().name("fairway-signal".into()).spawn(move || runtime.block_on(wait))?;
    Ok(())
}

/// Reads the objects again and returns the Ingresses that changed: their differences may come from the change alone.
fn changed_since(
    args: &CompareArgs,
    before: &OfflineTranslation,
) -> (Vec<fairway_objects::object::ObjectKey>, Option<String>) {
    if args.manifests.as_ref().is_some_and(|manifests| manifests.as_os_str() == "-") {
        return (Vec::new(), None);
    }
    let after = match read(args) {
        Ok(after) => after,
        Err(error) => return (Vec::new(), Some(format!("the objects could not be read again: {error:#}"))),
    };
    let changed = Annotated::changed_until(&before.annotated, &after.annotated);
    let others = changed.is_empty() && before.outcome.digest != after.outcome.digest;
    let note = "routes, Services, endpoints, Secrets or settings changed while comparing; no Ingress did";
    (changed, others.then(|| note.to_owned()))
}

fn write(format: Format, report: &Report) -> Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    match format {
        Format::Text => fairway_compare::text(&mut PlainText(&mut out), report)?,
        Format::Json => {
            serde_json::to_writer_pretty(EscapedJson(&mut out), report)?;
            writeln!(out)?;
        }
        Format::Html => fairway_compare::html(&mut PlainText(&mut out), report)?,
    }
    Ok(out.flush()?)
}
