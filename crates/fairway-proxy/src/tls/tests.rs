//! Trust in certificates, in handshakes with endpoints and in verdicts on clients.

use std::sync::Arc;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PSS_SHA256, RsaKeyPair};
use fairway_model::{SubjectName, TrustedRoots, UpstreamTls, UpstreamVerification};
use rcgen::{
    CertificateParams, CertificateRevocationListParams, CustomExtension, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, KeyIdMethod, KeyPair, KeyUsagePurpose, NameConstraints, PKCS_ECDSA_P521_SHA512,
    PKCS_RSA_SHA256, PublicKeyData, RsaKeySize, SanType, SerialNumber, date_time_ymd,
};
use rustls::server::Acceptor;
use rustls::sign::{CertifiedKey, Signer, SigningKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConnection, NamedGroup, SignatureAlgorithm, SignatureScheme, SupportedProtocolVersion};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::tls::der::{content, sequence};
use crate::tls::testing::{
    ALWAYS_VALID, Authority, authority, authority_with, certified, client, complete_handshake, issued,
    issued_for, key, pem, server, trust, unverified, verdict,
};

const TLS_VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

/// Verification as by `proxy-ssl-verify`.
fn by_chain(roots: &str, name: &str) -> UpstreamVerification {
    UpstreamVerification::Chain { roots: roots.into(), name: name.into(), depth: Some(1) }
}

/// Verification as by a BackendTLSPolicy.
fn by_subject(roots: &str, name: &str) -> UpstreamVerification {
    let names = vec![SubjectName::Dns(name.into())];
    UpstreamVerification::Subject { roots: TrustedRoots::Pem(roots.into()), names }
}

/// Whether an endpoint with this certificate is trusted, in both TLS versions.
fn trusts(verification: &UpstreamVerification, shown: &CertificateDer<'static>, key: &KeyPair) -> bool {
    let [one, other] = TLS_VERSIONS.map(|version| {
        let client = client(&UpstreamTls { verification: verification.clone(), ..unverified(version) });
        complete_handshake(client, server(certified(shown.clone(), key), version)).is_ok()
    });
    assert_eq!(one, other, "the version makes no difference");
    one
}

/// A self-signed `CA:TRUE` certificate with `a.test` as alternative name.
fn self_signed_leaf(change: impl FnOnce(&mut CertificateParams)) -> Authority {
    authority_with("a.test", |params| {
        params.subject_alt_names = vec![SanType::DnsName("a.test".try_into().unwrap())];
        change(params);
    })
}

#[test]
fn a_self_signed_ca_in_the_roots_is_trusted_as_an_endpoint() {
    let (pinned, other) = (self_signed_leaf(|_| {}), authority());
    let both = [&*other.pem, &pinned.pem].concat();
    for roots in [&pinned.pem, &both] {
        assert!(trusts(&by_chain(roots, "a.test"), &pinned.der, &pinned.key));
        assert!(trusts(&by_subject(roots, "a.test"), &pinned.der, &pinned.key));
    }
}

#[test]
fn a_certificate_in_the_roots_is_only_trusted_within_its_validity_names_and_purpose() {
    let refused = |context: &str, pinned: &Authority, name: &str| {
        for verification in [by_chain(&pinned.pem, name), by_subject(&pinned.pem, name)] {
            assert!(!trusts(&verification, &pinned.der, &pinned.key), "{context}: {verification:?}");
        }
    };
    refused("its name", &self_signed_leaf(|_| {}), "b.test");
    refused(
        "its common name",
        &authority_with("b.test", |it| {
            it.subject_alt_names = self_signed_leaf(|_| {}).params.subject_alt_names;
        }),
        "b.test",
    );
    refused("its end", &self_signed_leaf(|it| it.not_after = date_time_ymd(2020, 1, 1)), "a.test");
    refused("its beginning", &self_signed_leaf(|it| it.not_before = date_time_ymd(4000, 1, 1)), "a.test");
    refused(
        "its purpose",
        &self_signed_leaf(|it| it.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth]),
        "a.test",
    );
    refused("its key", &self_signed_leaf(|it| it.key_usages = vec![KeyUsagePurpose::KeyCertSign]), "a.test");
    refused("what is not known", &self_signed_leaf(|it| it.custom_extensions = vec![critical()]), "a.test");
}

/// An unknown critical extension.
fn critical() -> CustomExtension {
    let mut extension = CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0]);
    extension.set_criticality(true);
    extension
}

