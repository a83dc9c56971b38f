//! Kubelet functions, configured by annotations of the pod: logs and port forwarding.

use std::net::SocketAddr;

use serde_json::Value;

use super::responses::Page;

/// The annotation with the address to which all ports of the pod are forwarded.
pub const FORWARD_TO: &str = "testkit/forward-to";
/// The annotation that contains the log of the pod.
pub const PRINTED: &str = "testkit/printed";

/// A request to the kubelet.
pub(super) enum PodPart {
    /// The pod's log.
    Log(String),
    /// A connection to one of its ports.
    Port { port: u16, leads_to: SocketAddr },
}

/// The kubelet request for a pod subresource; the pod itself has been looked up already.
pub(super) fn part(uri: &str, page: &Page) -> Option<PodPart> {
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    // Decoding a page is expensive, and few pages are pods.
    if page.status != 200 || !path.contains("/pods/") {
        return None;
    }
    let parameter = |name: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
    };
    let annotation = |name: &str| {
        let pod: Value = serde_json::from_str(&page.text).expect("the API server has written valid JSON");
        pod["metadata"]["annotations"][name].as_str().unwrap_or_default().to_owned()
    };
    match path.rsplit('/').next()? {
        "log" => {
            let printed = annotation(PRINTED);
            let lines: Vec<&str> = printed.lines().collect();
            let tail = parameter("tailLines").and_then(|count| count.parse().ok()).unwrap_or(lines.len());
            let last = &lines[lines.len().saturating_sub(tail)..];
            Some(PodPart::Log(last.iter().map(|line| format!("{line}\n")).collect()))
        }
        "portforward" => {
            let port = parameter("ports")?.parse().expect("the query names one port");
            let leads_to = annotation(FORWARD_TO).parse().expect("an address");
            Some(PodPart::Port { port, leads_to })
        }
        _ => None,
    }
}
