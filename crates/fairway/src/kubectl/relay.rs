//! Connections of a local port, each of which goes on to the admin server of one pod: the same as long as it is there, then another.

use std::io::{self, Write};
use std::sync::Arc;

use anyhow::{Context, Result};
use fairway_cluster::pods::{self, FairwayPod, Tunnel};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore};

use super::cluster::Cluster;
use crate::terminal::Plain;

/// Connections at a time; the admin server takes as many.
const MAX_CONNECTIONS: usize = 64;

/// Where connections go.
pub(super) struct Relay {
    cluster: Cluster,
    /// `None` when the pod is gone and no other has been found.
    current: Mutex<Option<FairwayPod>>,
}

impl Relay {
    /// To a pod that takes connections.
    ///
    /// # Errors
    /// No pod does.
    pub(super) async fn start(cluster: Cluster) -> Result<Self> {
        let relay = Self { cluster, current: Mutex::new(None) };
        relay.connect().await?;
        Ok(relay)
    }

    /// Takes connections until the listener fails.
    pub(super) async fn serve(self, listener: TcpListener) -> Result<()> {
        let (relay, places) = (Arc::new(self), Arc::new(Semaphore::new(MAX_CONNECTIONS)));
        loop {
            let place = Arc::clone(&places).acquire_owned().await?;
            let (stream, _) = listener.accept().await.context("no more connections can be accepted")?;
            let relay = Arc::clone(&relay);
            tokio::spawn(async move {
                relay.forward(stream).await;
                drop(place);
            });
        }
    }

    async fn forward(&self, mut local: TcpStream) {
        let (pod, tunnel) = match self.connect().await {
            Ok(Connected { pod, tunnel }) => (pod, tunnel),
            Err(error) => return note(&format!("{error:#}")),
        };
        let Tunnel { mut stream, refusal } = tunnel;
        tokio::select! {
            biased;
            refusal = refusal => {
                note(&format!("the pod {}/{}: {refusal}", pod.namespace, pod.name));
                self.leave(&pod).await;
            }
            // A browser that goes away is its own business.
            _ = copy_bidirectional(&mut local, &mut stream) => {}
        }
    }

    /// A connection to the current pod, or to another one that becomes it.
    async fn connect(&self) -> Result<Connected> {
        let mut current = self.current.lock().await;
        if let Some(pod) = current.clone() {
            match self.tunnel(&pod).await {
                Ok(tunnel) => return Ok(Connected { pod, tunnel }),
                Err(error) => note(&format!("{error:#}")),
            }
        }
        let failed = current.take();
        let cluster = self.cluster.again().await?;
        let mut pods = cluster.pods;
        // The one that has just failed comes last, and those that are ready first.
        pods.sort_by_key(|pod| (failed.as_ref().is_some_and(|it| it.name == pod.name), !pod.is_ready));
        let mut problem = None;
        for pod in pods {
            match self.tunnel(&pod).await {
                Ok(tunnel) => {
                    note(&format!("Forwarding to the pod {}/{}.", pod.namespace, pod.name));
                    *current = Some(pod.clone());
                    return Ok(Connected { pod, tunnel });
                }
                Err(error) => problem = Some(error),
            }
        }
        Err(problem.unwrap_or_else(|| anyhow::anyhow!("there is no pod")))
    }

    async fn tunnel(&self, pod: &FairwayPod) -> Result<Tunnel> {
        Ok(pods::connect(&self.cluster.client, pod, pod.admin_port).await?)
    }

    /// The next connection goes to another pod.
    async fn leave(&self, pod: &FairwayPod) {
        let mut current = self.current.lock().await;
        if current.as_ref().is_some_and(|it| it.name == pod.name) {
            *current = None;
        }
    }
}

/// A connection, and where it goes.
struct Connected {
    pod: FairwayPod,
    tunnel: Tunnel,
}

/// What happens meanwhile; the standard output has only the address.
fn note(text: &str) {
    // Nobody is left to tell when it cannot be written.
    _ = writeln!(Plain(io::stderr()), "{text}");
}
