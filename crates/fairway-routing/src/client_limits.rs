//! The limits and settings for clients of a listener: its own, or those for all listeners.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{ClientTraffic, ForwardedTrust, HeaderNames, Listener, Settings, Tracing};

use crate::tested_values::BlockedClientsCheck;

/// The maximum timeout, whatever is configured, so that adding it to the clock does not overflow.
const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// The limits and settings for clients of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// How long a connection may be without a request in flight.
    pub idle_timeout: Duration,
    /// How long a request head may take, from its first byte.
    pub head_timeout: Duration,
    /// How long the TLS handshake may take.
    pub handshake_timeout: Duration,
    /// Requests after which a connection is closed gracefully; at least one.
    pub requests_per_connection: u64,
    /// Maximum concurrent HTTP/2 streams of a connection, as far as there is room.
    pub streams: u32,
    /// Whether requests in early data are accepted (0-RTT, HTTP/3 only).
    pub early_data: bool,
    /// The idle timeout of forwarded (L4) connections, if their route has none.
    pub stream_idle_timeout: Duration,
    /// Which peers' forwarding headers are trusted.
    pub forwarded: ForwardedTrust,
    /// The header names that requests may have.
    pub header_names: HeaderNames,
    /// Whether TLS clients are refused that send no server name, or one that no host has.
    pub rejects_unknown_names: bool,
    /// Clients that are blocked.
    pub blocked: Option<BlockedClientsCheck>,
    /// Maximum bytes of a request body.
    pub max_body: Option<u64>,
    /// How to trace requests whose rule does not say; `None` leaves it to the flags.
    pub tracing: Option<Arc<Tracing>>,
    /// Whether only plain header names are allowed and no client is blocked: one check instead of two per request.
    pub is_usual: bool,
}

impl ClientLimits {
    /// The limits of a listener with its own settings. A value that would block everything is ignored
    /// ([`limit_problems`] reports it).
    #[must_use]
    pub fn for_listener(settings: &Settings, traffic: &ClientTraffic) -> Self {
        let everywhere = &settings.downstream;
        let header_names = traffic.header_names.unwrap_or(everywhere.header_names);
        let blocked =
            traffic.blocked.as_ref().or(settings.blocked.as_ref()).map(BlockedClientsCheck::compiled);
        let time =
            |own_time: Option<Duration>, everywhere| some_time(own_time).unwrap_or(everywhere).min(YEAR);
        Self {
            idle_timeout: time(traffic.idle_timeout, everywhere.idle_timeout),
            head_timeout: time(traffic.head_timeout, everywhere.head_timeout),
            handshake_timeout: time(traffic.handshake_timeout, everywhere.handshake_timeout),
            requests_per_connection: traffic
                .requests_per_connection
                .filter(|requests| *requests > 0)
                .unwrap_or(everywhere.requests_per_connection)
                .max(1),
            streams: traffic.streams.map_or(everywhere.http2.streams, NonZeroU32::get),
            early_data: traffic.early_data.unwrap_or(everywhere.http3.early_data),
            stream_idle_timeout: time(traffic.idle_timeout, settings.streams.idle_timeout),
            forwarded: traffic.forwarded.as_ref().unwrap_or(&settings.forwarded).clone(),
            is_usual: header_names == HeaderNames::Plain && blocked.is_none(),
            header_names,
            rejects_unknown_names: traffic.reject_unknown_names.unwrap_or(everywhere.reject_unknown_names),
            blocked,
            max_body: traffic.max_body,
            tracing: traffic.tracing.as_ref().or(settings.tracing.as_ref()).cloned(),
        }
    }

    /// The limits of listeners without settings of their own.
    #[must_use]
    pub fn everywhere(settings: &Settings) -> Self {
        Self::for_listener(settings, &ClientTraffic::default())
    }
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self::everywhere(&Settings::default())
    }
}

