//! Which client addresses may pass: `allowlist-source-range` (or `whitelist-source-range`) and `denylist-source-range`.
//!
//! A list that cannot be read closes the paths (as recorded: ingress-nginx answers 503): half a list is no protection.

use fairway_model::{AccessList, Guard};
use fairway_objects::annotations::text;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use ipnet::IpNet;

use crate::ingress::annotations::family::{Family, Known, done};
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

const ANNOTATIONS: &[Known] = &[
    done("allowlist-source-range"),
    done("denylist-source-range"),
    done("whitelist-source-range").alias_of("allowlist-source-range"),
];

/// Reads the lists of an Ingress; `None` lets everybody through.
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

/// Warns where every client may claim any address, and so pass the lists.
fn report_spoofable(reader: &mut Reader<'_>, allow_name: &str, claimable_by: &[AddressSource]) {
    let lists = [allow_name, "denylist-source-range"];
    let origin = match lists.into_iter().find(|name| reader.value(name).is_some()) {
        Some(name) => reader.at(name),
        // The lists are those of the settings ConfigMap.
        None => reader.field(""),
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
    text::ranges(value).map(Some).map_err(|wrong| {
        Closed::invalid(reader, name, format!("\"{wrong}\" is neither an address nor a range of addresses"))
    })
}