#[test]
fn a_ca_not_in_the_roots_byte_for_byte_is_not_trusted_as_an_endpoint() {
    let pinned = self_signed_leaf(|_| {});
    // The same name and key, and another serial number.
    let mut again = pinned.params.clone();
    again.serial_number = Some(SerialNumber::from(7));
    let again = again.self_signed(&pinned.key).unwrap().der().clone();
    // Issued by a CA in the roots.
    let below = pinned.issue(&key(), |it| {
        it.is_ca = pinned.params.is_ca;
        it.subject_alt_names = pinned.params.subject_alt_names.clone();
    });
    // In the roots, and issued by another CA.
    let issuer = authority();
    let leaf_key = key();
    let leaf = issuer.issue(&leaf_key, |it| it.subject_alt_names = pinned.params.subject_alt_names.clone());
    for verification in [by_chain, by_subject] {
        assert!(!trusts(&verification(&pinned.pem, "a.test"), &again, &pinned.key));
        assert!(!trusts(&verification(&pinned.pem, "a.test"), &below, &pinned.key));
        assert!(!trusts(&verification(&authority().pem, "a.test"), &pinned.der, &pinned.key));
        assert!(!trusts(&verification(&pem(&leaf), "a.test"), &leaf, &leaf_key));
        // The endpoint must have its key.
        assert!(!trusts(&verification(&pinned.pem, "a.test"), &pinned.der, &key()));
    }
}

#[test]
fn the_common_name_counts_only_without_dns_alternative_names() {
    let authority = authority();
    let ip = SanType::IpAddress([10, 0, 0, 1].into());
    let dns = SanType::DnsName("b.test".try_into().unwrap());
    for (common, alternatives, is_believed) in [
        ("a.test", vec![], true),
        ("A.Test", vec![], true),
        ("b.test", vec![], false),
        ("a.test.evil.test", vec![], false),
        ("a.test\0.evil.test", vec![], false),
        ("*.test", vec![], false),
        ("a.test", vec![ip], true),
        ("a.test", vec![dns], false),
    ] {
        let key = key();
        let leaf = authority.issue(&key, |it| {
            it.distinguished_name.push(DnType::CommonName, common);
            it.subject_alt_names = alternatives;
        });
        assert_eq!(trusts(&by_chain(&authority.pem, "a.test"), &leaf, &key), is_believed, "{common}");
        // Gateway API only uses alternative names.
        assert!(!trusts(&by_subject(&authority.pem, "a.test"), &leaf, &key), "{common}");
    }
    let key = key();
    let wild = authority.issue(&key, |it| it.distinguished_name.push(DnType::CommonName, "*.a.test"));
    assert!(trusts(&by_chain(&authority.pem, "b.a.test"), &wild, &key));
    assert!(!trusts(&by_chain(&authority.pem, "c.b.a.test"), &wild, &key));
    let pinned = authority_with("a.test", |_| {});
    assert!(trusts(&by_chain(&pinned.pem, "a.test"), &pinned.der, &pinned.key));
}

#[test]
fn the_common_name_does_not_bypass_name_constraints() {
    let constrained = authority_with("constrained", |it| {
        it.name_constraints = Some(NameConstraints {
            permitted_subtrees: vec![GeneralSubtree::DnsName("other.test".to_owned())],
            excluded_subtrees: Vec::new(),
        });
    });
    let key = key();
    let leaf = constrained.issue(&key, |it| it.distinguished_name.push(DnType::CommonName, "a.test"));
    assert!(!trusts(&by_chain(&constrained.pem, "a.test"), &leaf, &key));
    let of_version_one = issued(&constrained, &key, ALWAYS_VALID);
    assert!(!trusts(&by_chain(&constrained.pem, "constrained"), &of_version_one, &key));
}

#[test]
fn an_endpoint_may_have_a_certificate_of_version_1() {
    let authority = authority();
    let key = key();
    let leaf = issued(&authority, &key, ALWAYS_VALID);
    assert!(trusts(&UpstreamVerification::Off, &leaf, &key));
    assert!(!trusts(&UpstreamVerification::Off, &leaf, &self::key()), "it must have the key");
    // Its only name is the common name.
    assert!(trusts(&by_chain(&authority.pem, "clients"), &leaf, &key));
    assert!(!trusts(&by_chain(&authority.pem, "a.test"), &leaf, &key));
    assert!(!trusts(&by_subject(&authority.pem, "clients"), &leaf, &key));
    assert!(!trusts(&by_chain(&self::authority().pem, "clients"), &leaf, &key));
    let past = issued(&authority, &key, ("200101000000Z", "210101000000Z"));
    assert!(!trusts(&by_chain(&authority.pem, "clients"), &past, &key));
    assert!(trusts(&UpstreamVerification::Off, &past, &key));
    // Self-signed, and in the roots itself.
    let version_one = issued(&authority, &authority.key, ALWAYS_VALID);
    assert!(trusts(&by_chain(&pem(&version_one), "clients"), &version_one, &authority.key));
}

#[test]
fn an_unverified_endpoint_may_have_any_certificate() {
    let strange = self_signed_leaf(|it| it.custom_extensions = vec![critical()]);
    assert!(trusts(&UpstreamVerification::Off, &strange.der, &strange.key));
    assert!(!trusts(&UpstreamVerification::Off, &strange.der, &key()), "it must have the key");
}

