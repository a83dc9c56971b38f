//! The table of scenarios: what is sent, over what, on how many connections. Never measures.

use crate::backend::Body;

#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Load {
    /// Requests on connections that stay open.
    KeepAlive,
    /// A new connection for each request.
    Once,
    /// Connections that stay idle after one request each; memory is measured instead of CPU.
    Idle,
}

#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) load: Load,
    pub(crate) tls: bool,
    pub(crate) body: Body,
    pub(crate) connections: usize,
}

const fn scenario(name: &'static str, load: Load, tls: bool, body: Body, connections: usize) -> Scenario {
    Scenario { name, load, tls, body, connections }
}

pub(crate) const ALL: [Scenario; 8] = [
    scenario("http-1k-50", Load::KeepAlive, false, Body::Kilobyte, 50),
    scenario("http-1k-200", Load::KeepAlive, false, Body::Kilobyte, 200),
    scenario("https-1k-50", Load::KeepAlive, true, Body::Kilobyte, 50),
    scenario("tls13-handshakes", Load::Once, true, Body::Kilobyte, 50),
    scenario("http-1m", Load::KeepAlive, false, Body::Megabyte, 20),
    scenario("https-1m", Load::KeepAlive, true, Body::Megabyte, 20),
    scenario("idle-memory", Load::Idle, false, Body::Kilobyte, 5000),
    scenario("idle-memory-tls", Load::Idle, true, Body::Kilobyte, 5000),
];

/// The scenarios that one of the comma-separated names begins; all when there is none.
pub(crate) fn named(names: &[String]) -> anyhow::Result<Vec<Scenario>> {
    if names.is_empty() {
        return Ok(ALL.to_vec());
    }
    let known = || ALL.map(|scenario| scenario.name).join(", ");
    for name in names {
        anyhow::ensure!(
            ALL.iter().any(|scenario| matches(scenario, name)),
            "no scenario {name}; there are {}",
            known()
        );
    }
    Ok(ALL.into_iter().filter(|scenario| names.iter().any(|name| matches(scenario, name))).collect())
}

/// A full name means itself only, so that `idle-memory` does not bring its TLS twin along.
fn matches(scenario: &Scenario, name: &str) -> bool {
    if ALL.iter().any(|other| other.name == name) {
        scenario.name == name
    } else {
        scenario.name.starts_with(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_name_selects_itself_and_a_beginning_selects_all_that_begin_so() {
        let names = |asked: &str| -> Vec<&str> {
            named(&[asked.to_owned()]).unwrap().iter().map(|scenario| scenario.name).collect()
        };
        assert_eq!(names("idle-memory"), ["idle-memory"]);
        assert_eq!(names("http-1k"), ["http-1k-50", "http-1k-200"]);
        assert!(named(&["http-2".to_owned()]).is_err());
    }
}
