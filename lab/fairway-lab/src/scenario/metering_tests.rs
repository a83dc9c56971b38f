//! The meter against an API server that is no API server: pods whose cgroups are not on this machine.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpListener;

use super::*;

/// How this API server reports CPU usage; it has one pod `a` on node `far`.
#[derive(Clone, Copy)]
enum Knows {
    /// Counters of the kubelet. Each query advances them by 20 s, in which the pod uses 10 s of CPU.
    Counters,
    Nothing,
}

struct ApiServer {
    knows: Knows,
    requests: AtomicU64,
}

const POD: &str = r#"{"metadata":{"name":"a","namespace":"edge"},"spec":{"nodeName":"far","containers":[]},"status":{
  "containerStatuses":[{"name":"proxy","image":"i","imageID":"i","ready":true,"restartCount":0,"state":{"running":{}},
  "containerID":"containerd://0123456789abcdef-elsewhere"}]}}"#;

impl ApiServer {
    /// An API server on loopback, and its client.
    async fn start(knows: Knows) -> Arc<Cluster> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("loopback has a free port");
        let address: SocketAddr = listener.local_addr().expect("it is bound");
        let server = Arc::new(Self { knows, requests: AtomicU64::new(0) });
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let server = server.clone();
                let service = service_fn(move |request: Request<Incoming>| {
                    let response = server.respond(request.uri().path());
                    async move { Ok::<_, Infallible>(response) }
                });
                let serving = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(connection), service);
                tokio::spawn(serving);
            }
        });
        let url = format!("http://{address}").parse().expect("an address makes a URL");
        let client = kube::Client::try_from(kube::Config::new(url)).expect("no TLS is asked for");
        Arc::new(Cluster::with(client))
    }

    fn respond(&self, path: &str) -> Response<Full<Bytes>> {
        let requests = self.requests.load(Ordering::SeqCst);
        let (status, body) = match (path, self.knows) {
            ("/api/v1/namespaces/edge/pods", _) => {
                (200, format!(r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{}},"items":[{POD}]}}"#))
            }
            ("/api/v1/nodes/far/proxy/metrics/resource", Knows::Counters) => {
                self.requests.fetch_add(1, Ordering::SeqCst);
                let (cpu, at) = (requests * 10, 1_795_000_000_000 + requests * 20_000);
                let labels = r#"{namespace="edge",pod="a"}"#;
                (
                    200,
                    format!(
                        "pod_cpu_usage_seconds_total{labels} {cpu} {at}\npod_memory_working_set_bytes{labels} 5e+06 {at}\n"
                    ),
                )
            }
            (path, _) => {
                let (code, reason) =
                    if path.contains("/proxy/") { (403, "Forbidden") } else { (404, "NotFound") };
                let failure_status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                    "reason": reason, "message": format!("no {path} for you") });
                (code, failure_status.to_string())
            }
        };
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = hyper::StatusCode::from_u16(status).expect("these are statuses");
        response
    }
}

async fn metering(knows: Knows, source: CpuSource) -> Metering {
    let follow = Follow {
        cluster: ApiServer::start(knows).await,
        namespace: "edge".to_owned(),
        selector: Some("app=proxy".to_owned()),
        source,
    };
    Metering::start(follow).await.expect("pods can be listed")
}

/// The reason why there is no cost.
async fn reason(knows: Knows, source: CpuSource) -> String {
    let metered = metering(knows, source).await.cut().await.expect("pods can be listed");
    metered.cost(100).expect_err("nothing can be read")
}

#[tokio::test]
async fn pods_elsewhere_are_read_from_their_kubelets_by_their_samples_times() {
    let mut metering = metering(Knows::Counters, CpuSource::Automatic).await;
    for _ in 0..3 {
        let mut gauge = metering.gauge.lock().await;
        assert!(matches!(&*gauge, Gauge::There(_)), "no cgroup of them is here");
        metering.follow.read(&mut gauge).await.expect("the kubelet answers");
    }
    let metered = metering.cut().await.expect("the kubelet answers");
    assert_eq!(
        (metered.spent.memory_bytes, metered.source, metered.container_count),
        (Some(5_000_000), "kubelet", 1)
    );
    // The whole test took a moment, although its samples are 20 s apart.
    let reason = metered.cost(100).expect_err("a moment is too short");
    assert!(reason.contains("samples of its pods cover"), "{reason}");
    metering.end();
}

#[tokio::test]
async fn an_unreadable_usage_names_everything_that_was_tried() {
    let reason = reason(Knows::Nothing, CpuSource::Automatic).await;
    for part in ["cgroups of pods of edge", "`get` on `nodes/proxy`"] {
        assert!(reason.contains(part), "{part:?} is not in {reason:?}");
    }
}

#[tokio::test]
async fn a_requested_source_is_the_only_one() {
    let reason = reason(Knows::Counters, CpuSource::Cgroup).await;
    assert!(reason.contains("cannot be seen from here") && !reason.contains("kubelet"), "{reason}");
    let reason = self::reason(Knows::Nothing, CpuSource::Kubelet).await;
    assert!(reason.contains("node far") && !reason.contains("cgroups"), "{reason}");
}

#[tokio::test]
async fn a_missing_selector_is_the_reason() {
    let follow = Follow {
        cluster: ApiServer::start(Knows::Counters).await,
        namespace: "edge".to_owned(),
        selector: None,
        source: CpuSource::Automatic,
    };
    let metered = Metering::start(follow).await.expect("nothing is asked").cut().await.expect("nor here");
    let reason = metered.cost(1).expect_err("nothing is known of pods");
    assert!(reason.contains("selector=LABELS"), "{reason}");
}
