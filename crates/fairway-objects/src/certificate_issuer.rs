//! Issuer, serial number and key type of a certificate.

use fairway_model::Issuance;
use x509_parser::certificate::X509Certificate;
use x509_parser::oid_registry::OID_X509_SERIALNUMBER;
use x509_parser::prelude::FromDer;
use x509_parser::x509::AttributeTypeAndValue;

/// Reads the certificate in `der`; `None` if it is invalid.
#[must_use]
pub fn issued(der: &[u8]) -> Option<Issuance> {
    X509Certificate::from_der(der).ok().map(|(_, certificate)| read_issued(&certificate))
}

/// Reads a parsed certificate.
pub fn read_issued(certificate: &X509Certificate<'_>) -> Issuance {
    let issuer = certificate.issuer();
    Issuance {
        issuer_common_name: text(issuer.iter_common_name().next()),
        issuer_organization: text(issuer.iter_organization().next()),
        issuer_serial_number: text(issuer.iter_by_oid(&OID_X509_SERIALNUMBER).next()),
        serial_number: certificate.serial.to_string(),
        public_key_algorithm: match &*certificate.public_key().algorithm.algorithm.to_id_string() {
            "1.2.840.113549.1.1.1" => "RSA",
            "1.2.840.10045.2.1" => "ECDSA",
            "1.3.101.112" => "Ed25519",
            _ => "",
        },
    }
}

fn text(attribute: Option<&AttributeTypeAndValue<'_>>) -> String {
    attribute.and_then(|attribute| attribute.as_str().ok()).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SerialNumber};

    use super::*;

    #[test]
    fn issuer_number_and_kind_of_key_are_read() {
        let mut params = CertificateParams::new(["a.test".to_owned()]).unwrap();
        params.serial_number = Some(SerialNumber::from(0x0102_u64));
        params.distinguished_name.push(DnType::CommonName, "The root");
        params.distinguished_name.push(DnType::OrganizationName, "Example");
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let expected = Issuance {
            issuer_common_name: "The root".to_owned(),
            issuer_organization: "Example".to_owned(),
            issuer_serial_number: String::new(),
            serial_number: "258".to_owned(),
            public_key_algorithm: "ECDSA",
        };
        assert_eq!(issued(certificate.der()), Some(expected));
        assert_eq!(issued(b"nothing"), None);
    }
}
