//! Which endpoint gets a request: `load-balance`, `service-upstream`. `upstream-hash-by*` does not work yet.

use fairway_model::Balancing;

use crate::ingress::annotations::family::{Family, Known, done, offers};
use crate::ingress::reader::Reader;
use crate::ingress::values::value;
use crate::shared::backend::Via;
use crate::shared::balance::Balance;
use crate::shared::text::switch;

/// The family.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, context, contributions| {
    contributions.balance = Balance(balancing(reader, context.defaults.balancing));
    if value(reader, &context.defaults.values, "service-upstream", switch) == Some(true) {
        contributions.via = Via::ClusterAddress;
    }
    Ok(())
});

const ANNOTATIONS: &[Known] = &[
    done("load-balance"),
    done("service-upstream"),
    offers("upstream-hash-by", "endpoints get requests in turn", &[]),
    offers("upstream-hash-by-subset", "endpoints get requests in turn", &["false"]),
    offers("upstream-hash-by-subset-size", "endpoints get requests in turn", &[]),
];

/// Reads `load-balance`.
fn balancing(reader: &mut Reader<'_>, default: Balancing) -> Balancing {
    match reader.value("load-balance") {
        None | Some("") => default,
        Some("round_robin") => Balancing::RoundRobin,
        Some("ewma") => Balancing::PeakEwma,
        Some(other) => {
            let problem = format!("\"{other}\" is neither round_robin nor ewma");
            reader.invalid("load-balance", problem, "the default is used");
            default
        }
    }
}
