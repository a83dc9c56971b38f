//! TLS: what was agreed upon, what could not be, and what that is called.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use fairway_echo::{EchoOptions, EchoServer, EchoTls};
use fairway_lab_measure::results::Class;
use fairway_lab_traffic::load::{Pace, Plan, Protocol, Reuse, TlsPlan, TlsVersion, Verify};
use fairway_testkit::{Answer, Authority, Backend};
use rustls::{ServerConfig, ServerConnection};

use super::frames::{HEADERS, Peer, SETTINGS, frame, serve};
use super::{only_error, run};

fn https(address: SocketAddr, requests: u64) -> Plan {
    let mut plan = Plan::at("https://a.test/", vec![address]).unwrap();
    plan.bounds.requests = Some(requests);
    plan.bounds.duration = None;
    plan
}

fn only(version: TlsVersion) -> Option<TlsPlan> {
    Some(TlsPlan { versions: vec![version], ..TlsPlan::default() })
}

/// What a server with this configuration makes of a single request.
async fn class_with(config: ServerConfig, change: impl Fn(&mut Plan)) -> (Class, String) {
    let backend = Backend::https(config, |_| Answer::ok("")).await;
    let mut plan = https(backend.address(), 1);
    change(&mut plan);
    only_error(&run(plan).await)
}

#[tokio::test]
async fn http_2_is_agreed_upon_inside_tls() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = Authority::new("lab").leaf(&["a.test"]).write_to(folder.path()).unwrap();
    let tls =
        EchoTls { listen: vec!["127.0.0.1:0".parse().unwrap()], certificate, key, client_authorities: None };
    let server = EchoServer::bind(EchoOptions { tls: Some(tls), ..EchoOptions::default() }).await.unwrap();
    let address = server.tls_addresses()[0];
    let (shutdown, told) = tokio::sync::oneshot::channel::<()>();
    let task = tokio::spawn(server.run(async move { told.await.unwrap_or(()) }));
    for (version, name) in [(TlsVersion::Tls12, "TLSv1.2"), (TlsVersion::Tls13, "TLSv1.3")] {
        let mut plan = https(address, 100);
        plan.wire.tls = only(version);
        plan.wire.protocol = Protocol::Http2;
        plan.shape.connections = 2;
        let load = run(plan).await.load;
        assert_eq!((load.counts.ok, load.counts.connections), (100, 2), "{:?}", load.examples);
        let tls = load.tls.unwrap();
        assert_eq!((tls.version.as_str(), tls.protocol.as_str()), (name, "h2"));
        assert_eq!(tls.key.as_deref(), Some("ECDSA-P256"));
    }
    // Nobody waits for the server any more if it has ended on its own, which the next line would show.
    _ = shutdown.send(());
    task.await.unwrap();
}

#[tokio::test]
async fn a_server_that_does_not_choose_h2_is_told_from_one_that_breaks_down() {
    let leaf = Authority::new("lab").leaf(&["a.test"]);
    let http2 = |plan: &mut Plan| plan.wire.protocol = Protocol::Http2;
    let (class, text) = class_with(leaf.server_config(&["http/1.1"]), http2).await;
    assert_eq!(class, Class::Tls);
    assert_eq!(text, "the server speaks none of the protocols that it was offered (ALPN)");
    let (class, text) = class_with(leaf.server_config(&[]), http2).await;
    assert_eq!((class, text.as_str()), (Class::Tls, "the server does not speak h2 (ALPN)"));
}

#[tokio::test]
async fn a_version_that_only_one_side_speaks_is_a_failure_of_tls() {
    let leaf = Authority::new("lab").leaf(&["a.test"]);
    for (server, client) in
        [(&rustls::version::TLS12, TlsVersion::Tls13), (&rustls::version::TLS13, TlsVersion::Tls12)]
    {
        let config =
            ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
                .with_protocol_versions(&[server])
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(leaf.chain_der.clone(), leaf.key_der.clone_key().into())
                .unwrap();
        let (class, text) = class_with(config, |plan| plan.wire.tls = only(client)).await;
        assert_eq!(class, Class::Tls);
        assert!(text.contains("ProtocolVersion") || text.contains("HandshakeFailure"), "{text}");
    }
}

