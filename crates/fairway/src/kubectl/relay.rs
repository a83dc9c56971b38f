//! Forwards connections of a local port to the admin server of one pod, and to another pod once that one is gone.

use std::io::{self, Write};
use std::sync::Arc;

use anyhow::{Context, Result};
use fairway_cluster::pods::{self, FairwayPod, Tunnel};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore};

use super::cluster::Cluster;
use crate::terminal::PlainText;

/// Maximum number of concurrent connections, the same as that of the admin server.
const MAX_CONNECTIONS: usize = 64;

/// Forwards connections to the current pod.
pub(super) struct Relay {
    cluster: Cluster,
    /// `None` if the pod is gone and no other one has been found.
    current: Mutex<Option<FairwayPod>>,
}

impl Relay {
    /// Finds a pod that accepts connections.
    ///
    /// # Errors
    /// No pod accepts connections.
    pub(super) async fn start(cluster: Cluster) -> Result<Self> {
        let relay = Self { cluster, current: Mutex::new(None) };
        relay.connect().await?;
        Ok(relay)
    }

    /// Accepts connections until the listener fails.
    pub(super) async fn serve(self, listener: TcpListener) -> Result<()> {
        let (relay, places) = (Arc::new(self), Arc::new(Semaphore::new(MAX_CONNECTIONS)));
        loop {
            let permit = Arc::clone(&places).acquire_owned().await?;
            let (stream, _) = listener.accept().await.context("no more connections can be accepted")?;
            let relay = Arc::clone(&relay);
            tokio::spawn(async move {
                relay.forward(stream).await;
                drop(permit);
            });
        }
    }

    async fn forward(&self, mut local: TcpStream) {
        let (pod, tunnel) = match self.connect().await {
            Ok(PodConnection { pod, tunnel }) => (pod, tunnel),
            Err(error) => return print_note(&format!("{error:#}")),
        };
        let Tunnel { mut stream, refusal } = tunnel;
        tokio::select! {
            biased;
            refusal = refusal => {
                print_note(&format!("the pod {}/{}: {refusal}", pod.namespace, pod.name));
                self.forget_pod(&pod).await;
            }
            // A browser may close its connection at any time; errors are ignored.
            _ = copy_bidirectional(&mut local, &mut stream) => {}
        }
    }

    /// Connects to the current pod, or chooses another one.
    async fn connect(&self) -> Result<PodConnection> {
        let mut current = self.current.lock().await;
        if let Some(pod) = current.clone() {
            match self.tunnel(&pod).await {
                Ok(tunnel) => return Ok(PodConnection { pod, tunnel }),
                Err(error) => print_note(&format!("{error:#}")),
            }
        }
        let failed = current.take();
        let cluster = self.cluster.refreshed().await?;
        let mut pods = cluster.pods;
        // Try ready pods first and the pod that has just failed last.
        pods.sort_by_key(|pod| (failed.as_ref().is_some_and(|it| it.name == pod.name), !pod.is_ready));
        let mut problem = None;
        for pod in pods {
            match self.tunnel(&pod).await {
                Ok(tunnel) => {
                    print_note(&format!("Forwarding to the pod {}/{}.", pod.namespace, pod.name));
                    *current = Some(pod.clone());
                    return Ok(PodConnection { pod, tunnel });
                }
                Err(error) => problem = Some(error),
            }
        }
        Err(problem.unwrap_or_else(|| anyhow::anyhow!("there is no pod")))
    }

    async fn tunnel(&self, pod: &FairwayPod) -> Result<Tunnel> {
        Ok(pods::connect(&self.cluster.client, pod, pod.admin_port).await?)
    }

    /// Makes the next connection choose another pod.
    async fn forget_pod(&self, pod: &FairwayPod) {
        let mut current = self.current.lock().await;
        if current.as_ref().is_some_and(|it| it.name == pod.name) {
            *current = None;
        }
    }
}

/// A connection to a pod.
struct PodConnection {
    pod: FairwayPod,
    tunnel: Tunnel,
}

/// Prints a message to standard error; standard output is only for the URL.
fn print_note(text: &str) {
    // A failure to write cannot be reported.
    _ = writeln!(PlainText(io::stderr()), "{text}");
}