#[test]
fn keys_on_the_curve_p_521_are_offered_to_endpoints() {
    let authority = authority();
    let key = KeyPair::generate_for(&PKCS_ECDSA_P521_SHA512).unwrap();
    let names = self_signed_leaf(|_| {}).params.subject_alt_names;
    let leaf = authority.issue(&key, |it| it.subject_alt_names = names);
    assert!(trusts(&by_chain(&authority.pem, "a.test"), &leaf, &key));
    // With TLS 1.2, OpenSSL presents such a certificate only to clients that offer the group.
    let name = ServerName::try_from("a.test").unwrap();
    let mut hello = Vec::new();
    ClientConnection::new(Arc::new(client(&unverified(&TLS12))), name)
        .unwrap()
        .write_tls(&mut hello)
        .unwrap();
    let mut acceptor = Acceptor::default();
    acceptor.read_tls(&mut &hello[..]).unwrap();
    let accepted = acceptor.accept().unwrap().unwrap();
    let hello = accepted.client_hello();
    assert_eq!(hello.named_groups().unwrap().last(), Some(&NamedGroup::secp521r1));
}

/// Signs with RSA-PSS, as the owner of a key restricted to it.
#[derive(Debug)]
struct PssKey(Arc<RsaKeyPair>);

impl SigningKey for PssKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let scheme = SignatureScheme::Unknown(0x0809);
        offered.contains(&scheme).then(|| Box::new(Self(Arc::clone(&self.0))) as Box<dyn Signer>)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::RSA
    }
}

impl Signer for PssKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        let mut signature = vec![0; self.0.public_modulus_len()];
        self.0.sign(&RSA_PSS_SHA256, &SystemRandom::new(), message, &mut signature).unwrap();
        Ok(signature)
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::Unknown(0x0809)
    }
}

#[test]
fn keys_restricted_to_rsa_pss_are_accepted_in_tls_1_3() {
    let authority = authority();
    let pairs = [(); 2].map(|()| KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap());
    let any: &[u8] = &[0x06, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 10];
    for identifier in [any, rustls_pki_types::alg_id::RSA_PSS_SHA256.as_ref()] {
        let spki = pairs[0].subject_public_key_info();
        // Behind the algorithm identifier (two bytes of header and 13 of content).
        let bits = &content(&spki).unwrap()[15..];
        let spki = sequence(&[&sequence(identifier), bits].concat());
        let leaf = issued_for(&authority, &spki, ALWAYS_VALID);
        for (pair, is_believed) in pairs.iter().zip([true, false]) {
            let pair = Arc::new(RsaKeyPair::from_pkcs8(&pair.serialize_der()).unwrap());
            let certified = CertifiedKey::new(vec![leaf.clone()], Arc::new(PssKey(pair)));
            let server = server(Arc::new(SingleCertAndKey::from(certified)), &TLS13);
            let shaken = complete_handshake(client(&unverified(&TLS13)), server);
            assert_eq!(shaken.is_ok(), is_believed, "{:?}", shaken.err());
        }
    }
}

#[test]
fn a_client_may_present_a_self_signed_ca_in_the_roots() {
    let pinned = self_signed_leaf(|_| {});
    let trust = trust(&[&*authority().pem, &pinned.pem].concat(), "");
    assert_eq!(verdict(&trust, pinned.der.clone()), Ok(()));
    let mut again = pinned.params.clone();
    again.serial_number = Some(SerialNumber::from(7));
    let again = again.self_signed(&pinned.key).unwrap().der().clone();
    assert!(verdict(&trust, again).is_err(), "the same name and key, and another serial number");
    assert!(verdict(&trust, self_signed_leaf(|_| {}).der).is_err(), "the same name");
}

#[test]
fn a_client_presenting_a_root_is_still_checked_for_validity_purpose_and_revocation() {
    let verdict_on =
        |pinned: &Authority, revoked: &str| verdict(&trust(&pinned.pem, revoked), pinned.der.clone());
    let past = self_signed_leaf(|it| it.not_after = date_time_ymd(2020, 1, 1));
    assert_eq!(verdict_on(&past, ""), Err("certificate has expired"));
    let for_servers =
        self_signed_leaf(|it| it.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]);
    assert_eq!(verdict_on(&for_servers, ""), Err("unsuitable certificate purpose"));
    let revoked = CertificateRevocationListParams {
        this_update: date_time_ymd(2021, 1, 1),
        next_update: date_time_ymd(4000, 1, 1),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: Vec::new(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let pinned = self_signed_leaf(|_| {});
    let list = revoked.signed_by(&rcgen::Issuer::from_params(&pinned.params, &pinned.key)).unwrap();
    assert!(verdict_on(&pinned, &list.pem().unwrap()).is_err(), "no list can speak of it");
    assert_eq!(trust(&pinned.pem, "").evaluate(&[], UnixTime::now()), None);
}
