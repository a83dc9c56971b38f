//! Database files that appear, change, are truncated and disappear, and lookups in them.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fairway_model::{CountryCode, GeoField, GeoFields};
use fairway_routing::GeoLookup;
use fairway_testkit::mmdb::{Mmdb, country, network};
use serde_json::json;

use super::files::DatabaseFiles;
use super::{GeoIp, Location};

const BUILD_TIME: u64 = 1_700_000_000;

fn place_database(code: &str, name: &str) -> Vec<u8> {
    let city = json!({
        "city": {"names": {"de": "München", "en": "Munich"}},
        "continent": {"code": "EU", "names": {"en": "Europe"}},
        "country": {"iso_code": code, "names": {"en": name}},
        "location": {"latitude": 48.14, "longitude": -11.5, "metro_code": 807, "time_zone": "Europe/Berlin"},
        "postal": {"code": "80331"},
        "subdivisions": [{"iso_code": "BY", "names": {"en": "Bavaria"}}],
    });
    let mmdb = Mmdb::new("GeoLite2-City", BUILD_TIME).with_network("203.0.113.0/24", &city);
    mmdb.with_network("2001:db8::/32", &country("FR", "France"))
        .with_network("192.0.2.0/24", &json!({}))
        .bytes()
}

fn networks() -> Vec<u8> {
    Mmdb::new("GeoLite2-ASN", BUILD_TIME).with_network("203.0.113.128/25", &network(64500, "Example")).bytes()
}

/// A directory with these files, and their watcher.
fn watched(files: &[(&str, Vec<u8>)]) -> (tempfile::TempDir, GeoIp, DatabaseFiles) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    files.iter().for_each(|(name, bytes)| fs::write(path(name), bytes).unwrap());
    let paths: Vec<PathBuf> = files.iter().map(|(name, _)| path(name)).collect();
    let geoip = GeoIp::default();
    let mut files = DatabaseFiles::new(&paths, &geoip.0);
    files.reload_changed();
    (folder, geoip, files)
}

/// Replaces a file by renaming, as geoipupdate does.
fn replace(file: &Path, bytes: &[u8]) {
    let new = file.with_extension("new");
    fs::write(&new, bytes).unwrap();
    fs::rename(new, file).unwrap();
}

fn locate(geoip: &GeoIp, address: &str) -> Location {
    let mut location = Location::default();
    geoip.view().locate(all_fields(), Some(address.parse().unwrap()), &mut location);
    location
}

fn all_fields() -> GeoFields {
    GeoField::ALL.iter().copied().collect()
}

fn in_country(code: &str) -> GeoLookup<CountryCode> {
    GeoLookup::In(code.parse().unwrap())
}

#[test]
fn a_record_has_the_fields_of_both_databases() {
    let (_folder, geoip, _) = watched(&[("city", place_database("DE", "Germany")), ("asn", networks())]);
    let location = locate(&geoip, "203.0.113.200");
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
    assert_eq!((location.country(), location.asn()), (in_country("DE"), GeoLookup::In(64500)));
}

#[test]
fn unlisted_addresses_are_nowhere_and_unknown_without_a_database() {
    let (_folder, geoip, _) = watched(&[("city", place_database("DE", "Germany"))]);
    assert_eq!(locate(&geoip, "2001:db8::1").country(), in_country("FR"));
    for address in ["198.51.100.1", "192.0.2.1", "2001:db9::1"] {
        assert_eq!(locate(&geoip, address).country(), GeoLookup::Nowhere, "{address}");
        assert_eq!(locate(&geoip, address).asn(), GeoLookup::Unknown, "{address}");
    }
    let mut location = Location::default();
    geoip.view().locate(all_fields(), None, &mut location);
    assert_eq!(location.country(), GeoLookup::Unknown, "nobody knows the address");
    assert_eq!(locate(&GeoIp::default(), "203.0.113.1").country(), GeoLookup::Unknown);
}

