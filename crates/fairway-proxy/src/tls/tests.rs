//! Whose certificates are trusted, in handshakes with endpoints and by verdicts on clients.

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
    ALWAYS, Authority, authority, authority_with, certified, client, issued, issued_for, key, pem, server,
    shake_hands, trust, unverified, verdict,
};

const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

/// As `proxy-ssl-verify` has it.
fn by_chain(roots: &str, name: &str) -> UpstreamVerification {
    UpstreamVerification::Chain { roots: roots.into(), name: name.into(), depth: Some(1) }
}

/// As a BackendTLSPolicy has it.
fn by_subject(roots: &str, name: &str) -> UpstreamVerification {
    let names = vec![SubjectName::Dns(name.into())];
    UpstreamVerification::Subject { roots: TrustedRoots::Pem(roots.into()), names }
}

/// Whether an endpoint with this certificate is believed, under both versions of TLS.
fn believes(verification: &UpstreamVerification, shown: &CertificateDer<'static>, key: &KeyPair) -> bool {
    let [one, other] = VERSIONS.map(|version| {
        let client = client(&UpstreamTls { verification: verification.clone(), ..unverified(version) });
        shake_hands(client, server(certified(shown.clone(), key), version)).is_ok()
    });
    assert_eq!(one, other, "the version makes no difference");
    one
}

/// A self-signed `CA:TRUE` certificate with `a.test` as alternative name.
fn own(change: impl FnOnce(&mut CertificateParams)) -> Authority {
    authority_with("a.test", |params| {
        params.subject_alt_names = vec![SanType::DnsName("a.test".try_into().unwrap())];
        change(params);
    })
}

#[test]
fn a_self_signed_authority_that_is_in_the_roots_is_believed_as_endpoint() {
    let (pinned, other) = (own(|_| {}), authority());
    let both = [&*other.pem, &pinned.pem].concat();
    for roots in [&pinned.pem, &both] {
        assert!(believes(&by_chain(roots, "a.test"), &pinned.der, &pinned.key));
        assert!(believes(&by_subject(roots, "a.test"), &pinned.der, &pinned.key));
    }
}

#[test]
fn a_certificate_in_the_roots_is_believed_in_its_time_for_its_names_and_its_purpose_only() {
    let refused = |what: &str, pinned: &Authority, name: &str| {
        for verification in [by_chain(&pinned.pem, name), by_subject(&pinned.pem, name)] {
            assert!(!believes(&verification, &pinned.der, &pinned.key), "{what}: {verification:?}");
        }
    };
    refused("its name", &own(|_| {}), "b.test");
    refused(
        "its common name",
        &authority_with("b.test", |it| it.subject_alt_names = own(|_| {}).params.subject_alt_names),
        "b.test",
    );
    refused("its end", &own(|it| it.not_after = date_time_ymd(2020, 1, 1)), "a.test");
    refused("its beginning", &own(|it| it.not_before = date_time_ymd(4000, 1, 1)), "a.test");
    refused(
        "its purpose",
        &own(|it| it.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth]),
        "a.test",
    );
    refused("its key", &own(|it| it.key_usages = vec![KeyUsagePurpose::KeyCertSign]), "a.test");
    refused("what is not known", &own(|it| it.custom_extensions = vec![critical()]), "a.test");
}

/// A critical extension that nobody knows.
fn critical() -> CustomExtension {
    let mut extension = CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0]);
    extension.set_criticality(true);
    extension
}

