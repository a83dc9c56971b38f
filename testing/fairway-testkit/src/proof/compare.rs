//! `fairway compare` of two controllers that serve the same Ingresses: its run time, and whether it reports differences
//! although there are none.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use serde::Serialize;
use serde_json::Value;
use tokio::process::Command;

use super::fleet::Fleet;
use super::site::Site;
use crate::manifests::{Ingress, service_with_endpoints};
use crate::process::Fairway;

const NAMESPACE: &str = "compared";
/// One in this many Ingresses uses TLS.
const TLS_EVERY: usize = 3;

/// A comparison of two controllers that serve the same.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CompareFindings {
    /// Ingresses with a host and a path each.
    pub ingresses: usize,
    /// Requests that were sent to both controllers.
    pub probes: Value,
    /// Differences that were reported.
    pub differences: usize,
    /// From the start of the command to its exit.
    pub seconds: f64,
}

/// Compares two processes of `binary` that serve this many Ingresses.
///
/// # Errors
/// The command cannot be run, or its report cannot be read.
pub async fn compare(binary: &Path, ingresses: usize) -> io::Result<CompareFindings> {
    let site = Site::new();
    let fleet = Fleet::start(&site, binary, 1).await;
    let manifests = site.manifests();
    manifests.put("compared-service.yaml", service_with_endpoints(NAMESPACE, "web", 80, &fleet.addresses()));
    manifests.put("compared-certificate.yaml", site.leaf().secret_yaml(NAMESPACE, "certificate"));
    manifests.put("compared.yaml", (0..ingresses).map(ingress).collect::<Vec<_>>().join("---\n"));
    let (from, to) = tokio::join!(site.serve(binary, &[]), site.serve(binary, &[]));
    let began = Instant::now();
    let output = Command::new(binary)
        .args(["compare", "--yes", "--pause", "0.1", "--output", "json"])
        .args(["--from", &address(&from), "--to", &address(&to)])
        .arg(manifests.path())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await?;
    let seconds = began.elapsed().as_secs_f64();
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let differences = report["differences"].as_array().map_or(0, Vec::len);
    Ok(CompareFindings { ingresses, probes: report["probes"].clone(), differences, seconds })
}

fn ingress(number: usize) -> String {
    let host = format!("host-{number}.test");
    let ingress = Ingress::new(NAMESPACE, &format!("web-{number}")).route(&host, "/a", ("web", 80));
    match number.is_multiple_of(TLS_EVERY) {
        true => ingress.tls(Some("certificate"), &[&host]).yaml(),
        false => ingress.yaml(),
    }
}

fn address(fairway: &Fairway) -> String {
    let (http, https): (SocketAddr, SocketAddr) = (fairway.http, fairway.https);
    format!("127.0.0.1:{}:{}", http.port(), https.port())
}
