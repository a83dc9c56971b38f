//! A server on a socket, for a program that runs as a process.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::discovery::GATEWAY_API;
use super::kubelet::{self, PodPart};
use super::port_forward;
use super::server::{ApiResponse, ApiServer};
use super::watch::{Watch, WatchStep};
use crate::stream::{Input, Stream};
use crate::wire::{self, Framing};

/// Bytes of a watch that are sent together.
const WATCH_BATCH_BYTES: usize = 1 << 16;

/// A server that listens. It ends with this value.
pub struct ListeningServer {
    server: ApiServer,
    kubeconfig: NamedTempFile,
    _connections: JoinSet<()>,
}

impl ListeningServer {
    /// Starts one with the CRDs of the Gateway API, on a free port of the loopback address.
    pub async fn start() -> Self {
        let server = ApiServer::new();
        server.define(GATEWAY_API, &[("v1", "gatewayclasses"), ("v1", "gateways"), ("v1", "httproutes")]);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let kubeconfig = NamedTempFile::with_prefix("fairway-").expect("a temporary file");
        std::fs::write(kubeconfig.path(), configuration(address).to_string()).expect("the file is there");
        let mut connections = JoinSet::new();
        connections.spawn(accept(listener, server.clone()));
        Self { server, kubeconfig, _connections: connections }
    }

    /// A kubeconfig that leads here.
    pub fn kubeconfig(&self) -> &Path {
        self.kubeconfig.path()
    }
}

impl Deref for ListeningServer {
    type Target = ApiServer;

    fn deref(&self) -> &ApiServer {
        &self.server
    }
}

/// A kubeconfig without credentials.
fn configuration(address: SocketAddr) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{ "name": "test", "cluster": { "server": format!("http://{address}") } }],
        "users": [{ "name": "test", "user": {} }],
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
    })
}

async fn accept(listener: TcpListener, server: ApiServer) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let server = server.clone();
        // Clients may disconnect at any time.
        connections.spawn(async move { _ = serve(stream, &server).await });
    }
}

/// Serves one request after another; a watch ends the connection.
async fn serve(stream: TcpStream, server: &ApiServer) -> io::Result<()> {
    let mut input = Input::new(Stream::Plain(stream), None, |_| {});
    loop {
        let head = input.head().await?;
        let framing = wire::framing(&head.fields)?.unwrap_or(Framing::None);
        let body = input.body(framing).await?.content;
        let mut words = head.start.split(' ');
        let (method, uri) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        match server.request(method, uri, &body).await? {
            ApiResponse::Page(page) => {
                let (status, kind, text) = match kubelet::part(uri, &page) {
                    Some(PodPart::Port { port, leads_to }) => {
                        let Stream::Plain(stream) = input.stream else {
                            return Err(io::Error::other("a port is forwarded on a plain connection"));
                        };
                        return port_forward::serve(&head.fields, stream, port, leads_to).await;
                    }
                    Some(PodPart::Log(text)) => (page.status, "text/plain", text),
                    None => (page.status, "application/json", page.text),
                };
                let fields = format!("content-type: {kind}\r\ncontent-length: {}", text.len());
                let response = format!("HTTP/1.1 {status} -\r\n{fields}\r\n\r\n{text}");
                input.stream.write(response.as_bytes()).await?;
            }
            ApiResponse::Watch(watch) => return stream_of(watch, &mut input.stream).await,
        }
    }
}

/// Sends the lines of a watch, many at a time where there are many.
async fn stream_of(mut watch: Watch, stream: &mut Stream) -> io::Result<()> {
    let fields = "content-type: application/json\r\ntransfer-encoding: chunked";
    let mut unsent = format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n");
    loop {
        let step = watch.step();
        match &step {
            WatchStep::Line(line) => unsent += &format!("{:x}\r\n{line}\r\n", line.len()),
            WatchStep::Waits => {}
            WatchStep::Closed => unsent += "0\r\n\r\n",
        }
        if matches!(step, WatchStep::Line(_)) && unsent.len() < WATCH_BATCH_BYTES {
            continue;
        }
        stream.write(unsent.as_bytes()).await?;
        unsent.clear();
        match step {
            WatchStep::Line(_) => {}
            WatchStep::Waits => watch.wait_for_change().await,
            WatchStep::Closed => return Ok(()),
        }
    }
}
