//! What `capacity` measures: its parameters, its cases, and the load of a case.

use std::time::Duration;

use fairway_lab_measure::results::{Counts, Tls as Negotiated};
use fairway_lab_traffic::backend::Spoken;
use fairway_lab_traffic::call;
use fairway_lab_traffic::load::{Plan, Protocol, Reuse, TlsPlan, TlsVersion};
use serde::Deserialize;

use crate::adapter::TlsChoice;
use crate::peers::local::LocalSite;
use crate::scenario::site::HOST;

/// Connections are made and caches filled before a block counts.
pub(super) const WARMING: Duration = Duration::from_millis(300);

/// The group of the key exchange, in the generator's and rustls' words.
const GROUP: &str = "X25519";

/// Its parameters; the file explains them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct Parameters {
    pub(super) connections: usize,
    pub(super) threads: usize,
    pub(super) seconds: f64,
    pub(super) workers: Vec<u32>,
    pub(super) blocks: u32,
    #[serde(default)]
    pub(super) more_blocks: u32,
    pub(super) backends: usize,
    pub(super) timeout_s: f64,
    pub(super) cases: Vec<Case>,
}

impl Parameters {
    /// The parameters, if the load of each case can be made.
    ///
    /// # Errors
    /// Calls of gRPC that are asked to be what they cannot be.
    pub(in crate::scenario) fn checked(self) -> anyhow::Result<Self> {
        let supported = |case: &Case| matches!(case.upstream, Spoken::Http1 | Spoken::Grpc);
        if let Some(case) = self.cases.iter().find(|case| !supported(case)) {
            anyhow::bail!("case {:?}: upstream is http1 or grpc", case.name);
        }
        for case in self.cases.iter().filter(|case| case.upstream == Spoken::Grpc) {
            let is_call =
                case.streams.is_some() && case.tls != Tls::None && case.bytes == call::RESPONSE as u64;
            anyhow::ensure!(
                is_call,
                "case {:?}: calls of gRPC need `tls`, `streams`, and bytes = {}",
                case.name,
                call::RESPONSE
            );
        }
        Ok(self)
    }

