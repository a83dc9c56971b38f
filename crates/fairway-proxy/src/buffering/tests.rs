//! Bodies of every length in memory and on disk, with disks that are full or failing.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::future::poll_fn;

use fairway_model::BodyBuffer;
use fastrand::Rng;

use super::disk::EXTENT_BYTES;
use super::store::Unreadable;
use super::*;
use crate::memory_share::MemoryPool;

const DISK: u64 = 64 * EXTENT_BYTES as u64;

fn disk() -> Disk {
    Disk::inline(&std::env::temp_dir(), DISK).unwrap()
}

fn store(memory: u32, on_disk: u64, disk: &Disk) -> Store {
    let share = MemoryPool::default().empty();
    Store::new(BodyKind::Request, BodyBuffer { memory, disk: on_disk }, disk.clone(), share)
}

/// Appends as much as fits, in pieces of up to `chunk` bytes.
async fn fill(store: &mut Store, mut body: &[u8], chunk: usize) -> Result<(), Full> {
    while !body.is_empty() {
        let room = poll_fn(|cx| store.poll_room(cx, u64::MAX)).await?;
        let (now, rest) = body.split_at(room.min(chunk).min(body.len()));
        store.append(now);
        body = rest;
    }
    Ok(())
}

async fn read(store: &mut Store, limit: usize) -> Result<Vec<u8>, Unreadable> {
    let mut read = Vec::new();
    loop {
        let used = poll_fn(|cx| {
            store.poll_read(cx, limit).map_ok(|data| {
                read.extend_from_slice(data);
                data.len()
            })
        })
        .await?;
        if used == 0 {
            return Ok(read);
        }
        store.advance(used);
    }
}

fn random_body(random: &mut Rng, length: usize) -> Vec<u8> {
    (0..length).map(|_| random.u8(..)).collect()
}

#[tokio::test]
async fn a_body_can_be_read_repeatedly_and_unchanged() {
    let (disk, mut random) = (disk(), Rng::with_seed(36));
    for memory in [0, 1, 1000, EXTENT_BYTES as u32, 3 * EXTENT_BYTES as u32] {
        for length in
            [0, 1, 999, 1000, 1001, EXTENT_BYTES, EXTENT_BYTES + 1, 2 * EXTENT_BYTES, 5 * EXTENT_BYTES + 77]
        {
            let body = random_body(&mut random, length);
            let mut store = store(memory, DISK, &disk);
            fill(&mut store, &body, random.usize(1..40_000)).await.unwrap();
            assert_eq!(store.len(), length as u64);
            for _ in 0..2 {
                store.rewind();
                assert!(
                    read(&mut store, random.usize(1..50_000)).await.unwrap() == body,
                    "{memory} {length}"
                );
                assert!(store.is_read());
            }
        }
    }
    assert_eq!(disk.used_bytes(), 0, "all of it is free again");
}

#[tokio::test]
async fn a_queue_is_first_in_first_out() {
    let (disk, mut random) = (disk(), Rng::with_seed(37));
    for _ in 0..200 {
        let memory = random.u32(0..100_000);
        let mut store = store(memory, random.u64(0..DISK), &disk);
        let (mut taken, mut given) = (Vec::new(), Vec::new());
        for _ in 0..40 {
            if random.bool() {
                let length = random.usize(..60_000);
                let body = random_body(&mut random, length);
                let mut rest = &body[..];
                while !rest.is_empty()
                    && let Ok(room) = poll_fn(|cx| store.poll_room(cx, u64::MAX)).await
                {
                    let (now, later) = rest.split_at(room.min(rest.len()));
                    store.append(now);
                    taken.extend_from_slice(now);
                    rest = later;
                }
            } else {
                for _ in 0..random.u8(..4) {
                    let limit = random.usize(1..50_000);
                    let used = poll_fn(|cx| {
                        store.poll_read(cx, limit).map_ok(|data| {
                            given.extend_from_slice(data);
                            data.len()
                        })
                    })
                    .await
                    .unwrap();
                    store.advance(used);
                }
                if store.is_read() {
                    store.empty();
                    assert_eq!(store.len(), 0);
                }
            }
        }
        given.extend(read(&mut store, usize::MAX).await.unwrap());
        assert!(given == taken, "{memory}");
    }
    assert_eq!(disk.used_bytes(), 0);
}

#[tokio::test]
async fn a_body_has_no_more_than_its_bounds() {
    let (disk, none) = (disk(), Disk::default());
    for (memory, on_disk, disk, length, expected) in [
        (10, 0, &disk, 10, Ok(())),
        (10, 0, &disk, 11, Err(Full::TooLarge)),
        (10, 5, &disk, 15, Ok(())),
        (10, 5, &disk, 16, Err(Full::TooLarge)),
        (0, 3 * EXTENT_BYTES as u64 + 1, &disk, 3 * EXTENT_BYTES + 1, Ok(())),
        (0, 3 * EXTENT_BYTES as u64 + 1, &disk, 3 * EXTENT_BYTES + 2, Err(Full::TooLarge)),
        (10, 5, &none, 10, Ok(())),
        (10, 5, &none, 11, Err(Full::NoDisk)),
    ] {
        let mut store = store(memory, on_disk, disk);
        let filled = fill(&mut store, &vec![7; length], usize::MAX).await;
        assert_eq!(filled, expected, "{memory} {on_disk} {length}");
    }
}

