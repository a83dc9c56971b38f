//! The first part of a run: what it needs is fetched, built and packed, and a testbed is brought up around the second
//! part. Whatever happens then, the testbed is taken down. Never measures.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context;
use fairway_lab_measure::results::{Absent, RESULTS};
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use super::arguments::RunArguments;
use super::catalogue::Scenario;
use super::disk_reserve::DiskReserve;
use super::handover::{Handover, Preparation, TESTBED};
use super::progress::Progress;
use super::rounds::{self, Piece};
use super::steps::Steps;
use super::{session, user_cluster};
use crate::cluster::Testbed;
use crate::peers::{self, Artifacts, Described, Peer, RouteApi};

/// The image of backends in the testbed.
const BACKEND_IMAGE: &str = "localhost/fairway-lab-backend:run";

/// Prepares, and measures inside of a testbed where one is needed.
pub(super) fn run(arguments: &RunArguments, scenarios: &[Scenario]) -> anyhow::Result<ExitCode> {
    let progress = Progress::begin();
    let chosen = chosen(&arguments.selection.peers)?;
    let described = permitted(arguments)?;
    let folder = folder(arguments)?;
    let artifacts = artifacts(arguments, &folder)?;
    if scenarios.iter().any(|scenario| scenario.api() == RouteApi::Gateway) {
        // Inside of the testbed nothing can be fetched.
        peers::gateway::definitions(&artifacts)?;
    }
    let mut handover = Handover {
        command: std::env::args().collect(),
        folder,
        artifacts,
        peers: Vec::new(),
        absent: Vec::new(),
        settings: arguments.settings(),
        place: TESTBED.to_owned(),
        image: BACKEND_IMAGE.to_owned(),
        collector: arguments.environment.collector,
        rounds: arguments.scope.rounds(),
        preparation: Preparation::default(),
    };
    if arguments.environment.cluster {
        return user_cluster::run(arguments, &described, handover, scenarios);
    }
    let pieces = rounds::pieces(scenarios, handover.rounds);
    let mut steps = Steps::new(progress, 0, outline(&chosen, &pieces));
    steps.announce();
    let archives = peers_of(&mut handover, &chosen, &mut steps, progress);
    anyhow::ensure!(
        !handover.peers.is_empty(),
        "none of the peers can be had, so there is nothing to measure"
    );
    let outcome = measure(&mut handover, Around { archives, steps, progress });
    let cleared = clear(&handover.artifacts.folder);
    let code = outcome?;
    cleared.map(|()| code)
}

/// The controllers to measure in a cluster of the user's; none where the run has a testbed.
fn permitted(arguments: &RunArguments) -> anyhow::Result<Vec<Described>> {
    if arguments.environment.cluster {
        return user_cluster::permitted(arguments);
    }
    anyhow::ensure!(
        arguments.selection.described.is_empty(),
        "--peer describes a controller in a cluster of yours: say --cluster too"
    );
    anyhow::ensure!(
        rustix::process::geteuid().is_root(),
        "the testbed needs root; as an ordinary user there is `--cluster` for a cluster of yours"
    );
    Ok(Vec::new())
}

