//! Parses entries of the ConfigMaps of TCP and UDP services as ingress-nginx does (`exposing-tcp-udp-services.md`):
//! the key is a port, the value `NAMESPACE/SERVICE:PORT[:[PROXY]][:[PROXY]]`.

use std::sync::Arc;

use fairway_model::PortProtocol;
use fairway_objects::object::ObjectKey;

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServiceMapEntry {
    pub(super) port: u16,
    pub(super) service: ObjectKey,
    /// A number or a name.
    pub(super) service_port: Arc<str>,
    pub(super) header: ProxyHeader,
    /// The part of it that has no effect.
    pub(super) ignored: Option<String>,
}

/// Where a PROXY protocol header is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ProxyHeader {
    /// Expected from clients.
    pub(super) from_clients: bool,
    /// Sent to endpoints.
    pub(super) to_endpoints: bool,
}

const VALUE_FORMAT: &str = "NAMESPACE/SERVICE:PORT[:PROXY[:PROXY]]";

impl ServiceMapEntry {
    /// # Errors
    /// The problem.
    pub(super) fn read(protocol: PortProtocol, key: &str, value: &str) -> Result<Self, String> {
        let port = key.parse::<u16>().ok().filter(|port| *port > 0 && port.to_string() == key);
        let port = port.ok_or_else(|| format!("\"{key}\" is no port: a key is a number from 1 to 65535"))?;
        let wrong = || format!("{key}: \"{}\" is not {VALUE_FORMAT}", value.trim());
        let parts: Vec<&str> = value.split(':').map(str::trim).collect();
        let [service, service_port, marks @ ..] = &parts[..] else { return Err(wrong()) };
        let service = ObjectKey::parse(service).ok_or_else(wrong)?;
        if service_port.is_empty() || marks.len() > 2 {
            return Err(wrong());
        }
        let is_proxy = |at: usize| marks.get(at).is_some_and(|mark| mark.eq_ignore_ascii_case("PROXY"));
        let unknown = marks.iter().find(|mark| !mark.is_empty() && !mark.eq_ignore_ascii_case("PROXY"));
        let ignored = unknown.map(|mark| format!("{key}: \"{mark}\" is not PROXY"));
        let header = ProxyHeader { from_clients: is_proxy(0), to_endpoints: is_proxy(1) };
        let service_port = (*service_port).into();
        let entry = Self { port, service, service_port, header, ignored };
        Ok(match protocol {
            PortProtocol::Udp if header != ProxyHeader::default() => {
                let ignored = format!("{key}: PROXY counts for TCP only");
                Self { header: ProxyHeader::default(), ignored: Some(ignored), ..entry }
            }
            _ => entry,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(key: &str, value: &str) -> Result<ServiceMapEntry, String> {
        ServiceMapEntry::read(PortProtocol::Tcp, key, value)
    }

    #[test]
    fn a_service_has_a_number_or_a_name_of_its_port_and_marks_of_the_proxy_protocol() {
        for (value, port, from_clients, to_endpoints) in [
            ("db/pg:5432", "5432", false, false),
            (" db/pg:postgres \n", "postgres", false, false),
            ("db/pg:5432:PROXY", "5432", true, false),
            ("db/pg:5432:proxy:PROXY", "5432", true, true),
            ("db/pg:5432::PROXY", "5432", false, true),
            ("db/pg:5432::", "5432", false, false),
        ] {
            let entry = read("9000", value).unwrap();
            assert_eq!(
                (entry.port, entry.service.to_string(), &*entry.service_port),
                (9000, "db/pg".into(), port)
            );
            assert_eq!(entry.header, ProxyHeader { from_clients, to_endpoints }, "{value}");
            assert_eq!(entry.ignored, None, "{value}");
        }
    }

    #[test]
    fn an_invalid_port_or_service_is_refused() {
        for key in ["0", "65536", "dns", "053", "-1", "+53", ""] {
            let problem = read(key, "db/pg:5432").unwrap_err();
            assert!(problem.contains("is no port"), "{key}: {problem}");
        }
        for value in
            ["", "pg:5432", "db/pg", "db/pg:", "/pg:1", "db/:1", "a/b/c:1", "db/pg:1:PROXY:PROXY:PROXY"]
        {
            let problem = read("53", value).unwrap_err();
            assert!(problem.contains(VALUE_FORMAT), "{value}: {problem}");
        }
    }

    #[test]
    fn unknown_marks_are_reported() {
        let entry = read("53", "db/pg:5432:PROXI:PROXY").unwrap();
        assert_eq!(entry.header, ProxyHeader { from_clients: false, to_endpoints: true });
        assert!(entry.ignored.unwrap().contains("PROXI"));
        let entry = ServiceMapEntry::read(PortProtocol::Udp, "53", "kube-system/kube-dns:53:PROXY").unwrap();
        assert_eq!(entry.header, ProxyHeader::default());
        assert!(entry.ignored.unwrap().contains("TCP only"));
    }
}
