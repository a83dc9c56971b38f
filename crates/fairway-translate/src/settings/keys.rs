//! The keys of the settings ConfigMap, one by one. Owns their spellings and what each sets.

use std::sync::Arc;
use std::time::Duration;

use fairway_model::AccessLog;
use ipnet::IpNet;

use super::forwarded::{ClientField, Switch};
use super::{Draft, Sent, Trouble, time};
use crate::access;
use crate::annotation::{bytes, switch};
use crate::options::ProxySenders;
use crate::redirect::ToHttps;

const NOT_A_SWITCH: Trouble = Trouble::NotA("true or false");
const NOT_A_NUMBER: Trouble = Trouble::NotA("a whole number");
const NOT_A_TIME: Trouble = Trouble::NotA("a time such as 60, 60s or 1h");
const NOT_ALL_RANGES: Trouble =
    Trouble::Partly("a list of addresses and ranges", "only the ranges that can be read are believed");
const NOT_RANGES: Trouble = Trouble::NotA("a list of addresses and ranges");

fn flag(value: &str) -> Result<bool, Trouble> {
    switch(value).ok_or(NOT_A_SWITCH)
}

fn number<T: std::str::FromStr>(value: &str) -> Result<T, Trouble> {
    value.parse().map_err(|_| NOT_A_NUMBER)
}

fn duration(value: &str) -> Result<Duration, Trouble> {
    time(value).ok_or(NOT_A_TIME)
}

fn patience(value: &str) -> Result<Duration, Trouble> {
    duration(value).and_then(|time| if time.is_zero() { Err(NOT_A_TIME) } else { Ok(time) })
}

fn ranges(value: &str) -> Result<Vec<IpNet>, Trouble> {
    if value.is_empty() { Ok(Vec::new()) } else { access::ranges(value).map_err(|_| NOT_RANGES) }
}

fn list(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim).filter(|item| !item.is_empty())
}