/// All steps of a run that are left, from the first peer that is prepared to the end of the testbed.
fn outline(chosen: &[Box<dyn Peer>], pieces: &[Piece<'_>]) -> Vec<String> {
    let mut all: Vec<_> = chosen.iter().map(|peer| format!("prepare {}", peer.name())).collect();
    all.push("bring a testbed up".to_owned());
    all.extend(pieces.iter().map(Piece::title));
    all.push(session::TAKE_DOWN.to_owned());
    all
}

/// What is around the part that measures.
struct Around {
    archives: Vec<PathBuf>,
    steps: Steps,
    progress: Progress,
}

/// Starts the part that measures, inside of a testbed.
fn measure(handover: &mut Handover, mut around: Around) -> anyhow::Result<ExitCode> {
    let file = handover.artifacts.folder.join("handover.json");
    around.archives.push(backend_image(&handover.artifacts)?);
    // Bringing the testbed up is a step of this part.
    let steps = around.steps.begun() + 1;
    handover.preparation = Preparation { seconds: around.progress.seconds(), steps };
    handover.write(&file)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(in_testbed(&handover.artifacts, &file, around))
}

/// Removes the archives of images, half written ones too: they are large, and nothing that was found.
fn clear(work: &Path) -> anyhow::Result<()> {
    let entries = fs::read_dir(work).with_context(|| format!("look into {}", work.display()))?;
    for place in entries.flatten().map(|entry| entry.path()) {
        if place.extension().is_some_and(|extension| extension == "tar") {
            fs::remove_file(&place).with_context(|| format!("remove {}", place.display()))?;
        }
    }
    Ok(())
}

/// The peers that were named, in this order and each once; all where none was.
fn chosen(names: &[String]) -> anyhow::Result<Vec<Box<dyn Peer>>> {
    if names.is_empty() {
        return Ok(peers::all());
    }
    let mut chosen: Vec<Box<dyn Peer>> = Vec::new();
    for name in names {
        if chosen.iter().all(|peer| peer.name() != name) {
            chosen.push(peers::named(name)?);
        }
    }
    // Fairway is what the others are compared with.
    chosen.sort_by_key(|peer| peer.name() != "fairway");
    Ok(chosen)
}

/// The folder of the results, which must be writable before hours are spent. What took hours is never replaced unasked.
fn folder(arguments: &RunArguments) -> anyhow::Result<PathBuf> {
    let time = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
    let folder = arguments.out.clone().unwrap_or_else(|| Path::new("lab-results").join(time));
    anyhow::ensure!(
        arguments.replace || !folder.join(RESULTS).exists(),
        "{} has results already: say --replace, or another --out",
        folder.display()
    );
    fs::create_dir_all(&folder)
        .with_context(|| format!("make the folder of the results, {}", folder.display()))?;
    tempfile::NamedTempFile::new_in(&folder)
        .with_context(|| format!("the folder of the results, {}, cannot be written", folder.display()))?;
    // Given back at once: the part that measures takes it for itself.
    drop(DiskReserve::keep(&folder)?);
    folder.canonicalize().with_context(|| format!("find {}", folder.display()))
}

fn artifacts(arguments: &RunArguments, folder: &Path) -> anyhow::Result<Artifacts> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))
        .context("neither XDG_CACHE_HOME nor HOME is set: there is no place for what is kept between runs")?;
    let work = folder.join("work");
    fs::create_dir_all(&work).with_context(|| format!("make {}", work.display()))?;
    let absolute =
        |path: &Path| std::path::absolute(path).with_context(|| format!("find {}", path.display()));
    Ok(Artifacts {
        cache: cache.join("fairway").join("lab"),
        folder: work,
        checkout: absolute(&arguments.environment.checkout)?,
        fairway: absolute(&arguments.environment.fairway)?,
        fairway_archive: absolute(&arguments.environment.fairway_image)?,
        fairway_image: format!("localhost/fairway:{}", env!("CARGO_PKG_VERSION")),
        laboratory: std::env::current_exe().context("find this program")?,
    })
}

/// Prepares each peer; one that cannot be had is absent, with the reason.
fn peers_of(
    handover: &mut Handover,
    chosen: &[Box<dyn Peer>],
    steps: &mut Steps,
    progress: Progress,
) -> Vec<PathBuf> {
    let mut archives = Vec::new();
    for peer in chosen {
        steps.begin();
        match peer.prepare(&handover.artifacts) {
            Ok(prepared) => {
                handover.peers.push(prepared.record);
                archives.extend(prepared.archives);
            }
            Err(error) => {
                progress.say(&format!("{} is absent: {error:#}", peer.name()));
                let (peer, reason) = (peer.name().to_owned(), format!("{error:#}"));
                handover.absent.push(Absent { peer, scenario: None, round: 0, reason });
            }
        }
    }
    archives
}

/// The image of backends: this program.
fn backend_image(artifacts: &Artifacts) -> anyhow::Result<PathBuf> {
    let archive = artifacts.folder.join("backend.tar");
    let status = Command::new(artifacts.testbed())
        .args(["image", "build", "--name", BACKEND_IMAGE, "--binary"])
        .arg(format!("{}:/usr/bin/fairway-lab", artifacts.laboratory.display()))
        .args(["--entrypoint", "/usr/bin/fairway-lab", "-o"])
        .arg(&archive)
        .stdout(Stdio::null())
        .status()
        .context("pack the image of backends")?;
    anyhow::ensure!(status.success(), "the image of backends cannot be packed ({status})");
    Ok(archive)
}

/// A testbed around the second part, which is this program again, in the testbed's network.
async fn in_testbed(artifacts: &Artifacts, handover: &Path, around: Around) -> anyhow::Result<ExitCode> {
    let Around { archives, mut steps, .. } = around;
    // From here on a signal ends the second part, which then writes what it has; this part stays until all is clean.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    steps.begin();
    let testbed = Testbed::up(&artifacts.testbed(), &format!("lab-{}", std::process::id()))?;
    let second = async {
        testbed.load(&archives)?;
        let mut command = testbed.inside(&artifacts.laboratory);
        command.args(std::env::args_os().skip(1)).arg("--inside").arg(handover);
        let mut child = command.spawn().context("start the part that measures")?;
        let id = Pid::from_child(&child);
        let mut ended = tokio::task::spawn_blocking(move || child.wait());
        loop {
            tokio::select! {
                status = &mut ended => return status.context("wait")?.context("wait for the part that measures"),
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            // From a terminal it has had the signal already; twice does no harm.
            _ = kill_process(id, Signal::INT);
        }
    };
    let outcome = second.await;
    steps.skip_to_last();
    steps.begin();
    testbed.down()?;
    let code = outcome?.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(2)))
}
