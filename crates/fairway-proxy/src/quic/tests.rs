//! QUIC clients at real sockets of a worker: handshakes, refusals, Retry, hand-over between workers, migration,
//! and misdirected hosts.

use std::cell::RefCell;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{
    AccessList, Certificate, CertificateKey, Config, Guard, Origin, Phases, PrivateKey, VirtualHost,
};
use fairway_testkit::certificates::client_config_recording_ocsp;
use fairway_testkit::ocsp::OcspAnswer;
use fairway_testkit::{Authority, Backend, BackendResponse};
use quinn_proto::{ConnectionError, TransportErrorCode, VarInt};
use rustls::version::TLS13;

use super::handshake_limit::{MAX_HANDSHAKES_PER_CLIENT, MAX_UNVALIDATED};
use super::testing::{Client, HANDED_OVER, Process, TEST_TIMEOUT, client_tls, config, wait_until};
use crate::testing::run_local;
use crate::worker::StopPhase;

/// The code with which the other side closed a connection.
fn code(error: Option<ConnectionError>) -> u64 {
    match error {
        Some(ConnectionError::ConnectionClosed(close)) => close.error_code.into(),
        other => panic!("closed by the other side: {other:?}"),
    }
}

#[tokio::test]
async fn the_name_selects_the_listener() {
    run_local(async {
        let process = Process::start(1, &config(&["a.test", "b.test"], |_| {})).await;
        let mut client = Client::new(client_tls(&["h3"])).await;
        for (name, of_a, of_b) in [("a.test", 1, 0), ("b.test", 1, 1), ("B.test", 1, 2)] {
            let handle = client.connect(process.addresses[0], name);
            assert_eq!(client.finish_handshake(handle).await, None, "{name}");
            client
                .run_until(|_| {
                    (process.http3_connections("a.test"), process.http3_connections("b.test")) == (of_a, of_b)
                })
                .await;
        }
        let kinds = ["full", "resumed"].map(|kind| format!("fairway_tls_handshakes_{kind}_total"));
        assert_eq!(kinds.iter().map(|kind| process.metric_value(0, kind)).sum::<u64>(), 3);
        assert_eq!(process.metric_value(0, "fairway_connections_accepted_total"), 3);
    })
    .await;
}

#[tokio::test]
async fn an_unknown_name_gets_its_alert() {
    run_local(async {
        let process = Process::start(1, &config(&["a.test"], |_| {})).await;
        let mut client = Client::new(client_tls(&["h3"])).await;
        let handle = client.connect(process.addresses[0], "b.test");
        assert_eq!(code(client.finish_handshake(handle).await), 0x170);
        wait_until(|| {
            process.metric_value(0, "fairway_refused_connections_total{reason=\"no_listener\"}") == 1
        })
        .await;
        assert_eq!(process.metric_value(0, "fairway_connections_open"), 0);
    })
    .await;
}

