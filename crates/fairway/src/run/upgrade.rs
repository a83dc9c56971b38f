//! Replacing a running process without an error: this one takes its listening sockets, and later gives them to the next one
//! (docs/design/0072-hot-upgrade.md). Sockets of systemd come in here as well.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fairway_control::admin::AdminServer;
use fairway_proxy::handover::{Listening, Predecessor, Rendezvous, Successor};
use fairway_proxy::{Inherited, Opening, Publisher};
use tokio::runtime::{Builder, Runtime};

use super::gate::Gate;
use crate::args::RunArgs;

/// How long the workers may take to adopt the first configuration, which is compiled by then.
const ADOPTION_TIMEOUT: Duration = Duration::from_secs(60);

/// The pause after a process that is no successor.
const PAUSE: Duration = Duration::from_secs(1);

/// How the process begins.
pub(super) struct Start {
    /// Sockets that are there already.
    pub(super) inherited: Inherited,
    /// The running process that is to be replaced.
    predecessor: Option<Predecessor>,
    /// Where the next process will ask.
    rendezvous: Option<Rendezvous>,
}

impl Start {
    /// With the sockets that systemd has `passed`, and those of the process that runs already, if one does.
    pub(super) fn new(args: &RunArgs, passed: Vec<OwnedFd>) -> Result<Self> {
        let mut inherited = Inherited::default();
        inherited.add(passed).context("a socket of the service manager (LISTEN_FDS)")?;
        if let Some(other) =
            inherited.addresses().iter().find(|it| !args.listen.addresses.all().any(|own| own == **it))
        {
            bail!(
                "the service manager passes a socket that listens on {other}, which none of --http, --https, --admin and --probe names"
            );
        }
        let Some(path) = &args.listen.upgrade_socket else {
            return Ok(Self { inherited, predecessor: None, rendezvous: None });
        };
        let flag = || format!("--upgrade-socket {}", path.display());
        let rendezvous = Rendezvous::at(path).with_context(flag)?;
        let found = Predecessor::ask(&rendezvous).with_context(flag)?;
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

    /// What the data plane begins to listen with.
    pub(super) fn opening(&mut self) -> Opening {
        Opening { inherited: std::mem::take(&mut self.inherited), waits: self.predecessor.is_some() }
    }

    /// Waits until every worker has the first configuration, where a running process is to be replaced. The last thing that may fail:
    /// until then that process serves.
    pub(super) fn wait_until_adopted(&self, publisher: &Publisher, gate: &Gate) -> Result<()> {
        if self.predecessor.is_none() {
            return Ok(());
        }
        let adopted = async { tokio::time::timeout(ADOPTION_TIMEOUT, publisher.adopted(1)).await };
        runtime()?.block_on(adopted).context("the workers do not serve within a minute")?;
        if gate.is_leaving() {
            bail!("told to stop before it could replace the running process, which serves on");
        }
        Ok(())
    }

    /// Accepts connections in place of the process that ran before. Says whether there was one.
    pub(super) fn replace_predecessor(&mut self, publisher: &Publisher) -> bool {
        let Some(predecessor) = self.predecessor.take() else { return false };
        let process = predecessor.id();
        if let Err(error) = predecessor.replace() {
            tracing::warn!(process, %error, "the process to be replaced has ended already");
        }
        publisher.begin_accepting();
        tracing::info!(process, "accepting connections in place of this process, which drains now");
        true
    }

    /// Waits on a thread of its own for the process that will replace this one.
    pub(super) fn wait_for_successors(self, gate: &Arc<Gate>, admins: Vec<AdminServer>) {
        let Some(rendezvous) = self.rendezvous else { return };
        let gate = gate.clone();
        let wait = || -> Result<()> {
            let listening = rendezvous.listen()?;
            let offer = Offer { gate, admins, runtime: runtime()? };
            thread::Builder::new().name("fairway-upgrade".into()).spawn(move || offer.wait(&listening))?;
            Ok(())
        };
        if let Err(error) = wait() {
            // Traffic is served by now, which goes before the next upgrade.
            tracing::error!("--upgrade-socket: no other process can replace this one: {error:#}");
        }
    }
}

fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_time().build()?)
}

/// What this process has to give.
struct Offer {
    gate: Arc<Gate>,
    admins: Vec<AdminServer>,
    runtime: Runtime,
}

impl Offer {
    /// Until another process serves.
    fn wait(mut self, listening: &Listening) {
        loop {
            match listening.successor() {
                Ok(successor) => match self.hand_over(successor) {
                    Ok(()) => return,
                    Err(unchanged) => self = unchanged,
                },
                Err(error) => {
                    tracing::warn!(%error, "a process at --upgrade-socket gets no sockets");
                    thread::sleep(PAUSE);
                }
            }
        }
    }

    /// Gives the sockets away, and leaves once the other process serves. Gives itself back where that does not happen.
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
        let given = successor.give(&sockets);
        // The other process has its own now.
        drop(sockets);
        if let Err(error) = given.and_then(|()| successor.wait_until_ready()) {
            tracing::warn!(process, %error, "the other process did not become ready: this one goes on serving");
            return Err(self);
        }
        tracing::info!(process, "another process has replaced this one, which drains now");
        // Probes reach the other process from now on.
        self.admins.into_iter().for_each(AdminServer::leave);
        self.gate.leave();
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
