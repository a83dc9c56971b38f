//! A running backend: listeners, threads and shutdown. Each thread has its own listener on the same port (SO_REUSEPORT), so
//! threads share nothing per request.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::Context;
use rustls::ServerConfig;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio::task::LocalSet;
use tokio_rustls::TlsAcceptor;

use super::connection::{Ending, Site, serve};
use super::h2c::{self, ResponseTemplate};
use super::options::{Options, Spoken};
use super::recorder::Recorder;
use super::respond::Identity;

/// Content of an HTTP/2 response.
const HTTP2_BYTES: usize = 1 << 10;

/// A running backend. It ends with [`Server::end`].
pub struct Server {
    addresses: Vec<SocketAddr>,
    recorder: Option<Recorder>,
    hold_responses: watch::Sender<bool>,
    over: watch::Sender<bool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Server {
    /// Listens and starts serving.
    ///
    /// # Errors
    /// An address that cannot be listened on, or threads that cannot be had.
    pub fn start(options: Options) -> anyhow::Result<Self> {
        let options = Arc::new(options);
        let (over, told) = watch::channel(false);
        let tls = if options.tls { Some(self_signed(&options.name)?) } else { None };
        let recorder = options.record.map(Recorder::start).transpose()?;
        let mut server = Self {
            addresses: options.listen.clone(),
            recorder,
            hold_responses: watch::Sender::new(false),
            over,
            threads: Vec::new(),
        };
        for index in 0..options.threads.max(1) {
            let bound = server.addresses.iter_mut().map(|address| listen(address, options.spoken));
            let sockets = bound.collect::<anyhow::Result<Vec<_>>>()?;
            let ids = server.recorder.as_ref().map(Recorder::ids);
            let (options, tls, told) = (options.clone(), tls.clone(), told.clone());
            let held_responses = server.hold_responses.subscribe();
            let thread = std::thread::Builder::new()
                .name(format!("backend-{index}"))
                .spawn(move || {
                    let identity = Identity::new(&options.name, &options.pod);
                    let reply = match options.spoken {
                        Spoken::H2c => Some(ResponseTemplate::with_size(HTTP2_BYTES)),
                        Spoken::Grpc => Some(ResponseTemplate::of_call()),
                        Spoken::Http1 | Spoken::Datagrams => None,
                    };
                    let site = Site { options, identity, ids, response: reply, is_held: held_responses };
                    run(sockets, &Rc::new(site), tls.as_ref(), told);
                })
                .context("start a thread of the backend")?;
            server.threads.push(thread);
        }
        Ok(server)
    }

    /// Where it listens.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Holds responses back, or releases all that are held and later ones.
    pub fn hold(&self, is_held: bool) {
        self.hold_responses.send_replace(is_held);
    }

    /// Stops at once and cuts requests in flight.
    pub fn end(self) {
        self.over.send_replace(true);
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the backend panicked");
            }
        }
        if let Some(recorder) = self.recorder {
            recorder.finish();
        }
    }
}

/// A socket at an address; a port 0 becomes the port that was free.
fn listen(address: &mut SocketAddr, spoken: Spoken) -> anyhow::Result<Socket> {
    let (kind, protocol) = match spoken {
        Spoken::Datagrams => (Type::DGRAM, Protocol::UDP),
        _ => (Type::STREAM, Protocol::TCP),
    };
    let bind = || -> std::io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(*address), kind.nonblocking(), Some(protocol))?;
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(true)?;
        socket.bind(&(*address).into())?;
        if protocol == Protocol::TCP {
            socket.listen(4_096)?;
        }
        Ok(socket)
    };
    let socket = bind().with_context(|| format!("listen on {address}"))?;
    let bound = socket.local_addr().context("the address of a listener")?;
    *address = bound.as_socket().context("the address of a listener is none of the Internet")?;
    Ok(socket)
}

fn run(sockets: Vec<Socket>, site: &Rc<Site>, tls: Option<&TlsAcceptor>, mut over: watch::Receiver<bool>) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return tracing::error!("a thread of the backend cannot begin: {error}"),
    };
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        for socket in sockets {
            let started = match site.options.spoken {
                Spoken::Datagrams => {
                    UdpSocket::from_std(socket.into()).map(|socket| tokio::task::spawn_local(echo(socket)))
                }
                _ => TcpListener::from_std(socket.into())
                    .map(|listener| tokio::task::spawn_local(accept(listener, site.clone(), tls.cloned()))),
            };
            if let Err(error) = started {
                tracing::error!("a listener of the backend cannot be used: {error}");
            }
        }
        // Fails only if the server has stopped, which also ends this task.
        _ = over.wait_for(|is_over| *is_over).await;
    });
}

/// Echoes every datagram. Datagrams the socket does not accept are lost.
async fn echo(socket: UdpSocket) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match socket.recv_from(&mut buffer).await {
            Ok((count, from)) => _ = socket.send_to(&buffer[..count], from).await,
            Err(error) => tracing::debug!("a datagram was not received: {error}"),
        }
    }
}

async fn accept(listener: TcpListener, site: Rc<Site>, tls: Option<TlsAcceptor>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::task::spawn_local(attend(stream, site.clone(), tls.clone()));
            }
            Err(error) => {
                // Most likely no file descriptor is free.
                tracing::warn!("a connection was not accepted: {error}");
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        }
    }
}

async fn attend(stream: TcpStream, site: Rc<Site>, tls: Option<TlsAcceptor>) {
    if let Err(error) = stream.set_nodelay(true) {
        return tracing::debug!("a connection ended before its first request: {error}");
    }
    if let Some(answer) = &site.response {
        return h2c::serve(stream, answer, site.is_held.clone()).await;
    }
    let Some(tls) = tls else {
        let mut stream = stream;
        if serve(&mut stream, site).await == Ending::Reset {
            make_close_reset(&stream);
        }
        return;
    };
    match tls.accept(stream).await {
        Ok(mut session) => {
            if serve(&mut session, site).await == Ending::Reset {
                make_close_reset(session.get_ref().0);
            }
        }
        Err(error) => tracing::debug!("a TLS handshake failed: {error}"),
    }
}

/// With a linger of 0 closing sends a RST.
fn make_close_reset(stream: &TcpStream) {
    if let Err(error) = socket2::SockRef::from(stream).set_linger(Some(std::time::Duration::ZERO)) {
        tracing::warn!("a connection is closed instead of reset: {error}");
    }
}

fn self_signed(name: &str) -> anyhow::Result<TlsAcceptor> {
    let certified = rcgen::generate_simple_self_signed(vec![name.to_owned(), "localhost".to_owned()])
        .with_context(|| format!("make a certificate for {name:?}"))?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("TLS versions of the backend")?
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .context("use the backend's own certificate")?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