/// The settings of a listener that would block everything.
pub(crate) fn limit_problems(listener: &Listener) -> impl Iterator<Item = String> {
    let clients = &listener.clients;
    let no_time = |time: Option<Duration>| time.is_some() && some_time(time).is_none();
    let problems = [
        ("idle_timeout", no_time(clients.idle_timeout)),
        ("head_timeout", no_time(clients.head_timeout)),
        ("handshake_timeout", no_time(clients.handshake_timeout)),
        ("requests_per_connection", clients.requests_per_connection == Some(0)),
    ];
    let zero = problems.into_iter().filter(|(_, is_zero)| *is_zero);
    zero.map(|(name, _)| {
        format!("the listener {}: clients.{name} is 0; the value for all listeners is used", listener.name)
    })
}

fn some_time(time: Option<Duration>) -> Option<Duration> {
    time.filter(|time| !time.is_zero())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fairway_model::{BlockedClients, ListenerProtocol, ValueTest};

    use super::*;

    #[test]
    fn an_unset_listener_uses_the_general_values() {
        let mut settings = Settings::default();
        settings.downstream.idle_timeout = Duration::from_secs(7);
        settings.downstream.http2.streams = 9;
        settings.streams.idle_timeout = Duration::from_secs(11);
        settings.downstream.http3.early_data = true;
        settings.forwarded.append = true;
        let clients = ClientLimits::everywhere(&settings);
        assert_eq!((clients.idle_timeout.as_secs(), clients.stream_idle_timeout.as_secs()), (7, 11));
        assert_eq!((clients.streams, clients.requests_per_connection), (9, 10_000));
        assert!(clients.forwarded.append && clients.early_data);
    }

    #[test]
    fn each_value_of_a_listener_overrides_the_general_one() {
        let second = Duration::from_secs(1);
        let trust = ForwardedTrust {
            ranges: vec!["10.0.0.0/8".parse().unwrap()],
            append: true,
            ..ForwardedTrust::default()
        };
        let blocked = Arc::new(BlockedClients {
            user_agents: vec![ValueTest::AnyCase("bot".into())],
            ..BlockedClients::default()
        });
        let traffic = ClientTraffic {
            forwarded: Some(trust.clone()),
            idle_timeout: Some(second),
            head_timeout: Some(second * 2),
            handshake_timeout: Some(second * 3),
            requests_per_connection: Some(4),
            streams: NonZeroU32::new(5),
            early_data: Some(true),
            header_names: Some(HeaderNames::Any),
            reject_unknown_names: Some(true),
            blocked: Some(Arc::clone(&blocked)),
            max_body: Some(6),
            ..ClientTraffic::default()
        };
        let expected = ClientLimits {
            idle_timeout: second,
            head_timeout: second * 2,
            handshake_timeout: second * 3,
            requests_per_connection: 4,
            streams: 5,
            early_data: true,
            stream_idle_timeout: second,
            forwarded: trust,
            header_names: HeaderNames::Any,
            rejects_unknown_names: true,
            blocked: Some(BlockedClientsCheck::compiled(&blocked)),
            max_body: Some(6),
            tracing: None,
            is_usual: false,
        };
        assert_eq!(ClientLimits::for_listener(&Settings::default(), &traffic), expected);
    }

    #[test]
    fn a_value_that_would_block_everything_is_reported_and_unused() {
        let mut listener = Listener::new("edge", ListenerProtocol::Https, 443, "t");
        assert_eq!(limit_problems(&listener).count(), 0);
        let zero = Some(Duration::ZERO);
        listener.clients = ClientTraffic {
            idle_timeout: zero,
            head_timeout: zero,
            handshake_timeout: zero,
            requests_per_connection: Some(0),
            ..ClientTraffic::default()
        };
        assert_eq!(
            ClientLimits::for_listener(&Settings::default(), &listener.clients),
            ClientLimits::default()
        );
        let problems: Vec<_> = limit_problems(&listener).collect();
        assert_eq!(problems.len(), 4);
        assert_eq!(
            problems[1],
            "the listener edge: clients.head_timeout is 0; the value for all listeners is used"
        );
    }

    #[test]
    fn no_time_is_too_long_for_the_clock() {
        let traffic = ClientTraffic { idle_timeout: Some(Duration::MAX), ..ClientTraffic::default() };
        let clients = ClientLimits::for_listener(&Settings::default(), &traffic);
        assert!(std::time::Instant::now().checked_add(clients.idle_timeout).is_some());
    }
}
