//! HTTP/2 connections across workers: each worker gets its share wherever the kernel put them, and none is lost.

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fairway_http::Head;
use fairway_http2::{Client as Codec, Config, Event};
use fairway_proxy::DrainOptions;
use fairway_testkit::certificates::unverified_client_config;
use fairway_testkit::wait::WAIT_TIMEOUT;
use fairway_testkit::{Backend, BackendResponse, Request, eventually};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::support::{HOST, Running, Setup};

/// A byte stream, plain or TLS.
pub(crate) trait Bytes: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Bytes for S {}

/// A client's connection.
pub(crate) struct Browser {
    stream: Box<dyn Bytes>,
    codec: Codec,
    head: Head,
    input: Vec<u8>,
}

impl Browser {
    pub(crate) async fn clear(proxy: &Running) -> Self {
        Self::over(Box::new(TcpStream::connect(proxy.http).await.unwrap()))
    }

    pub(crate) async fn secure(proxy: &Running) -> Self {
        Self::named(proxy.https, HOST).await
    }

    /// Over TLS, with a handshake for this name.
    pub(crate) async fn named(address: SocketAddr, name: &'static str) -> Self {
        let mut config = unverified_client_config();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from(name).unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
        Self::over(Box::new(stream))
    }

    fn over(stream: Box<dyn Bytes>) -> Self {
        let codec = Codec::new(Config::default(), 0);
        Self { stream, codec, head: Head::new(), input: Vec::new() }
    }

    /// Requests `path`; returns the status and the body.
    pub(crate) async fn get(&mut self, path: &str) -> (u16, Vec<u8>) {
        self.get_with(path, &[]).await
    }

    /// The same with these headers.
    pub(crate) async fn get_with(&mut self, path: &str, fields: &[(&str, &str)]) -> (u16, Vec<u8>) {
        self.get_of(HOST, path, fields).await
    }

    /// The same for this host.
    pub(crate) async fn get_of(&mut self, host: &str, path: &str, fields: &[(&str, &str)]) -> (u16, Vec<u8>) {
        let mut head = Head::new();
        head.start_request(b"GET", path.as_bytes());
        head.append(b"Host", host.as_bytes());
        fields.iter().for_each(|(name, value)| head.append(name.as_bytes(), value.as_bytes()));
        let id = self.codec.send_head(&head, path.as_bytes(), b"http", true).expect("it takes one more");
        let response = timeout(WAIT_TIMEOUT, self.response(id)).await.expect("an answer");
        self.codec.release(id);
        response
    }

    /// A header of the last response.
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        let value = self.head.named(name.as_bytes())?;
        Some(String::from_utf8(value.to_vec()).unwrap())
    }

    /// The number of streams that the server allows, once it has sent it.
    pub(crate) async fn streams_allowed(&mut self) -> usize {
        assert_eq!(self.get("/").await.0, 200);
        self.codec.available_streams()
    }

    /// Waits until the server has closed the connection; returns whether it sent a GOAWAY first.
    pub(crate) async fn closed(&mut self) -> bool {
        let closed = async {
            loop {
                let pending = self.codec.pending().to_vec();
                // It may have closed already.
                let _ = self.stream.write_all(&pending).await;
                self.codec.mark_written(pending.len());
                let (used, event) = self.codec.receive(0, &self.input, &mut self.head);
                let needs_more = match event {
                    Event::Closed(fault) => panic!("{fault:?}"),
                    event => matches!(event, Event::NeedMore),
                };
                self.input.drain(..used);
                if needs_more && self.stream.read_buf(&mut self.input).await.unwrap_or(0) == 0 {
                    return self.codec.is_going_away();
                }
            }
        };
        timeout(WAIT_TIMEOUT, closed).await.expect("the server closes")
    }

    async fn response(&mut self, id: u32) -> (u16, Vec<u8>) {
        let (mut status, mut body) = (0, Vec::new());
        loop {
            let pending = self.codec.pending().to_vec();
            self.stream.write_all(&pending).await.unwrap();
            self.codec.mark_written(pending.len());
            let (used, event) = self.codec.receive(0, &self.input, &mut self.head);
            let mut is_whole = false;
            match event {
                Event::NeedMore => {
                    self.input.drain(..used);
                    assert!(self.stream.read_buf(&mut self.input).await.unwrap() > 0, "it closed");
                    continue;
                }
                Event::Head { end, .. } => (status, is_whole) = (self.head.status(), end),
                Event::Data { bytes, end, .. } => {
                    body.extend_from_slice(bytes);
                    let count = bytes.len().try_into().unwrap();
                    is_whole = end;
                    self.codec.consume(id, count);
                }
                Event::Closed(fault) => panic!("{fault:?}"),
                Event::Reset { code, .. } => panic!("{code:?}"),
                _ => {}
            }
            self.input.drain(..used);
            if is_whole {
                return (status, body);
            }
        }
    }
}

async fn two_workers() -> (Backend, Running) {
    let backend = Backend::http(|_| BackendResponse::ok("ok")).await;
    let proxy = Setup::to(&[backend.address()]).options(|options| options.workers = 2).start();
    (backend, proxy)
}

async fn spread(proxy: &Running) -> [u64; 2] {
    let shares =
        async |worker| proxy.metric(&format!("fairway_http2_connections_open{{worker=\"{worker}\"}}")).await;
    [shares(0).await, shares(1).await]
}

async fn taken_over(proxy: &Running) -> u64 {
    proxy.metric("fairway_connections_taken_over_total").await
}

