//! Compile time: 10,000 hosts from scratch, one changed host among them, one changed backend.

mod tables;

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use fairway_routing::compile;

use tables::{hosts_with_a_rule, put_backend, put_host, shuffled};

const HOSTS: usize = 10_000;

fn scratch(criterion: &mut Criterion) {
    let config = hosts_with_a_rule(HOSTS);
    let mut group = criterion.benchmark_group("compile");
    group.sample_size(20).measurement_time(Duration::from_secs(3));
    group.bench_function("10,000 hosts from scratch", |bencher| {
        bencher.iter_with_large_drop(|| compile(black_box(&config), None));
    });
}

/// Each change starts from the previous snapshot, as in a running proxy.
fn incremental(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("compile");
    let mut order = shuffled(HOSTS).collect::<Vec<_>>().into_iter().cycle();
    let mut config = hosts_with_a_rule(HOSTS);
    let mut snapshot = compile(&config, None).snapshot;
    let mut turn = 0_u16;
    group.bench_function("one of 10,000 hosts changed", |bencher| {
        let setup = || {
            turn = turn.wrapping_add(1);
            put_host(&mut config, order.next().expect("it never ends"), &["/", &format!("/turn-{turn}")]);
            config.clone()
        };
        bencher.iter_batched(
            setup,
            |config| snapshot = compile(black_box(&config), Some(&snapshot)).snapshot,
            BatchSize::PerIteration,
        );
    });
    group.bench_function("one of 10,000 backends changed", |bencher| {
        let setup = || {
            turn = turn.wrapping_add(1);
            put_backend(&mut config, order.next().expect("it never ends"), 1 + turn % 100);
            config.clone()
        };
        bencher.iter_batched(
            setup,
            |config| snapshot = compile(black_box(&config), Some(&snapshot)).snapshot,
            BatchSize::PerIteration,
        );
    });
}

criterion_group!(benches, scratch, incremental);
criterion_main!(benches);
