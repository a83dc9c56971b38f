//! How long and how large: `proxy-connect-timeout`, `proxy-send-timeout`, `proxy-read-timeout`, `proxy-body-size`, with
//! the defaults of ingress-nginx.

use std::time::Duration;

use fairway_model::{Policy, Retry, Timeouts};

use crate::annotation::{Reader, bytes};
use crate::settings::Defaults;

/// ingress-nginx: proxy-connect-timeout 5, proxy-send-timeout 60, proxy-read-timeout 60.
pub(crate) const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    send: Duration::from_secs(60),
    read: Duration::from_secs(60),
};

/// ingress-nginx: proxy-body-size 1m.
pub(crate) const MAX_BODY: u64 = 1 << 20;

/// nginx: proxy_next_upstream_tries of ingress-nginx.
const TRIES: u8 = 3;

/// Reads the limits of an Ingress.
pub(crate) fn read(reader: &mut Reader<'_>, defaults: &Defaults) -> Policy {
    let mut seconds = |name: &str, default: Duration| {
        reader.number(name, 1..=u64::from(u32::MAX)).map_or(default, Duration::from_secs)
    };
    let timeouts = Timeouts {
        connect: seconds("proxy-connect-timeout", defaults.timeouts.connect),
        send: seconds("proxy-send-timeout", defaults.timeouts.send),
        read: seconds("proxy-read-timeout", defaults.timeouts.read),
    };
    let max_body = max_body(reader, defaults.max_body);
    policy(defaults, timeouts, max_body)
}

/// The policy of what no Ingress limits.
pub(crate) fn policy(defaults: &Defaults, timeouts: Timeouts, max_body: Option<u64>) -> Policy {
    Policy {
        timeouts,
        max_body,
        // nginx has no limit over all tries (proxy_next_upstream_timeout 0) beside that of each.
        retry: Retry { tries: TRIES, connect_total: timeouts.connect.saturating_mul(u32::from(TRIES)) },
        forwarded_path: defaults.forwarded_path,
        websocket: true,
    }
}

fn max_body(reader: &mut Reader<'_>, default: Option<u64>) -> Option<u64> {
    let name = "proxy-body-size";
    let Some(value) = reader.value(name) else { return default };
    match bytes(value) {
        Some(size) => (size > 0).then_some(size),
        None => {
            let limit = default.map_or("no limit".to_owned(), |size| format!("a limit of {size} bytes"));
            reader.invalid(
                name,
                format!("\"{value}\" is no size (8, 8k, 8m, 8g)"),
                format!("{limit} applies"),
            );
            default
        }
    }
}
