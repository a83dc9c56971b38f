//! The keys of the settings ConfigMap and what each sets.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{AccessLog, Balancing, ForwardedPath, KeyExchange, TlsVersions};
use fairway_objects::annotations::text::{self, parse_bool, parse_size};
use fairway_objects::options::ProxySenders;
use ipnet::IpNet;

use crate::ingress::external_auth::is_hop_header;
use crate::ingress::settings::draft::SettingsDraft;
use crate::ingress::settings::forwarded::{AddressHeader, ForwardedSwitch};
use crate::ingress::settings::ignored_keys;
use crate::ingress::settings::problem::KeyProblem;
use crate::ingress::settings::tickets;

/// Maximum concurrent streams of an HTTP/2 connection.
const MAX_STREAMS: u32 = 128;

const NOT_A_SWITCH: KeyProblem = KeyProblem::NotA("true or false");
const NOT_A_NUMBER: KeyProblem = KeyProblem::NotA("a whole number");
const NOT_A_TIME: KeyProblem = KeyProblem::NotA("a time such as 60, 60s or 1h");
const NOT_ALL_RANGES: KeyProblem =
    KeyProblem::Partly("a list of addresses and ranges", "only the ranges that can be read are believed");
const NOT_ALL_STATUSES: KeyProblem = KeyProblem::Partly(
    "a list of statuses from 400 to 599, separated by commas",
    "only the statuses that can be read have pages",
);
const NOT_A_HEADER: KeyProblem = KeyProblem::Partly(
    "a header with letters, digits and - in its name that does not belong to the connection",
    "nobody's X-Forwarded-* are believed: requests through a proxy have the proxy's address, also where source ranges are \
     checked",
);
const NOT_RANGES: KeyProblem = KeyProblem::NotA("a list of addresses and ranges");

fn flag(value: &str) -> Result<bool, KeyProblem> {
    parse_bool(value).ok_or(NOT_A_SWITCH)
}

fn number<T: std::str::FromStr>(value: &str) -> Result<T, KeyProblem> {
    value.parse().map_err(|_| NOT_A_NUMBER)
}

fn duration(value: &str) -> Result<Duration, KeyProblem> {
    text::parse_duration(value).ok_or(NOT_A_TIME)
}

fn timeout(value: &str) -> Result<Duration, KeyProblem> {
    duration(value).and_then(|time| if time.is_zero() { Err(NOT_A_TIME) } else { Ok(time) })
}

fn refusal_status(value: &str) -> Result<u16, KeyProblem> {
    let status = value.parse().ok().filter(|status| (400..=599).contains(status));
    status.ok_or(KeyProblem::NotA("a status from 400 to 599"))
}

fn ranges(value: &str) -> Result<Vec<IpNet>, KeyProblem> {
    if value.is_empty() { Ok(Vec::new()) } else { text::parse_ranges(value).map_err(|_| NOT_RANGES) }
}