#[tokio::test]
async fn a_full_disk_accepts_no_more_and_keeps_the_stored_bytes() {
    let disk = Disk::inline(&std::env::temp_dir(), 2 * EXTENT_BYTES as u64).unwrap();
    let mut other = store(0, DISK, &disk);
    fill(&mut other, &vec![1; EXTENT_BYTES + 1], usize::MAX).await.unwrap();
    poll_fn(|cx| other.poll_room(cx, u64::MAX)).await.unwrap();
    let mut full = store(0, DISK, &disk);
    assert_eq!(fill(&mut full, &vec![2; 8 * EXTENT_BYTES], usize::MAX).await, Err(Full::NoDisk));
    let bytes = full.len();
    assert_eq!(read(&mut full, usize::MAX).await.unwrap(), vec![2; bytes as usize], "all that it took");
    full.empty();
    drop(other);
    fill(&mut full, &vec![3; 2 * EXTENT_BYTES + 1], usize::MAX).await.unwrap();
    poll_fn(|cx| full.poll_room(cx, u64::MAX)).await.unwrap();
    assert_eq!(disk.used_bytes(), 2 * EXTENT_BYTES as u64);
}

#[tokio::test]
async fn an_extent_dropped_while_being_written_is_freed() {
    let disk = Disk::open(&std::env::temp_dir(), DISK).unwrap();
    for _ in 0..50 {
        let mut store = store(0, DISK, &disk);
        fill(&mut store, &vec![1; EXTENT_BYTES], usize::MAX).await.unwrap();
        // Starts a write without waiting for it.
        let started = poll_fn(|cx| std::task::Poll::Ready(store.poll_room(cx, u64::MAX).is_ready())).await;
        let _ = started;
    }
    // Queued after all of these for the only thread.
    let mut last = store(0, DISK, &disk);
    fill(&mut last, &vec![1; DISK as usize], usize::MAX).await.unwrap();
    drop(last);
}

#[tokio::test]
async fn responses_have_half_of_the_disk_and_requests_all_of_it() {
    let disk = Disk::inline(&std::env::temp_dir(), 8 * EXTENT_BYTES as u64).unwrap();
    let share = || MemoryPool::default().empty();
    let bounds = BodyBuffer { memory: 0, disk: DISK };
    let mut response = Store::new(BodyKind::Response, bounds, disk.clone(), share());
    let mut other = Store::new(BodyKind::Response, bounds, disk.clone(), share());
    assert_eq!(fill(&mut response, &vec![1; 20 * EXTENT_BYTES], usize::MAX).await, Err(Full::NoDisk));
    assert_eq!(fill(&mut other, &vec![1; 20 * EXTENT_BYTES], usize::MAX).await, Err(Full::NoDisk));
    assert_eq!(disk.used_bytes(), 4 * EXTENT_BYTES as u64);
    let mut request = Store::new(BodyKind::Request, bounds, disk.clone(), share());
    fill(&mut request, &vec![1; 4 * EXTENT_BYTES], usize::MAX).await.unwrap();
    drop((response, other));
    assert_eq!(disk.used_bytes(), 3 * EXTENT_BYTES as u64, "the last extent is written when more comes");
}

#[tokio::test]
async fn a_body_takes_the_memory_that_it_uses() {
    let (memory, disk) = (MemoryPool::default(), disk());
    let bounds = BodyBuffer { memory: 100_000, disk: DISK };
    let mut store = Store::new(BodyKind::Request, bounds, disk, memory.empty());
    let room = poll_fn(|cx| store.poll_room(cx, 5000)).await.unwrap();
    assert_eq!((room, memory.used_bytes()), (4096, 4096));
    store.append(&[1; 4000]);
    assert_eq!(poll_fn(|cx| store.poll_room(cx, 5000)).await, Err(Full::NoMemory));
    fill(&mut store, &vec![1; 500_000], usize::MAX).await.unwrap();
    let limit = (100_000 + 4 * EXTENT_BYTES) as u64;
    assert!((100_000..=limit).contains(&memory.used_bytes()), "{}", memory.used_bytes());
    drop(store);
    assert_eq!(memory.used_bytes(), 0);
}

#[tokio::test]
async fn extents_that_are_free_take_no_space() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Disk::inline(directory.path(), DISK).unwrap();
    let mut stays = store(0, DISK, &disk);
    fill(&mut stays, &vec![1; 3 * EXTENT_BYTES], usize::MAX).await.unwrap();
    let mut goes = store(0, DISK, &disk);
    fill(&mut goes, &vec![2; 40 * EXTENT_BYTES], usize::MAX).await.unwrap();
    let before = disk.blocks();
    drop(goes);
    assert!(disk.blocks() + 30 * EXTENT_BYTES as u64 / 512 < before, "{} of {before}", disk.blocks());
    assert!(read(&mut stays, usize::MAX).await.unwrap() == vec![1; 3 * EXTENT_BYTES]);
}

#[tokio::test]
async fn a_body_with_lost_bytes_is_never_read_to_its_end() {
    for length in [EXTENT_BYTES + 100, EXTENT_BYTES + 101] {
        let mut store = store(100, DISK, &Disk::with_gone_thread());
        fill(&mut store, &vec![1; length], usize::MAX).await.unwrap();
        assert_eq!(poll_fn(|cx| store.poll_room(cx, u64::MAX)).await, Err(Full::NoDisk));
        assert_eq!(read(&mut store, usize::MAX).await, Err(Unreadable), "{length}");
        assert!(!store.is_read(), "{length}");
    }
}

#[test]
fn no_file_can_be_made_where_there_is_no_directory() {
    assert!(Disk::open(std::path::Path::new("/nonexistent"), DISK).is_err());
}
