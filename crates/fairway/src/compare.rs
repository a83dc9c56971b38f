//! `fairway compare`: two controllers, the same questions, and the objects that explain where the answers differ.

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
use crate::offline::{Input, Offline};
use crate::terminal::{EscapedJson, Plain};

/// Between two lines on how far it is.
const TICK: Duration = Duration::from_secs(5);

/// Compares; 0 when all is the same, 1 with differences, 2 when not everything could be compared.
pub(crate) fn compare(args: &CompareArgs) -> Result<ExitCode> {
    if args.sending.limit == 0 {
        bail!("--limit 0: there would be nothing to ask");
    }
    let found = read(args)?;
    let snapshot = &found.outcome.snapshot;
    let mut plan = Plan::of(snapshot, args.sending.schemes(), args.sending.limit);
    if let Some(path) = &args.sending.access_log {
        let problem = || format!("--access-log {}", path.display());
        plan.add_log(BufReader::new(File::open(path).with_context(problem)?), snapshot)
            .with_context(problem)?;
    }
    if plan.probes.is_empty() || !plan.is_of_objects {
        bail!(
            "there is no Ingress and no route of the Gateway API to ask about: is the class of yours served \
             (--ingress-class-compat, --gateway-controller)?"
        );
    }
    let [from, to] = [("--from", &args.from), ("--to", &args.to)]
        .map(|(flag, address)| Target { flag, address: address.clone() });
    let (targets, pacing) = ([&from, &to], pacing(args));
    if !args.sending.yes {
        let mut out = Plain(io::stdout().lock());
        fairway_compare::intention(&mut out, &plan, targets, &pacing)?;
        writeln!(out, "Nothing was sent. Repeat with --yes to send them.")?;
        return Ok(ExitCode::from(2));
    }
    let findings = sent(args, &plan, targets, &pacing)?;
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
    let mut report = Report::of(&plan, &findings, &objects, targets, &changed);
    report.notes.extend(note);
    write(args.output, &report)?;
    Ok(match (&report.partial, report.is_same()) {
        (Some(_), _) => ExitCode::from(2),
        (None, true) => ExitCode::SUCCESS,
        (None, false) => ExitCode::from(1),
    })
}

fn read(args: &CompareArgs) -> Result<Offline> {
    let CompareArgs { manifests, cluster, translation, .. } = args;
    let read = Input { manifests: manifests.as_deref(), cluster, translation, addresses: None }.read()?;
    let given = read.given();
    let mut found = read.judged()?;
    given.judge(&mut found.diagnostics);
    Ok(found)
}

fn pacing(args: &CompareArgs) -> Pacing {
    let sending = &args.sending;
    let (patience, pause) = (sending.timeout, sending.pause);
    Pacing { rate: sending.rate, patience, pause, connections: sending.connections.into() }
}

/// Sends everything, until it is done or interrupted.
fn sent(args: &CompareArgs, plan: &Plan, targets: [&Target; 2], pacing: &Pacing) -> Result<Findings> {
    let pem = match &args.sending.ca {
        Some(path) => Some(fs::read(path).with_context(|| format!("--ca {}", path.display()))?),
        None => None,
    };
    let roots = fairway_compare::system_roots(pem.as_deref()).context("--ca")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (progress, stop) = (Progress::default(), Stop::default());
    stop_on_signals(stop.clone())?;
    runtime.block_on(async {
        let asked = fairway_compare::ask(plan, targets, pacing, Arc::new(roots), &progress, &stop);
        tokio::select! {
            biased;
            findings = asked => Ok(findings?),
            never = tick(&progress) => match never {},
        }
    })
}

async fn tick(progress: &Progress) -> Infallible {
    loop {
        tokio::time::sleep(TICK).await;
        let (sent, planned) = progress.now();
        // Whoever closed it does not want to know.
        _ = writeln!(io::stderr(), "{sent} of {planned} probes sent");
    }
}

/// The first signal ends it with what was found so far, the second at once, also while the objects are read again.
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
        // It ends, whether anybody reads this or not.
        _ = writeln!(io::stderr(), "fairway: interrupted twice: there is no report");
        std::process::exit(2);
    };
    thread::Builder::new().name("fairway-signal".into()).spawn(move || runtime.block_on(wait))?;
    Ok(())
}

/// Reads the objects again: differences of what changed may be of the change alone.
fn changed_since(
    args: &CompareArgs,
    before: &Offline,
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
        Format::Text => fairway_compare::text(&mut Plain(&mut out), report)?,
        Format::Json => {
            serde_json::to_writer_pretty(EscapedJson(&mut out), report)?;
            writeln!(out)?;
        }
        Format::Html => fairway_compare::html(&mut Plain(&mut out), report)?,
    }
    Ok(out.flush()?)
}