#[test]
fn a_field_is_looked_up_once_per_client() {
    let (_folder, geoip, _) = watched(&[("city", place_database("DE", "Germany"))]);
    let (view, client) = (geoip.view(), "203.0.113.1".parse::<IpAddr>().unwrap());
    let mut location = Location::default();
    view.locate([GeoField::CountryCode].into_iter().collect(), Some(client), &mut location);
    assert_eq!(location.value(GeoField::City), None, "it was not asked for");
    let other = Some("2001:db8::1".parse().unwrap());
    view.locate([GeoField::CountryCode].into_iter().collect(), other, &mut location);
    assert_eq!(location.country(), in_country("DE"));
    location.clear();
    assert_eq!((location.country(), location.value(GeoField::CountryCode)), (GeoLookup::Unknown, None));
    view.locate(all_fields(), other, &mut location);
    assert_eq!(location.country(), in_country("FR"));
}

#[test]
fn values_invalid_in_headers_are_left_out() {
    let record = json!({"city": {"names": {"en": "a\r\nb"}}, "country": {"names": {"en": "x".repeat(257)}}});
    let record = Mmdb::new("GeoLite2-City", BUILD_TIME).with_network("203.0.113.0/24", &record).bytes();
    let (_folder, geoip, _) = watched(&[("city", record)]);
    let location = locate(&geoip, "203.0.113.1");
    assert_eq!((location.value(GeoField::City), location.value(GeoField::CountryName)), (None, None));
}

#[test]
fn a_replaced_file_reaches_all_workers_and_the_old_one_is_freed() {
    let (folder, geoip, mut files) = watched(&[("city", place_database("DE", "Germany"))]);
    let views = [geoip.view(), geoip.view()];
    let old = Arc::downgrade(&geoip.0.current());
    replace(&folder.path().join("city"), &place_database("AT", "Austria"));
    files.reload_changed();
    assert_eq!(locate(&geoip, "203.0.113.1").country(), in_country("DE"), "it may still be written");
    files.reload_changed();
    assert_eq!(locate(&geoip, "203.0.113.1").country(), in_country("AT"));
    files.reload_changed();
    assert!(old.upgrade().is_some(), "workers have it");
    for view in &views {
        let mut location = Location::default();
        view.locate(all_fields(), Some("203.0.113.1".parse().unwrap()), &mut location);
        assert_eq!(location.country(), in_country("AT"));
    }
    files.reload_changed();
    assert!(old.upgrade().is_none());
}

#[test]
fn a_truncated_file_is_refused_and_the_last_good_one_stays() {
    let good = place_database("DE", "Germany");
    let (folder, geoip, mut files) = watched(&[("city", good)]);
    let file = folder.path().join("city");
    let other = place_database("AT", "Austria");
    let cuts = [0, 1, other.len() / 4, other.len() / 2, other.len() - 200, other.len() - 1];
    for (refused, cut) in cuts.into_iter().enumerate() {
        replace(&file, &other[..cut]);
        files.reload_changed();
        files.reload_changed();
        let figures = &geoip.figures()[0];
        assert_eq!(figures.refused, refused as u64 + 1, "cut at {cut}");
        assert_eq!(figures.database.as_ref().unwrap().built, BUILD_TIME);
        assert_eq!(locate(&geoip, "203.0.113.1").country(), in_country("DE"));
        files.reload_changed();
        assert_eq!(geoip.figures()[0].refused, refused as u64 + 1, "the same file is not read again");
    }
    fs::remove_file(&file).unwrap();
    files.reload_changed();
    files.reload_changed();
    assert_eq!(geoip.figures()[0].refused, 7);
    assert_eq!(locate(&geoip, "203.0.113.1").country(), in_country("DE"));
    replace(&file, &other);
    files.reload_changed();
    files.reload_changed();
    assert_eq!(locate(&geoip, "203.0.113.1").country(), in_country("AT"));
}

