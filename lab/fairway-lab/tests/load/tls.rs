//! TLS: negotiated parameters, failed handshakes, and the classes of their errors.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use fairway_lab_measure::results::{Class, Load};
use fairway_lab_traffic::load::{Pace, Plan, Protocol, Reuse, TlsPlan, TlsVersion, Verify};
use fairway_testkit::{Authority, Backend, BackendResponse};
use rustls::{ServerConfig, ServerConnection};

use super::frames::{HEADERS, Peer, SETTINGS, frame, serve};
use super::{all_ok, only_error, run};

fn https(address: SocketAddr, requests: u64) -> Plan {
    let mut plan = Plan::for_addresses("https://a.test/", vec![address]).unwrap();
    plan.bounds.requests = Some(requests);
    plan.bounds.duration = None;
    plan
}

fn only(version: TlsVersion) -> Option<TlsPlan> {
    Some(TlsPlan { versions: vec![version], ..TlsPlan::default() })
}

/// The outcome of a single request to a server with this configuration.
async fn class_with(config: ServerConfig, change: impl Fn(&mut Plan)) -> (Class, String) {
    let backend = Backend::https(config, |_| BackendResponse::ok("")).await;
    let mut plan = https(backend.address(), 1);
    change(&mut plan);
    only_error(&run(plan).await)
}

#[tokio::test]
async fn a_server_without_h2_is_distinguished_from_a_broken_one() {
    let leaf = Authority::new("lab").leaf(&["a.test"]);
    let http2 = |plan: &mut Plan| plan.wire.protocol = Protocol::Http2;
    let (class, text) = class_with(leaf.server_config(&["http/1.1"]), http2).await;
    assert_eq!(class, Class::Tls);
    assert_eq!(text, "the server speaks none of the protocols that it was offered (ALPN)");
    let (class, text) = class_with(leaf.server_config(&[]), http2).await;
    assert_eq!((class, text.as_str()), (Class::Tls, "the server does not speak h2 (ALPN)"));
}

#[tokio::test]
async fn a_version_or_a_group_that_only_one_side_has_is_a_failure_of_tls() {
    use rustls::version::{TLS12, TLS13};
    let (of_12, of_13) = (only(TlsVersion::Tls12).unwrap(), only(TlsVersion::Tls13).unwrap());
    let group = |name: &str| TlsPlan { groups: vec![name.to_owned()], ..TlsPlan::default() };
    let leaf = Authority::new("lab").leaf(&["a.test"]);
    for (server, client, is_answered) in [
        (&TLS12, of_13, false),
        (&TLS13, of_12, false),
        (&TLS13, group("X25519"), false),
        (&TLS13, group("secp384r1"), true),
    ] {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        provider.kx_groups.retain(|known| known.name() == rustls::NamedGroup::secp384r1);
        let config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[server])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(leaf.chain_der.clone(), leaf.key_der.clone_key().into())
            .unwrap();
        let backend = Backend::https(config, |_| BackendResponse::ok("")).await;
        let mut plan = https(backend.address(), 1);
        plan.wire.tls = Some(client);
        let outcome = run(plan).await;
        if is_answered {
            all_ok(&outcome);
        } else {
            let (class, text) = only_error(&outcome);
            assert_eq!(class, Class::Tls);
            assert!(text.contains("ProtocolVersion") || text.contains("HandshakeFailure"), "{text}");
        }
    }
}

#[tokio::test]
async fn a_certificate_for_another_name_is_reported_with_the_name() {
    let authority = Authority::new("lab");
    let pem = authority.pem().to_owned();
    let (class, text) = class_with(authority.leaf(&["b.test"]).server_config(&["http/1.1"]), move |plan| {
        plan.wire.tls.as_mut().unwrap().verify = Verify::Roots(pem.clone());
    })
    .await;
    assert_eq!(class, Class::Tls);
    assert!(text.contains("not valid for name") && text.contains("a.test"), "{text}");
}

#[tokio::test]
async fn a_connection_that_ends_or_is_reset_within_the_handshake_is_a_failure_of_tls() {
    for (is_reset, said) in [(false, "the end of the stream within the TLS handshake"), (true, "reset")] {
        let address = serve(move |_, mut stream| {
            stream.read_exact(&mut [0; 5])?;
            if is_reset {
                // Unread data makes the kernel reset the connection.
                return Ok(());
            }
            stream.shutdown(std::net::Shutdown::Write)?;
            while stream.read(&mut [0; 512])? > 0 {}
            Ok(())
        });
        let (class, text) = only_error(&run(https(address, 1)).await);
        assert_eq!(class, Class::Tls);
        assert!(text.contains(said), "{text}");
    }
}

