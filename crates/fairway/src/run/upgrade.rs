//! Upgrades without downtime: takes the listening sockets over from a running process and later hands them to the next one
//! (docs/design/0072-hot-upgrade.md). Also takes the sockets that systemd passes.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fairway_control::admin::AdminServer;
use fairway_proxy::handover::{HandoverListener, HandoverSocket, Predecessor, Successor};
use fairway_proxy::{InheritedSockets, Publisher, StartupSockets};
use tokio::runtime::{Builder, Runtime};

use super::gate::Gate;
use crate::args::RunArgs;

/// Timeout for the workers to adopt the first configuration, which is already compiled.
const ADOPTION_TIMEOUT: Duration = Duration::from_secs(60);

/// The pause after a failed handover attempt.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The sockets and processes that this process starts with.
pub(super) struct Start {
    /// Sockets from systemd or the predecessor.
    pub(super) inherited: InheritedSockets,
    /// The running process to replace.
    predecessor: Option<Predecessor>,
    /// The socket at which the next process will connect.
    rendezvous: Option<HandoverSocket>,
}

impl Start {
    /// Collects the sockets that systemd has `passed` and those of the running process, if there is one.
    pub(super) fn new(args: &RunArgs, passed: Vec<OwnedFd>) -> Result<Self> {
        let mut inherited = InheritedSockets::default();
        inherited.add(passed).context("a socket of the service manager (LISTEN_FDS)")?;
        if let Some(other) =
            inherited.addresses().iter().find(|it| !args.listen.addresses.all().any(|own| own == **it))
        {
            bail!(
                "the service manager passes a socket for {other}, but none of --http, --https, --admin and --probe has this address"
            );
        }
        let Some(path) = &args.listen.upgrade_socket else {
            return Ok(Self { inherited, predecessor: None, rendezvous: None });
        };
        let flag = || format!("--upgrade-socket {}", path.display());
        let rendezvous = HandoverSocket::at(path).with_context(flag)?;
        let found = Predecessor::request_sockets(&rendezvous).with_context(flag)?;
        let predecessor = match found {
            None => None,
            Some((predecessor, sockets)) => {
                inherited.add(sockets).with_context(flag)?;
                tracing::info!(
                    process = predecessor.id(),
                    sockets = inherited.len(),
                    "replacing a running process, which serves until this one is ready"
                );
                Some(predecessor)
            }
        };
        Ok(Self { inherited, predecessor, rendezvous: Some(rendezvous) })
    }

    /// The sockets that the data plane starts with.
    pub(super) fn opening(&mut self) -> StartupSockets {
        StartupSockets {
            inherited: std::mem::take(&mut self.inherited),
            hold_connections: self.predecessor.is_some(),
        }
    }

    /// Before replacing a running process, waits until every worker has adopted the first configuration. This is the last step that
    /// may fail; the running process serves until then.
    pub(super) fn wait_until_adopted(&self, publisher: &Publisher, gate: &Gate) -> Result<()> {
        if self.predecessor.is_none() {
            return Ok(());
        }
        let adopted = async { tokio::time::timeout(ADOPTION_TIMEOUT, publisher.wait_until_adopted(1)).await };
        timer_runtime()?
            .block_on(adopted)
            .context("the workers did not adopt the configuration within a minute")?;
        if gate.is_leaving() {
            bail!("stopped before replacing the running process, which keeps serving");
        }
        Ok(())
    }

    /// Starts accepting connections in place of the predecessor. Returns whether there was one.
    pub(super) fn replace_predecessor(&mut self, publisher: &Publisher) -> bool {
        let Some(predecessor) = self.predecessor.take() else { return false };
        let process = predecessor.id();
        if let Err(error) = predecessor.replace() {
            tracing::warn!(process, %error, "the process to replace has already exited");
        }
        publisher.start_accepting();
        tracing::info!(process, "accepting connections in place of this process, which is draining");
        true
    }

    /// Starts a thread that waits for the process that will replace this one.
    pub(super) fn wait_for_successors(self, gate: &Arc<Gate>, admins: Vec<AdminServer>) {
        let Some(rendezvous) = self.rendezvous else { return };
        let gate = gate.clone();
        let wait = || -> Result<()> {
            let listening = rendezvous.listen()?;
            let offer = HandoverOffer { gate, admins, runtime: timer_runtime()? };
            thread::Builder::new().name("fairway-upgrade".into()).spawn(move || offer.wait(&listening))?;
            Ok(())
        };
        if let Err(error) = wait() {
            // Traffic is already served, which is more important than the next upgrade.
            tracing::error!("--upgrade-socket: no other process can replace this one: {error:#}");
        }
    }
}

fn timer_runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_time().build()?)
}

/// The state that is needed to hand the sockets over.
struct HandoverOffer {
    gate: Arc<Gate>,
    admins: Vec<AdminServer>,
    runtime: Runtime,
}

impl HandoverOffer {
    /// Waits until another process has taken over.
    fn wait(mut self, listening: &HandoverListener) {
        loop {
            match listening.successor() {
                Ok(successor) => match self.hand_over(successor) {
                    Ok(()) => return,
                    Err(unchanged) => self = unchanged,
                },
                Err(error) => {
                    tracing::warn!(%error, "a process that connected to --upgrade-socket gets no sockets");
                    thread::sleep(RETRY_INTERVAL);
                }
            }
        }
    }

    /// Hands the sockets over and leaves once the other process serves. Returns itself if the handover fails.
    fn hand_over(self, successor: Successor) -> Result<(), Self> {
        let process = successor.id();
        let sockets = match self.sockets() {
            Ok(sockets) => sockets,
            Err(error) => {
                tracing::warn!(process, %error, "another process cannot replace this one");
                successor.refuse(&format!("{error:#}"));
                return Err(self);
            }
        };
        tracing::info!(process, "another process is about to replace this one");
        let handed_over = successor.give(&sockets);
        // The other process has its own copies now.
        drop(sockets);
        if let Err(error) = handed_over.and_then(|()| successor.wait_until_ready()) {
            tracing::warn!(process, %error, "the other process did not become ready: this one keeps serving");
            return Err(self);
        }
        tracing::info!(process, "another process has replaced this one, which is draining");
        // From now on, probes must reach the other process.
        self.admins.into_iter().for_each(AdminServer::stop_accepting);
        self.gate.start_leaving();
        if let Some(handle) = self.gate.handle() {
            handle.hand_over();
        }
        Ok(())
    }

    fn sockets(&self) -> Result<Vec<OwnedFd>> {
        let handle = self.gate.handle().context("nothing is served yet")?;
        let mut sockets = self.runtime.block_on(handle.listening_sockets())?;
        for admin in &self.admins {
            sockets.push(admin.socket()?);
        }
        Ok(sockets)
    }
}
