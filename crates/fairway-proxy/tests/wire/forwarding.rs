//! What tests of TCP and UDP start with: a listener, a route and one backend in a few words, and endpoints that say their names.

use std::net::SocketAddr;
use std::sync::Arc;

use fairway_model::{
    Backend, BackendKey, Config, Endpoint, HostPattern, Introduction, Listener, ListenerProtocol, Origin,
    StreamKey, StreamPolicy, StreamRoute, WeightedBackend,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};

use crate::support::{Running, Setup};

/// The name of the listener and of its table.
pub(crate) const NAME: &str = "forwarded";

/// A configuration that forwards what comes to one listener.
#[derive(Clone)]
pub(crate) struct Forwarding {
    pub(crate) setup: Setup,
    pub(crate) config: Config,
}

impl Forwarding {
    /// To these endpoints.
    pub(crate) fn of(protocol: ListenerProtocol, endpoints: &[SocketAddr]) -> Self {
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

    /// With one listener more, or another one of its name.
    pub(crate) fn insert(&mut self, listener: Listener) {
        self.config.listeners.insert(listener.name.clone(), Arc::new(listener));
    }

    pub(crate) fn listener(mut self, edit: impl FnOnce(&mut Listener)) -> Self {
        let mut listener = (**self.config.listeners.get(NAME).unwrap()).clone();
        edit(&mut listener);
        self.insert(listener);
        self
    }

    /// Its connections, or datagrams, begin with a header of the PROXY protocol.
    pub(crate) fn introduced_by(self, trusted: &[&str]) -> Self {
        let trusted = trusted.iter().map(|range| range.parse().unwrap()).collect();
        self.listener(|it| it.clients.introduction = Some(Introduction::ProxyProtocol { trusted }))
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

    /// With other endpoints.
    pub(crate) fn endpoints(self, endpoints: &[SocketAddr]) -> Self {
        let endpoint = |address: &SocketAddr| Endpoint::at(*address);
        self.backend(|backend| backend.endpoints = endpoints.iter().map(endpoint).collect())
    }

    pub(crate) fn start(&self) -> Running {
        self.setup.start_by(&self.config)
    }
}

/// Where the listener is.
pub(crate) fn address(proxy: &Running) -> SocketAddr {
    proxy.publisher.addresses(NAME)[0]
}

/// Publishes and waits until every worker serves by it.
pub(crate) async fn publish(proxy: &mut Running, config: &Config) {
    let (version, problems) = proxy.publish_config(config);
    assert_eq!(problems, Vec::<String>::new());
    proxy.publisher.adopted(version).await;
}

/// An endpoint of TCP: it says its name and a colon, then whatever it hears, and `!` when it has heard the end.
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

/// An endpoint of UDP: it answers each datagram with its name, a colon and the datagram.
pub(crate) async fn answering(name: impl Into<String>) -> SocketAddr {
    let (socket, name) = (UdpSocket::bind("127.0.0.1:0").await.unwrap(), name.into());
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut bytes = vec![0; 65_536];
        while let Ok((count, from)) = socket.recv_from(&mut bytes).await {
            let answer = [format!("{name}:").as_bytes(), &bytes[..count]].concat();
            if socket.send_to(&answer, from).await.is_err() {
                return;
            }
        }
    });
    address
}