#[tokio::test]
async fn a_client_without_h3_gets_its_alert() {
    run_local(async {
        let process = Process::start(1, &config(&["a.test"], |_| {})).await;
        let mut client = Client::new(client_tls(&["hq-interop"])).await;
        let handle = client.connect(process.addresses[0], "a.test");
        assert_eq!(code(client.finish_handshake(handle).await), 0x178);
        wait_until(|| {
            process.metric_value(0, "fairway_refused_connections_total{reason=\"handshake_failed\"}") == 1
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn the_hello_may_span_several_datagrams() {
    run_local(async {
        let process = Process::start(1, &config(&["a.test"], |_| {})).await;
        let fillers: Vec<_> =
            (0..200).map(|number| format!("a-long-name-of-a-protocol-{number:03}")).collect();
        let protocols: Vec<&str> = fillers.iter().map(String::as_str).chain(["h3"]).collect();
        let mut client = Client::new(client_tls(&protocols)).await;
        let handle = client.connect(process.addresses[0], "a.test");
        assert_eq!(client.finish_handshake(handle).await, None);
        let sent = client.connections[&handle].quic.stats().frame_tx.crypto;
        assert!(sent >= 5, "6 KiB of them, in {sent} frames");
        client.run_until(|_| process.http3_connections("a.test") == 1).await;
    })
    .await;
}

#[tokio::test]
async fn a_session_is_resumed() {
    run_local(async {
        let process = Process::start(1, &config(&["a.test"], |_| {})).await;
        let mut client = Client::new(client_tls(&["h3"])).await;
        // Tickets follow the handshake, and arrive at the latest during the next one.
        for _ in 0..5 {
            let handle = client.connect(process.addresses[0], "a.test");
            assert_eq!(client.finish_handshake(handle).await, None);
        }
        wait_until(|| process.metric_value(0, "fairway_tls_handshakes_resumed_total") > 0).await;
        assert!(process.metric_value(0, "fairway_tls_handshakes_full_total") > 0);
    })
    .await;
}

#[tokio::test]
async fn connections_beyond_the_limit_are_refused() {
    run_local(async {
        let mut config = config(&["a.test"], |_| {});
        config.settings.downstream.connections_per_worker = Some(1);
        let process = Process::start(1, &config).await;
        let mut client = Client::new(client_tls(&["h3"])).await;
        let first = client.connect(process.addresses[0], "a.test");
        assert_eq!(client.finish_handshake(first).await, None);
        let second = client.connect(process.addresses[0], "a.test");
        assert_eq!(
            code(client.finish_handshake(second).await),
            u64::from(TransportErrorCode::CONNECTION_REFUSED)
        );
        // Each datagram of its hello is refused.
        assert!(process.metric_value(0, "fairway_refused_connections_total{reason=\"overloaded\"}") > 0);
    })
    .await;
}

#[tokio::test]
async fn a_listener_at_its_limit_refuses_connections() {
    run_local(async {
        let limited = |listener: &mut fairway_model::Listener| {
            if &*listener.name == "a.test" {
                listener.clients.connections = NonZeroU32::new(1);
            }
        };
        let process = Process::start(1, &config(&["a.test", "b.test"], limited)).await;
        let mut client = Client::new(client_tls(&["h3"])).await;
        let mut codes = Vec::new();
        for name in ["a.test", "a.test", "b.test"] {
            let handle = client.connect(process.addresses[0], name);
            codes.push(client.finish_handshake(handle).await.map(|error| code(Some(error))));
        }
        assert_eq!(codes, [None, Some(u64::from(TransportErrorCode::CONNECTION_REFUSED)), None]);
    })
    .await;
}

#[tokio::test]
async fn an_incomplete_handshake_times_out() {
    run_local(async {
        let slow = |listener: &mut fairway_model::Listener| {
            listener.clients.handshake_timeout = Some(Duration::from_secs(1));
        };
        let process = Process::start(1, &config(&["a.test"], slow)).await;
        let mut client = Client::new(client_tls(&["h3"])).await;
        client.connect(process.addresses[0], "a.test");
        client.send().await;
        wait_until(|| process.metric_value(0, "fairway_connections_open") == 1).await;
        wait_until(|| process.metric_value(0, "fairway_connections_open") == 0).await;
        assert_eq!(
            process.metric_value(0, "fairway_refused_connections_total{reason=\"handshake_timeout\"}"),
            1
        );
    })
    .await;
}

#[tokio::test]
async fn clients_validate_their_address_while_many_handshakes_are_in_progress() {
    run_local(async {
        let process = Process::start(1, &config(&["a.test"], |_| {})).await;
        let mut absent = Client::new(client_tls(&["h3"])).await;
        for _ in 0..MAX_UNVALIDATED {
            absent.connect(process.addresses[0], "a.test");
        }
        absent.send().await;
        let open = MAX_UNVALIDATED as u64;
        wait_until(|| process.metric_value(0, "fairway_connections_open") == open).await;
        assert_eq!(process.metric_value(0, "fairway_quic_retries_total"), 0);
        let mut client = Client::new(client_tls(&["h3"])).await;
        let handle = client.connect(process.addresses[0], "a.test");
        assert_eq!(client.finish_handshake(handle).await, None);
        // Each datagram of its hello gets this response.
        assert!(process.metric_value(0, "fairway_quic_retries_total") > 0);
    })
    .await;
}

#[tokio::test]
async fn a_client_that_only_starts_handshakes_does_not_block_others() {
    run_local(async {
        let patient = |listener: &mut fairway_model::Listener| {
            listener.clients.handshake_timeout = Some(Duration::from_secs(600));
        };
        let process = Process::start(1, &config(&["a.test"], patient)).await;
        let mut absent = Client::new(client_tls(&["h3"])).await;
        absent.move_to(2).await;
        absent.reads_only_retries = true;
        for _ in 0..MAX_HANDSHAKES_PER_CLIENT + 10 {
            absent.connect(process.addresses[0], "a.test");
            absent.send().await;
            // Let the worker run, so that its socket is never full.
            tokio::task::yield_now().await;
        }
        let refused = || process.metric_value(0, "fairway_refused_connections_total{reason=\"overloaded\"}");
        let has_its_share = || {
            process.metric_value(0, "fairway_connections_open") == u64::from(MAX_HANDSHAKES_PER_CLIENT)
                && refused() > 0
        };
        absent.run_until(|_| has_its_share()).await;
        assert!(process.metric_value(0, "fairway_quic_retries_total") > 0, "it has shown its address");
        let mut client = Client::new(client_tls(&["h3"])).await;
        let handle = client.connect(process.addresses[0], "a.test");
        assert_eq!(client.finish_handshake(handle).await, None);
        client.run_until(|_| process.http3_connections("a.test") == 1).await;
    })
    .await;
}

#[tokio::test]
async fn datagrams_received_by_another_worker_are_handed_over() {
    run_local(async {
        let process = Process::start(2, &config(&["a.test"], |_| {})).await;
        let mut client = Client::new(client_tls(&["h3"])).await;
        let handle = client.connect(process.addresses[0], "a.test");
        assert_eq!(client.finish_handshake(handle).await, None);
        client.run_until(|_| process.http3_connections("a.test") == 1).await;
        // From now on the kernel delivers this client's datagrams to the other worker.
        client.sink_address.set(Some(process.addresses[1]));
        let acks = |client: &Client| client.connections[&handle].quic.stats().frame_rx.acks;
        let before = acks(&client);
        client.connections.get_mut(&handle).unwrap().quic.ping();
        client.run_until(|client| acks(client) > before && process.metric_value(1, HANDED_OVER) > 0).await;
        assert_eq!(process.metric_value(0, HANDED_OVER), 0);
        assert_eq!(process.metric_value(1, "fairway_connections_accepted_total"), 0);
        assert_eq!(process.metric_value(1, "fairway_quic_datagrams_dropped_total"), 0);
    })
    .await;
}

#[tokio::test]
async fn a_draining_worker_serves_open_connections_and_refuses_new_ones() {
    run_local(async {
        let mut process = Process::start(1, &config(&["a.test"], |_| {})).await;
        let mut client = Client::new(client_tls(&["h3"])).await;
        let connection = client.connect(process.addresses[0], "a.test");
        // Unchanged, because its handshake is incomplete.
        client.send().await;
        wait_until(|| process.metric_value(0, "fairway_connections_open") == 1).await;
        process.workers[0].enter_phase(StopPhase::Draining);
        let mut other = Client::new(client_tls(&["h3"])).await;
        let late = other.connect(process.addresses[0], "a.test");
        assert_eq!(
            code(other.finish_handshake(late).await),
            u64::from(TransportErrorCode::CONNECTION_REFUSED)
        );
        assert_eq!(client.finish_handshake(connection).await, None);
        let quic = &mut client.connections.get_mut(&connection).unwrap().quic;
        quic.close(std::time::Instant::now(), VarInt::from_u32(0x100), bytes::Bytes::new());
        let task = process.tasks.remove(0);
        client.run_until(|_| task.is_finished()).await;
        assert_eq!(process.metric_value(0, "fairway_connections_open"), 0);
    })
    .await;
}

#[tokio::test]
async fn a_host_of_a_listener_without_http3_is_misdirected() {
    run_local(async {
        let of_a = |listener: &mut fairway_model::Listener| {
            listener.clients.http3 = Some(&*listener.name == "a.test");
        };
        let process = Process::start(1, &config(&["a.test", "b.test"], of_a)).await;
        let mut client = Client::new(client_tls(&["h3"])).await;
        let handle = client.connect(process.addresses[0], "a.test");
        assert_eq!(client.finish_handshake(handle).await, None);
        for (host, status) in [("a.test", 200), ("b.test", 421), ("B.test:443", 421), ("a.test", 200)] {
            let number = client.request(handle, host);
            assert_eq!(client.response_status(handle, number).await, status, "{host}");
        }
        // A client that requests it first learns that it has no HTTP/3.
        let handle = client.connect(process.addresses[0], "b.test");
        assert_eq!(code(client.finish_handshake(handle).await), 0x170);
    })
    .await;
}

/// The configuration with this change to every request.
fn guarded(mut config: Config, guard: Guard) -> Config {
    let (key, host) = config.hosts.iter().next().expect("one host");
    let (key, mut host) = (key.clone(), VirtualHost::clone(host));
    let mut route = (*host.routes[0]).clone();
    route.rules[0].phases = Phases { guards: vec![guard], ..Phases::default() }.shared();
    host.routes = vec![route.into()];
    config.hosts.insert(key, host.into());
    config
}

#[tokio::test]
async fn a_migrated_client_is_judged_and_logged_by_its_new_address() {
    run_local(async {
        let guard =
            Guard::Access(AccessList { allow: Vec::new(), deny: vec!["127.0.0.2/32".parse().unwrap()] });
        let process = Process::start(1, &guarded(config(&["a.test"], |_| {}), guard)).await;
        let mut client = Client::new(client_tls(&["h3"])).await;
        let handle = client.connect(process.addresses[0], "a.test");
        assert_eq!(client.finish_handshake(handle).await, None);
        for (last, status) in [(1, 200), (2, 403), (3, 200)] {
            client.move_to(last).await;
            let number = client.request(handle, "a.test");
            assert_eq!(client.response_status(handle, number).await, status, "127.0.0.{last}");
            let logged = RefCell::new(String::new());
            client
                .run_until(|_| {
                    logged.borrow_mut().push_str(&process.log_lines());
                    !logged.borrow().is_empty()
                })
                .await;
            let line = logged.take();
            assert!(line.starts_with(&format!("127.0.0.{last} ")), "{line}");
        }
        assert_eq!(process.metric_value(0, "fairway_connections_accepted_total"), 1);
    })
    .await;
}

#[tokio::test]
async fn certificates_are_stapled_as_over_tcp() {
    run_local(async {
        let issuer = Authority::new("root").intermediate("issuer");
        let sign = issuer.ocsp_signer();
        let responder =
            Backend::http(move |request| BackendResponse::ok(sign(&request.body, &OcspAnswer::good()))).await;
        let leaf = issuer.leaf_with_responder(&["a.test"], &format!("http://{}/", responder.address()));
        let mut config =
            config(&["a.test"], |listener| listener.tls.certificates = vec![CertificateKey("a/tls".into())]);
        let certificate = Certificate {
            key: CertificateKey("a/tls".into()),
            origin: Origin::object("Secret", "a", "tls"),
            chain: leaf.chain_der.iter().map(|der| Arc::from(&**der)).collect(),
            private_key: PrivateKey::from_der(leaf.key_der.secret_pkcs8_der()),
            names: Vec::new(),
            not_after: i64::MAX,
            issued: Arc::default(),
        };
        config.certificates.insert(certificate.key.clone(), Arc::new(certificate));
        config.settings.downstream.ocsp_stapling = true;
        let process = Process::start(1, &config).await;
        let stapled = async {
            loop {
                // Each with its own handshake, until one follows the response.
                let (mut tls, stapled) = client_config_recording_ocsp(&[&TLS13]);
                tls.alpn_protocols = vec![b"h3".to_vec()];
                let mut client = Client::new(tls).await;
                let handle = client.connect(process.addresses[0], "a.test");
                assert_eq!(client.finish_handshake(handle).await, None);
                if !stapled.lock().unwrap().is_empty() {
                    return;
                }
            }
        };
        tokio::time::timeout(TEST_TIMEOUT, stapled).await.expect("the response is stapled in the end");
    })
    .await;
}
