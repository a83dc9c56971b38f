//! The proxies that are compared. Each file under `peers/` knows one: how its configuration is written, how it is
//! started with one worker, how it says its version. None of them measures anything.

mod envoy;
mod fairway;
mod floor;
mod haproxy;
mod nginx;
mod peer;

pub(crate) use peer::{Binaries, Peer};

/// In the order of the report; the first that is there is what the others are divided by.
pub(crate) const ALL: [&Peer; 5] =
    [&fairway::FAIRWAY, &floor::FLOOR, &nginx::NGINX, &haproxy::HAPROXY, &envoy::ENVOY];
