//! A server on a socket, for a program that runs as a process.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::io::{AsyncWriteExt, BufReader, BufWriter};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::discovery::GATEWAY_API;
use super::page::Page;
use super::request::ApiRequest;
use super::server::{Answer, ApiServer};
use super::watch::{Step, Watch};

/// A server that listens. It ends with this value.
#[derive(Debug)]
pub struct ListeningServer {
    server: ApiServer,
    kubeconfig: NamedTempFile,
    _connections: JoinSet<()>,
}

impl ListeningServer {
    /// Starts one with the CRDs of the Gateway API, on a free port of the loopback address.
    ///
    /// # Panics
    ///
    /// When it cannot listen, or no file can be written.
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
    #[must_use]
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
        // Whoever asks may leave at any time.
        connections.spawn(async move { _ = serve(stream, &server).await });
    }
}

/// One request after the other; a watch is the last.
async fn serve(stream: TcpStream, server: &ApiServer) -> io::Result<()> {
    let (read, write) = stream.into_split();
    let (mut read, mut write) = (BufReader::new(read), BufWriter::with_capacity(1 << 16, write));
    while let Some(request) = ApiRequest::read(&mut read).await? {
        match server.respond(&request).await? {
            Answer::Page(Page { status, text }) => {
                let head = format!(
                    "HTTP/1.1 {status} -\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                    text.len()
                );
                write.write_all(head.as_bytes()).await?;
                write.write_all(text.as_bytes()).await?;
                write.flush().await?;
            }
            Answer::Watch(watch) => return stream_of(watch, &mut write).await,
        }
    }
    Ok(())
}

async fn stream_of(mut watch: Watch, write: &mut BufWriter<OwnedWriteHalf>) -> io::Result<()> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    write.write_all(head.as_bytes()).await?;
    loop {
        match watch.step() {
            Step::Line(line) => {
                write.write_all(format!("{:x}\r\n{line}\r\n", line.len()).as_bytes()).await?;
            }
            Step::Waits => {
                write.flush().await?;
                watch.changed().await;
            }
            Step::Closed => {
                write.write_all(b"0\r\n\r\n").await?;
                return write.flush().await;
            }
        }
    }
}
