//! A connection to a port of a pod through the API server, like `kubectl port-forward`: the kubelet connects to the pod's
//! loopback address. Each connection has its own WebSocket.

use std::pin::Pin;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use tokio::io::DuplexStream;
use tokio::time::timeout;

use super::discovery::FairwayPod;
use super::error::{PodError, PodOperation};

/// Timeout of the API server and the kubelet for opening one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Resolves to the reason when the pod refuses the connection, and never otherwise.
pub type Refusal = Pin<Box<dyn Future<Output = String> + Send>>;

/// A connection to a port of a pod. It lives as long as its stream.
pub struct Tunnel {
    /// Bytes to and from the port.
    pub stream: DuplexStream,
    /// Why the pod refuses it.
    pub refusal: Refusal,
}

/// Connects to a port of `pod`. Whether anything listens there, [`Tunnel::refusal`] tells later.
///
/// # Errors
/// The API server forbids it, does not know the pod, or does not answer.
pub async fn connect(client: &Client, pod: &FairwayPod, port: u16) -> Result<Tunnel, PodError> {
    let FairwayPod { namespace, name, .. } = pod;
    let attempt = || PodOperation {
        action: format!("the port-forward to port {port} of the pod {namespace}/{name}"),
        requirement: format!("the verbs get and create on pods/portforward in the namespace {namespace}"),
    };
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let mut forwarder = match timeout(CONNECT_TIMEOUT, pods.portforward(name, &[port])).await {
        Ok(Ok(forwarder)) => forwarder,
        Ok(Err(error)) => return Err(attempt().failure(&error)),
        Err(_) => return Err(attempt().timed_out()),
    };
    // Each can be taken once, and this is the only place that does.
    let (Some(stream), Some(error)) = (forwarder.take_stream(port), forwarder.take_error(port)) else {
        let problem = "the client has no stream for it".to_owned();
        return Err(PodError::Failed { action: attempt().action, problem });
    };
    let refusal = async move {
        match error.await {
            Some(message) => message.trim().to_owned(),
            // The connection has ended; its reader sees that.
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