impl Draft<'_> {
    /// Reads one key.
    pub(super) fn read_key(&mut self, name: &str, value: &str) -> Result<(), Trouble> {
        match name {
            "worker-processes" => self.workers(value),
            "worker-connections" | "max-worker-connections" => {
                let limit = number::<u32>(value)?;
                self.settings.downstream.connections_per_worker = (limit > 0).then_some(limit);
                Ok(())
            }
            "worker-rlimit-nofile" | "max-worker-open-files" => {
                number::<u64>(value)?;
                Err(Trouble::Note(
                    "the limit of open files is the one that Fairway was started with",
                    "the number is not needed",
                ))
            }
            "keep-alive" | "keepalive-timeout" => {
                self.settings.downstream.idle_timeout = duration(value)?;
                Ok(())
            }
            "keep-alive-requests" | "keepalive-requests" => {
                self.settings.downstream.requests_per_connection = number(value)?;
                Ok(())
            }
            "client-header-timeout" => {
                self.settings.downstream.head_timeout = patience(value)?;
                Ok(())
            }
            "disable-access-log"
            | "disable-http-access-log"
            | "access-log-off"
            | "access-log"
            | "access_log" => self.access_log(name, value),
            _ => self.read_upstream(name, value),
        }
    }

    fn read_upstream(&mut self, name: &str, value: &str) -> Result<(), Trouble> {
        let upstream = &mut self.settings.upstream;
        let defaults = &mut self.defaults;
        match name {
            "keepalive" | "upstream-keepalive-connections" => upstream.idle_connections = number(value)?,
            "upstream-keepalive-requests" => upstream.requests_per_connection = number(value)?,
            "upstream-keepalive-timeout" => upstream.idle_timeout = duration(value)?,
            "proxy-connect-timeout" => defaults.timeouts.connect = patience(value)?,
            "proxy-send-timeout" => defaults.timeouts.send = patience(value)?,
            "proxy-read-timeout" => defaults.timeouts.read = patience(value)?,
            "proxy-body-size" => {
                let size = bytes(value).ok_or(Trouble::NotA("a size such as 8, 8k, 8m or 8g"))?;
                defaults.max_body = (size > 0).then_some(size);
            }
            _ => return self.read_redirect(name, value),
        }
        Ok(())
    }

    fn read_redirect(&mut self, name: &str, value: &str) -> Result<(), Trouble> {
        let defaults = &mut self.defaults;
        match name {
            "ssl-redirect" => {
                let on = flag(value)?;
                if defaults.to_https != ToHttps::Always {
                    defaults.to_https = if on { ToHttps::WithCertificate } else { ToHttps::Never };
                }
            }
            "force-ssl-redirect" => {
                if flag(value)? {
                    defaults.to_https = ToHttps::Always;
                }
            }
            "http-redirect-code" => {
                let allowed = |status: &u16| matches!(status, 301 | 302 | 307 | 308);
                let status = number::<u16>(value).ok().filter(allowed);
                defaults.redirect_status = status.ok_or(Trouble::NotA("301, 302, 307 or 308"))?;
            }
            "no-tls-redirect-locations" => defaults.never_to_https = list(value).map(Arc::from).collect(),
            "hsts" => self.hsts.sent = if flag(value)? { Sent::Yes } else { Sent::No },
            "hsts-max-age" => self.hsts.max_age = number(value)?,
            "hsts-include-subdomains" => self.hsts.include_subdomains = flag(value)?,
            "hsts-preload" => self.hsts.preload = flag(value)?,
            _ => return self.read_client(name, value),
        }
        Ok(())
    }

    fn read_client(&mut self, name: &str, value: &str) -> Result<(), Trouble> {
        match name {
            "global-allowed-response-headers" => {
                self.defaults.allowed_headers = list(value).map(str::to_ascii_lowercase).collect();
            }
            "compute-full-forwarded-for" => self.settings.forwarded.append = flag(value)?,
            "use-forwarded-headers"
            | "proxy-real-ip-cidr"
            | "forwarded-for-header"
            | "enable-real-ip"
            | "use-proxy-protocol" => return self.read_proxies(name, value),
            "whitelist-source-range" => self.defaults.access.allow = guard(value)?,
            "denylist-source-range" => self.defaults.access.deny = guard(value)?,
            "block-cidrs" => self.defaults.access.block = guard(value)?,
            _ => return protection(name, value),
        }
        Ok(())
    }

    /// Keys about proxies in front of this one.
    fn read_proxies(&mut self, name: &str, value: &str) -> Result<(), Trouble> {
        match name {
            "use-forwarded-headers" => {
                self.forwarded.switch = if flag(value)? { Switch::On } else { Switch::Off };
            }
            "proxy-real-ip-cidr" => {
                let (ranges, wrong): (Vec<_>, Vec<_>) =
                    list(value).map(access::range).partition(Result::is_ok);
                self.forwarded.ranges = Some(ranges.into_iter().flatten().collect());
                if !wrong.is_empty() || value.is_empty() {
                    return Err(NOT_ALL_RANGES);
                }
            }
            "forwarded-for-header" if !value.eq_ignore_ascii_case("X-Forwarded-For") => {
                self.forwarded.header = ClientField::Another;
                return Err(Trouble::Lost(
                    "only X-Forwarded-For is read",
                    "nobody's X-Forwarded-* are believed: requests through a proxy have the proxy's address, also \
                     where source ranges are checked",
                ));
            }
            "enable-real-ip" if flag(value)? => {
                return Err(Trouble::Lost(
                    "X-Forwarded-For is believed with use-forwarded-headers only",
                    "it has no effect",
                ));
            }
            "use-proxy-protocol"
                if flag(value)? && self.options.trust.proxy_protocol == ProxySenders::Nobody =>
            {
                return Err(Trouble::Lost(
                    "listeners expect a PROXY protocol header by the flag --proxy-protocol, which is not given",
                    "it has no effect",
                ));
            }
            _ => {}
        }
        Ok(())
    }

    fn workers(&mut self, value: &str) -> Result<(), Trouble> {
        if value != "auto" {
            self.settings.workers = Some(number::<u32>(value)?.max(1));
        }
        Err(Trouble::Note(
            "the number of workers changes only at a restart",
            "it is applied at the next start",
        ))
    }

    fn access_log(&mut self, name: &str, value: &str) -> Result<(), Trouble> {
        let off = match name {
            "access-log" | "access_log" => match value {
                "off" => true,
                _ => return Err(Trouble::Note("only \"off\" is read", "the format is that of --access-log")),
            },
            _ => flag(value)?,
        };
        self.settings.access_log = Some(if off { AccessLog::Off } else { AccessLog::On });
        Ok(())
    }
}

/// A list that keeps somebody out: one that cannot be read keeps everybody out.
fn guard(value: &str) -> Result<Vec<IpNet>, Trouble> {
    ranges(value)
        .map_err(|_| Trouble::Unprotected("the list has something that is neither an address nor a range"))
}

/// Keys that protect and do not work yet.
fn protection(name: &str, value: &str) -> Result<(), Trouble> {
    let asked = !value.is_empty() && switch(value) != Some(false);
    match name {
        "global-auth-url" if asked => {
            Err(Trouble::Unprotected("everybody would be let in without authentication"))
        }
        "enable-modsecurity" | "enable-owasp-modsecurity-crs" | "modsecurity-snippet" if asked => {
            Err(Trouble::Unprotected("requests would pass without the web application firewall"))
        }
        "block-user-agents" | "block-referers" if asked => {
            Err(Trouble::Unprotected("the clients it names would be let in"))
        }
        "global-auth-url"
        | "enable-modsecurity"
        | "enable-owasp-modsecurity-crs"
        | "modsecurity-snippet"
        | "block-user-agents"
        | "block-referers" => Ok(()),
        _ => Err(Trouble::Unknown),
    }
}
