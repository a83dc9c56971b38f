//! New snapshots under traffic: the next request uses them, open connections stay open, and nothing fails.

use fairway_model::{HeaderEdit, HeaderField, Phases, ResponseEdit};
use fairway_testkit::{Backend, BackendResponse, Request};

use crate::support::{HOST, Setup};

fn named_backend(name: &'static str) -> impl Future<Output = Backend> {
    Backend::http(move |_| BackendResponse::ok(name))
}

#[tokio::test]
async fn the_next_request_on_an_open_connection_sees_the_new_snapshot() {
    let (old, new) = (named_backend("old").await, named_backend("new").await);
    let mut proxy = Setup::to(&[old.address()]).start();
    let mut client = proxy.client().await;
    assert_eq!(client.exchange(&Request::get(HOST, "/")).await.unwrap().text(), "old");
    let edit = HeaderEdit {
        set: vec![HeaderField { name: "X-New".into(), value: "1".into() }],
        ..HeaderEdit::default()
    };
    proxy.publish(&Setup::to(&[new.address()]).filter(Phases::from(ResponseEdit::Headers(edit)))).await;
    let response = client.exchange(&Request::get(HOST, "/")).await.unwrap();
    assert_eq!((response.text().as_str(), response.header("X-New")), ("new", Some("1")));
}

#[tokio::test]
async fn an_exchange_in_flight_keeps_its_snapshot_and_finishes() {
    let old = Backend::http(|_| BackendResponse::ok("old").hold()).await;
    let new = named_backend("new").await;
    let mut proxy = Setup::to(&[old.address()]).start();
    let mut client = proxy.client().await;
    client.send(Request::get(HOST, "/").bytes()).await.unwrap();
    old.wait_until("the request", |old| old.waiting_count() == 1).await;
    proxy.publish(&Setup::to(&[new.address()])).await;
    old.release();
    assert_eq!(client.read_response().await.unwrap().text(), "old");
    old.wait_until("the connection to the endpoint that left", |old| old.open_count() == 0).await;
    assert_eq!(client.exchange(&Request::get(HOST, "/")).await.unwrap().text(), "new");
}

#[tokio::test]
async fn idle_connections_to_removed_endpoints_close_and_others_stay() {
    let (stays, leaves) = (named_backend("stays").await, named_backend("leaves").await);
    let mut proxy = Setup::to(&[stays.address(), leaves.address()]).start();
    let mut client = proxy.client().await;
    for _ in 0..4 {
        assert_eq!(client.exchange(&Request::get(HOST, "/")).await.unwrap().status, 200);
    }
    proxy.publish(&Setup::to(&[stays.address()])).await;
    leaves.wait_until("its idle connection", |leaves| leaves.open_count() == 0).await;
    for _ in 0..4 {
        assert_eq!(client.exchange(&Request::get(HOST, "/")).await.unwrap().text(), "stays");
    }
    assert_eq!((stays.connection_count(), stays.open_count()), (1, 1));
    assert_eq!(leaves.request_count(), 2);
}

#[tokio::test]
async fn a_backend_without_endpoints_is_503_until_it_has_one() {
    let backend = named_backend("back").await;
    let mut proxy = Setup::to(&[backend.address()]).start();
    let mut client = proxy.client().await;
    for (endpoints, status) in [(vec![backend.address()], 200), (vec![], 503), (vec![backend.address()], 200)]
    {
        proxy.publish(&Setup::to(&endpoints)).await;
        assert_eq!(client.exchange(&Request::get(HOST, "/")).await.unwrap().status, status);
    }
}

#[tokio::test]
async fn workers_are_known_to_have_adopted() {
    let backend = named_backend("ok").await;
    let mut proxy = Setup::to(&[backend.address()]).options(|options| options.workers = 2).start();
    let version = proxy.publish_now(&Setup::to(&[]));
    proxy.publisher.wait_until_adopted(version).await;
    assert_eq!(proxy.publisher.adopted_version(), version);
    for _ in 0..4 {
        assert_eq!(proxy.client().await.exchange(&Request::get(HOST, "/")).await.unwrap().status, 503);
    }
}

/// Endpoints, filters and settings change as fast as possible while eight clients send requests continuously.
#[tokio::test]
async fn thousands_of_changes_under_load_close_no_connection_and_fail_no_request() {
    const CHANGES: usize = 2000;
    let backends = [named_backend("a").await, named_backend("b").await, named_backend("c").await];
    let endpoints: Vec<_> = backends.iter().map(Backend::address).collect();
    let mut proxy = Setup::to(&endpoints).options(|options| options.workers = 2).start();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let mut asking = Vec::new();
    for number in 0..8 {
        let (mut client, stopped) = (proxy.client().await, stopped.clone());
        asking.push(tokio::spawn(async move {
            let mut request_count = 0;
            while !*stopped.borrow() {
                let request = if number % 2 == 0 {
                    Request::get(HOST, "/")
                } else {
                    Request::post(HOST, "/", vec![b'a'; 3000])
                };
                let response = client.exchange(&request).await.expect("no connection closes");
                assert_eq!(response.status, 200, "no request fails");
                request_count += 1;
            }
            request_count
        }));
    }
    for change in 0..CHANGES {
        let present: Vec<_> = endpoints.iter().copied().skip(change % 3).collect();
        let value = change.to_string().as_str().into();
        let edit =
            HeaderEdit { set: vec![HeaderField { name: "X-Change".into(), value }], ..HeaderEdit::default() };
        let setup =
            Setup::to(&present).filter(Phases::from(ResponseEdit::Headers(edit))).settings(|settings| {
                settings.upstream.idle_connections = Some(1 + u32::try_from(change % 9).unwrap());
            });
        let version = proxy.publish_now(&setup);
        // Every other change may be overtaken by the next one.
        if change % 2 == 0 {
            proxy.publisher.wait_until_adopted(version).await;
        }
    }
    stop.send(true).unwrap();
    let mut request_count = 0;
    for client in asking {
        request_count += client.await.unwrap();
    }
    assert!(request_count > 100, "{request_count} requests were asked meanwhile");
    assert_eq!(proxy.metric("fairway_connections_accepted_total").await, 8);
    for backend in &backends {
        backend.assert_followed();
    }
}
