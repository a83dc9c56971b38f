//! Tracing in virtual time: which traces are continued or started, the headers that endpoints and services get, and what is
//! exported.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{
    Config, Endpoint, ErrorPages, Forwarding, Listener, Phases, Propagation, SampleRatio, Template,
    TemplatePart, Tracing,
};
use tokio::time::{sleep, timeout};

use super::compression_tests::{Protocol, TestClient};
use super::steps_mirror_tests::mirror;
use super::steps_tests::{
    BUSY, ReceivedRequests, auth, auth_phases, field, ok, run_ready_tasks, serve_responses,
};
use crate::recorder::RecordedExchange;
use crate::testing::{GET_REQUEST, ScriptedConnect, TestWorker, config_with_phases, endpoint, run_local};
use crate::trace::{TraceReceiver, TracedExchange, channel};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

/// Samples every trace, and ignores those of clients.
fn sample_all() -> Tracing {
    Tracing { ratio: SampleRatio::ALL, ..Tracing::default() }
}

/// Continues traces of clients and follows their sampling; does not sample traces that start here.
fn by_parent() -> Tracing {
    Tracing { parent_based: true, trust_incoming: true, ..Tracing::default() }
}

fn with_b3(tracing: Tracing) -> Tracing {
    Tracing { propagation: Propagation::W3cAndB3, ..tracing }
}

/// A stage, what its endpoints received, and what it exports.
struct Scene {
    stage: TestWorker,
    received: ReceivedRequests,
    exported: TraceReceiver,
}

impl Scene {
    /// A process with this setting, over one endpoint that responds.
    fn new(tracing: Tracing) -> Self {
        Self::with_config(tracing, config_with_phases(1, Vec::new()), |_| Some(ok()))
    }

    /// The same with this configuration; endpoints for which `response` returns `None` refuse connects.
    fn with_config(
        tracing: Tracing,
        config: Config,
        response: impl Fn(u16) -> Option<&'static str> + 'static,
    ) -> Self {
        let received = ReceivedRequests::default();
        let script = {
            let received = Rc::clone(&received);
            move |to: SocketAddr| match response(to.port()) {
                Some(response) => {
                    let received = Rc::clone(&received);
                    ScriptedConnect::served_by(move |stream| {
                        serve_responses(to.port(), response.as_bytes(), received, stream)
                    })
                }
                None => ScriptedConnect::Refused,
            }
        };
        let (sender, exported) = channel(16);
        let edit = |options: &mut crate::options::ProxyOptions| {
            options.tracing = Some(Arc::new(tracing));
            options.traces = Some(sender);
        };
        Self { stage: TestWorker::with_options(edit, &with_backends(config), script), received, exported }
    }

    /// Sends a request with these header lines; returns the last request that the endpoint received.
    async fn send_request(&mut self, lines: &str) -> String {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        assert_eq!(self.stage.client().request(request).await.unwrap().status, 200, "{lines}");
        self.last()
    }

    fn last(&self) -> String {
        self.received.borrow().last().unwrap().1.clone()
    }

    /// What was exported since the last call.
    async fn exported(&mut self) -> Vec<TracedExchange> {
        run_ready_tasks().await;
        self.stage.worker.tick();
        let mut all = Vec::new();
        while let Ok(Some(batch)) = timeout(Duration::from_millis(1), self.exported.receive()).await {
            all.extend(batch);
        }
        all
    }

    /// The only exchange exported since the last call.
    async fn only(&mut self) -> (TracedExchange, RecordedExchange) {
        let mut all = self.exported().await;
        assert_eq!(all.len(), 1, "{all:?}");
        let traced = all.remove(0);
        let exchange = traced.to_recorded();
        assert_eq!(exchange.trace_id, Some(format!("{:032x}", traced.context.trace_id)));
        assert_eq!(exchange.number, "");
        (traced, exchange)
    }
}

/// With the backends `a`, `b` and `c`, whose only endpoints have the numbers 100, 101 and 102.
fn with_backends(mut config: Config) -> Config {
    for (name, number) in [("a", 100), ("b", 101), ("c", 102)] {
        let Some(one) = config.backends.values().next() else { break };
        let mut backend = fairway_model::Backend::clone(one);
        backend.key = name.into();
        backend.endpoints = vec![Endpoint::at(endpoint(number))];
        config.backends.insert(backend.key.clone(), Arc::new(backend));
    }
    config
}