/// Shakes hands and says `first` in one write with the last of it.
fn shake_hands(
    config: Arc<ServerConfig>,
    mut socket: TcpStream,
    first: &[u8],
) -> io::Result<rustls::StreamOwned<ServerConnection, TcpStream>> {
    let mut session = ServerConnection::new(config).unwrap();
    while session.is_handshaking() {
        session.read_tls(&mut socket)?;
        session.process_new_packets().map_err(io::Error::other)?;
        if !session.is_handshaking() {
            session.writer().write_all(first)?;
        }
        let mut bytes = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut bytes)?;
        }
        socket.write_all(&bytes)?;
    }
    Ok(rustls::StreamOwned::new(session, socket))
}

#[tokio::test]
async fn http2_is_negotiated_and_data_sent_with_the_handshake_is_not_lost() {
    let config = Arc::new(Authority::new("lab").leaf(&["a.test"]).server_config(&["h2"]));
    let address = serve(move |_, socket| {
        let settings = frame(SETTINGS, 0, 0, &[]);
        let mut stream = shake_hands(config.clone(), socket, &settings)?;
        stream.read_exact(&mut [0; 24])?;
        let mut peer = Peer { stream };
        // The server responds only after the client has acknowledged SETTINGS.
        let mut waiting = Vec::new();
        let mut is_agreed = false;
        loop {
            let frame = peer.read()?;
            is_agreed |= frame.kind == SETTINGS && frame.flags == 1;
            if frame.kind == HEADERS {
                waiting.push(frame.stream);
            }
            if is_agreed {
                for stream in waiting.drain(..) {
                    peer.respond(stream)?;
                }
            }
        }
    });
    // In TLS 1.2 the server is the last to speak, so that its first words can follow at once.
    for (version, name) in [(TlsVersion::Tls12, "TLSv1.2"), (TlsVersion::Tls13, "TLSv1.3")] {
        let mut plan = https(address, 5);
        (plan.pace, plan.wire.tls, plan.wire.protocol) = (Pace::Closed, only(version), Protocol::Http2);
        let outcome = run(plan).await;
        assert_eq!(all_ok(&outcome), 1);
        let tls = outcome.load.tls.unwrap();
        assert_eq!((tls.version.as_str(), tls.protocol.as_str()), (name, "h2"));
        assert_eq!(tls.key.as_deref(), Some("ECDSA-P256"));
    }
}

#[tokio::test]
async fn a_server_that_speaks_first_is_malformed() {
    let config = Arc::new(Authority::new("lab").leaf(&["a.test"]).server_config(&["http/1.1"]));
    let address = serve(move |_, socket| {
        let mut stream = shake_hands(config.clone(), socket, b"220 smtp\r\n")?;
        while stream.read(&mut [0; 512])? > 0 {}
        Ok(())
    });
    let mut plan = https(address, 1);
    plan.wire.tls = only(TlsVersion::Tls12);
    assert_eq!(only_error(&run(plan).await).0, Class::Malformed);
}

/// The counts of 20 sequential handshakes.
async fn handshakes(mut config: ServerConfig, tickets: usize, tls: TlsPlan) -> Load {
    config.send_tls13_tickets = tickets;
    let backend =
        Backend::https(config, |_| BackendResponse::with_headers(200, &[("Connection", "close")], "")).await;
    let mut plan = https(backend.address(), 20);
    (plan.pace, plan.wire.reuse, plan.wire.tls) = (Pace::Closed, Reuse::ConnectionPerRequest, Some(tls));
    let outcome = run(plan).await;
    all_ok(&outcome);
    outcome.load
}

#[tokio::test]
async fn handshakes_are_resumed_by_default_and_their_parameters_recorded() {
    for (version, name, tickets) in [
        (TlsVersion::Tls12, "TLSv1.2", 0),
        (TlsVersion::Tls13, "TLSv1.3", 0),
        (TlsVersion::Tls13, "TLSv1.3", 3),
    ] {
        for resumption in [true, false] {
            let mut config = Authority::new("lab").leaf(&["a.test"]).server_config(&["http/1.1"]);
            // A server that remembers few sessions is resumed all the same.
            config.session_storage = rustls::server::ServerSessionMemoryCache::new(8);
            let tls = TlsPlan { resumption, ..only(version).expect("a plan for TLS") };
            let load = handshakes(config, tickets, tls).await;
            let can_resume = resumption && (version == TlsVersion::Tls12 || tickets > 0);
            let resumed = if can_resume { 19 } else { 0 };
            let counts = &load.counts;
            assert_eq!(
                (counts.resumed_handshakes, counts.full_handshakes),
                (resumed, 20 - resumed),
                "{name}"
            );
            assert_eq!(counts.tickets, 20 * tickets as u64);
            let tls = load.tls.expect("there is TLS");
            assert_eq!((tls.version.as_str(), tls.protocol.as_str()), (name, "http/1.1"));
            assert!(tls.signature.is_some_and(|scheme| scheme.starts_with("ECDSA")));
        }
    }
}