#[tokio::test]
async fn only_the_groups_that_are_named_are_offered() {
    let leaf = Authority::new("lab").leaf(&["a.test"]);
    for (group, answered) in [("X25519", 0), ("secp384r1", 1)] {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        provider.kx_groups.retain(|known| known.name() == rustls::NamedGroup::secp384r1);
        let config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(leaf.chain_der.clone(), leaf.key_der.clone_key().into())
            .unwrap();
        let backend = Backend::https(config, |_| Answer::ok("")).await;
        let mut plan = https(backend.address(), 1);
        plan.wire.tls = Some(TlsPlan { groups: vec![group.to_owned()], ..TlsPlan::default() });
        assert_eq!(run(plan).await.load.counts.ok, answered, "{group}");
    }
}

#[tokio::test]
async fn a_name_that_does_not_match_is_told_with_the_name() {
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
                // What was not read is enough: the kernel ends such a connection by a reset.
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
async fn what_a_server_says_in_one_breath_with_its_handshake_is_not_lost() {
    let config = Arc::new(Authority::new("lab").leaf(&["a.test"]).server_config(&["h2"]));
    let address = serve(move |_, socket| {
        let settings = frame(SETTINGS, 0, 0, &[]);
        let mut stream = shake_hands(config.clone(), socket, &settings)?;
        stream.read_exact(&mut [0; 24])?;
        let mut peer = Peer { stream };
        // An answer is given only to who has agreed to the settings.
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
                    peer.answer(stream)?;
                }
            }
        }
    });
    let mut plan = https(address, 5);
    plan.pace = Pace::Closed;
    // In TLS 1.2 the server is the last to speak, so that its first words can follow at once.
    plan.wire.tls = only(TlsVersion::Tls12);
    plan.wire.protocol = Protocol::Http2;
    let load = run(plan).await.load;
    assert_eq!(load.counts.ok, 5, "{:?} {:?}", load.errors, load.examples);
}

#[tokio::test]
async fn a_server_that_speaks_before_it_is_asked_is_malformed() {
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

#[tokio::test]
async fn a_server_that_remembers_few_sessions_is_resumed_all_the_same() {
    let authority = Authority::new("lab");
    let mut config = authority.leaf(&["a.test"]).server_config(&["http/1.1"]);
    // In TLS 1.3 each connection leaves more than one ticket.
    config.session_storage = rustls::server::ServerSessionMemoryCache::new(8);
    let backend = Backend::https(config, |_| Answer::with_headers(200, &[("Connection", "close")], "")).await;
    let mut plan = https(backend.address(), 60);
    plan.pace = Pace::Closed;
    plan.wire.reuse = Reuse::ConnectionPerRequest;
    let load = run(plan).await.load;
    assert_eq!(load.counts.ok, 60, "{:?}", load.errors);
    assert_eq!((load.counts.full_handshakes, load.counts.resumed_handshakes), (1, 59));
}

#[tokio::test]
async fn tickets_and_the_signature_of_a_server_are_recorded_with_and_without_resumption() {
    for (tickets, resumption) in [(0, false), (3, false), (3, true)] {
        let mut config = Authority::new("lab").leaf(&["a.test"]).server_config(&["http/1.1"]);
        config.send_tls13_tickets = tickets;
        let backend =
            Backend::https(config, |_| Answer::with_headers(200, &[("Connection", "close")], "")).await;
        let mut plan = https(backend.address(), 20);
        plan.pace = Pace::Closed;
        plan.wire.reuse = Reuse::ConnectionPerRequest;
        plan.wire.tls = Some(TlsPlan { resumption, ..only(TlsVersion::Tls13).expect("a plan for TLS") });
        let load = run(plan).await.load;
        assert_eq!(load.counts.tickets, 20 * tickets as u64, "{:?}", load.errors);
        assert_eq!(load.counts.resumed_handshakes, if resumption { 19 } else { 0 });
        let signature = load.tls.and_then(|tls| tls.signature);
        assert!(signature.is_some_and(|scheme| scheme.starts_with("ECDSA") || scheme.starts_with("RSA")));
    }
}
