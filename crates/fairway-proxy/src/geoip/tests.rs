//! Files that come, change, are torn and go, and what is found in them.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fairway_model::{CountryCode, GeoField, GeoFields};
use fairway_routing::Located;
use fairway_testkit::mmdb::{Mmdb, country, network};
use serde_json::json;

use super::files::Files;
use super::{GeoIp, Location};

const BUILT: u64 = 1_700_000_000;

fn places(code: &str, name: &str) -> Vec<u8> {
    let city = json!({
        "city": {"names": {"de": "München", "en": "Munich"}},
        "continent": {"code": "EU", "names": {"en": "Europe"}},
        "country": {"iso_code": code, "names": {"en": name}},
        "location": {"latitude": 48.14, "longitude": -11.5, "metro_code": 807, "time_zone": "Europe/Berlin"},
        "postal": {"code": "80331"},
        "subdivisions": [{"iso_code": "BY", "names": {"en": "Bavaria"}}],
    });
    let mmdb = Mmdb::new("GeoLite2-City", BUILT).with("203.0.113.0/24", &city);
    mmdb.with("2001:db8::/32", &country("FR", "France")).with("192.0.2.0/24", &json!({})).bytes()
}

fn networks() -> Vec<u8> {
    Mmdb::new("GeoLite2-ASN", BUILT).with("203.0.113.128/25", &network(64500, "Example")).bytes()
}

/// A folder with these files, and who watches them.
fn watched(files: &[(&str, Vec<u8>)]) -> (tempfile::TempDir, GeoIp, Files) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    files.iter().for_each(|(name, bytes)| fs::write(path(name), bytes).unwrap());
    let paths: Vec<PathBuf> = files.iter().map(|(name, _)| path(name)).collect();
    let geoip = GeoIp::default();
    let mut files = Files::new(&paths, &geoip.0);
    files.look();
    (folder, geoip, files)
}

/// Renames other content into the place of a file, as geoipupdate does.
fn replace(file: &Path, bytes: &[u8]) {
    let new = file.with_extension("new");
    fs::write(&new, bytes).unwrap();
    fs::rename(new, file).unwrap();
}

fn ask(geoip: &GeoIp, address: &str) -> Location {
    let mut location = Location::default();
    geoip.view().locate(all(), Some(address.parse().unwrap()), &mut location);
    location
}

fn all() -> GeoFields {
    GeoField::ALL.iter().copied().collect()
}

fn in_country(code: &str) -> Located<CountryCode> {
    Located::In(code.parse().unwrap())
}

#[test]
fn a_record_has_the_fields_of_both_databases() {
    let (_folder, geoip, _) = watched(&[("city", places("DE", "Germany")), ("asn", networks())]);
    let location = ask(&geoip, "203.0.113.200");
    let values: Vec<_> = GeoField::ALL
        .iter()
        .filter_map(|field| Some((field.name(), std::str::from_utf8(location.value(*field)?).unwrap())))
        .collect();
    let expected = [
        ("geoip2_country_code", "DE"),
        ("geoip2_country_name", "Germany"),
        ("geoip2_continent_code", "EU"),
        ("geoip2_continent_name", "Europe"),
        ("geoip2_region_code", "BY"),
        ("geoip2_region_name", "Bavaria"),
        ("geoip2_city", "Munich"),
        ("geoip2_postal_code", "80331"),
        ("geoip2_dma_code", "807"),
        ("geoip2_latitude", "48.14"),
        ("geoip2_longitude", "-11.5"),
        ("geoip2_time_zone", "Europe/Berlin"),
        ("geoip2_asn", "64500"),
        ("geoip2_org", "Example"),
    ];
    assert_eq!(values, expected);
    assert_eq!((location.country(), location.asn()), (in_country("DE"), Located::In(64500)));
}

#[test]
fn what_a_database_does_not_know_is_nowhere_and_without_one_it_is_unknown() {
    let (_folder, geoip, _) = watched(&[("city", places("DE", "Germany"))]);
    assert_eq!(ask(&geoip, "2001:db8::1").country(), in_country("FR"));
    for address in ["198.51.100.1", "192.0.2.1", "2001:db9::1"] {
        assert_eq!(ask(&geoip, address).country(), Located::Nowhere, "{address}");
        assert_eq!(ask(&geoip, address).asn(), Located::Unknown, "{address}");
    }
    let mut location = Location::default();
    geoip.view().locate(all(), None, &mut location);
    assert_eq!(location.country(), Located::Unknown, "nobody knows the address");
    assert_eq!(ask(&GeoIp::default(), "203.0.113.1").country(), Located::Unknown);
}

