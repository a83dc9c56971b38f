//! Gateways of the binary, from a directory of manifests: the responses at the ports of TCP and UDP listeners.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use fairway_testkit::free_port;
use fairway_testkit::manifests::Manifests;
use fairway_testkit::process::Fairway;
use fairway_testkit::wait::{WAIT_TIMEOUT, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::time::timeout;

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");
const GROUP: &str = "gateway.networking.k8s.io/v1";
/// Timeout for a response that is immediate or never comes.
const BRIEF: Duration = Duration::from_secs(2);

/// Sends its name to every client.
async fn connections(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move { client.write_all(name.as_bytes()).await });
        }
    });
    address
}

/// Echoes each datagram, prefixed with its name.
async fn datagrams(name: &'static str) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut room = [0; 2048];
        while let Ok((length, client)) = socket.recv_from(&mut room).await {
            let response = [name.as_bytes(), &room[..length]].concat();
            _ = socket.send_to(&response, client).await;
        }
    });
    address
}

/// A Service with port 53 of both protocols.
fn service(name: &str, tcp: SocketAddr, udp: SocketAddr) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: shop}}\nspec:\n  ports:\n  \
         - {{name: tcp, port: 53}}\n  - {{name: udp, port: 53, protocol: UDP}}\n---\n\
         apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
         metadata: {{name: {name}-1, namespace: shop, labels: {{kubernetes.io/service-name: {name}}}}}\n\
         addressType: IPv4\nports:\n- {{name: tcp, port: {}, protocol: TCP}}\n- {{name: udp, port: {}, protocol: UDP}}\n\
         endpoints: [{{addresses: [127.0.0.1]}}]\n",
        tcp.port(),
        udp.port()
    )
}

fn gateway(port: u16) -> String {
    format!(
        "apiVersion: {GROUP}\nkind: GatewayClass\nmetadata: {{name: fairway}}\n\
         spec: {{controllerName: fairway.dev/gateway-controller}}\n---\n\
         apiVersion: {GROUP}\nkind: Gateway\nmetadata: {{name: dns, namespace: shop}}\nspec:\n  \
         gatewayClassName: fairway\n  listeners:\n  - {{name: tcp, port: {port}, protocol: TCP}}\n  \
         - {{name: udp, port: {port}, protocol: UDP}}\n"
    )
}

fn route(kind: &str, created: &str, service: &str) -> String {
    format!(
        "apiVersion: {GROUP}\nkind: {kind}\nmetadata: {{name: {service}, namespace: shop, creationTimestamp: \"{created}\"}}\n\
         spec:\n  parentRefs: [{{name: dns}}]\n  rules:\n  - backendRefs: [{{name: {service}, port: 53}}]\n"
    )
}

/// The data that a new connection receives; empty if it is closed.
async fn connected(to: SocketAddr) -> String {
    let mut text = String::new();
    let Ok(mut stream) = TcpStream::connect(to).await else { return text };
    _ = timeout(WAIT_TIMEOUT, stream.read_to_string(&mut text)).await;
    text
}

/// The response to the datagram of a new client; empty if there is none.
async fn sent(to: SocketAddr) -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(to).await.unwrap();
    let mut room = [0; 2048];
    _ = socket.send(b"?").await;
    match timeout(BRIEF, socket.recv(&mut room)).await {
        Ok(Ok(length)) => String::from_utf8_lossy(&room[..length]).into_owned(),
        _ => String::new(),
    }
}

#[tokio::test]
async fn a_port_of_both_protocols_leads_to_the_oldest_route_of_each() {
    let manifests = Manifests::new();
    let port = free_port();
    let old = service("old", connections("old").await, datagrams("old").await);
    let new = service("new", connections("new").await, datagrams("new").await);
    manifests.put("services.yaml", format!("{old}---\n{new}"));
    manifests.put("gateway.yaml", gateway(port));
    for kind in ["TCPRoute", "UDPRoute"] {
        let (first, second) = ("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z");
        manifests.put(&format!("{kind}-new.yaml"), route(kind, second, "new"));
        manifests.put(&format!("{kind}-old.yaml"), route(kind, first, "old"));
    }
    let flags = ["--gateway-address", "127.0.0.1"];
    let _fairway = Fairway::ready(Path::new(BINARY), manifests.path(), &flags).await;
    let at = SocketAddr::from(([127, 0, 0, 1], port));
    assert_eq!(connected(at).await, "old");
    assert_eq!(sent(at).await, "old?");

    manifests.remove("TCPRoute-old.yaml");
    manifests.remove("UDPRoute-old.yaml");
    eventually("the other connections", WAIT_TIMEOUT, || async { connected(at).await == "new" }).await;
    eventually("the other datagrams", WAIT_TIMEOUT, || async { sent(at).await == "new?" }).await;

    manifests.remove("TCPRoute-new.yaml");
    manifests.remove("UDPRoute-new.yaml");
    eventually("closed connections", WAIT_TIMEOUT, || async { connected(at).await.is_empty() }).await;
    eventually("dropped datagrams", WAIT_TIMEOUT, || async { sent(at).await.is_empty() }).await;
}

#[tokio::test]
async fn a_gateway_on_the_port_of_the_admin_server_is_named_in_the_log_and_in_config() {
    let manifests = Manifests::new();
    manifests.put("services.yaml", service("web", connections("web").await, datagrams("web").await));
    let flags = ["--gateway-address", "127.0.0.1"];
    let fairway = Fairway::ready(Path::new(BINARY), manifests.path(), &flags).await;
    let admin = fairway.admin;
    manifests.put("gateway.yaml", gateway(admin.port()));
    let why = format!("listener tcp cannot have port {}: {admin} is that of --admin", admin.port());
    let line = fairway.line_with("port-unavailable").await;
    assert!(line.contains(&why), "{line}");
    eventually("the same in /config", WAIT_TIMEOUT, || async {
        let config = fairway.admin("/config").await.unwrap().body;
        String::from_utf8(config).unwrap().contains(&why)
    })
    .await;
}
