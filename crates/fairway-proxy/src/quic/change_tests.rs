//! Connections that are open while a configuration takes something away from them: HTTP/3, their listener, or the address of their
//! socket.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use fairway_model::{Config, Listener, ListenerProtocol};
use quinn_proto::{ConnectionError, ConnectionHandle};
use tokio::io::AsyncWriteExt;
use tokio::sync::Notify;

use super::testing::{Client, Process, config, offering};
use crate::testing::{Meeting, OK, on_stage, read_head};

/// `H3_NO_ERROR` (RFC 9114 §8.1).
const NO_ERROR: u64 = 0x100;

/// The code with which the server closed a connection of HTTP/3.
fn code(error: &ConnectionError) -> u64 {
    match error {
        ConnectionError::ApplicationClosed(close) => close.error_code.into_inner(),
        other => panic!("closed by the server: {other:?}"),
    }
}

/// A client with a connection for each of these names.
async fn connected<const N: usize>(process: &Process, names: [&str; N]) -> (Client, [ConnectionHandle; N]) {
    let mut client = Client::new(offering(&["h3"])).await;
    let handles = names.map(|name| client.connect(process.addresses[0], name));
    for (handle, name) in handles.into_iter().zip(names) {
        assert_eq!(client.finish(handle).await, None);
        client.until(|_| process.served(name) > 0).await;
    }
    (client, handles)
}

/// The same configuration, with this listener as `edit` makes it.
fn with(config: &Config, name: &str, edit: impl Fn(&mut Listener)) -> Config {
    let mut config = config.clone();
    let mut listener = Listener::clone(&config.listeners[name]);
    edit(&mut listener);
    config.listeners.insert(listener.name.clone(), listener.into());
    config
}

fn without_http3(config: &Config, name: &str) -> Config {
    with(config, name, |listener| listener.clients.http3 = Some(false))
}

fn goes_away(client: &Client, handle: ConnectionHandle) -> usize {
    client.connections[&handle].talk.goes_away.len()
}

#[tokio::test]
async fn a_connection_ends_in_order_when_http3_is_switched_off() {
    on_stage(async {
        let answers = Rc::new(Notify::new());
        let may_answer = Rc::clone(&answers);
        let config = config(&["a.test"], |_| {});
        let mut process = Process::over(1, &config, move |_| {
            let may_answer = Rc::clone(&may_answer);
            Meeting::with(move |mut stream| async move {
                assert!(read_head(&mut stream).await);
                may_answer.notified().await;
                stream.write_all(OK).await.unwrap();
            })
        })
        .await;
        let (mut client, [handle]) = connected(&process, ["a.test"]).await;
        let number = client.ask(handle, "a.test");
        client.until(|_| process.workers[0].exchanges() == 1).await;
        process.publish(&without_http3(&config, "a.test"));
        client.until(|client| goes_away(client, handle) == 2).await;
        assert!(client.connections[&handle].lost.is_none(), "a request is under way");
        answers.notify_one();
        assert_eq!(client.answered(handle, number).await, 200);
        assert_eq!(code(&client.over(handle).await), NO_ERROR);
        let task = process.tasks.remove(0);
        client.until(|_| task.is_finished()).await;
        assert_eq!(process.value(0, "fairway_connections_open"), 0);
    })
    .await;
}

#[tokio::test]
async fn a_connection_without_requests_learns_at_once_that_http3_is_switched_off() {
    on_stage(async {
        let config = config(&["a.test", "b.test"], |_| {});
        let mut process = Process::start(1, &config).await;
        let (mut client, [of_a, of_b]) = connected(&process, ["a.test", "b.test"]).await;
        // The port stays, because the other listener is served there.
        process.publish(&without_http3(&config, "a.test"));
        assert_eq!(code(&client.over(of_a).await), NO_ERROR);
        assert_eq!(goes_away(&client, of_a), 2);
        let number = client.ask(of_b, "b.test");
        assert_eq!(client.answered(of_b, number).await, 200);
        assert_eq!(goes_away(&client, of_b), 0);
        process.publish(&without_http3(&without_http3(&config, "a.test"), "b.test"));
        assert_eq!(code(&client.over(of_b).await), NO_ERROR);
        let task = process.tasks.remove(0);
        client.until(|_| task.is_finished()).await;
    })
    .await;
}

#[tokio::test]
async fn a_connection_ends_in_order_when_its_listener_is_removed() {
    on_stage(async {
        let both = config(&["a.test", "b.test"], |_| {});
        let mut process = Process::start(1, &both).await;
        let (mut client, [of_a, of_b]) = connected(&process, ["a.test", "b.test"]).await;
        let mut config = both.clone();
        config.listeners.remove("a.test");
        process.publish(&config);
        assert_eq!(code(&client.over(of_a).await), NO_ERROR);
        assert_eq!(goes_away(&client, of_a), 2);
        let number = client.ask(of_b, "b.test");
        assert_eq!(client.answered(of_b, number).await, 200);
    })
    .await;
}

/// The configuration with a listener of UDP at the address of HTTP/3, and nothing else there.
fn for_datagrams(config: &Config, address: SocketAddr) -> Config {
    let mut config = config.clone();
    config.listeners.clear();
    let mut listener = Listener::new("udp", ListenerProtocol::Udp, 443, "udp");
    listener.bind = vec![address];
    config.listeners.insert(listener.name.clone(), Arc::new(listener));
    config
}

#[tokio::test]
async fn connections_are_cut_whose_address_another_listener_wants() {
    on_stage(async {
        let config = config(&["a.test"], |_| {});
        let mut process = Process::over(1, &config, |_| Meeting::Silence).await;
        let address = process.addresses[0];
        let (mut client, [busy, idle]) = connected(&process, ["a.test", "a.test"]).await;
        client.ask(busy, "a.test");
        client.until(|_| process.workers[0].exchanges() == 1).await;
        process.publish(&for_datagrams(&config, address));
        let mut codes = BTreeMap::new();
        for handle in [busy, idle] {
            *codes.entry(code(&client.over(handle).await)).or_insert(0) += 1;
        }
        assert_eq!(codes, BTreeMap::from([(NO_ERROR, 2)]));
        // Neither of them is kept for what still comes: the address is free.
        let task = process.tasks.remove(0);
        client.until(|_| task.is_finished()).await;
        assert!(process.is_bound());
        assert_eq!(process.workers[0].exchanges(), 0);
        assert_eq!(process.value(0, "fairway_connections_open"), 0);
    })
    .await;
}
