//! Names and labels of what is made for a Gateway. Owns how long ones are cut.

use aws_lc_rs::digest::{SHA256, digest};
use fairway_objects::object::ObjectKey;
pub use fairway_objects::slice::SERVICE_LABEL;

/// The name of the Gateway that something belongs to (GEP-1762).
pub const GATEWAY_LABEL: &str = "gateway.networking.k8s.io/gateway-name";
/// The name of its class (GEP-1762).
pub(crate) const CLASS_LABEL: &str = "gateway.networking.k8s.io/gateway-class-name";
/// Who made it.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY`].
pub const FAIRWAY: &str = "fairway";
/// The label of an EndpointSlice with who writes it.
pub const SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The value of [`SLICE_MANAGED_BY`], which may not have a slash.
pub const SLICE_MANAGER: &str = "gateway-controller.fairway.dev";

/// The most characters of a DNS label (RFC 1123 §2.1), and of the value of a label.
const LABEL: usize = 63;
/// Characters of a long name that are kept.
const KEPT: usize = 40;

/// The name of a Gateway's Service: `NAME-CLASS` as GEP-1762 asks; with the address where the Service is for one of several.
#[must_use]
pub fn service(gateway: &ObjectKey, class: &str, address: Option<&str>) -> String {
    let end = address.map(|address| format!("-{}", plain(address))).unwrap_or_default();
    let name = format!("{}-{class}{end}", gateway.name);
    if is_dns_label(&name) { name } else { cut(&gateway.name, &name) }
}

/// The value of a label that says `name`.
#[must_use]
pub fn label(name: &str) -> String {
    if name.len() <= LABEL { name.to_owned() } else { cut(name, name) }
}

/// The name of the copy, for a Service, of the EndpointSlice `original`.
#[must_use]
pub fn slice(service: &str, original: &str) -> String {
    format!("{service}-{}", hash(original))
}

/// `gw-`, the beginning of the name, and a hash of the whole.
fn cut(name: &str, whole: &str) -> String {
    let begin: String = plain(name).chars().take(KEPT).collect();
    format!("gw-{begin}-{}", hash(whole))
}

/// With a hyphen for everything that a DNS label cannot have.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' }).collect()
}

/// Ten hexadecimal digits.
fn hash(text: &str) -> String {
    let digest = digest(&SHA256, text.as_bytes());
    digest.as_ref().iter().take(5).map(|byte| format!("{byte:02x}")).collect()
}

/// Whether it can be the name of a Service: before Kubernetes 1.34 it had to begin with a letter (RFC 1035 §2.3.1).
fn is_dns_label(name: &str) -> bool {
    let inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    name.len() <= LABEL
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(inside)
        && !name.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, address: Option<&str>) -> String {
        service(&ObjectKey::new("shop", name), "fairway", address)
    }

    #[test]
    fn values_of_labels_are_such_as_kubernetes_takes() {
        for value in [FAIRWAY, SLICE_MANAGER] {
            let inside = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            assert!(value.len() <= LABEL && value.bytes().all(inside), "{value}");
        }
    }

    #[test]
    fn a_short_name_is_kept_and_a_long_one_is_cut_and_stays_unique() {
        assert_eq!(of("edge", None), "edge-fairway");
        let (long, other) = ("a".repeat(252) + "b", "a".repeat(252) + "c");
        let name = of(&long, None);
        assert!(name.len() <= 63 && name.starts_with("gw-aaaa"), "{name}");
        assert_ne!(name, of(&other, None));
        assert!(is_dns_label(&name));
    }

    #[test]
    fn names_that_no_service_can_have_are_cut_too() {
        for name in ["1edge", "edge.example.com"] {
            let made = of(name, None);
            assert!(made.starts_with("gw-") && is_dns_label(&made), "{made}");
        }
    }

    #[test]
    fn the_name_ends_in_the_address_that_it_is_for() {
        assert_eq!(of("edge", Some("10.0.0.7")), "edge-fairway-10-0-0-7");
        assert_eq!(of("edge", Some("2001:db8::7")), "edge-fairway-2001-db8--7");
        assert!(is_dns_label(&of("edge", Some("2001:db8::"))));
    }

    #[test]
    fn the_value_of_a_label_has_63_characters_at_most() {
        assert_eq!(label("edge.example.com"), "edge.example.com");
        assert!(label(&"a".repeat(253)).len() <= 63);
    }
}
