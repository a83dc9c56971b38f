//! Support for TCP and UDP tests: short configurations of a listener, a route and a backend, and endpoints that send their
//! names.

use std::net::SocketAddr;
use std::sync::Arc;

use fairway_model::{
    Backend, BackendKey, Config, Endpoint, HostPattern, Listener, ListenerProtocol, Origin,
    ProxyProtocolMode, StreamKey, StreamPolicy, StreamRoute, WeightedBackend,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};

use crate::support::{Running, Setup};

/// The name of the listener and of its table.
pub(crate) const NAME: &str = "forwarded";

/// A configuration that forwards the traffic of one listener.
#[derive(Clone)]
pub(crate) struct Forwarding {
    pub(crate) setup: Setup,
    pub(crate) config: Config,
}

impl Forwarding {
    /// Forwards to these endpoints.
    pub(crate) fn to_endpoints(protocol: ListenerProtocol, endpoints: &[SocketAddr]) -> Self {
        let setup = Setup::to(endpoints);
        let config = setup.config();
        let mut it = Self { setup, config };
        let bind = vec!["127.0.0.1:0".parse().unwrap()];
        it.insert(Listener { bind, ..Listener::new(NAME, protocol, 7_000, NAME) });
        let route = StreamRoute {
            key: StreamKey { table: NAME.into(), host: HostPattern::Any },
            origin: Origin::object("TCPRoute", "shop", "db"),
            backends: vec![WeightedBackend::new("backend".into(), 1)],
            policy: StreamPolicy::default(),
        };
        it.config.streams.insert(route.key.clone(), Arc::new(route));
        it
    }

    /// Adds a listener, or replaces the one with its name.
    pub(crate) fn insert(&mut self, listener: Listener) {
        self.config.listeners.insert(listener.name.clone(), Arc::new(listener));
    }

    pub(crate) fn listener(mut self, edit: impl FnOnce(&mut Listener)) -> Self {
        let mut listener = (**self.config.listeners.get(NAME).unwrap()).clone();
        edit(&mut listener);
        self.insert(listener);
        self
    }

    /// Expects a PROXY header at the start of connections or datagrams.
    pub(crate) fn introduced_by(self, trusted: &[&str]) -> Self {
        let trusted = trusted.iter().map(|range| range.parse().unwrap()).collect();
        self.listener(|it| it.clients.proxy_protocol = Some(ProxyProtocolMode::Required { trusted }))
    }

    pub(crate) fn policy(mut self, edit: impl FnOnce(&mut StreamPolicy)) -> Self {
        let key = StreamKey { table: NAME.into(), host: HostPattern::Any };
        let mut route = (**self.config.streams.get(&key).unwrap()).clone();
        edit(&mut route.policy);
        self.config.streams.insert(key, Arc::new(route));
        self
    }

    pub(crate) fn backend(mut self, edit: impl FnOnce(&mut Backend)) -> Self {
        let mut backend = (**self.config.backends.get(&BackendKey::from("backend")).unwrap()).clone();
        edit(&mut backend);
        self.config.backends.insert(backend.key.clone(), Arc::new(backend));
        self
    }

    /// Replaces the endpoints.
    pub(crate) fn endpoints(self, endpoints: &[SocketAddr]) -> Self {
        let endpoint = |address: &SocketAddr| Endpoint::at(*address);
        self.backend(|backend| backend.endpoints = endpoints.iter().map(endpoint).collect())
    }

    pub(crate) fn start(&self) -> Running {
        self.setup.start_by(&self.config)
    }
}

/// The address of the listener.
pub(crate) fn address(proxy: &Running) -> SocketAddr {
    proxy.publisher.addresses(NAME)[0]
}

/// Publishes and waits until every worker has adopted it.
pub(crate) async fn publish(proxy: &mut Running, config: &Config) {
    let (version, problems) = proxy.publish_config(config);
    assert_eq!(problems, Vec::<String>::new());
    proxy.publisher.wait_until_adopted(version).await;
}

/// A TCP endpoint that sends its name and a colon, echoes what it receives, and sends `!` at the end.
pub(crate) async fn greeting(name: impl Into<String>) -> SocketAddr {
    let (listener, name) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), name.into());
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let name = name.clone();
            tokio::spawn(async move {
                stream.write_all(format!("{name}:").as_bytes()).await?;
                let mut bytes = vec![0; 64 * 1024];
                loop {
                    match stream.read(&mut bytes).await? {
                        0 => break,
                        count => stream.write_all(&bytes[..count]).await?,
                    }
                }
                stream.write_all(b"!").await?;
                stream.shutdown().await
            });
        }
    });
    address
}

/// A UDP endpoint that responds to each datagram with its name, a colon and the datagram.
pub(crate) async fn answering(name: impl Into<String>) -> SocketAddr {
    let (socket, name) = (UdpSocket::bind("127.0.0.1:0").await.unwrap(), name.into());
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut bytes = vec![0; 65_536];
        while let Ok((count, from)) = socket.recv_from(&mut bytes).await {
            let response = [format!("{name}:").as_bytes(), &bytes[..count]].concat();
            if socket.send_to(&response, from).await.is_err() {
                return;
            }
        }
    });
    address
}
