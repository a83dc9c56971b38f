//! Stateless resets (RFC 9000 §10.3): which packets get one, and with which tokens.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use fairway_model::{SharedTicketSecret, TicketSecret};
use quinn_proto::crypto::HmacKey;
use quinn_proto::{DatagramEvent, Endpoint};
use tokio::net::UdpSocket;

use super::ids::{ID_BYTES, IdKey};
use super::resets::ResetKey;
use super::serve::{RESET_INTERVAL, endpoint_config};
use super::testing::{HANDED_OVER, Process, RESETS_METRIC, TEST_TIMEOUT, config, quic_port};
use crate::listener::PortId;
use crate::testing::run_local;
use crate::tls::SessionTickets;

/// Bytes of a token.
const TOKEN_BYTES: usize = 16;

/// A packet with a short header for this id (RFC 9000 §17.3.1).
fn short_packet(id: &[u8], length: usize) -> Vec<u8> {
    let mut packet = [&[0x41], id].concat();
    packet.resize(length, 7);
    packet
}

fn token(resets: &Arc<ResetKey>, address: SocketAddr, id: &[u8]) -> [u8; TOKEN_BYTES] {
    let mut token = [0; 2 * TOKEN_BYTES];
    resets.for_address(address).sign(id, &mut token);
    *token.first_chunk().unwrap()
}

#[tokio::test]
async fn a_packet_of_a_forgotten_connection_gets_a_stateless_reset() {
    run_local(async {
        let process = Process::start(2, &config(&["a.test"], |_| {})).await;
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let ids = process.shared.ids().for_port(quic_port(&process.workers[0]));
        // An id never issued by this process is ignored, and comes first.
        let foreign = IdKey::new().issue(0, 0);
        for worker in [0, 1] {
            let (gone, address) = (ids.issue(worker, 0), process.addresses[usize::from(worker)]);
            for id in [foreign, gone] {
                socket.send_to(&short_packet(&id, 71), process.addresses[0]).await.unwrap();
            }
            let mut response = [0; 256];
            let received = tokio::time::timeout(TEST_TIMEOUT, socket.recv_from(&mut response)).await;
            let (length, from) = received.expect("a response").unwrap();
            assert_eq!(from, address, "whose connection it was");
            assert!((ID_BYTES..71).contains(&length), "{length} bytes");
            assert_eq!(
                response[length - TOKEN_BYTES..length],
                token(process.shared.resets(), address, &gone)
            );
        }
        assert_eq!((process.metric_value(0, RESETS_METRIC), process.metric_value(1, RESETS_METRIC)), (1, 1));
        assert_eq!((process.metric_value(0, HANDED_OVER), process.metric_value(1, HANDED_OVER)), (1, 0));
    })
    .await;
}

#[tokio::test]
async fn a_packet_for_a_removed_worker_gets_a_reset_here() {
    run_local(async {
        let process = Process::start(2, &config(&["a.test"], |_| {})).await;
        process.shared.unregister(quic_port(&process.workers[0]), 1);
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let gone = process.shared.ids().for_port(quic_port(&process.workers[0])).issue(1, 0);
        socket.send_to(&short_packet(&gone, 71), process.addresses[0]).await.unwrap();
        let mut response = [0; 256];
        tokio::time::timeout(TEST_TIMEOUT, socket.recv(&mut response)).await.expect("a response").unwrap();
        assert_eq!((process.metric_value(0, RESETS_METRIC), process.metric_value(0, HANDED_OVER)), (1, 0));
    })
    .await;
}

/// The endpoint of a port without sockets, and its clock.
struct Port {
    endpoint: Endpoint,
    now: Instant,
}

impl Port {
    fn new(ids: &IdKey, number: u32, resets: &Arc<ResetKey>, address: &str) -> Self {
        let ids = ids.for_port(PortId(number));
        let config = endpoint_config(&ids, resets, address.parse().unwrap(), 0);
        let endpoint = Endpoint::new(Arc::new(config), None, false, Some([1; 32]));
        Self { endpoint, now: Instant::now() }
    }

    /// The response to a datagram.
    fn respond(&mut self, datagram: &[u8]) -> Option<Vec<u8>> {
        // As many resets as allowed.
        self.now += RESET_INTERVAL;
        let (client, mut output) = (SocketAddr::from(([192, 0, 2, 9], 9)), Vec::new());
        match self.endpoint.handle(self.now, client, None, None, BytesMut::from(datagram), &mut output)? {
            DatagramEvent::Response(transmit) => {
                assert_eq!((transmit.size, transmit.destination), (output.len(), client));
                Some(output)
            }
            _ => panic!("no connection is open"),
        }
    }
}

