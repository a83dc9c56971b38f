//! The preparing part of a run. It fetches, builds and packs what the peers need, then starts a testbed and in it the
//! measuring part: this program again, with `--inside`. It removes the testbed even if the measuring part fails. It
//! never measures.

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
use super::rounds::{self, ScenarioRound};
use super::steps::Steps;
use super::{session, user_cluster};
use crate::cluster::Testbed;
use crate::peers::{self, Artifacts, DescribedPeer, Peer, RouteApi};

/// Name of the container image that all backends in the testbed run.
const BACKEND_IMAGE: &str = "localhost/fairway-lab-backend:run";

/// Prepares a run and starts its measuring part: in a testbed, or with `--cluster` against the controllers of the
/// user's cluster.
pub(super) fn run(arguments: &RunArguments, scenarios: &[Scenario]) -> anyhow::Result<ExitCode> {
    let progress = Progress::start();
    let peers_to_prepare = select_peers(&arguments.selection.peers)?;
    let cluster_peers = described_cluster_peers(arguments)?;
    let results_folder = create_results_folder(arguments)?;
    let artifacts = create_artifacts(arguments, &results_folder)?;
    if scenarios.iter().any(|scenario| scenario.api() == RouteApi::Gateway) {
        // Fetched here and cached: the network of the testbed has no access to the Internet.
        peers::gateway::definitions(&artifacts)?;
    }
    let mut handover = Handover {
        command: std::env::args().collect(),
        folder: results_folder,
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
        return user_cluster::run(arguments, &cluster_peers, handover, scenarios);
    }
    let scenario_rounds = rounds::scenario_rounds(scenarios, handover.rounds);
    let mut steps = Steps::new(progress, 0, remaining_steps(&peers_to_prepare, &scenario_rounds));
    steps.announce();
    let archives = prepare_peers(&mut handover, &peers_to_prepare, &mut steps, progress);
    anyhow::ensure!(
        !handover.peers.is_empty(),
        "none of the peers could be prepared, so there is nothing to measure"
    );
    let outcome = start_measuring(&mut handover, MeasuringContext { archives, steps, progress });
    // The archives are removed after a failure too; the failure of the measuring part is the one to report.
    let removal = remove_image_archives(&handover.artifacts.folder);
    let exit_code = outcome?;
    removal.map(|()| exit_code)
}

/// The controllers to measure in the user's cluster, as `--peer` describes them; none if the run has a testbed.
///
/// # Errors
/// The arguments do not describe or permit a run in the cluster, or the user may not create a testbed.
fn described_cluster_peers(arguments: &RunArguments) -> anyhow::Result<Vec<DescribedPeer>> {
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

/// The titles of all steps, from the preparation of the first peer to the removal of the testbed.
fn remaining_steps(peers: &[Box<dyn Peer>], scenario_rounds: &[ScenarioRound<'_>]) -> Vec<String> {
    let mut titles: Vec<_> = peers.iter().map(|peer| format!("prepare {}", peer.name())).collect();
    titles.push("bring a testbed up".to_owned());
    titles.extend(scenario_rounds.iter().map(ScenarioRound::title));
    titles.push(session::TAKE_DOWN.to_owned());
    titles
}

/// State that the preparing part needs while the measuring part runs.
struct MeasuringContext {
    /// Container images to load into the testbed.
    archives: Vec<PathBuf>,
    steps: Steps,
    progress: Progress,
}

/// Writes the handover, from which the measuring part learns about the preparation, and runs that part in a testbed.
fn start_measuring(handover: &mut Handover, mut context: MeasuringContext) -> anyhow::Result<ExitCode> {
    let handover_file = handover.artifacts.folder.join("handover.json");
    context.archives.push(pack_backend_image(&handover.artifacts)?);
    // The preparing part has one more step: it brings the testbed up.
    let steps = context.steps.begun() + 1;
    handover.preparation = Preparation { seconds: context.progress.seconds(), steps };
    handover.write(&handover_file)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run_in_testbed(&handover.artifacts, &handover_file, context))
}

/// Removes the archives of container images, including partly written ones. They are large, and not part of the
/// results.
fn remove_image_archives(work_folder: &Path) -> anyhow::Result<()> {
    let entries = fs::read_dir(work_folder).with_context(|| format!("read {}", work_folder.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_some_and(|extension| extension == "tar") {
            fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
        }
    }
    Ok(())
}

/// The named peers, each once: Fairway first, and the others in the order of their names. All peers if `names` is
/// empty.
fn select_peers(names: &[String]) -> anyhow::Result<Vec<Box<dyn Peer>>> {
    if names.is_empty() {
        return Ok(peers::all_peers());
    }
    let mut selected: Vec<Box<dyn Peer>> = Vec::new();
    for name in names {
        if selected.iter().all(|peer| peer.name() != name) {
            selected.push(peers::find_peer(name)?);
        }
    }
    // Fairway comes first because the report compares the others with it. The sort keeps the order of the others.
    selected.sort_by_key(|peer| peer.name() != "fairway");
    Ok(selected)
}

/// Creates the folder for the results, and checks that it is writable and has disk space: a run takes hours, and must
/// not fail at its end. Results of an earlier run are only replaced with `--replace`.
fn create_results_folder(arguments: &RunArguments) -> anyhow::Result<PathBuf> {
    let start_time = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
    let folder = arguments.out.clone().unwrap_or_else(|| Path::new("lab-results").join(start_time));
    anyhow::ensure!(
        arguments.replace || !folder.join(RESULTS).exists(),
        "{} has results already: say --replace, or another --out",
        folder.display()
    );
    fs::create_dir_all(&folder).with_context(|| format!("create the results folder {}", folder.display()))?;
    tempfile::NamedTempFile::new_in(&folder)
        .with_context(|| format!("the results folder {} is not writable", folder.display()))?;
    // Only checks that there is enough disk space. The measuring part reserves the space itself.
    drop(DiskReserve::keep(&folder)?);
    folder.canonicalize().with_context(|| format!("find {}", folder.display()))
}

/// Creates the work folder in the results folder. Returns its path with those of the cache, the checkout and the
/// programs.
fn create_artifacts(arguments: &RunArguments, results_folder: &Path) -> anyhow::Result<Artifacts> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))
        .context("neither XDG_CACHE_HOME nor HOME is set, so there is no folder for the cache")?;
    let work_folder = results_folder.join("work");
    fs::create_dir_all(&work_folder).with_context(|| format!("create {}", work_folder.display()))?;
    let absolute =
        |path: &Path| std::path::absolute(path).with_context(|| format!("find {}", path.display()));
    Ok(Artifacts {
        cache: cache.join("fairway").join("lab"),
        folder: work_folder,
        checkout: absolute(&arguments.environment.checkout)?,
        fairway: absolute(&arguments.environment.fairway)?,
        fairway_archive: absolute(&arguments.environment.fairway_image)?,
        fairway_image: format!("localhost/fairway:{}", env!("CARGO_PKG_VERSION")),
        laboratory: std::env::current_exe().context("find this program")?,
    })
}