fn list(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// Reads one key.
pub(super) fn read(draft: &mut SettingsDraft<'_>, name: &str, value: &str) -> Result<(), KeyProblem> {
    draft.read_key(name, value)
}

impl SettingsDraft<'_> {
    fn read_key(&mut self, name: &str, value: &str) -> Result<(), KeyProblem> {
        match name {
            "worker-processes" => self.workers(value),
            "worker-connections" | "max-worker-connections" => {
                let limit = number::<u32>(value)?;
                self.settings.downstream.connections_per_worker = (limit > 0).then_some(limit);
                Ok(())
            }
            "worker-rlimit-nofile" | "max-worker-open-files" => {
                number::<u64>(value)?;
                Err(KeyProblem::Note(
                    "the limit of open files is the one that Fairway was started with",
                    "the number is not needed",
                ))
            }
            "keep-alive" | "keepalive-timeout" => {
                let time = duration(value)?;
                if time.is_zero() {
                    self.keep_alive = false;
                } else {
                    self.settings.downstream.idle_timeout = time;
                }
                Ok(())
            }
            "keep-alive-requests" | "keepalive-requests" => {
                self.settings.downstream.requests_per_connection = number(value)?;
                Ok(())
            }
            "client-header-timeout" => {
                self.settings.downstream.head_timeout = timeout(value)?;
                Ok(())
            }
            "use-http2"
            | "http2"
            | "http2-max-concurrent-streams"
            | "http2-max-field-size"
            | "http2-max-header-size"
            | "http2-max-requests" => self.http2(name, value),
            "use-http3" => {
                self.settings.downstream.http3.offered = flag(value)?;
                Ok(())
            }
            "ssl-early-data" => self.early_data(value),
            "disable-access-log"
            | "disable-http-access-log"
            | "access-log-off"
            | "access-log"
            | "access_log" => self.access_log(name, value),
            "allow-snippet-annotations" => {
                self.defaults.snippets.allowed = flag(value)?;
                Ok(())
            }
            _ if self.snippets.read(name, value) => Ok(()),
            _ => self.read_upstream(name, value),
        }
    }

    fn http2(&mut self, name: &str, value: &str) -> Result<(), KeyProblem> {
        let http2 = &mut self.settings.downstream.http2;
        match name {
            "use-http2" | "http2" => http2.offered = flag(value)?,
            "http2-max-concurrent-streams" => {
                let streams = number::<u32>(value).ok().filter(|streams| *streams > 0);
                let streams = streams.ok_or(KeyProblem::NotA("a whole number above 0"))?;
                http2.streams = streams.min(MAX_STREAMS);
                if streams > MAX_STREAMS {
                    return Err(KeyProblem::Note(
                        "a connection has room for 128 streams",
                        "more are not opened at a time",
                    ));
                }
            }
            "http2-max-requests" => {
                return Err(KeyProblem::Note(
                    "nginx has not read it since 1.19.7",
                    "keep-alive-requests limits the requests of a connection",
                ));
            }
            _ => {
                return Err(KeyProblem::Note(
                    "nginx has not read it since 1.19.7",
                    "the flags --max-head-bytes and --max-head-fields limit the fields of a request",
                ));
            }
        }
        Ok(())
    }

    fn read_upstream(&mut self, name: &str, value: &str) -> Result<(), KeyProblem> {
        let upstream = &mut self.settings.upstream;
        let defaults = &mut self.defaults;
        match name {
            "keepalive" | "upstream-keepalive-connections" => {
                upstream.idle_connections = Some(number(value)?);
            }
            "upstream-keepalive-requests" => upstream.requests_per_connection = number(value)?,
            "upstream-keepalive-timeout" => upstream.idle_timeout = duration(value)?,
            "proxy-connect-timeout" => defaults.forwarding.timeouts.connect = timeout(value)?,
            "proxy-send-timeout" => defaults.forwarding.timeouts.send = timeout(value)?,
            "proxy-read-timeout" => defaults.forwarding.timeouts.read = timeout(value)?,
            "proxy-stream-timeout" => defaults.forwarding.streams.timeout = Some(timeout(value)?),
            "proxy-stream-responses" => {
                defaults.forwarding.streams.responses = NonZeroU32::new(number(value)?);
            }
            "proxy-body-size" | "client-max-body-size" => {
                let size = parse_size(value).ok_or(KeyProblem::NotA("a size such as 8, 8k, 8m or 8g"))?;
                defaults.forwarding.max_body = (size > 0).then_some(size);
            }
            "load-balance" | "lb-method" => {
                defaults.forwarding.balancing = match value {
                    "" | "round_robin" => Balancing::RoundRobin,
                    "ewma" => Balancing::PeakEwma,
                    _ => return Err(KeyProblem::NotA("round_robin or ewma")),
                };
            }
            "forwarded-path" => {
                defaults.forwarding.path = match value {
                    "received" => ForwardedPath::AsReceived,
                    "normalised" => ForwardedPath::Normalised,
                    _ => return Err(KeyProblem::NotA("received or normalised")),
                };
            }
            "proxy-buffers" | "proxy-busy-buffers-size" => {
                return Err(KeyProblem::Note(
                    "proxy-buffers-number and proxy-buffer-size say what a response has in memory",
                    "it has no effect",
                ));
            }
            _ => return self.read_redirect(name, value),
        }
        Ok(())
    }

    fn read_redirect(&mut self, name: &str, value: &str) -> Result<(), KeyProblem> {
        let defaults = &mut self.defaults;
        match name {
            "ssl-redirect" => defaults.https.redirects.when.with_certificate = flag(value)?,
            "force-ssl-redirect" => defaults.https.redirects.when.always = flag(value)?,
            "http-redirect-code" => {
                let allowed = |status: &u16| matches!(status, 301 | 302 | 307 | 308);
                let status = number::<u16>(value).ok().filter(allowed);
                defaults.https.status = status.ok_or(KeyProblem::NotA("301, 302, 307 or 308"))?;
            }
            "preserve-trailing-slash" => defaults.https.redirects.keep_trailing_slash = flag(value)?,
            "use-port-in-redirects" => defaults.https.redirects.explicit_port = flag(value)?,
            "relative-redirects" => defaults.https.redirects.relative = flag(value)?,
            "limit-req-status-code" => defaults.limit_status.rate = refusal_status(value)?,
            "limit-conn-status-code" => defaults.limit_status.connections = refusal_status(value)?,
            "no-tls-redirect-locations" => {
                defaults.https.never_redirected = list(value).map(Arc::from).collect();
            }
            "hsts" => self.hsts.is_sent = flag(value)?,
            "hsts-max-age" => self.hsts.max_age = number(value)?,
            "hsts-include-subdomains" => self.hsts.include_subdomains = flag(value)?,
            "hsts-preload" => self.hsts.preload = flag(value)?,
            _ => return self.read_client(name, value),
        }
        Ok(())
    }

    fn read_client(&mut self, name: &str, value: &str) -> Result<(), KeyProblem> {
        match name {
            "global-allowed-response-headers" => {
                self.defaults.allowed_headers = list(value).map(str::to_owned).collect();
            }
            "ssl-reject-handshake" => self.settings.downstream.reject_unknown_names = flag(value)?,
            "enable-underscores-in-headers" => self.header_names.underscores = flag(value)?,
            "ignore-invalid-headers" => self.header_names.allows_any = !flag(value)?,
            "compute-full-forwarded-for"
            | "use-forwarded-headers"
            | "proxy-real-ip-cidr"
            | "forwarded-for-header"
            | "enable-real-ip"
            | "proxy-protocol"
            | "use-proxy-protocol" => return self.read_proxies(name, value),
            "custom-http-errors" => {
                let read: Vec<_> = list(value).map(text::parse_statuses).collect();
                let unread = read.iter().any(Option::is_none);
                self.defaults.errors = read.into_iter().flatten().flatten().collect();
                self.defaults.errors.sort_unstable();
                self.defaults.errors.dedup();
                if unread {
                    return Err(NOT_ALL_STATUSES);
                }
            }
            "whitelist-source-range" => self.defaults.source_ranges.allow = protective_ranges(value)?,
            "denylist-source-range" => self.defaults.source_ranges.deny = protective_ranges(value)?,
            "block-cidrs" => self.defaults.source_ranges.block = protective_ranges(value)?,
            "no-auth-locations" => {
                self.defaults.authentication.exempt = list(value).map(Arc::from).collect();
            }
            _ => return self.read_family(name, value),
        }
        Ok(())
    }

    /// Keys that are combined.
    fn read_family(&mut self, name: &str, value: &str) -> Result<(), KeyProblem> {
        if let Some(name) = name.strip_prefix("global-auth-") {
            return self.global_auth.read(name, value);
        }
        match name {
            "ssl-protocols" => return self.versions(value),
            "ssl-ecdh-curve" => return self.groups(value),
            "enable-ocsp" => {
                self.settings.downstream.ocsp_stapling = flag(value)?;
                return Ok(());
            }
            _ => {}
        }
        let read = self.log_format.read(name, value).or_else(|| self.headers.read(name, value));
        let read = read.or_else(|| tickets::read(&mut self.settings.tickets, name, value));
        let read = read.or_else(|| self.maps.read(name, value));
        let read = read.or_else(|| self.compression.read(name, value));
        let read = read.or_else(|| self.tracing.read(name, value));
        if let Some(read) = read {
            return read;
        }
        let accepted = self.defaults.values.set(name, value).map(|it| it.map_err(KeyProblem::NotA));
        let accepted = accepted.or_else(|| self.firewall.read(name, value, self.options.firewall.is_some()));
        accepted.unwrap_or_else(|| ignored_keys::check_ignored(name, value))
    }

    /// Keys for proxies in front of this one.
    fn read_proxies(&mut self, name: &str, value: &str) -> Result<(), KeyProblem> {
        match name {
            "use-forwarded-headers" => {
                self.forwarded.switch = if flag(value)? { ForwardedSwitch::On } else { ForwardedSwitch::Off };
            }
            "proxy-real-ip-cidr" => {
                let (ranges, wrong): (Vec<_>, Vec<_>) =
                    list(value).map(text::parse_range).partition(Result::is_ok);
                self.forwarded.ranges = Some(ranges.into_iter().flatten().collect());
                if !wrong.is_empty() || value.is_empty() {
                    return Err(NOT_ALL_RANGES);
                }
            }
            "compute-full-forwarded-for" => self.forwarded.append = flag(value)?,
            "enable-real-ip" => self.forwarded.real_ip = flag(value)?,
            "forwarded-for-header" => {
                self.forwarded.header = address_header(value);
                if self.forwarded.header == AddressHeader::Unreadable {
                    return Err(NOT_A_HEADER);
                }
            }
            "use-proxy-protocol" | "proxy-protocol" => {
                // The flag takes precedence: it is more specific, and applies before the ConfigMap is read.
                let by_flag = self.options.trust.proxy_protocol != ProxySenders::Nobody;
                self.forwarded.proxy_protocol = flag(value)? && !by_flag;
            }
            _ => {}
        }
        Ok(())
    }

    /// `ssl-early-data`.
    fn early_data(&mut self, value: &str) -> Result<(), KeyProblem> {
        let is_on = flag(value)?;
        self.settings.downstream.http3.early_data = is_on;
        if !is_on {
            return Ok(());
        }
        Err(KeyProblem::Note(
            "early data is taken over HTTP/3 only, for safe requests of rules that ask nothing of the client",
            "all other requests wait for the handshake",
        ))
    }

    /// `ssl-protocols`.
    fn versions(&mut self, value: &str) -> Result<(), KeyProblem> {
        const OLD_VERSIONS: [&str; 4] = ["SSLv2", "SSLv3", "TLSv1", "TLSv1.1"];
        let protocols = value.split([' ', ',']).filter(|word| !word.is_empty());
        let (old, others): (Vec<&str>, Vec<&str>) = protocols.partition(|word| OLD_VERSIONS.contains(word));
        if others.iter().any(|word| !matches!(*word, "TLSv1.2" | "TLSv1.3")) {
            return Err(KeyProblem::NotA("a list of TLSv1.2 and TLSv1.3"));
        }
        let versions = match (others.contains(&"TLSv1.2"), others.contains(&"TLSv1.3")) {
            (true, false) => TlsVersions::Only12,
            (false, true) => TlsVersions::Only13,
            (true, true) | (false, false) => TlsVersions::Both,
        };
        self.settings.downstream.tls_versions = versions;
        match (old.is_empty(), others.is_empty()) {
            (true, _) => Ok(()),
            (false, false) => {
                Err(KeyProblem::Lost("only TLS 1.2 and 1.3 can be spoken", "older clients cannot connect"))
            }
            (false, true) => Err(KeyProblem::Lost(
                "only TLS 1.2 and 1.3 can be spoken",
                "both are spoken in place of the versions that it names",
            )),
        }
    }

    /// `ssl-ecdh-curve`: `auto`, or OpenSSL group names.
    fn groups(&mut self, value: &str) -> Result<(), KeyProblem> {
        let mut groups = Vec::new();
        let mut has_others = false;
        for name in value.split(':').map(str::trim).filter(|name| !name.is_empty() && *name != "auto") {
            let group = match &*name.to_ascii_lowercase() {
                "x25519mlkem768" => KeyExchange::X25519MlKem768,
                "x25519" => KeyExchange::X25519,
                "prime256v1" | "secp256r1" | "p-256" => KeyExchange::Secp256r1,
                "secp384r1" | "p-384" => KeyExchange::Secp384r1,
                _ => {
                    has_others = true;
                    continue;
                }
            };
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        let without =
            if groups.is_empty() { "all of these are used" } else { "the others that it names are used" };
        self.settings.downstream.key_exchange = groups;
        match has_others {
            false => Ok(()),
            true => {
                Err(KeyProblem::Lost("keys are exchanged by X25519MLKEM768, X25519, P-256 or P-384", without))
            }
        }
    }

    fn workers(&mut self, value: &str) -> Result<(), KeyProblem> {
        if value != "auto" {
            self.settings.workers = Some(number::<u32>(value)?.max(1));
        }
        Err(KeyProblem::Note(
            "the number of workers changes only at a restart",
            "it is applied at the next start",
        ))
    }

    fn access_log(&mut self, name: &str, value: &str) -> Result<(), KeyProblem> {
        let off = match name {
            "access-log" | "access_log" => match value {
                "off" => true,
                _ => {
                    return Err(KeyProblem::Note(
                        "only \"off\" is read",
                        "the format is that of --access-log",
                    ));
                }
            },
            _ => flag(value)?,
        };
        self.settings.access_log = Some(if off { AccessLog::Off } else { AccessLog::On });
        Ok(())
    }
}

/// The header with the client address. A hop-by-hop header is rewritten by each proxy.
fn address_header(value: &str) -> AddressHeader {
    let is_plain = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let is_readable = is_plain && !is_hop_header(value);
    match value.to_ascii_lowercase() {
        name if name.is_empty() || name == "x-forwarded-for" => AddressHeader::Usual,
        name if is_readable => AddressHeader::Other(name.into()),
        _ => AddressHeader::Unreadable,
    }
}

/// A list that restricts access: an unreadable one refuses everyone.
fn protective_ranges(value: &str) -> Result<Vec<IpNet>, KeyProblem> {
    ranges(value)
        .map_err(|_| KeyProblem::Unreadable("the list has something that is neither an address nor a range"))
}