/// Trace, span and flags of the only `traceparent` in a head.
fn parent(head: &str) -> (String, String, String) {
    let count = head.lines().filter(|line| line.to_ascii_lowercase().starts_with("traceparent:")).count();
    assert_eq!(count, 1, "{head}");
    let mut parts = field(head, "traceparent").unwrap().split('-').map(str::to_owned);
    assert_eq!(parts.next().unwrap(), "00", "{head}");
    (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap())
}

/// The span of an attempt, as its endpoint sees it.
fn attempt(traced: &TracedExchange, attempt: u8) -> String {
    format!("{:016x}", traced.context.attempt_span_id(attempt))
}

fn trace(traced: &TracedExchange) -> String {
    format!("{:032x}", traced.context.trace_id)
}

#[tokio::test(start_paused = true)]
async fn a_trace_begins_and_its_endpoint_gets_the_span_of_the_attempt() {
    run_local(async {
        let mut scene = Scene::new(sample_all());
        let mut traces = Vec::new();
        for _ in 0..2 {
            let head = scene.send_request("").await;
            let (trace_id, span, flags) = parent(&head);
            let (traced, exchange) = scene.only().await;
            assert_eq!((trace_id.clone(), span), (trace(&traced), attempt(&traced, 1)));
            assert_eq!(flags, "01");
            assert_eq!((traced.context.parent_span_id, traced.context.trace_state.clone()), (None, None));
            assert_eq!((&*traced.span_name, traced.route.as_deref()), ("GET /", Some("/")));
            assert_eq!((&*exchange.method, exchange.status), ("GET", 200));
            assert_eq!(exchange.upstream.unwrap().attempts, 1);
            traces.push(trace_id);
        }
        assert_ne!(traces[0], traces[1]);
        assert_eq!(field(&scene.last(), "b3"), None);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_unsampled_trace_starts_with_cleared_flags_and_nothing_is_exported() {
    run_local(async {
        let mut scene = Scene::new(by_parent());
        let (first, second) = (parent(&scene.send_request("").await), parent(&scene.send_request("").await));
        assert_eq!((&*first.2, &*second.2), ("00", "00"));
        assert!(first.0 != second.0 && first.1 != second.1);
        assert!(scene.exported().await.is_empty());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_sampled_trace_of_a_client_is_continued_with_a_new_span() {
    run_local(async {
        let mut scene = Scene::new(by_parent());
        let state = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE";
        for (flags, sent) in [("01", "01"), ("03", "03"), ("ff", "03")] {
            let lines = format!("traceparent: 00-{TRACE}-{SPAN}-{flags}\r\ntracestate: {state}\r\n");
            let head = scene.send_request(&lines).await;
            let (traced, _) = scene.only().await;
            assert_eq!(parent(&head), (TRACE.to_owned(), attempt(&traced, 1), sent.to_owned()));
            assert_eq!(field(&head, "tracestate"), Some(state));
            assert_eq!(trace(&traced), TRACE);
            assert_eq!(format!("{:016x}", traced.context.parent_span_id.unwrap()), SPAN);
            assert_eq!(traced.context.trace_state.as_deref(), Some(state));
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn headers_of_an_unsampled_trace_pass_unchanged() {
    run_local(async {
        let mut scene = Scene::new(by_parent());
        for value in [format!("00-{TRACE}-{SPAN}-00"), format!("00-{TRACE}-{SPAN}-02")] {
            let lines = format!("traceparent: {value}\r\ntracestate: a=1\r\ntracestate: b=2\r\nb3: x\r\n");
            let head = scene.send_request(&lines).await;
            assert_eq!(field(&head, "traceparent"), Some(&*value));
            assert!(head.contains("tracestate: a=1\r\ntracestate: b=2\r\nb3: x\r\n"), "{head}");
        }
        let later = format!("cc-{TRACE}-{SPAN}-00-more");
        let head = scene.send_request(&format!("traceparent: {later}\r\n")).await;
        assert_eq!(field(&head, "traceparent"), Some(&*later), "of a later version");
        assert!(scene.exported().await.is_empty());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_untrusted_client_starts_no_trace_and_samples_none() {
    run_local(async {
        let mut scene = Scene::new(sample_all());
        let lines = format!(
            "traceparent: 00-{TRACE}-{SPAN}-00\r\ntracestate: a=1\r\nb3: 0\r\nX-B3-TraceId: {TRACE}\r\nbaggage: a=b\r\n"
        );
        let head = scene.send_request(&lines).await;
        let (traced, _) = scene.only().await;
        assert_eq!(parent(&head), (trace(&traced), attempt(&traced, 1), "01".to_owned()));
        assert_ne!(trace(&traced), TRACE);
        assert_eq!(traced.context.parent_span_id, None);
        for name in ["tracestate", "b3", "X-B3-TraceId"] {
            assert_eq!(field(&head, name), None, "{head}");
        }
        assert_eq!(field(&head, "baggage"), Some("a=b"), "it is the application's");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn headers_that_cannot_be_read_are_removed_and_a_trace_begins() {
    run_local(async {
        let mut scene = Scene::new(Tracing { ratio: SampleRatio::ALL, ..by_parent() });
        let good = format!("00-{TRACE}-{SPAN}-01");
        for lines in [
            format!("traceparent: {good}x\r\n"),
            format!("traceparent: {}\r\n", good.to_uppercase()),
            format!("traceparent: {}\r\n", "0".repeat(8_000)),
            format!("traceparent: ff{}\r\n", &good[2..]),
            format!("traceparent: 00-{}-{SPAN}-01\r\n", "0".repeat(32)),
            format!("traceparent: {good}\r\ntraceparent: {good}\r\n"),
            format!("traceparent: {good}\r\nTraceParent: x\r\n"),
            format!("Connection: traceparent\r\ntraceparent: {good}\r\n"),
            "traceparent:\r\n".to_owned(),
            String::new(),
        ] {
            let head = scene.send_request(&format!("{lines}tracestate: a=1\r\nX-B3-Flags: 1\r\n")).await;
            let (traced, _) = scene.only().await;
            assert_eq!(parent(&head), (trace(&traced), attempt(&traced, 1), "01".to_owned()), "{lines}");
            assert_ne!(trace(&traced), TRACE);
            assert_eq!(field(&head, "tracestate"), None, "without a parent it says nothing: {head}");
            assert_eq!(field(&head, "X-B3-Flags"), Some("1"), "B3 is not read here: {head}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_oversized_tracestate_is_dropped_and_baggage_of_8_kib_passes() {
    run_local(async {
        let mut scene = Scene::new(by_parent());
        let baggage = format!("a={}", "x".repeat(8_190));
        for flags in ["00", "01"] {
            for (state, passes) in [
                (format!("a={}", "x".repeat(510)), true),
                (format!("a={}", "x".repeat(511)), false),
                (vec!["a=1"; 33].join(","), false),
            ] {
                let lines = format!(
                    "traceparent: 00-{TRACE}-{SPAN}-{flags}\r\ntracestate: {state}\r\nbaggage: {baggage}\r\n"
                );
                let head = scene.send_request(&lines).await;
                assert_eq!(parent(&head).0, TRACE, "the trace goes on");
                assert_eq!(field(&head, "tracestate"), passes.then_some(&*state));
                assert_eq!(field(&head, "baggage"), Some(&*baggage));
            }
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_lowest_bits_of_the_trace_id_decide_by_ratio() {
    run_local(async {
        let ratio = SampleRatio::new(0.25).unwrap();
        let mut scene = Scene::new(Tracing { ratio, trust_incoming: true, ..Tracing::default() });
        for (low, flags, sampled) in [
            ("00000000", "00", true),
            ("3fffffff", "00", true),
            ("3fffffff", "01", true),
            ("40000000", "00", false),
            ("40000000", "01", false),
            ("ffffffff", "01", false),
        ] {
            let value = format!("00-{}{low}-{SPAN}-{flags}", &TRACE[..24]);
            let head = scene.send_request(&format!("traceparent: {value}\r\n")).await;
            let exported = scene.exported().await;
            assert_eq!(exported.len(), usize::from(sampled), "{value}");
            match sampled {
                true => assert_eq!(parent(&head).2, "01"),
                false => assert_eq!(field(&head, "traceparent"), Some(&*value), "as it came"),
            }
        }
        let mut flags = Vec::new();
        for _ in 0..400 {
            flags.push(parent(&scene.send_request("").await).2);
        }
        let sampled = flags.iter().filter(|flags| *flags == "01").count();
        assert!((60..140).contains(&sampled), "{sampled} of 400");
        assert_eq!(scene.exported().await.len(), sampled);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn each_attempt_has_its_own_span() {
    run_local(async {
        let retried = Phases::from(Forwarding { retry_statuses: vec![503], ..Forwarding::default() });
        let response = |number| Some(if number == 0 { BUSY } else { ok() });
        let mut scene = Scene::with_config(sample_all(), config_with_phases(2, vec![retried]), response);
        scene.send_request("").await;
        let (traced, exchange) = scene.only().await;
        let requests = scene.received.borrow().clone();
        let received: Vec<_> = requests.iter().map(|(to, head)| (*to, parent(head).1)).collect();
        assert_eq!(received, [(0, attempt(&traced, 1)), (1, attempt(&traced, 2))]);
        assert!(requests.iter().all(|(_, head)| parent(head).0 == trace(&traced)));
        let failed = &exchange.failed_attempts[0];
        assert_eq!((exchange.failed_attempts.len(), failed.status), (1, Some(503)));
        assert_eq!(exchange.upstream.as_ref().unwrap().attempts, 2);
        assert!(failed.began_us <= failed.after_us);
        assert_eq!(exchange.upstream.unwrap().began_us, failed.after_us);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_attempt_begins_behind_the_pause_before_it() {
    run_local(async {
        let mut config = config_with_phases(2, Vec::new());
        let backend = config.backends.values().next().unwrap();
        let retry = fairway_model::Retry { backoff: Duration::from_millis(40), ..Default::default() };
        let traffic = fairway_model::BackendTraffic { retry: Some(retry), ..Default::default() };
        let backend = fairway_model::Backend {
            traffic: traffic.if_not_empty(),
            ..fairway_model::Backend::clone(backend)
        };
        config.backends.insert(backend.key.clone(), Arc::new(backend));
        let mut scene = Scene::with_config(sample_all(), config, |number| (number == 1).then(ok));
        scene.send_request("").await;
        let (traced, exchange) = scene.only().await;
        assert_eq!(parent(&scene.last()).1, attempt(&traced, 2));
        let (failed, last) = (&exchange.failed_attempts[0], exchange.upstream.unwrap());
        assert_eq!(failed.reason.as_deref(), Some("connect_failed"));
        assert!(failed.after_us < 10_000, "{failed:?}");
        assert!((40_000..=60_000).contains(&last.began_us), "{last:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_hedged_connect_is_one_attempt() {
    run_local(async {
        let (sender, exported) = channel(16);
        let received = ReceivedRequests::default();
        let script = {
            let received = Rc::clone(&received);
            move |to: SocketAddr| {
                let received = Rc::clone(&received);
                let serve = move |stream| serve_responses(to.port(), ok().as_bytes(), received, stream);
                match to == endpoint(0) {
                    true => ScriptedConnect::served_after(Duration::from_secs(4), serve),
                    false => ScriptedConnect::served_by(serve),
                }
            }
        };
        let edit = |options: &mut crate::options::ProxyOptions| {
            (options.tracing, options.traces) = (Some(Arc::new(sample_all())), Some(sender));
        };
        let stage = TestWorker::with_options(edit, &config_with_phases(2, Vec::new()), script);
        let mut scene = Scene { stage, received, exported };
        let head = scene.send_request("").await;
        let (traced, exchange) = scene.only().await;
        assert_eq!(parent(&head).1, attempt(&traced, 1));
        let upstream = exchange.upstream.unwrap();
        assert!(upstream.hedged && upstream.attempts == 1, "{upstream:?}");
        assert_eq!(scene.received.borrow().len(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn queried_services_and_copies_get_the_server_span() {
    run_local(async {
        let config = config_with_phases(1, vec![auth_phases(auth()), mirror(1024)]);
        let mut scene = Scene::with_config(sample_all(), config, |_| Some(ok()));
        scene.send_request("").await;
        let (traced, _) = scene.only().await;
        let server = format!("{:016x}", traced.context.span_id);
        for (number, span) in [(100, server.clone()), (0, attempt(&traced, 1)), (101, server)] {
            let received = scene.received.borrow();
            let (_, head) = received.iter().find(|(to, _)| *to == number).unwrap();
            assert_eq!(parent(head), (trace(&traced), span, "01".to_owned()), "{number}");
        }
        // For an unsampled trace they get what the client sent.
        let config = config_with_phases(1, vec![auth_phases(auth()), mirror(1024)]);
        let mut scene = Scene::with_config(by_parent(), config, |_| Some(ok()));
        let value = format!("00-{TRACE}-{SPAN}-00");
        scene.send_request(&format!("traceparent: {value}\r\n")).await;
        run_ready_tasks().await;
        let received = scene.received.borrow();
        assert_eq!(received.len(), 3);
        assert!(received.iter().all(|(_, head)| field(head, "traceparent") == Some(&value)), "{received:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_page_of_another_backend_is_one_more_attempt() {
    let pages = || {
        Phases::from(ErrorPages { statuses: vec![502, 503], backend: Some("c".into()), fields: Vec::new() })
    };
    for (first, reason, status) in [(Some(BUSY), None, Some(503)), (None, Some("connect_failed"), None)] {
        run_local(async {
            let response = move |number| if number == 102 { Some(ok()) } else { first };
            let mut scene = Scene::with_config(sample_all(), config_with_phases(1, vec![pages()]), response);
            scene.send_request("").await;
            let (traced, exchange) = scene.only().await;
            let failed = &exchange.failed_attempts;
            assert_eq!(failed[0].endpoint, endpoint(0));
            assert_eq!((failed[0].reason.as_deref(), failed[0].status), (reason, status));
            let upstream = exchange.upstream.unwrap();
            assert_eq!(upstream.endpoint, endpoint(102));
            assert_eq!(usize::from(upstream.attempts), failed.len() + 1);
            for (to, head) in &*scene.received.borrow() {
                let number = if *to == 102 { upstream.attempts } else { 1 };
                assert_eq!(parent(head).1, attempt(&traced, number), "{to}");
            }
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn streams_of_http2_and_calls_of_grpc_are_traced() {
    run_local(async {
        let mut scene = Scene::new(by_parent());
        let value = format!("00-{TRACE}-{SPAN}-01");
        let fields = [("traceparent", &*value), ("content-type", "application/grpc"), ("te", "trailers")];
        TestClient::send_request(&scene.stage, Protocol::Http2, "POST", &fields).await.finish().await;
        let (traced, exchange) = scene.only().await;
        assert_eq!(parent(&scene.last()), (TRACE.to_owned(), attempt(&traced, 1), "01".to_owned()));
        assert_eq!((&*exchange.version, &*traced.span_name), ("HTTP/2.0", "POST /"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn b3_is_read_where_there_is_no_traceparent_and_both_forms_are_sent() {
    run_local(async {
        let mut scene = Scene::new(with_b3(by_parent()));
        let (short, debug) = (&TRACE[16..], "d");
        for (lines, trace_id, sampling) in [
            (format!("b3: {TRACE}-{SPAN}-1\r\n"), TRACE, "1"),
            (format!("b3: {short}-{SPAN}-{debug}-{SPAN}\r\n"), short, debug),
            (format!("X-B3-TraceId: {TRACE}\r\nX-B3-SpanId: {SPAN}\r\nX-B3-Sampled: 1\r\n"), TRACE, "1"),
            (format!("X-B3-TraceId: {short}\r\nX-B3-SpanId: {SPAN}\r\nX-B3-Flags: 1\r\n"), short, debug),
            (format!("traceparent: 00-{TRACE}-{SPAN}-01\r\nb3: 0\r\n"), TRACE, "1"),
        ] {
            let head = scene.send_request(&lines).await;
            let (traced, _) = scene.only().await;
            let (span, server) = (attempt(&traced, 1), format!("{:016x}", traced.context.span_id));
            assert_eq!(parent(&head), (format!("{trace_id:0>32}"), span.clone(), "01".to_owned()), "{lines}");
            assert_eq!(
                field(&head, "b3"),
                Some(&*format!("{trace_id}-{span}-{sampling}-{server}")),
                "{head}"
            );
            assert_eq!(head.matches("b3: ").count(), 1, "{head}");
            assert_eq!(format!("{:016x}", traced.context.parent_span_id.unwrap()), SPAN);
            let is_multiple = lines.contains("X-B3");
            let sent = |name| field(&head, name);
            assert_eq!(sent("X-B3-TraceId"), is_multiple.then_some(trace_id), "{head}");
            assert_eq!(sent("X-B3-SpanId"), is_multiple.then_some(&*span), "{head}");
            assert_eq!(sent("X-B3-ParentSpanId"), is_multiple.then_some(&*server), "{head}");
            let (sampled, flags) = if sampling == debug { (None, Some("1")) } else { (Some("1"), None) };
            assert_eq!(sent("X-B3-Sampled"), sampled.filter(|_| is_multiple), "{head}");
            assert_eq!(sent("X-B3-Flags"), flags.filter(|_| is_multiple), "{head}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn b3_headers_of_an_unsampled_trace_are_kept_and_the_other_form_is_added() {
    run_local(async {
        let mut scene = Scene::new(with_b3(by_parent()));
        for (lines, traceparent, b3) in [
            (
                format!("b3: {TRACE}-{SPAN}-0\r\n"),
                format!("00-{TRACE}-{SPAN}-00"),
                format!("{TRACE}-{SPAN}-0"),
            ),
            (format!("b3: {TRACE}-{SPAN}\r\n"), format!("00-{TRACE}-{SPAN}-00"), format!("{TRACE}-{SPAN}")),
            (
                format!("traceparent: 00-{TRACE}-{SPAN}-00\r\n"),
                format!("00-{TRACE}-{SPAN}-00"),
                format!("{TRACE}-{SPAN}-0"),
            ),
        ] {
            let head = scene.send_request(&lines).await;
            assert_eq!(field(&head, "traceparent"), Some(&*traceparent), "{lines}");
            assert_eq!(field(&head, "b3"), Some(&*b3), "{lines}");
        }
        // Only a sampling decision, or nothing readable: a new trace starts.
        for lines in ["b3: 0\r\n", "X-B3-Sampled: 0\r\n", "b3: x\r\n", "b3: 0\r\nb3: 0\r\n", ""] {
            let head = scene.send_request(lines).await;
            let (trace_id, span, flags) = parent(&head);
            assert_eq!(flags, "00", "{lines}");
            assert_eq!(field(&head, "b3"), Some(&*format!("{trace_id}-{span}-0")), "{lines}");
            assert_eq!(head.matches("b3: ").count(), 1, "{head}");
        }
        assert!(scene.exported().await.is_empty());
        scene.send_request("b3: 1\r\n").await;
        assert_eq!(scene.exported().await.len(), 1, "the client wants the trace that begins");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_rule_takes_precedence_over_the_listener_and_the_listener_over_the_process() {
    let off = Tracing::off;
    let of_rule =
        |tracing: Option<Tracing>| vec![Phases { tracing: tracing.map(Arc::new), ..Phases::default() }];
    for (rule, listener, process, sampled) in [
        (None, None, sample_all(), true),
        (None, Some(off()), sample_all(), false),
        (Some(sample_all()), Some(off()), off(), true),
        (Some(off()), Some(sample_all()), sample_all(), false),
        (None, Some(sample_all()), off(), true),
        (None, None, off(), false),
    ] {
        run_local(async {
            let mut config = config_with_phases(1, of_rule(rule));
            let mut http = Listener::clone(&config.listeners["http"]);
            http.clients.tracing = listener.map(Arc::new);
            config.listeners.insert(http.name.clone(), Arc::new(http));
            let mut scene = Scene::with_config(process, config, |_| Some(ok()));
            let sent = "traceparent: x\r\ntraceparent: y\r\ntracestate: z\r\nb3: 7\r\n";
            let head = scene.send_request(sent).await;
            assert_eq!(scene.exported().await.len(), usize::from(sampled));
            assert_eq!(
                head.contains(sent),
                !sampled,
                "where tracing is off, headers pass as they came: {head}"
            );
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn spans_are_named_by_the_configuration() {
    run_local(async {
        let parts =
            vec![TemplatePart::Method, TemplatePart::Text(" at ".into()), TemplatePart::Header("x_a".into())];
        let mut scene = Scene::new(Tracing { span_name: Some(Arc::new(Template(parts))), ..sample_all() });
        scene.send_request("X-A: b\u{202e}c\r\n").await;
        assert_eq!(scene.only().await.0.span_name, "GET at b\u{fffd}c");
        scene.send_request(&format!("X-A: {}\r\n", "y".repeat(1_000))).await;
        assert_eq!(scene.only().await.0.span_name.len(), 256);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_unrouted_request_is_traced_and_a_malformed_one_is_not() {
    run_local(async {
        let mut config = config_with_phases(1, Vec::new());
        config.hosts.clear();
        let mut scene = Scene::with_config(by_parent(), config, |_| Some(ok()));
        let request = |method: &str| {
            format!("{method} / HTTP/1.1\r\nHost: a\r\ntraceparent: 00-{TRACE}-{SPAN}-01\r\n\r\n")
        };
        for (method, name) in [("GET", "GET"), ("INVENTED", "HTTP")] {
            assert_eq!(scene.stage.client().request(request(method)).await.unwrap().status, 404);
            let (traced, exchange) = scene.only().await;
            assert_eq!((&*traced.span_name, traced.route.as_deref()), (name, None));
            assert_eq!((trace(&traced), exchange.reason.as_deref()), (TRACE.to_owned(), Some("no_route")));
        }
        assert_eq!(scene.stage.client().request(request("GET ")).await.unwrap().status, 400);
        assert!(scene.exported().await.is_empty());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_exported_with_its_attempts() {
    run_local(async {
        let mut scene = Scene::with_config(sample_all(), config_with_phases(2, Vec::new()), |_| None);
        assert_eq!(scene.stage.client().request(GET_REQUEST).await.unwrap().status, 502);
        let (_, exchange) = scene.only().await;
        assert_eq!((exchange.status, exchange.reason.as_deref()), (502, Some("connect_failed")));
        let (failed, upstream) = (exchange.failed_attempts, exchange.upstream.unwrap());
        assert!(failed.len() > 1, "{failed:?}");
        assert_eq!(upstream.began_us, failed[failed.len() - 1].began_us);
        assert_eq!(
            (upstream.status, usize::from(upstream.attempts)),
            (None, failed.len()),
            "the last of them"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn exchanges_are_dropped_and_counted_when_the_channel_is_full() {
    run_local(async {
        let (sender, mut exported) = channel(1);
        let edit = |options: &mut crate::options::ProxyOptions| {
            (options.tracing, options.traces) = (Some(Arc::new(sample_all())), Some(sender));
        };
        let stage = TestWorker::with_options(edit, &config_with_phases(1, Vec::new()), |_| {
            ScriptedConnect::served_by(crate::testing::serve_ok)
        });
        let mut client = stage.client();
        for _ in 0..130 {
            assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 200);
        }
        run_ready_tasks().await;
        assert_eq!(stage.metric_value("fairway_trace_exchanges_dropped_total"), 64, "the second batch");
        stage.worker.tick();
        assert_eq!(stage.metric_value("fairway_trace_exchanges_dropped_total"), 66, "and what had gathered");
        assert_eq!(exported.receive().await.unwrap().len(), 64);
        drop(exported);
        assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 200);
        run_ready_tasks().await;
        stage.worker.tick();
        assert_eq!(stage.metric_value("fairway_trace_exchanges_dropped_total"), 67, "the exporter is gone");
        drop(client);
        sleep(Duration::from_secs(1)).await;
        assert_eq!(stage.check_idle(), Ok(()));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn contexts_are_sent_without_an_exporter() {
    run_local(async {
        let received = ReceivedRequests::default();
        let script = {
            let received = Rc::clone(&received);
            move |_| {
                let received = Rc::clone(&received);
                ScriptedConnect::served_by(move |stream| {
                    serve_responses(0, ok().as_bytes(), received, stream)
                })
            }
        };
        let edit =
            |options: &mut crate::options::ProxyOptions| options.tracing = Some(Arc::new(sample_all()));
        let stage = TestWorker::with_options(edit, &config_with_phases(1, Vec::new()), script);
        assert_eq!(stage.client().request(GET_REQUEST).await.unwrap().status, 200);
        assert_eq!(parent(&received.borrow()[0].1).2, "01");
        run_ready_tasks().await;
        stage.worker.tick();
        assert_eq!(stage.metric_value("fairway_trace_exchanges_dropped_total"), 0);
    })
    .await;
}
