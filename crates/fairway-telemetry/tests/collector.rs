//! Collectors on the loopback address, and exporters that send access log lines to them.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use fairway_model::{Collector, OtlpProtocol};
use fairway_proxy::trace;
use fairway_telemetry::{Credentials, Exporter, ExporterOptions, ProcessIdentity};
use fairway_testkit::wait::{WAIT_TIMEOUT, eventually};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_server::{LogsService, LogsServiceServer};
use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// A received HTTP request.
pub(crate) struct Received {
    pub(crate) request: Request<()>,
    pub(crate) body: Bytes,
}

/// What collectors have received.
pub(crate) type Inbox<T> = UnboundedReceiver<T>;

/// The next request, which must arrive.
pub(crate) async fn next<T>(inbox: &mut Inbox<T>) -> T {
    timeout(WAIT_TIMEOUT, inbox.recv()).await.expect("a request comes").expect("the collector lives")
}

/// An HTTP collector that gives every request the same response.
pub(crate) async fn over_http(response: Response<Bytes>) -> (SocketAddr, Inbox<Received>) {
    let (sender, inbox) = unbounded_channel();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (sender, response) = (sender.clone(), response.clone());
            let reply = service_fn(move |request: Request<Incoming>| {
                let (sender, response) = (sender.clone(), response.clone());
                async move {
                    let (parts, body) = request.into_parts();
                    let body = body.collect().await.unwrap().to_bytes();
                    // A test that has stopped reading needs no more requests.
                    _ = sender.send(Received { request: Request::from_parts(parts, ()), body });
                    Ok::<_, Infallible>(response.map(Full::new))
                }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), reply));
        }
    });
    (address, inbox)
}

/// A received gRPC call.
pub(crate) type Call = tonic::Request<ExportLogsServiceRequest>;

/// The response of a gRPC collector.
pub(crate) type Verdict = Result<ExportLogsServiceResponse, tonic::Status>;

/// The service of the OpenTelemetry project's own code; responds as configured, then accepts everything.
struct Logs {
    calls: UnboundedSender<Call>,
    verdicts: Mutex<VecDeque<Verdict>>,
}

#[tonic::async_trait]
impl LogsService for Logs {
    async fn export(&self, call: Call) -> Result<tonic::Response<ExportLogsServiceResponse>, tonic::Status> {
        _ = self.calls.send(call);
        let verdict = self.verdicts.lock().unwrap().pop_front();
        verdict.unwrap_or_else(|| Ok(ExportLogsServiceResponse::default())).map(tonic::Response::new)
    }
}

/// A gRPC collector, over TLS if an acceptor is given.
pub(crate) async fn over_grpc(
    verdicts: impl IntoIterator<Item = Verdict>,
    tls: Option<TlsAcceptor>,
) -> (SocketAddr, Inbox<Call>) {
    let (calls, inbox) = unbounded_channel();
    let logs = Logs { calls, verdicts: Mutex::new(verdicts.into_iter().collect()) };
    let service = TowerToHyperService::new(LogsServiceServer::new(logs));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (service, tls) = (service.clone(), tls.clone());
            tokio::spawn(async move {
                match tls {
                    None => serve(stream, service).await,
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(stream).await {
                            serve(stream, service).await;
                        }
                    }
                }
            });
        }
    });
    (address, inbox)
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    service: TowerToHyperService<LogsServiceServer<Logs>>,
) {
    let connection = http2::Builder::new(TokioExecutor::new());
    // It ends with its client.
    _ = connection.serve_connection(TokioIo::new(stream), service).await;
}

/// An exporter that sends every line at once.
pub(crate) struct Sender {
    pub(crate) exporter: Arc<Exporter>,
}

impl Sender {
    /// To this collector, with these credentials.
    pub(crate) fn new(collector: Collector, credentials: Credentials) -> Self {
        // There are no exchanges.
        let (_, traces) = trace::channel(1);
        let identity = ProcessIdentity { version: "1.2.3".to_owned(), ..ProcessIdentity::default() };
        let options = ExporterOptions { identity, credentials, seed: 1 };
        let exporter = Exporter::start(options, traces).unwrap();
        exporter.set_collector(Some(Arc::new(collector)));
        Self { exporter: Arc::new(exporter) }
    }

    pub(crate) fn line(&self, text: &str) {
        self.exporter.line_sender().send(format!("{text}\n").into_bytes());
    }

    /// The sum of the counters whose lines contain all of these parts.
    pub(crate) fn count(&self, parts: &[&str]) -> u64 {
        let text = self.exporter.counts().metrics_text();
        let lines = text.lines().filter(|line| parts.iter().all(|part| line.contains(part)));
        lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
    }

    /// Waits until the sum of these counters has the expected value.
    pub(crate) async fn until(&self, parts: &[&str], expected: u64) {
        let context = format!("{parts:?} is {expected}");
        eventually(&context, WAIT_TIMEOUT, || async { self.count(parts) == expected }).await;
    }

    /// Stops it off the thread that runs the collectors.
    pub(crate) async fn stop(&self) {
        let exporter = Arc::clone(&self.exporter);
        tokio::task::spawn_blocking(move || exporter.stop()).await.unwrap();
    }
}

/// The collector at an address, with batches of one item.
pub(crate) fn at(endpoint: &str, protocol: OtlpProtocol) -> Collector {
    Collector { protocol, max_delay: Duration::ZERO, ..Collector::at(endpoint) }
}