fn resets(tickets: &SessionTickets) -> Arc<ResetKey> {
    Arc::new(ResetKey::new(tickets.clone()))
}

/// With a secret shared by replicas.
fn sharing() -> SessionTickets {
    let tickets = SessionTickets::default();
    tickets.adopt(&[SharedTicketSecret {
        secret: TicketSecret::new(b"shared".to_vec()),
        age: Duration::ZERO,
        encrypts_in: Duration::ZERO,
    }]);
    tickets
}

#[test]
fn an_id_is_only_known_at_its_own_port() {
    let (ids, resets) = (IdKey::new(), resets(&SessionTickets::default()));
    let mut ports = [(1, "192.0.2.1:443"), (2, "192.0.2.1:444"), (3, "192.0.2.2:443")]
        .map(|(number, address)| (number, Port::new(&ids, number, &resets, address)));
    for issuer in [1, 2, 3] {
        let id = ids.for_port(PortId(issuer)).issue(0, 0);
        for (number, port) in &mut ports {
            let is_answered = port.respond(&short_packet(&id, 100)).is_some();
            assert_eq!(is_answered, *number == issuer, "an id of port {issuer} at port {number}");
        }
    }
}

#[test]
fn a_reset_of_another_port_ends_no_connection_even_with_a_shared_secret() {
    let (ids, resets) = (IdKey::new(), resets(&sharing()));
    let id = ids.for_port(PortId(1)).issue(0, resets.secret_name());
    let tokens: BTreeSet<_> = ["[::]:443", "[::]:444", "192.0.2.1:443"]
        .iter()
        .zip(1..)
        .map(|(address, number)| {
            let response =
                Port::new(&ids, number, &resets, address).respond(&short_packet(&id, 100)).unwrap();
            let token: [u8; TOKEN_BYTES] = *response.last_chunk().unwrap();
            assert_eq!(token, self::token(&resets, address.parse().unwrap(), &id));
            token
        })
        .collect();
    assert_eq!(tokens.len(), 3, "each is of its own address");
}

#[test]
fn a_reset_is_shorter_than_its_packet_and_short_packets_get_none() {
    for tickets in [SessionTickets::default(), sharing()] {
        let (ids, resets) = (IdKey::new(), resets(&tickets));
        let mut port = Port::new(&ids, 1, &resets, "192.0.2.1:443");
        let id = ids.for_port(PortId(1)).issue(0, 0);
        // The shortest possible reset has five bytes before its token (RFC 9000 §10.3).
        for length in 0..1500 {
            let packet = short_packet(&id, length);
            match port.respond(&packet).map(|response| response.len()) {
                None => assert!(length <= 5 + TOKEN_BYTES, "{length} bytes"),
                Some(response) => {
                    assert!((5 + TOKEN_BYTES..length).contains(&response), "{response} of {length}");
                }
            }
        }
    }
}

#[test]
fn two_endpoints_answering_each_other_stop() {
    let resets = resets(&sharing());
    let mut ports = [1, 2].map(|number| Port::new(&IdKey::new(), number, &resets, "[::]:443"));
    for length in [43, 100, 1200, 1500] {
        let (mut packet, mut responses) =
            (short_packet(&IdKey::new().issue(0, resets.secret_name()), length), 0);
        while let Some(response) = ports[responses % 2].respond(&packet) {
            (packet, responses) = (response, responses + 1);
        }
        assert!((1..=length - 5 - TOKEN_BYTES).contains(&responses), "{responses} for {length} bytes");
    }
}

#[test]
fn unknown_packets_with_long_headers_get_no_reset() {
    let (ids, resets) = (IdKey::new(), resets(&sharing()));
    let mut port = Port::new(&ids, 1, &resets, "192.0.2.1:443");
    let id = ids.for_port(PortId(1)).issue(0, 0);
    // 0-RTT, Handshake and Retry (RFC 9000 §17.2).
    for first in [0xd0, 0xe0, 0xf0] {
        let header = [&[first, 0, 0, 0, 1, ID_BYTES as u8][..], &id, &[0, 0x43, 0xe8]].concat();
        assert_eq!(port.respond(&[&header[..], &[7; 1000]].concat()), None, "{first:#x}");
    }
    assert!(port.respond(&short_packet(&id, 100)).is_some());
}
