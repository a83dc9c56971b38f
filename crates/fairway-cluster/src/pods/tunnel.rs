//! A connection to a port of a pod through the API server, as `kubectl port-forward` has it: the kubelet connects to the loopback address
//! of the pod. Each connection has a WebSocket of its own.

use std::pin::Pin;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use tokio::io::DuplexStream;
use tokio::time::timeout;

use super::error::{Attempt, PodError};
use super::found::FairwayPod;

/// How long the API server and the kubelet may take to begin one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Ends with why the pod does not take the connection, and never where it does.
pub type Refusal = Pin<Box<dyn Future<Output = String> + Send>>;

/// A connection to a port of a pod. It lasts as long as its stream.
pub struct Tunnel {
    /// What is sent to the port and comes from it.
    pub stream: DuplexStream,
    /// Why the pod does not take it.
    pub refusal: Refusal,
}

/// Connects to a port of `pod`. Whether anything listens there, [`Tunnel::refusal`] says later.
///
/// # Errors
/// The API server does not permit it, does not know the pod, or does not answer.
pub async fn connect(client: &Client, pod: &FairwayPod, port: u16) -> Result<Tunnel, PodError> {
    let FairwayPod { namespace, name, .. } = pod;
    let attempt = || Attempt {
        action: format!("the port-forward to port {port} of the pod {namespace}/{name}"),
        needs: format!("the verbs get and create on pods/portforward in the namespace {namespace}"),
    };
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let mut forwarder = match timeout(CONNECT_TIMEOUT, pods.portforward(name, &[port])).await {
        Ok(Ok(forwarder)) => forwarder,
        Ok(Err(error)) => return Err(attempt().failure(&error)),
        Err(_) => return Err(attempt().timed_out()),
    };
    // Each of both can be taken once, and nobody has taken them.
    let (Some(stream), Some(error)) = (forwarder.take_stream(port), forwarder.take_error(port)) else {
        let problem = "the client has no stream for it".to_owned();
        return Err(PodError::Failed { action: attempt().action, problem });
    };
    let refusal = async move {
        match error.await {
            Some(message) => message.trim().to_owned(),
            // The connection has ended, which its reader sees.
            None => std::future::pending().await,
        }
    };
    Ok(Tunnel { stream, refusal: Box::pin(refusal) })
}

impl std::fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tunnel").finish_non_exhaustive()
    }
}
