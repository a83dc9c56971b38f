//! `fairway check` over the manifests of an installation: its run time and peak memory. The Ingresses are equal parts of
//! the kinds typical of ingress-nginx installations.

use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde::Serialize;

use super::floods::peak;
use crate::manifests::{Ingress, Manifests, ingress_class, service_with_endpoints};

/// Ingresses of a namespace.
const PER_NAMESPACE: usize = 50;

/// Annotations of the kinds of Ingresses, one kind a row.
const KINDS: [&[(&str, &str)]; 10] = [
    &[],
    &[("ssl-redirect", "false"), ("proxy-body-size", "50m"), ("proxy-read-timeout", "120")],
    &[("use-regex", "true"), ("rewrite-target", "/$2")],
    &[
        ("enable-cors", "true"),
        ("cors-allow-origin", "https://shop.test"),
        ("cors-allow-credentials", "true"),
    ],
    &[("affinity", "cookie"), ("session-cookie-name", "route"), ("session-cookie-max-age", "3600")],
    &[
        ("limit-rps", "20"),
        ("limit-connections", "50"),
        ("whitelist-source-range", "10.0.0.0/8,192.168.0.0/16"),
    ],
    &[("backend-protocol", "HTTPS"), ("proxy-buffer-size", "16k"), ("upstream-vhost", "internal.test")],
    &[("permanent-redirect", "https://www.shop.test/")],
    &[("load-balance", "ewma"), ("custom-http-errors", "404,503")],
    &[(
        "configuration-snippet",
        "more_set_headers \"X-Frame-Options: DENY\";\nproxy_set_header X-Team shop;\n",
    )],
];

/// The manifests of an installation.
#[derive(Debug)]
pub struct Installation {
    manifests: Manifests,
    ingresses: usize,
}

/// The costs of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Run {
    /// From the start of the process to its exit.
    pub seconds: f64,
    /// Its most resident memory.
    pub peak_mib: f64,
    /// The output.
    pub output_bytes: usize,
}

impl Installation {
    /// Files with an Ingress, a Service and an EndpointSlice each. Some have the Service of another one with
    /// another balancing.
    pub fn with_ingresses(ingresses: usize) -> Self {
        let manifests = Manifests::new();
        manifests.put("class.yaml", ingress_class("nginx", "k8s.io/ingress-nginx"));
        for number in 0..ingresses {
            manifests.put(&format!("web-{number:05}.yaml"), objects(number));
        }
        Self { manifests, ingresses }
    }

    /// The number of Ingresses.
    pub fn ingresses(&self) -> usize {
        self.ingresses
    }

    /// Checks everything with these additional arguments; returns costs and output. The peak is known only for a run that
    /// prints more than a pipe holds.
    pub fn check(&self, binary: &Path, arguments: &[&str]) -> (Run, Vec<u8>) {
        let began = Instant::now();
        let mut child = Command::new(binary)
            .arg("check")
            .arg(self.manifests.path())
            .arg("--ingress-class-compat")
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary can be run");
        let mut output = child.stdout.take().expect("it is a pipe");
        let (mut printed, mut most) = (Vec::new(), 0);
        let mut chunk = vec![0; 16 * 1024];
        loop {
            // It prints at its end and blocks on the reader: the peak is past and the process can still be inspected.
            let length = output.read(&mut chunk).expect("a pipe can be read");
            most = most.max(peak(child.id()));
            if length == 0 {
                break;
            }
            printed.extend_from_slice(&chunk[..length]);
        }
        let status = child.wait().expect("it ends");
        let seconds = began.elapsed().as_secs_f64();
        assert!(matches!(status.code(), Some(0 | 1)), "fairway check: {status}");
        #[expect(clippy::cast_precision_loss, reason = "mebibytes with decimals")]
        let peak_mib = most as f64 / (1024.0 * 1024.0);
        (Run { seconds, peak_mib, output_bytes: printed.len() }, printed)
    }
}

fn objects(number: usize) -> String {
    let namespace = format!("team-{}", number / PER_NAMESPACE);
    let (name, host) = (format!("web-{number}"), format!("web-{number}.shop.test"));
    let shares = number.is_multiple_of(KINDS.len()) && !number.is_multiple_of(PER_NAMESPACE);
    let service = if shares { format!("web-{}", number - 2) } else { name.clone() };
    let kind = KINDS[number % KINDS.len()];
    let mut ingress = Ingress::new(&namespace, &name).tls(None, &[&host]);
    for (annotation, value) in kind {
        ingress = ingress.annotation(annotation, value);
    }
    let is_pattern = kind.iter().any(|(annotation, _)| *annotation == "use-regex");
    let paths = if is_pattern { ["/api(/|$)(.*)", "/assets(/|$)(.*)"] } else { ["/api", "/assets"] };
    for path in paths {
        let kind = if is_pattern { "ImplementationSpecific" } else { "Prefix" };
        ingress = ingress.typed_route(&host, path, kind, (&service, 80));
    }
    let [high, low] = u16::try_from(number % 60_000).expect("below 60,000").to_be_bytes();
    let endpoint = SocketAddr::from(([10, 1, high, low], 8080));
    format!("{}---\n{}", ingress.yaml(), service_with_endpoints(&namespace, &name, 80, &[endpoint]))
}