#[test]
fn a_field_is_looked_up_once_and_forgotten_with_its_client() {
    let (_folder, geoip, _) = watched(&[("city", places("DE", "Germany"))]);
    let (view, client) = (geoip.view(), "203.0.113.1".parse::<IpAddr>().unwrap());
    let mut location = Location::default();
    view.locate([GeoField::CountryCode].into_iter().collect(), Some(client), &mut location);
    assert_eq!(location.value(GeoField::City), None, "it was not asked for");
    let other = Some("2001:db8::1".parse().unwrap());
    view.locate([GeoField::CountryCode].into_iter().collect(), other, &mut location);
    assert_eq!(location.country(), in_country("DE"));
    location.clear();
    assert_eq!((location.country(), location.value(GeoField::CountryCode)), (Located::Unknown, None));
    view.locate(all(), other, &mut location);
    assert_eq!(location.country(), in_country("FR"));
}

#[test]
fn values_that_headers_cannot_have_are_left_out() {
    let record = json!({"city": {"names": {"en": "a\r\nb"}}, "country": {"names": {"en": "x".repeat(257)}}});
    let record = Mmdb::new("GeoLite2-City", BUILT).with("203.0.113.0/24", &record).bytes();
    let (_folder, geoip, _) = watched(&[("city", record)]);
    let location = ask(&geoip, "203.0.113.1");
    assert_eq!((location.value(GeoField::City), location.value(GeoField::CountryName)), (None, None));
}

#[test]
fn a_file_that_is_replaced_is_taken_by_all_workers_and_the_old_one_is_freed() {
    let (folder, geoip, mut files) = watched(&[("city", places("DE", "Germany"))]);
    let views = [geoip.view(), geoip.view()];
    let old = Arc::downgrade(&geoip.0.current());
    replace(&folder.path().join("city"), &places("AT", "Austria"));
    files.look();
    assert_eq!(ask(&geoip, "203.0.113.1").country(), in_country("DE"), "it may still be written");
    files.look();
    assert_eq!(ask(&geoip, "203.0.113.1").country(), in_country("AT"));
    files.look();
    assert!(old.upgrade().is_some(), "workers have it");
    for view in &views {
        let mut location = Location::default();
        view.locate(all(), Some("203.0.113.1".parse().unwrap()), &mut location);
        assert_eq!(location.country(), in_country("AT"));
    }
    files.look();
    assert!(old.upgrade().is_none());
}

#[test]
fn a_torn_file_is_refused_wherever_it_ends_and_the_last_good_one_stays() {
    let good = places("DE", "Germany");
    let (folder, geoip, mut files) = watched(&[("city", good)]);
    let file = folder.path().join("city");
    let other = places("AT", "Austria");
    let cuts = [0, 1, other.len() / 4, other.len() / 2, other.len() - 200, other.len() - 1];
    for (refused, cut) in cuts.into_iter().enumerate() {
        replace(&file, &other[..cut]);
        files.look();
        files.look();
        let figures = &geoip.figures()[0];
        assert_eq!(figures.refused, refused as u64 + 1, "cut at {cut}");
        assert_eq!(figures.database.as_ref().unwrap().built, BUILT);
        assert_eq!(ask(&geoip, "203.0.113.1").country(), in_country("DE"));
        files.look();
        assert_eq!(geoip.figures()[0].refused, refused as u64 + 1, "the same file is not read again");
    }
    fs::remove_file(&file).unwrap();
    files.look();
    files.look();
    assert_eq!(geoip.figures()[0].refused, 7);
    assert_eq!(ask(&geoip, "203.0.113.1").country(), in_country("DE"));
    replace(&file, &other);
    files.look();
    files.look();
    assert_eq!(ask(&geoip, "203.0.113.1").country(), in_country("AT"));
}

/// Bytes that changed on their way: either they are found out, or what is read is still a value or none.
#[test]
fn no_changed_byte_ends_the_process() {
    let good = places("DE", "Germany");
    for at in 0..good.len() {
        for flipped in [1, 0x80, 0xff] {
            let mut bytes = good.clone();
            bytes[at] ^= flipped;
            if let Ok(database) = super::database::Database::read(bytes) {
                for address in ["203.0.113.1", "2001:db8::1", "198.51.100.1"] {
                    let found = database.look_up(address.parse().unwrap());
                    let mut location = Location::default();
                    location.note(database.kind(), all(), found.as_ref());
                }
            }
        }
    }
}

