//! Client address restrictions: `allowlist-source-range` (or `whitelist-source-range`) and `denylist-source-range`.
//!
//! An unreadable list closes the paths (as recorded: ingress-nginx returns 503), because half a list protects
//! nothing.

use fairway_model::{AccessList, Guard};
use fairway_objects::annotations::text;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use ipnet::IpNet;

use crate::ingress::annotations::family::{Family, KnownAnnotation, supported};
use crate::ingress::closed::Closed;
use crate::ingress::defaults::SourceRanges;
use crate::ingress::reader::Reader;
use crate::ingress::trust::AddressSource;

/// The family.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, context, contributions| {
    let access = access_list(reader, &context.defaults.source_ranges)?;
    if let Some(access) = access {
        contributions.added.add(Guard::Access(access));
    }
    Ok(())
});

const ANNOTATIONS: &[KnownAnnotation] = &[
    supported("allowlist-source-range"),
    supported("denylist-source-range"),
    supported("whitelist-source-range").alias_of("allowlist-source-range"),
];

/// Reads the lists of an Ingress; `None` admits every client.
fn access_list(reader: &mut Reader<'_>, defaults: &SourceRanges) -> Result<Option<AccessList>, Closed> {
    let allow_name = ["allowlist-source-range", "whitelist-source-range"]
        .into_iter()
        .find(|name| reader.value(name).is_some())
        .unwrap_or("allowlist-source-range");
    let allow = ranges(reader, allow_name)?.unwrap_or_else(|| defaults.allow.clone());
    let mut deny = ranges(reader, "denylist-source-range")?.unwrap_or_else(|| defaults.deny.clone());
    deny.extend(&defaults.block);
    let restricts = !allow.is_empty() || !deny.is_empty();
    if restricts {
        report_spoofable(reader, allow_name, &defaults.claimable_by);
    }
    Ok(restricts.then_some(AccessList { deny, allow }))
}

/// Warns if every client can claim any address and so bypass the lists.
fn report_spoofable(reader: &mut Reader<'_>, allow_name: &str, claimable_by: &[AddressSource]) {
    let lists = [allow_name, "denylist-source-range"];
    let origin = match lists.into_iter().find(|name| reader.value(name).is_some()) {
        Some(name) => reader.at(name),
        // The lists come from the settings ConfigMap.
        None => reader.field_origin(""),
    };
    for source in claimable_by {
        let found = Diagnostic::new(Severity::Warning, "spoofable-source-ranges", origin.clone());
        let problem = format!("any client can claim any address {source}");
        let consequence = format!("its source ranges keep nobody out until {}", source.remedy());
        reader.report(found.because(problem, consequence));
    }
}

fn ranges(reader: &mut Reader<'_>, name: &str) -> Result<Option<Vec<IpNet>>, Closed> {
    let Some(value) = reader.value(name) else { return Ok(None) };
    text::parse_ranges(value).map(Some).map_err(|wrong| {
        Closed::invalid(reader, name, format!("\"{wrong}\" is neither an address nor a range of addresses"))
    })
}
