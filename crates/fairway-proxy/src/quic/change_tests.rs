//! Open connections while a configuration change removes HTTP/3, their listener or the address of their socket.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use fairway_model::{Config, Listener, ListenerProtocol};
use quinn_proto::{ConnectionError, ConnectionHandle};
use tokio::io::AsyncWriteExt;
use tokio::sync::Notify;

use super::testing::{Client, Process, client_tls, config};
use crate::testing::{OK_RESPONSE, ScriptedConnect, read_head, run_local};

/// `H3_NO_ERROR` (RFC 9114 §8.1).
const NO_ERROR: u64 = 0x100;

/// The code with which the server closed an HTTP/3 connection.
fn code(error: &ConnectionError) -> u64 {
    match error {
        ConnectionError::ApplicationClosed(close) => close.error_code.into_inner(),
        other => panic!("closed by the server: {other:?}"),
    }
}

/// A client with a connection for each of these names.
async fn connected<const N: usize>(process: &Process, names: [&str; N]) -> (Client, [ConnectionHandle; N]) {
    let mut client = Client::new(client_tls(&["h3"])).await;
    let handles = names.map(|name| client.connect(process.addresses[0], name));
    for (handle, name) in handles.into_iter().zip(names) {
        assert_eq!(client.finish_handshake(handle).await, None);
        client.run_until(|_| process.http3_connections(name) > 0).await;
    }
    (client, handles)
}

/// The configuration with this listener changed by `edit`.
fn with_listener(config: &Config, name: &str, edit: impl Fn(&mut Listener)) -> Config {
    let mut config = config.clone();
    let mut listener = Listener::clone(&config.listeners[name]);
    edit(&mut listener);
    config.listeners.insert(listener.name.clone(), listener.into());
    config
}

fn without_http3(config: &Config, name: &str) -> Config {
    with_listener(config, name, |listener| listener.clients.http3 = Some(false))
}

fn goaway_count(client: &Client, handle: ConnectionHandle) -> usize {
    client.connections[&handle].conversation.goaway_ids.len()
}

#[tokio::test]
async fn a_connection_shuts_down_gracefully_when_http3_is_disabled() {
    run_local(async {
        let responses = Rc::new(Notify::new());
        let may_answer = Rc::clone(&responses);
        let config = config(&["a.test"], |_| {});
        let mut process = Process::start_with_script(1, &config, move |_| {
            let may_answer = Rc::clone(&may_answer);
            ScriptedConnect::served_by(move |mut stream| async move {
                assert!(read_head(&mut stream).await);
                may_answer.notified().await;
                stream.write_all(OK_RESPONSE).await.unwrap();
            })
        })
        .await;
        let (mut client, [handle]) = connected(&process, ["a.test"]).await;
        let number = client.request(handle, "a.test");
        client.run_until(|_| process.workers[0].exchanges() == 1).await;
        process.publish(&without_http3(&config, "a.test"));
        client.run_until(|client| goaway_count(client, handle) == 2).await;
        assert!(client.connections[&handle].connection_error.is_none(), "a request is under way");
        responses.notify_one();
        assert_eq!(client.response_status(handle, number).await, 200);
        assert_eq!(code(&client.wait_for_close(handle).await), NO_ERROR);
        let task = process.tasks.remove(0);
        client.run_until(|_| task.is_finished()).await;
        assert_eq!(process.metric_value(0, "fairway_connections_open"), 0);
    })
    .await;
}

#[tokio::test]
async fn an_idle_connection_gets_goaway_at_once_when_http3_is_disabled() {
    run_local(async {
        let config = config(&["a.test", "b.test"], |_| {});
        let mut process = Process::start(1, &config).await;
        let (mut client, [of_a, of_b]) = connected(&process, ["a.test", "b.test"]).await;
        // The port stays because the other listener is served there.
        process.publish(&without_http3(&config, "a.test"));
        assert_eq!(code(&client.wait_for_close(of_a).await), NO_ERROR);
        assert_eq!(goaway_count(&client, of_a), 2);
        let number = client.request(of_b, "b.test");
        assert_eq!(client.response_status(of_b, number).await, 200);
        assert_eq!(goaway_count(&client, of_b), 0);
        process.publish(&without_http3(&without_http3(&config, "a.test"), "b.test"));
        assert_eq!(code(&client.wait_for_close(of_b).await), NO_ERROR);
        let task = process.tasks.remove(0);
        client.run_until(|_| task.is_finished()).await;
    })
    .await;
}

#[tokio::test]
async fn a_connection_shuts_down_gracefully_when_its_listener_is_removed() {
    run_local(async {
        let both = config(&["a.test", "b.test"], |_| {});
        let mut process = Process::start(1, &both).await;
        let (mut client, [of_a, of_b]) = connected(&process, ["a.test", "b.test"]).await;
        let mut config = both.clone();
        config.listeners.remove("a.test");
        process.publish(&config);
        assert_eq!(code(&client.wait_for_close(of_a).await), NO_ERROR);
        assert_eq!(goaway_count(&client, of_a), 2);
        let number = client.request(of_b, "b.test");
        assert_eq!(client.response_status(of_b, number).await, 200);
    })
    .await;
}

/// The configuration with a UDP listener at the address of HTTP/3, and nothing else there.
fn for_datagrams(config: &Config, address: SocketAddr) -> Config {
    let mut config = config.clone();
    config.listeners.clear();
    let mut listener = Listener::new("udp", ListenerProtocol::Udp, 443, "udp");
    listener.bind = vec![address];
    config.listeners.insert(listener.name.clone(), Arc::new(listener));
    config
}

#[tokio::test]
async fn connections_are_closed_when_another_listener_needs_their_address() {
    run_local(async {
        let config = config(&["a.test"], |_| {});
        let mut process = Process::start_with_script(1, &config, |_| ScriptedConnect::Silence).await;
        let address = process.addresses[0];
        let (mut client, [busy, idle]) = connected(&process, ["a.test", "a.test"]).await;
        client.request(busy, "a.test");
        client.run_until(|_| process.workers[0].exchanges() == 1).await;
        process.publish(&for_datagrams(&config, address));
        let mut codes = BTreeMap::new();
        for handle in [busy, idle] {
            *codes.entry(code(&client.wait_for_close(handle).await)).or_insert(0) += 1;
        }
        assert_eq!(codes, BTreeMap::from([(NO_ERROR, 2)]));
        // Neither is kept to answer late datagrams: the address is free.
        let task = process.tasks.remove(0);
        client.run_until(|_| task.is_finished()).await;
        assert!(process.is_bound());
        assert_eq!(process.workers[0].exchanges(), 0);
        assert_eq!(process.metric_value(0, "fairway_connections_open"), 0);
    })
    .await;
}
