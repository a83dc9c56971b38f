//! What `capacity` measures: its parameters, its cases, and the load of a case.

use std::time::Duration;

use fairway_lab_traffic::load::{Plan, Reuse, TlsPlan, TlsVersion};
use serde::Deserialize;

use crate::peers::local::LocalSite;
use crate::scenario::site::HOST;

/// Its parameters; the file explains them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct Parameters {
    pub(super) connections: usize,
    pub(super) threads: usize,
    pub(super) seconds: f64,
    pub(super) workers: Vec<u32>,
    pub(super) blocks: u32,
    pub(super) backends: usize,
    pub(super) timeout_s: f64,
    pub(super) cases: Vec<Case>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) tls: Tls,
    pub(super) bytes: u64,
    pub(super) connect: Connect,
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

/// The load of a case on a proxy.
pub(super) fn plan(parameters: &Parameters, case: &Case, site: &LocalSite) -> anyhow::Result<Plan> {
    let scheme = if case.tls == Tls::None { "http" } else { "https" };
    let address = if case.tls == Tls::None { site.http } else { site.https };
    let mut plan = Plan::at(&format!("{scheme}://{HOST}/?size={}", case.bytes), vec![address])?;
    plan.shape.connections = parameters.connections;
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
        ..TlsPlan::default()
    });
    Ok(plan)
}
