//! The compared proxies. Each file under `peers/` describes one: its configuration, how to start it with one worker, how to
//! get its version. None of them measures.

mod caddy;
mod envoy;
mod envoy_extended;
mod extended;
mod fairway;
mod fairway_extended;
mod floor;
mod haproxy;
mod nginx;
mod peer;
mod traefik;

use anyhow::Context;
use fairway_lab_measure::Release;

pub(crate) use peer::{Binaries, Need, Peer};

/// In the order of the report; the first one available is the base of the ratios.
pub(crate) const ALL: [&Peer; 7] = [
    &fairway::FAIRWAY,
    &floor::FLOOR,
    &nginx::NGINX,
    &haproxy::HAPROXY,
    &envoy::ENVOY,
    &traefik::TRAEFIK,
    &caddy::CADDY,
];

/// Variants of peers that show the cost of a feature; measured only when named.
pub(crate) const VARIANTS: [&Peer; 13] = [
    &fairway::WITHOUT_RECORDER,
    &fairway::TRACING_1,
    &fairway::TRACING_100,
    &envoy::TRACING_1,
    &envoy::TRACING_100,
    &fairway_extended::HEADERS,
    &envoy_extended::HEADERS,
    &fairway_extended::STREAMED,
    &envoy_extended::STREAMED,
    &fairway_extended::BUFFERED,
    &envoy_extended::BUFFERED,
    &fairway_extended::AUTHORIZATION,
    &envoy_extended::AUTHORIZATION,
];

/// All that can be named.
pub(crate) fn with_variants() -> impl Iterator<Item = &'static Peer> {
    ALL.into_iter().chain(VARIANTS)
}

/// Of these, every release of a package that is installed can be named.
const PACKAGED: [&str; 3] = [nginx::NGINX.name, haproxy::HAPROXY.name, caddy::CADDY.name];

/// A peer by its name, which may have the release after an `@`: `nginx@1.22`, `haproxy@system`.
pub(crate) fn named(name: &str) -> anyhow::Result<PeerRelease> {
    let (known, release) = Release::split_name(name)?;
    let peer = with_variants()
        .find(|peer| peer.name == known)
        .filter(|peer| release == Release::Current || PACKAGED.contains(&peer.name));
    let peer = peer.with_context(|| {
        format!(
            "no peer {name}; there are {}, and other releases of {} as NAME@VERSION",
            with_variants().map(|peer| peer.name).collect::<Vec<_>>().join(", "),
            PACKAGED.join(", ")
        )
    })?;
    Ok(PeerRelease { name: name.to_owned(), peer, release })
}

/// A peer and one of its releases.
#[derive(Clone)]
pub(crate) struct PeerRelease {
    pub(crate) name: String,
    pub(crate) peer: &'static Peer,
    pub(crate) release: Release,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unsupported_feature_of_a_peer_is_reported_only_where_it_is_needed() {
        let floor = named("floor").expect("a peer").peer;
        assert_eq!((floor.lacks(&[]), floor.lacks(&[Need::Tls])), (None, Some("speaks no TLS")));
        let haproxy = named("haproxy").expect("a peer").peer;
        assert_eq!(haproxy.lacks(&[Need::Tls, Need::Http2, Need::Connections]), None);
        assert_eq!(haproxy.lacks(&[Need::Datagrams]), Some("forwards no UDP"));
    }

    #[test]
    fn a_peer_may_be_named_with_its_release() {
        let release = named("nginx@1.22").expect("a peer");
        assert_eq!((release.name.as_str(), release.peer.name), ("nginx@1.22", "nginx"));
        assert_eq!(named("haproxy").expect("a peer").release, Release::Current);
        for name in ["envoy@1.40", "nginx@", "squid"] {
            assert!(named(name).is_err(), "{name}");
        }
    }
}
