//! Which client addresses may pass: `allowlist-source-range` (or `whitelist-source-range`) and `denylist-source-range`.
//!
//! A list that cannot be read closes the paths (as recorded: ingress-nginx answers 503): half a list is no protection.

use std::net::IpAddr;

use fairway_model::AccessList;
use ipnet::IpNet;

use crate::annotation::Reader;
use crate::claim::Means;
use crate::diagnostic::{Diagnostic, Severity};
use crate::plan::Closed;

/// The lists of the settings ConfigMap, which stand where an Ingress has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DefaultAccess {
    pub(crate) allow: Vec<IpNet>,
    pub(crate) deny: Vec<IpNet>,
    /// Refused whatever an Ingress says (`block-cidrs`).
    pub(crate) block: Vec<IpNet>,
    /// By what every client may claim any address.
    pub(crate) claimed: Vec<Means>,
}

/// Reads the lists of an Ingress; `None` lets everybody through.
pub(crate) fn read(reader: &mut Reader<'_>, defaults: &DefaultAccess) -> Result<Option<AccessList>, Closed> {
    let allow_name = ["allowlist-source-range", "whitelist-source-range"]
        .into_iter()
        .find(|name| reader.value(name).is_some())
        .unwrap_or("allowlist-source-range");
    let allow = list(reader, allow_name)?.unwrap_or_else(|| defaults.allow.clone());
    let mut deny = list(reader, "denylist-source-range")?.unwrap_or_else(|| defaults.deny.clone());
    deny.extend(&defaults.block);
    let restricts = !allow.is_empty() || !deny.is_empty();
    if restricts {
        spoofable(reader, allow_name, &defaults.claimed);
    }
    Ok(restricts.then_some(AccessList { deny, allow }))
}

/// Warns where every client may claim any address, and so pass the lists.
fn spoofable(reader: &mut Reader<'_>, allow_name: &str, claimed: &[Means]) {
    let lists = [allow_name, "denylist-source-range"];
    let origin = match lists.into_iter().find(|name| reader.value(name).is_some()) {
        Some(name) => reader.at(name),
        // The lists are those of the settings ConfigMap.
        None => reader.field(""),
    };
    for means in claimed {
        let found = Diagnostic::new(Severity::Warning, "spoofable-source-ranges", origin.clone());
        let problem = format!("any client can claim any address {means}");
        let consequence = format!("its source ranges keep nobody out until {}", means.remedy());
        reader.diagnostics.push(found.because(problem, consequence));
    }
}

/// Comma separated addresses and ranges, sorted; the error is the first that is neither.
pub(crate) fn ranges(text: &str) -> Result<Vec<IpNet>, &str> {
    let mut ranges = text.split(',').map(str::trim).map(range).collect::<Result<Vec<_>, _>>()?;
    ranges.sort();
    ranges.dedup();
    Ok(ranges)
}

/// An address or a range.
pub(crate) fn range(text: &str) -> Result<IpNet, &str> {
    let net = text.parse::<IpNet>().map(|net| net.trunc());
    net.or_else(|_| text.parse::<IpAddr>().map(IpNet::from)).map_err(|_| text)
}

fn list(reader: &mut Reader<'_>, name: &str) -> Result<Option<Vec<IpNet>>, Closed> {
    let Some(value) = reader.value(name) else { return Ok(None) };
    ranges(value).map(Some).map_err(|wrong| {
        Closed::invalid(reader, name, format!("\"{wrong}\" is neither an address nor a range of addresses"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_addresses_and_ranges_of_both_families() {
        let expected: Vec<IpNet> =
            ["10.0.0.0/8", "192.0.2.1/32", "2001:db8::/32"].map(|net| net.parse().unwrap()).into();
        assert_eq!(ranges("2001:db8::/32, 10.1.2.3/8,192.0.2.1").unwrap(), expected);
    }

    #[test]
    fn one_wrong_range_spoils_the_list() {
        assert_eq!(ranges("10.0.0.0/8,x"), Err("x"));
        assert_eq!(ranges(""), Err(""));
        assert_eq!(ranges("10.0.0.0/33"), Err("10.0.0.0/33"));
    }
}