#[test]
fn files_that_cannot_be_used_are_named_and_the_others_work() {
    let other =
        Mmdb::new("GeoIP2-Domain", BUILT).with("203.0.113.0/24", &json!({"domain": "a.test"})).bytes();
    let (folder, geoip, mut files) = watched(&[
        ("city", places("DE", "Germany")),
        ("country", Mmdb::new("GeoLite2-Country", BUILT).bytes()),
        ("domain", other),
        ("text", b"no database".to_vec()),
        ("asn", networks()),
    ]);
    let used = |geoip: &GeoIp| {
        let figures = geoip.figures();
        figures.iter().map(|file| (file.refused, file.database.is_some())).collect::<Vec<_>>()
    };
    assert_eq!(used(&geoip), [(0, true), (1, false), (1, false), (1, false), (0, true)]);
    fs::remove_file(folder.path().join("text")).unwrap();
    fs::create_dir(folder.path().join("text")).unwrap();
    files.look();
    files.look();
    assert_eq!(used(&geoip)[3], (2, false), "a folder is no file");
}

#[test]
fn a_file_that_comes_later_is_read_then() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("city");
    let geoip = GeoIp::default();
    let mut files = Files::new(std::slice::from_ref(&path), &geoip.0);
    files.look();
    assert_eq!(ask(&geoip, "203.0.113.1").country(), Located::Unknown);
    fs::write(&path, places("DE", "Germany")).unwrap();
    files.look();
    files.look();
    assert_eq!(ask(&geoip, "203.0.113.1").country(), in_country("DE"));
}

/// Resident memory of this process, in MiB.
fn resident() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    (pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096) >> 20
}

/// What records of this kind cost, in nanoseconds each: of one address, and of addresses all over the database.
fn cost(view: &super::View, fields: GeoFields) -> [u128; 2] {
    let mut random = fastrand::Rng::with_seed(7);
    let mut location = Location::default();
    let mut took = |address: &mut dyn FnMut() -> u32| {
        let times = 1_000_000;
        let began = std::time::Instant::now();
        for _ in 0..times {
            location.clear();
            view.locate(fields, Some(IpAddr::V4(address().into())), &mut location);
            std::hint::black_box(&location);
        }
        began.elapsed().as_nanos() / times
    };
    [took(&mut || 0x1000_0001), took(&mut || 0x1000_0000 + random.u32(..NETWORKS << 8))]
}

const NETWORKS: u32 = 250_000;

#[test]
#[ignore = "measures: cargo test --release -p fairway-proxy --lib geoip::tests::costs -- --ignored --nocapture"]
fn costs() {
    let city = |number: u32| {
        json!({
            "city": {"geoname_id": number, "names": {"de": format!("Stadt {number}"), "en": format!("City {number}")}},
            "continent": {"code": "EU", "geoname_id": 6_255_148, "names": {"de": "Europa", "en": "Europe"}},
            "country": {"geoname_id": 2_921_044, "iso_code": "DE", "names": {"de": "Deutschland", "en": "Germany"}},
            "location": {"accuracy_radius": 50, "latitude": 48.1, "longitude": 11.5, "time_zone": "Europe/Berlin"},
            "postal": {"code": number.to_string()},
            "subdivisions": [{"iso_code": "BY", "names": {"de": "Bayern", "en": "Bavaria"}}],
        })
    };
    let networks = 0..NETWORKS;
    let name = |number: u32| format!("{}/24", std::net::Ipv4Addr::from(0x1000_0000 + (number << 8)));
    let places = networks
        .clone()
        .fold(Mmdb::new("GeoLite2-City", BUILT), |mmdb, number| mmdb.with(&name(number), &city(number)));
    let asns = networks.fold(Mmdb::new("GeoLite2-ASN", BUILT), |mmdb, number| {
        mmdb.with(&name(number), &network(number + 1, "An Organization"))
    });
    let folder = tempfile::tempdir().unwrap();
    let paths = [folder.path().join("city"), folder.path().join("asn")];
    fs::write(&paths[0], places.bytes()).unwrap();
    fs::write(&paths[1], asns.bytes()).unwrap();
    drop((places, asns));
    let (before, began) = (resident(), std::time::Instant::now());
    let geoip = GeoIp::default();
    let mut files = Files::new(&paths, &geoip.0);
    files.look();
    let took = began.elapsed();
    for file in geoip.figures() {
        println!("{} MiB of {}", file.database.as_ref().unwrap().bytes >> 20, file.path);
    }
    println!("read and verified in {took:?}; resident {before} MiB before, {} MiB after", resident());
    let view = geoip.view();
    let some = |fields: &[GeoField]| fields.iter().copied().collect();
    for (what, fields) in [
        ("country", some(&[GeoField::CountryCode])),
        ("asn", some(&[GeoField::Asn])),
        ("country, asn", some(&[GeoField::CountryCode, GeoField::Asn])),
        ("all", all()),
    ] {
        let [same, other] = cost(&view, fields);
        println!("{what}: {same} ns for one address, {other} ns for random ones");
    }
}
