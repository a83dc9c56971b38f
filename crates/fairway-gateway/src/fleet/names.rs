//! Names and labels of resources created for a Gateway.

use aws_lc_rs::digest::{SHA256, digest};
use fairway_objects::object::ObjectKey;
pub use fairway_objects::slice::SERVICE_LABEL;

/// Label with the name of the owning Gateway (GEP-1762).
pub const GATEWAY_LABEL: &str = "gateway.networking.k8s.io/gateway-name";
/// Label with the name of its class (GEP-1762).
pub(crate) const CLASS_LABEL: &str = "gateway.networking.k8s.io/gateway-class-name";
/// Label with the manager of a resource.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY`].
pub const MANAGED_BY_FAIRWAY: &str = "fairway";
/// Label with the manager of an EndpointSlice.
pub const SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Value of [`SLICE_MANAGED_BY`], which must not contain a slash.
pub const SLICE_MANAGER: &str = "gateway-controller.fairway.dev";

/// Maximum characters of a DNS label (RFC 1123 §2.1) and of a label value.
const MAX_LABEL_CHARS: usize = 63;
/// Characters kept of a long name.
const KEPT_NAME_CHARS: usize = 40;

/// The name of a Gateway's Service: `NAME-CLASS` as GEP-1762 requires, plus the address if there are several
/// Services.
#[must_use]
pub fn service(gateway: &ObjectKey, class: &str, address: Option<&str>) -> String {
    let end = address.map(|address| format!("-{}", to_dns_label(address))).unwrap_or_default();
    let name = format!("{}-{class}{end}", gateway.name);
    if is_dns_label(&name) { name } else { shorten(&gateway.name, &name) }
}

/// A label value for `name`.
#[must_use]
pub fn label(name: &str) -> String {
    if name.len() <= MAX_LABEL_CHARS { name.to_owned() } else { shorten(name, name) }
}

/// The name of a Service's copy of EndpointSlice `original`.
#[must_use]
pub fn slice(service: &str, original: &str) -> String {
    format!("{service}-{}", hash(original))
}

/// `gw-`, the beginning of the name, and a hash of the whole.
fn shorten(name: &str, full_name: &str) -> String {
    let begin: String = to_dns_label(name).chars().take(KEPT_NAME_CHARS).collect();
    format!("gw-{begin}-{}", hash(full_name))
}

/// Replaces characters that a DNS label cannot contain with hyphens.
fn to_dns_label(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' }).collect()
}

/// Ten hexadecimal digits.
fn hash(text: &str) -> String {
    let digest = digest(&SHA256, text.as_bytes());
    digest.as_ref().iter().take(5).map(|byte| format!("{byte:02x}")).collect()
}

/// Whether it is a valid Service name: before Kubernetes 1.34 it must begin with a letter (RFC 1035 §2.3.1).
fn is_dns_label(name: &str) -> bool {
    let inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    name.len() <= MAX_LABEL_CHARS
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(inside)
        && !name.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address_of(name: &str, address: Option<&str>) -> String {
        service(&ObjectKey::new("shop", name), "fairway", address)
    }

    #[test]
    fn label_values_are_valid() {
        for value in [MANAGED_BY_FAIRWAY, SLICE_MANAGER] {
            let inside = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            assert!(value.len() <= MAX_LABEL_CHARS && value.bytes().all(inside), "{value}");
        }
    }

    #[test]
    fn a_short_name_is_kept_and_a_long_one_is_truncated_and_unique() {
        assert_eq!(address_of("edge", None), "edge-fairway");
        let (long, other) = ("a".repeat(252) + "b", "a".repeat(252) + "c");
        let name = address_of(&long, None);
        assert!(name.len() <= 63 && name.starts_with("gw-aaaa"), "{name}");
        assert_ne!(name, address_of(&other, None));
        assert!(is_dns_label(&name));
    }

    #[test]
    fn names_that_no_service_can_have_are_cut_too() {
        for name in ["1edge", "edge.example.com"] {
            let address = address_of(name, None);
            assert!(address.starts_with("gw-") && is_dns_label(&address), "{address}");
        }
    }

    #[test]
    fn the_name_ends_in_the_address_that_it_is_for() {
        assert_eq!(address_of("edge", Some("10.0.0.7")), "edge-fairway-10-0-0-7");
        assert_eq!(address_of("edge", Some("2001:db8::7")), "edge-fairway-2001-db8--7");
        assert!(is_dns_label(&address_of("edge", Some("2001:db8::"))));
    }

    #[test]
    fn the_value_of_a_label_has_63_characters_at_most() {
        assert_eq!(label("edge.example.com"), "edge.example.com");
        assert!(label(&"a".repeat(253)).len() <= 63);
    }
}