/// Changed bytes are either detected, or lookups still return a value or none.
#[test]
fn no_changed_byte_causes_a_panic() {
    let good = place_database("DE", "Germany");
    for at in 0..good.len() {
        for flipped in [1, 0x80, 0xff] {
            let mut bytes = good.clone();
            bytes[at] ^= flipped;
            if let Ok(database) = super::database::Database::read(bytes) {
                for address in ["203.0.113.1", "2001:db8::1", "198.51.100.1"] {
                    let found = database.look_up(address.parse().unwrap());
                    let mut location = Location::default();
                    location.add(database.kind(), all_fields(), found.as_ref());
                }
            }
        }
    }
}

#[test]
fn unusable_files_are_reported_and_the_others_work() {
    let other = Mmdb::new("GeoIP2-Domain", BUILD_TIME)
        .with_network("203.0.113.0/24", &json!({"domain": "a.test"}))
        .bytes();
    let (folder, geoip, mut files) = watched(&[
        ("city", place_database("DE", "Germany")),
        ("country", Mmdb::new("GeoLite2-Country", BUILD_TIME).bytes()),
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
    files.reload_changed();
    files.reload_changed();
    assert_eq!(used(&geoip)[3], (2, false), "a directory is not a file");
}

#[test]
fn a_file_created_later_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("city");
    let geoip = GeoIp::default();
    let mut files = DatabaseFiles::new(std::slice::from_ref(&path), &geoip.0);
    files.reload_changed();
    assert_eq!(locate(&geoip, "203.0.113.1").country(), GeoLookup::Unknown);
    fs::write(&path, place_database("DE", "Germany")).unwrap();
    files.reload_changed();
    files.reload_changed();
    assert_eq!(locate(&geoip, "203.0.113.1").country(), in_country("DE"));
}

/// Resident memory of this process, in MiB.
fn resident() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    (pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096) >> 20
}

/// Cost of lookups in nanoseconds: of one address, and of addresses all over the database.
fn cost(view: &super::GeoIpView, fields: GeoFields) -> [u128; 2] {
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
    [took(&mut || 0x1000_0001), took(&mut || 0x1000_0000 + random.u32(..NETWORK_COUNT << 8))]
}

const NETWORK_COUNT: u32 = 250_000;

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
    let networks = 0..NETWORK_COUNT;
    let name = |number: u32| format!("{}/24", std::net::Ipv4Addr::from(0x1000_0000 + (number << 8)));
    let database = networks.clone().fold(Mmdb::new("GeoLite2-City", BUILD_TIME), |mmdb, number| {
        mmdb.with_network(&name(number), &city(number))
    });
    let asns = networks.fold(Mmdb::new("GeoLite2-ASN", BUILD_TIME), |mmdb, number| {
        mmdb.with_network(&name(number), &network(number + 1, "An Organization"))
    });
    let folder = tempfile::tempdir().unwrap();
    let paths = [folder.path().join("city"), folder.path().join("asn")];
    fs::write(&paths[0], database.bytes()).unwrap();
    fs::write(&paths[1], asns.bytes()).unwrap();
    drop((database, asns));
    let (before, began) = (resident(), std::time::Instant::now());
    let geoip = GeoIp::default();
    let mut files = DatabaseFiles::new(&paths, &geoip.0);
    files.reload_changed();
    let took = began.elapsed();
    for file in geoip.figures() {
        println!("{} MiB of {}", file.database.as_ref().unwrap().bytes >> 20, file.path);
    }
    println!("read and verified in {took:?}; resident {before} MiB before, {} MiB after", resident());
    let view = geoip.view();
    let set_of = |fields: &[GeoField]| fields.iter().copied().collect();
    for (what, fields) in [
        ("country", set_of(&[GeoField::CountryCode])),
        ("asn", set_of(&[GeoField::Asn])),
        ("country, asn", set_of(&[GeoField::CountryCode, GeoField::Asn])),
        ("all", all_fields()),
    ] {
        let [same, other] = cost(&view, fields);
        println!("{what}: {same} ns for one address, {other} ns for random ones");
    }
}
