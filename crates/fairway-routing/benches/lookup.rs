//! Time of a lookup with 100 to 100,000 routes, as hosts and as paths of one host, in random order so that caches do
//! not help more than in practice.

mod tables;

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use fairway_model::Config;
use fairway_routing::{Request, compile};

use tables::{NoFields, hosts_with_a_rule, hosts_with_three_paths, one_host_with_paths, shuffled};

const SIZES: [usize; 4] = [100, 1_000, 10_000, 100_000];

type Build = fn(usize) -> Config;

// The product's allocator: a lookup among many hosts is bound by memory, and the allocator decides which pages hosts
// are on.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn lookup(criterion: &mut Criterion) {
    let kinds: [(&str, Build); 3] = [
        ("hosts", hosts_with_a_rule),
        ("hosts with three paths", hosts_with_three_paths),
        ("paths of one host", one_host_with_paths),
    ];
    for (kind, config) in kinds {
        let mut group = criterion.benchmark_group(format!("lookup/{kind}"));
        for size in SIZES {
            let snapshot = compile(&config(size), None).snapshot;
            let table = snapshot.table(tables::TABLE).expect("the table has hosts");
            let asks: Vec<(String, String)> = shuffled(size)
                .map(|n| match kind {
                    "paths of one host" => {
                        ("paths.example.com".to_owned(), format!("{}/below/it", tables::path(n)))
                    }
                    _ => (tables::host_name(n), "/api/v2/items".to_owned()),
                })
                .collect();
            let mut next = asks.iter().cycle();
            group.bench_function(BenchmarkId::from_parameter(size), |bencher| {
                bencher.iter(|| {
                    let (host, path) = next.next().expect("a cycle does not end");
                    let path = path.as_bytes();
                    let request = Request {
                        host,
                        method: b"GET",
                        normalised: path,
                        decoded: path,
                        query: b"",
                        fields: &NoFields,
                    };
                    black_box(snapshot.lookup(table, black_box(&request)))
                });
            });
        }
    }
}

criterion_group!(benches, lookup);
criterion_main!(benches);