    /// The cases whose proxies are up at the same time.
    pub(super) fn cases_of(&self, upstream: Spoken, tls: TlsChoice) -> Vec<&Case> {
        let has_tls = |case: &Case| (case.tls == Tls::Tls12) == matches!(tls, TlsChoice::Tls12);
        self.cases.iter().filter(|case| case.upstream == upstream && has_tls(case)).collect()
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) tls: Tls,
    pub(super) bytes: u64,
    pub(super) connect: Connect,
    /// Of HTTP/2 and open at a time on each connection; HTTP/1 without it.
    pub(super) streams: Option<usize>,
    /// Instead of those of the scenario.
    pub(super) connections: Option<usize>,
    /// What backends speak. With gRPC each request is a unary call.
    #[serde(default)]
    pub(super) upstream: Spoken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum Tls {
    #[serde(rename = "none")]
    None,
    #[serde(rename = "1.2")]
    Tls12,
    #[serde(rename = "1.3")]
    Tls13,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Connect {
    KeepAlive,
    New,
    Resumed,
}

/// Why the handshakes of a block are not those of its case, if they are not. What is counted: those before the block, and
/// those in it.
pub(super) fn odd_handshakes(case: &Case, counts: [&Counts; 2], tls: Option<&Negotiated>) -> Option<String> {
    if case.tls == Tls::None {
        return None;
    }
    let [before, within] = counts;
    let resumed = before.resumed_handshakes + within.resumed_handshakes;
    if case.connect != Connect::Resumed && resumed > 0 {
        let all = resumed + before.full_handshakes + within.full_handshakes;
        return Some(format!("{resumed} of {all} handshakes were resumed and should be full"));
    }
    // A server may refuse a ticket now and then. The first handshakes of a client are full: they are those before.
    let (full, resumed) = (within.full_handshakes, within.resumed_handshakes);
    if case.connect == Connect::Resumed && full * 10 > resumed {
        return Some(format!("{full} of {} handshakes were full and should be resumed", full + resumed));
    }
    match tls.and_then(|tls| tls.group.as_deref()) {
        Some(GROUP) => None,
        Some(group) => Some(format!("keys were exchanged with {group} and not with {GROUP}")),
        None => Some("no handshake was seen".to_owned()),
    }
}

/// The load of a case on a proxy.
pub(super) fn plan(parameters: &Parameters, case: &Case, site: &LocalSite) -> anyhow::Result<Plan> {
    let scheme = if case.tls == Tls::None { "http" } else { "https" };
    let address = if case.tls == Tls::None { site.http } else { site.https };
    let mut plan = Plan::at(&format!("{scheme}://{HOST}/?size={}", case.bytes), vec![address])?;
    plan.shape.connections = case.connections.unwrap_or(parameters.connections);
    if case.upstream == Spoken::Grpc {
        plan.call();
    }
    if let Some(streams) = case.streams {
        plan.wire.protocol = Protocol::Http2;
        plan.shape.streams = streams;
    }
    plan.shape.threads = parameters.threads;
    plan.bounds.duration = None;
    plan.bounds.timeout = Duration::from_secs_f64(parameters.timeout_s);
    if case.connect != Connect::KeepAlive {
        plan.wire.reuse = Reuse::ConnectionPerRequest;
    }
    let (version, cipher) = match case.tls {
        Tls::None => return Ok(plan),
        Tls::Tls12 => (TlsVersion::Tls12, "ECDHE-RSA-AES256-GCM-SHA384"),
        Tls::Tls13 => (TlsVersion::Tls13, "TLS_AES_256_GCM_SHA384"),
    };
    plan.wire.tls = Some(TlsPlan {
        versions: vec![version],
        ciphers: vec![cipher.to_owned()],
        resumption: case.connect == Connect::Resumed,
        // One that all peers have: a hybrid group that only some take would be their cost alone.
        groups: vec![GROUP.to_owned()],
        ..TlsPlan::default()
    });
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;
    use crate::scenario::running_peer::file_name;

    #[test]
    fn handshakes_that_are_not_those_of_the_case_are_a_reason_to_discard_a_block() {
        let case = |connect, tls| Case {
            name: "a case".to_owned(),
            tls,
            bytes: 1024,
            connect,
            streams: None,
            connections: None,
            upstream: Spoken::Http1,
        };
        let counts = |full_handshakes, resumed_handshakes| Counts {
            full_handshakes,
            resumed_handshakes,
            ..Counts::default()
        };
        let tls = |group: &str| Negotiated {
            version: "TLSv1.3".to_owned(),
            cipher: "TLS_AES_256_GCM_SHA384".to_owned(),
            key: None,
            protocol: "http/1.1".to_owned(),
            group: Some(group.to_owned()),
            signature: None,
        };
        let [new, resumed, open] =
            [Connect::New, Connect::Resumed, Connect::KeepAlive].map(|connect| case(connect, Tls::Tls13));
        let none = counts(0, 0);
        assert_eq!(odd_handshakes(&case(Connect::KeepAlive, Tls::None), [&none, &none], None), None);
        assert_eq!(odd_handshakes(&new, [&none, &counts(10, 0)], Some(&tls(GROUP))), None);
        assert_eq!(odd_handshakes(&resumed, [&counts(50, 10), &counts(1, 10)], Some(&tls(GROUP))), None);
        assert_eq!(odd_handshakes(&open, [&counts(50, 0), &none], Some(&tls(GROUP))), None);
        let odd = |said: Option<String>, text: &str| {
            assert!(said.as_ref().is_some_and(|said| said.contains(text)), "{said:?}");
        };
        let common = tls(GROUP);
        let common = Some(&common);
        odd(odd_handshakes(&new, [&none, &counts(9, 1)], common), "1 of 10 handshakes were resumed");
        odd(odd_handshakes(&open, [&counts(49, 1), &none], common), "1 of 50 handshakes were resumed");
        odd(odd_handshakes(&resumed, [&none, &counts(2, 10)], common), "2 of 12 handshakes were full");
        odd(odd_handshakes(&new, [&none, &counts(9, 0)], Some(&tls("secp256r1"))), "secp256r1");
        odd(odd_handshakes(&open, [&none, &none], None), "no handshake was seen");
    }

    /// The parameters of the laboratory's own file.
    fn own() -> Parameters {
        let text: toml::Table = include_str!("../../../scenarios/capacity.toml").parse().expect("it is TOML");
        let keys = [
            "connections",
            "threads",
            "seconds",
            "workers",
            "blocks",
            "more_blocks",
            "backends",
            "timeout_s",
            "cases",
        ];
        let table: toml::Table = text.into_iter().filter(|(key, _)| keys.contains(&key.as_str())).collect();
        table.try_into::<Parameters>().expect("they read").checked().expect("they can be made")
    }

    #[test]
    fn the_file_has_unary_calls_over_tls_with_ten_streams_on_each_of_ten_connections() {
        let parameters = own();
        let cases = parameters.cases_of(Spoken::Grpc, TlsChoice::Tls13);
        let names: Vec<_> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names, ["gRPC unary 1 KB, 10 x 10 streams"]);
        let plan = plan(&parameters, cases[0], &testing::site()).expect("a plan");
        plan.check().expect("it can be carried out");
        assert_eq!((plan.shape.connections, plan.shape.streams), (10, 10));
        assert_eq!((plan.wire.protocol, plan.wire.reuse), (Protocol::Http2, Reuse::KeepAlive));
        assert_eq!((plan.target.addresses[0].port(), plan.target.authority.as_str()), (3, HOST));
        assert_eq!(plan.wire.tls.expect("TLS").versions, [TlsVersion::Tls13]);
        assert_eq!(
            (plan.request.method.as_str(), &plan.request.body),
            ("POST", &call::message(call::REQUEST))
        );
        assert_eq!(plan.expect.trailer, Some(("grpc-status".to_owned(), "0".to_owned())));
        assert_eq!(plan.expect.content, Some(call::message(call::RESPONSE)), "the right message");
    }

    #[test]
    fn every_case_has_proxies_that_are_started_for_it_once_and_a_name_for_files_of_its_own() {
        let parameters = own();
        let mut names = Vec::new();
        for upstream in [Spoken::Http1, Spoken::Grpc] {
            for tls in [TlsChoice::Tls13, TlsChoice::Tls12] {
                names.extend(parameters.cases_of(upstream, tls).iter().map(|case| file_name(&[&case.name])));
            }
        }
        assert_eq!(names.len(), parameters.cases.len());
        assert!(names.contains(&"gRPC-unary-1-KB--10-x-10-streams".to_owned()), "{names:?}");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), parameters.cases.len());
    }

    #[test]
    fn calls_that_cannot_be_made_are_refused_before_anything_is_measured() {
        let wrong: [fn(&mut Case); 3] =
            [|case| case.bytes = 2_048, |case| case.streams = None, |case| case.tls = Tls::None];
        for change in wrong {
            let mut parameters = own();
            let call = parameters.cases.iter_mut().find(|case| case.upstream == Spoken::Grpc);
            change(call.expect("a case of gRPC"));
            let error = parameters.checked().expect_err("it cannot be made").to_string();
            assert!(error.contains("gRPC unary 1 KB") && error.contains("bytes = 1024"), "{error}");
        }
    }
}
