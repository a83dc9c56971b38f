//! What a change costs a worker: `adoption BACKENDS [CHANGES]` serves as many backends as that, has the worker use each once,
//! then changes the endpoints of one after the other and prints the CPU time that the worker spent on a change, waking up
//! included.

#![allow(clippy::print_stdout, reason = "it prints what it measured")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairway_model::{
    Action, Backend, BackendKey, BackendProtocol, Balancing, Config, Endpoint, HostKey, HostPattern,
    Listener, ListenerProtocol, Match, Origin, PathForm, Route, Rule, RuleLabels, RuleOrder, ServiceName,
    VirtualHost, WeightedBackend,
};
use fairway_proxy::{
    AccessLogFormat, BufferOptions, DrainOptions, FleetLimits, GeoIp, Limits, Logouts, Proxy, ProxyHandle,
    ProxyOptions, ProxyProtocol, RecorderOptions, SelfSigned, SessionTickets, Stapling,
};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let backends: usize = arguments.next().ok_or("usage: adoption BACKENDS [CHANGES]")?.parse()?;
    let changes: usize = arguments.next().map_or(Ok(2_000), |text| text.parse())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let endpoint = serve_endpoint()?;
    let mut config = config(backends, endpoint);
    let mut snapshot = fairway_routing::compile(&config, None).snapshot;
    let proxy = Proxy::start(options()?, Arc::clone(&snapshot))?;
    let (publisher, handle) = (proxy.publisher(), proxy.handle());
    use_all(backends, publisher.addresses("http")[0])?;
    let cpu = || runtime.block_on(worker_cpu(&handle));
    let (began, before) = (Instant::now(), cpu()?);
    for change in 0..changes {
        // 7,919 is prime: the changed backends are far from each other.
        let number = change * 7_919 % backends;
        let other = SocketAddr::new(endpoint.ip(), 1 + u16::try_from(change % 1_000)?);
        put_backend(&mut config, number, &[endpoint, other]);
        snapshot = fairway_routing::compile(&config, Some(&snapshot)).snapshot;
        publisher.publish(Arc::clone(&snapshot));
        runtime.block_on(publisher.wait_until_adopted(snapshot.version()));
    }
    let (spent, took) = (cpu()?.saturating_sub(before), began.elapsed());
    let micros = |time: Duration| time.as_secs_f64() * 1e6 / changes as f64;
    println!(
        "{backends} backends: {:.1} µs of the worker for a change, {:.1} µs from compiling it to its adoption",
        micros(spent),
        micros(took)
    );
    handle.drain();
    Ok(proxy.join()?)
}

/// Answers every request with 200.
fn serve_endpoint() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || respond(&stream));
        }
    });
    Ok(address)
}

fn respond(mut stream: &TcpStream) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    while let Some(line) = lines.next().transpose()? {
        if line.is_empty() {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
        }
    }
    Ok(())
}

/// Sends a request to each backend.
fn use_all(backends: usize, proxy: SocketAddr) -> Result<(), Failure> {
    let mut stream = TcpStream::connect(proxy)?;
    stream.set_nodelay(true)?;
    let mut response = [0; 4096];
    for number in 0..backends {
        stream.write_all(format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", host(number)).as_bytes())?;
        let mut filled = 0;
        while !response[..filled].ends_with(b"\r\n\r\n") {
            match stream.read(&mut response[filled..])? {
                0 => return Err("the proxy closed the connection".into()),
                count => filled += count,
            }
        }
        if !response.starts_with(b"HTTP/1.1 200 ") {
            return Err(format!("{number}: {}", String::from_utf8_lossy(&response[..filled])).into());
        }
    }
    Ok(())
}

/// The CPU time that the only worker has spent.
async fn worker_cpu(handle: &ProxyHandle) -> Result<Duration, Failure> {
    let text: String = handle.metrics("").await.collect();
    let of_worker = |line: &str| {
        line.strip_prefix("fairway_worker_cpu_seconds_total{")?
            .split_once("} ")
            .map(|(_, value)| value.parse())
    };
    let seconds = text.lines().find_map(of_worker).ok_or("no time of a worker")??;
    Ok(Duration::from_secs_f64(seconds))
}

fn options() -> Result<ProxyOptions, Failure> {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    Ok(ProxyOptions {
        workers: 1,
        access_log: AccessLogFormat::Off,
        access_log_copies: None,
        proxy_protocol: ProxyProtocol::default(),
        limits: Limits::default(),
        buffer: BufferOptions::default(),
        recorder: RecorderOptions::default(),
        tracing: None,
        traces: None,
        drain: DrainOptions { delay: Duration::ZERO, timeout: Duration::ZERO },
        tickets: SessionTickets::default(),
        logouts: Logouts::default(),
        geoip: GeoIp::default(),
        fleet: FleetLimits::default(),
        stapling: Stapling::default(),
        fallback_certificate: SelfSigned {
            chain: vec![certified.cert.der().to_vec()],
            private_key: certified.signing_key.serialize_der(),
        },
        location: fairway_model::ProxyLocation::default(),
        return_memory: |_| {},
    })
}

fn host(number: usize) -> String {
    format!("app-{number}.example.com")
}

/// As many hosts, each with one rule and one backend.
fn config(backends: usize, endpoint: SocketAddr) -> Config {
    let mut config = Config::default();
    config.settings.downstream.requests_per_connection = u64::MAX;
    let bind = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    let listener = Listener { bind, ..Listener::new("http", ListenerProtocol::Http, 80, "ingress") };
    config.listeners.insert("http".into(), Arc::new(listener));
    for number in 0..backends {
        put_backend(&mut config, number, &[endpoint]);
        let host = virtual_host(number);
        config.hosts.insert(host.key.clone(), Arc::new(host));
    }
    config
}

fn key(number: usize) -> BackendKey {
    BackendKey(format!("default/app-{number}:80").into())
}

fn put_backend(config: &mut Config, number: usize, endpoints: &[SocketAddr]) {
    let backend = Backend {
        key: key(number),
        origin: Origin::object("Service", "default", &host(number)),
        service: ServiceName { namespace: "default".into(), name: host(number).into(), port: "80".into() },
        endpoints: endpoints.iter().map(|address| Endpoint::at(*address)).collect(),
        protocol: BackendProtocol::Http1,
        tls: None,
        balancing: Balancing::RoundRobin,
        session: None,
        traffic: None,
    };
    config.backends.insert(backend.key.clone(), Arc::new(backend));
}

fn virtual_host(number: usize) -> VirtualHost {
    let origin = Origin::object("Ingress", "default", &host(number));
    let rule = Rule {
        origin: origin.clone(),
        matches: vec![Match::default()],
        phases: Arc::default(),
        action: Action::Forward(vec![WeightedBackend::new(key(number), 1)]),
        policy: Arc::default(),
        labels: RuleLabels::default(),
    };
    VirtualHost {
        key: HostKey { table: "ingress".into(), host: HostPattern::Exact(host(number).into()) },
        order: RuleOrder::Precedence,
        path_form: PathForm::Decoded,
        routes: vec![Arc::new(Route { origin, created: None, hostname_rank: 0, rules: vec![rule] })],
        certificate: None,
        clients: None,
        suites: None,
        falls_through: false,
    }
}