#[test]
fn an_authority_that_is_not_in_the_roots_byte_for_byte_is_not_believed_as_endpoint() {
    let pinned = own(|_| {});
    // The same name and key, and another serial number.
    let mut again = pinned.params.clone();
    again.serial_number = Some(SerialNumber::from(7));
    let again = again.self_signed(&pinned.key).unwrap().der().clone();
    // One that an authority in the roots has issued.
    let below = pinned.issue(&key(), |it| {
        it.is_ca = pinned.params.is_ca;
        it.subject_alt_names = pinned.params.subject_alt_names.clone();
    });
    // In the roots, and issued by another.
    let issuer = authority();
    let leaf_key = key();
    let leaf = issuer.issue(&leaf_key, |it| it.subject_alt_names = pinned.params.subject_alt_names.clone());
    for verification in [by_chain, by_subject] {
        assert!(!believes(&verification(&pinned.pem, "a.test"), &again, &pinned.key));
        assert!(!believes(&verification(&pinned.pem, "a.test"), &below, &pinned.key));
        assert!(!believes(&verification(&authority().pem, "a.test"), &pinned.der, &pinned.key));
        assert!(!believes(&verification(&pem(&leaf), "a.test"), &leaf, &leaf_key));
        // Whoever shows it must have its key.
        assert!(!believes(&verification(&pinned.pem, "a.test"), &pinned.der, &key()));
    }
}

#[test]
fn the_common_name_counts_for_a_chain_where_no_alternative_name_is_one_of_dns() {
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
        assert_eq!(believes(&by_chain(&authority.pem, "a.test"), &leaf, &key), is_believed, "{common}");
        // Gateway API has alternative names only.
        assert!(!believes(&by_subject(&authority.pem, "a.test"), &leaf, &key), "{common}");
    }
    let key = key();
    let wild = authority.issue(&key, |it| it.distinguished_name.push(DnType::CommonName, "*.a.test"));
    assert!(believes(&by_chain(&authority.pem, "b.a.test"), &wild, &key));
    assert!(!believes(&by_chain(&authority.pem, "c.b.a.test"), &wild, &key));
    let pinned = authority_with("a.test", |_| {});
    assert!(believes(&by_chain(&pinned.pem, "a.test"), &pinned.der, &pinned.key));
}

#[test]
fn the_common_name_does_not_pass_by_the_name_constraints_of_an_authority() {
    let constrained = authority_with("constrained", |it| {
        it.name_constraints = Some(NameConstraints {
            permitted_subtrees: vec![GeneralSubtree::DnsName("other.test".to_owned())],
            excluded_subtrees: Vec::new(),
        });
    });
    let key = key();
    let leaf = constrained.issue(&key, |it| it.distinguished_name.push(DnType::CommonName, "a.test"));
    assert!(!believes(&by_chain(&constrained.pem, "a.test"), &leaf, &key));
    let of_version_one = issued(&constrained, &key, ALWAYS);
    assert!(!believes(&by_chain(&constrained.pem, "constrained"), &of_version_one, &key));
}

#[test]
fn an_endpoint_may_have_a_certificate_of_version_1() {
    let authority = authority();
    let key = key();
    let leaf = issued(&authority, &key, ALWAYS);
    assert!(believes(&UpstreamVerification::Off, &leaf, &key));
    assert!(!believes(&UpstreamVerification::Off, &leaf, &self::key()), "it must have the key");
    // Its only name is the common name.
    assert!(believes(&by_chain(&authority.pem, "clients"), &leaf, &key));
    assert!(!believes(&by_chain(&authority.pem, "a.test"), &leaf, &key));
    assert!(!believes(&by_subject(&authority.pem, "clients"), &leaf, &key));
    assert!(!believes(&by_chain(&self::authority().pem, "clients"), &leaf, &key));
    let past = issued(&authority, &key, ("200101000000Z", "210101000000Z"));
    assert!(!believes(&by_chain(&authority.pem, "clients"), &past, &key));
    assert!(believes(&UpstreamVerification::Off, &past, &key));
    // Self-signed, and in the roots itself.
    let own = issued(&authority, &authority.key, ALWAYS);
    assert!(believes(&by_chain(&pem(&own), "clients"), &own, &authority.key));
}