#[tokio::test]
async fn none_of_two_workers_has_more_than_its_share() {
    let (_backend, proxy) = two_workers().await;
    for round in 0..150 {
        let count = [2, 4, 8][round % 3];
        let mut browsers = Vec::new();
        for _ in 0..count {
            browsers.push(Browser::clear(&proxy).await);
        }
        let answered = browsers.into_iter().map(|mut browser| {
            tokio::spawn(async move {
                assert_eq!(browser.get("/").await, (200, b"ok".to_vec()));
                assert_eq!(browser.get("/again").await, (200, b"ok".to_vec()));
                browser
            })
        });
        let mut open = Vec::new();
        for browser in answered.collect::<Vec<_>>() {
            open.push(browser.await.unwrap());
        }
        assert_eq!(spread(&proxy).await, [count / 2; 2], "{count} connections, round {round}");
        drop(open);
        eventually("all are closed", WAIT_TIMEOUT, || async { spread(&proxy).await == [0, 0] }).await;
    }
    assert!(taken_over(&proxy).await > 0, "the kernel does not spread them like this");
    proxy.expect_metric("fairway_connections_open", 0).await;
}

#[tokio::test]
async fn tls_sessions_move_as_well() {
    let (_backend, proxy) = two_workers().await;
    for round in 0..10 {
        let mut browsers = Vec::new();
        for _ in 0..4 {
            let mut browser = Browser::secure(&proxy).await;
            assert_eq!(browser.get("/").await, (200, b"ok".to_vec()));
            browsers.push(browser);
        }
        assert_eq!(spread(&proxy).await, [2, 2], "round {round}");
        for browser in &mut browsers {
            assert_eq!(browser.get("/again").await, (200, b"ok".to_vec()));
        }
        drop(browsers);
        eventually("all are closed", WAIT_TIMEOUT, || async { spread(&proxy).await == [0, 0] }).await;
    }
    assert!(taken_over(&proxy).await > 0);
}

#[tokio::test]
async fn http1_is_never_moved() {
    let (_backend, proxy) = two_workers().await;
    let mut clients = Vec::new();
    for _ in 0..200 {
        let mut client = proxy.client().await;
        assert_eq!(client.exchange(&Request::get(HOST, "/")).await.unwrap().status, 200);
        clients.push(client);
    }
    assert_eq!((taken_over(&proxy).await, spread(&proxy).await), (0, [0, 0]));
}

#[tokio::test]
async fn a_worker_without_room_leaves_a_connection_where_it_was_accepted() {
    let backend = Backend::http(|_| BackendResponse::ok("ok")).await;
    let proxy = Setup::to(&[backend.address()])
        .options(|options| (options.workers, options.limits.connections) = (2, Some(8)))
        .start();
    // The share of each worker is four. HTTP/1 connections stay where the kernel puts them and fill one up.
    let mut clients = Vec::new();
    while proxy.metric("fairway_refused_connections_total{reason=\"overloaded\"}").await == 0 {
        let mut client = proxy.client().await;
        if client.exchange(&Request::get(HOST, "/")).await.is_ok_and(|response| response.status == 200) {
            clients.push(client);
        }
    }
    let before = proxy.metric("fairway_refused_connections_total{reason=\"overloaded\"}").await;
    let mut browsers = Vec::new();
    while clients.len() + browsers.len() < 8 {
        let open = (clients.len() + browsers.len()) as u64;
        proxy.expect_metric("fairway_connections_open", open).await;
        let refused = proxy.metric("fairway_refused_connections_total{reason=\"overloaded\"}").await;
        let stream = TcpStream::connect(proxy.http).await.unwrap();
        if is_refused(&proxy, open, refused).await {
            continue;
        }
        let mut browser = Browser::over(Box::new(stream));
        assert_eq!(browser.get("/").await, (200, b"ok".to_vec()), "it was accepted where there was room");
        assert_eq!(proxy.metric("fairway_refused_connections_total{reason=\"overloaded\"}").await, refused);
        browsers.push(browser);
    }
    assert!(before >= 1);
    proxy.expect_metric("fairway_connections_open", 8).await;
}

/// Whether the worker that the kernel chose for a new connection is full: waits until the number of open or of refused
/// connections changes.
async fn is_refused(proxy: &Running, open: u64, refused: u64) -> bool {
    let before = (open, refused);
    let counts = Cell::new(before);
    eventually("it is accepted or refused", WAIT_TIMEOUT, || async {
        let open = proxy.metric("fairway_connections_open").await;
        counts.set((open, proxy.metric("fairway_refused_connections_total{reason=\"overloaded\"}").await));
        counts.get() != before
    })
    .await;
    counts.get().1 > refused
}

#[tokio::test]
async fn connections_moved_while_workers_drain_are_served_or_closed_and_none_is_left() {
    for _ in 0..20 {
        let backend = Backend::http(|_| BackendResponse::ok("ok")).await;
        let drain = DrainOptions { delay: Duration::ZERO, timeout: WAIT_TIMEOUT };
        let proxy = Setup::to(&[backend.address()])
            .options(|options| (options.workers, options.drain) = (2, drain))
            .start();
        let mut browsers = Vec::new();
        for _ in 0..8 {
            browsers.push(Browser::clear(&proxy).await);
        }
        for browser in &mut browsers {
            let pending = browser.codec.pending().to_vec();
            browser.stream.write_all(&pending).await.unwrap();
        }
        proxy.handle.drain();
        for browser in &mut browsers {
            let mut rest = Vec::new();
            // A reset is an end, too.
            let _ = timeout(WAIT_TIMEOUT, browser.stream.read_to_end(&mut rest)).await.expect("the end");
        }
        drop(browsers);
        timeout(WAIT_TIMEOUT, proxy.join()).await.expect("workers end").unwrap();
    }
}
