//! The backend of every measurement: the laboratory's, once for each protocol, on threads of this process.

use std::net::SocketAddr;

use fairway_lab_traffic::backend::{Options, Server, Spoken};

/// Backends for every protocol, each on its own port.
pub(crate) struct Upstream([Server; 4]);

impl Upstream {
    /// Listens on free ports of loopback, for as long as the value lives.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let start =
            |spoken| Server::start(Options { spoken, name: "bench".to_owned(), ..Options::default() });
        Ok(Self([
            start(Spoken::Http1)?,
            start(Spoken::H2c)?,
            start(Spoken::Grpc)?,
            start(Spoken::Datagrams)?,
        ]))
    }

    /// The address for a protocol.
    pub(crate) fn address(&self, spoken: Spoken) -> SocketAddr {
        self.0[spoken as usize].addresses()[0]
    }

    /// Holds responses back, or releases all that are held and later ones.
    pub(crate) fn hold(&self, is_held: bool) {
        self.0.iter().for_each(|server| server.hold(is_held));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::load::{Ask, Generator, Tally, has_fields, send};
    use crate::scenario::{Load, matching_scenarios};

    /// A short load as that of the scenario called `name`, straight to the backend.
    fn run_short_load(name: &str) -> Tally {
        let upstream = Upstream::start().unwrap();
        send(&request_for(name, &upstream), Duration::from_millis(100)).unwrap()
    }

    fn request_for(name: &str, upstream: &Upstream) -> Ask {
        let mut scenario = matching_scenarios(&[name.to_owned()]).unwrap()[0];
        scenario.tls = None;
        Ask { address: upstream.address(scenario.upstream), scenario, announces_length: true }
    }

    #[test]
    fn every_protocol_gets_complete_responses() {
        for name in [
            "http-1k-50",
            "h2c-upstream-1k-10x100",
            "grpc-10x10",
            "tcp-connections",
            "udp-50",
            "udp-sessions",
        ] {
            let tally = run_short_load(name);
            assert_eq!(tally.failed(), 0, "{name}: {:?}", tally.errors);
            assert!(tally.requests > 100, "{name}: {}", tally.requests);
        }
    }

    #[test]
    fn responses_with_a_missing_header_are_detected() {
        let upstream = Upstream::start().unwrap();
        let mut ask = request_for("edits-1k-50", &upstream);
        (ask.scenario.load, ask.scenario.connections) = (Load::Idle, 1);
        let has = |fields: &[(&str, &str)]| has_fields(&ask, fields, Duration::from_secs(5)).unwrap();
        let (server, kind) = (("X-Lab-Backend", "bench"), ("content-length", "1024"));
        assert!(has(&[]) && has(&[server, kind]));
        assert!(!has(&[server, ("X-One", "one")]) && !has(&[kind, ("x-lab-backend", "other")]));
    }

    #[test]
    fn held_responses_are_sent_when_released() {
        for name in ["waiting-streams-h2c", "http-1k-200"] {
            let upstream = Upstream::start().unwrap();
            let mut ask = request_for(name, &upstream);
            ask.scenario.load = Load::Waiting;
            let streams = ask.scenario.connections * ask.scenario.downstream.streams();
            let mut generator = Generator::open(&ask, Duration::from_secs(60)).unwrap();
            upstream.hold(true);
            assert!(generator.send_and_wait_for(streams as u64).unwrap(), "{name}");
            upstream.hold(false);
            generator.finish().unwrap();
            let tally = generator.end().unwrap();
            assert_eq!((tally.requests, tally.failed()), (streams as u64, 0), "{name}: {:?}", tally.errors);
        }
    }

    #[test]
    fn connections_of_http_2_that_are_used_once_stay_open() {
        let upstream = Upstream::start().unwrap();
        let mut ask = request_for("idle-memory-h2", &upstream);
        ask.scenario.upstream = Spoken::H2c;
        ask.scenario.connections = 20;
        let tally =
            send(&Ask { address: upstream.address(ask.scenario.upstream), ..ask }, Duration::from_secs(20));
        let tally = tally.unwrap();
        assert_eq!((tally.requests, tally.open, tally.failed()), (20, 20, 0));
    }
}