#[test]
fn an_endpoint_that_is_not_verified_may_have_any_certificate() {
    let strange = own(|it| it.custom_extensions = vec![critical()]);
    assert!(believes(&UpstreamVerification::Off, &strange.der, &strange.key));
    assert!(!believes(&UpstreamVerification::Off, &strange.der, &key()), "it must have the key");
}

#[test]
fn keys_on_the_curve_p_521_are_offered_to_endpoints() {
    let authority = authority();
    let key = KeyPair::generate_for(&PKCS_ECDSA_P521_SHA512).unwrap();
    let names = own(|_| {}).params.subject_alt_names;
    let leaf = authority.issue(&key, |it| it.subject_alt_names = names);
    assert!(believes(&by_chain(&authority.pem, "a.test"), &leaf, &key));
    // OpenSSL shows such a certificate under TLS 1.2 only to clients that offer the group.
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

/// Signs with RSA-PSS, as the owner of a key that is for it alone.
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
fn keys_for_rsa_pss_alone_are_taken_under_tls_1_3() {
    let authority = authority();
    let pairs = [(); 2].map(|()| KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap());
    let any: &[u8] = &[0x06, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 10];
    for identifier in [any, rustls_pki_types::alg_id::RSA_PSS_SHA256.as_ref()] {
        let spki = pairs[0].subject_public_key_info();
        // Behind the identifier of the algorithm (two bytes of header and 13 of content).
        let bits = &content(&spki).unwrap()[15..];
        let spki = sequence(&[&sequence(identifier), bits].concat());
        let leaf = issued_for(&authority, &spki, ALWAYS);
        for (pair, is_believed) in pairs.iter().zip([true, false]) {
            let pair = Arc::new(RsaKeyPair::from_pkcs8(&pair.serialize_der()).unwrap());
            let certified = CertifiedKey::new(vec![leaf.clone()], Arc::new(PssKey(pair)));
            let server = server(Arc::new(SingleCertAndKey::from(certified)), &TLS13);
            let shaken = shake_hands(client(&unverified(&TLS13)), server);
            assert_eq!(shaken.is_ok(), is_believed, "{:?}", shaken.err());
        }
    }
}

#[test]
fn a_client_may_show_a_self_signed_authority_that_is_in_the_roots() {
    let pinned = own(|_| {});
    let trust = trust(&[&*authority().pem, &pinned.pem].concat(), "");
    assert_eq!(verdict(&trust, pinned.der.clone()), Ok(()));
    let mut again = pinned.params.clone();
    again.serial_number = Some(SerialNumber::from(7));
    let again = again.self_signed(&pinned.key).unwrap().der().clone();
    assert!(verdict(&trust, again).is_err(), "the same name and key, and another serial number");
    assert!(verdict(&trust, own(|_| {}).der).is_err(), "the same name");
}

#[test]
fn a_client_that_shows_one_of_the_roots_is_held_to_its_time_purpose_and_lists() {
    let verdict_on =
        |pinned: &Authority, revoked: &str| verdict(&trust(&pinned.pem, revoked), pinned.der.clone());
    let past = own(|it| it.not_after = date_time_ymd(2020, 1, 1));
    assert_eq!(verdict_on(&past, ""), Err("certificate has expired"));
    let for_servers = own(|it| it.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]);
    assert_eq!(verdict_on(&for_servers, ""), Err("unsuitable certificate purpose"));
    let revoked = CertificateRevocationListParams {
        this_update: date_time_ymd(2021, 1, 1),
        next_update: date_time_ymd(4000, 1, 1),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: Vec::new(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let pinned = own(|_| {});
    let list = revoked.signed_by(&rcgen::Issuer::from_params(&pinned.params, &pinned.key)).unwrap();
    assert!(verdict_on(&pinned, &list.pem().unwrap()).is_err(), "no list can speak of it");
    assert_eq!(trust(&pinned.pem, "").judge(&[], UnixTime::now()), None);
}