/// Prepares each peer, and returns the archives of their container images. A peer that cannot be prepared is recorded
/// as absent, with the reason, and the run continues without it.
fn prepare_peers(
    handover: &mut Handover,
    peers: &[Box<dyn Peer>],
    steps: &mut Steps,
    progress: Progress,
) -> Vec<PathBuf> {
    let mut archives = Vec::new();
    for peer in peers {
        steps.begin();
        match peer.prepare(&handover.artifacts) {
            Ok(prepared) => {
                handover.peers.push(prepared.record);
                archives.extend(prepared.archives);
            }
            Err(error) => {
                progress.say(&format!("{} is absent: {error:#}", peer.name()));
                let (name, reason) = (peer.name().to_owned(), format!("{error:#}"));
                handover.absent.push(Absent { peer: name, scenario: None, round: 0, reason });
            }
        }
    }
    archives
}

/// Packs this program, which is also the backend, into a container image. Returns the path of the archive.
fn pack_backend_image(artifacts: &Artifacts) -> anyhow::Result<PathBuf> {
    let archive = artifacts.folder.join("backend.tar");
    let status = Command::new(artifacts.testbed())
        .args(["image", "build", "--name", BACKEND_IMAGE, "--binary"])
        .arg(format!("{}:/usr/bin/fairway-lab", artifacts.laboratory.display()))
        .args(["--entrypoint", "/usr/bin/fairway-lab", "-o"])
        .arg(&archive)
        .stdout(Stdio::null())
        .status()
        .context("pack the backend image")?;
    anyhow::ensure!(status.success(), "the backend image cannot be packed ({status})");
    Ok(archive)
}

/// Brings a testbed up, runs the measuring part in the testbed's network, and takes the testbed down. Returns the
/// exit code of the measuring part; 2 if a signal ended it.
async fn run_in_testbed(
    artifacts: &Artifacts,
    handover_file: &Path,
    context: MeasuringContext,
) -> anyhow::Result<ExitCode> {
    let MeasuringContext { archives, mut steps, .. } = context;
    // From here on, SIGINT and SIGTERM do not end this process. It interrupts the measuring part, which then writes
    // its results, and takes the testbed down afterwards.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    steps.begin();
    let testbed = Testbed::up(&artifacts.testbed(), &format!("lab-{}", std::process::id()))?;
    let measuring_part = async {
        testbed.load(&archives)?;
        let mut command = testbed.inside(&artifacts.laboratory);
        command.args(std::env::args_os().skip(1)).arg("--inside").arg(handover_file);
        let mut child = command.spawn().context("start the measuring part")?;
        let child_pid = Pid::from_child(&child);
        let mut exited = tokio::task::spawn_blocking(move || child.wait());
        loop {
            tokio::select! {
                status = &mut exited => {
                    return status.context("join the waiting thread")?.context("wait for the measuring part");
                }
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            // After Ctrl-C in a terminal, the child has already received the signal; a second one is harmless.
            _ = kill_process(child_pid, Signal::INT);
        }
    };
    let outcome = measuring_part.await;
    steps.skip_to_last();
    steps.begin();
    testbed.down()?;
    let code = outcome?.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(2)))
}
