//! The raw histograms of a run in one tar archive, which grows by one file at a time and is complete after each. Owns the
//! format of the archive; never what is in its files.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

/// Headers and contents take whole blocks.
const BLOCK: usize = 512;
/// Two empty blocks end an archive.
const END: usize = 2 * BLOCK;
/// The longest name that a header has room for.
const LONGEST: usize = 100;

/// Adds a file to the archive at `place`, which is made if there is none.
///
/// # Errors
/// The archive cannot be written, e.g. because the disk is full. What was added before can still be read.
pub(super) fn append(place: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    let mut added = Vec::with_capacity(content.len() + 4 * BLOCK);
    if name.len() > LONGEST {
        // As GNU tar does: the name is the content of an entry of its own.
        entry(&mut added, "././@LongLink", b'L', name.as_bytes());
    }
    entry(&mut added, name, b'0', content);
    added.resize(added.len() + END, 0);
    let mut file = OpenOptions::new().create(true).truncate(false).write(true).open(place)?;
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(END as u64)))?;
    file.write_all(&added)
}

/// Leaves only the files that are wanted, in their order. What a write that was cut short left at the end goes too. The
/// archive is written beside its place and renamed, so that a full disk leaves the one before.
///
/// # Errors
/// The archive cannot be read or written. One that is not there is no error.
pub(super) fn keep(place: &Path, wanted: &BTreeSet<String>) -> io::Result<()> {
    let bytes = match fs::read(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        read => read?,
    };
    let mut kept = Vec::new();
    let (mut rest, mut long) = (bytes.as_slice(), None);
    while let Some(found) = first(rest) {
        rest = &rest[found.raw.len()..];
        if found.kind == b'L' {
            long = Some(found);
            continue;
        }
        let before = long.take();
        let name = before.as_ref().map_or(found.name, |before| before.content);
        if std::str::from_utf8(name).is_ok_and(|name| wanted.contains(name)) {
            kept.extend_from_slice(before.map_or(&[], |before| before.raw));
            kept.extend_from_slice(found.raw);
        }
    }
    kept.resize(kept.len() + END, 0);
    let beside = place.with_extension("tar.new");
    fs::write(&beside, kept)?;
    fs::rename(beside, place)
}

/// A file of an archive, or the long name of the file after it.
struct Found<'a> {
    /// Header and content, in whole blocks.
    raw: &'a [u8],
    kind: u8,
    name: &'a [u8],
    content: &'a [u8],
}

/// What an archive begins with, if that is whole.
fn first(archive: &[u8]) -> Option<Found<'_>> {
    let header = archive.get(..BLOCK)?;
    let length = std::str::from_utf8(&header[124..135]).ok()?;
    let length = usize::from_str_radix(length, 8).ok()?;
    let end = BLOCK.checked_add(length)?;
    let raw = archive.get(..end.checked_next_multiple_of(BLOCK)?)?;
    let name = header[..LONGEST].split(|byte| *byte == 0).next()?;
    Some(Found { raw, kind: header[156], name, content: &raw[BLOCK..end] })
}

fn entry(archive: &mut Vec<u8>, name: &str, kind: u8, content: &[u8]) {
    let mut header = [0_u8; BLOCK];
    let mut field = |at: usize, value: &[u8]| header[at..at + value.len()].copy_from_slice(value);
    field(0, &name.as_bytes()[..name.len().min(LONGEST)]);
    field(100, b"0000644\0");
    field(108, b"0000000\0");
    field(116, b"0000000\0");
    field(124, format!("{:011o}\0", content.len()).as_bytes());
    field(136, b"00000000000\0");
    // The checksum is taken with its own field full of spaces.
    field(148, b"        ");
    field(156, &[kind]);
    field(257, b"ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    archive.extend_from_slice(&header);
    archive.extend_from_slice(content);
    archive.resize(archive.len().next_multiple_of(BLOCK), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn tar_unpacks_what_was_added_one_by_one() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("all.tar");
        let long = format!("{}.hdr", "n".repeat(150));
        let contents: [(&str, Vec<u8>); 4] = [
            ("empty.hdr", Vec::new()),
            ("block.hdr", vec![1; BLOCK]),
            (&long, vec![2; 3]),
            ("last.hdr", vec![3; 1_000]),
        ];
        for (name, content) in &contents {
            append(&place, name, content).unwrap();
            let status = Command::new("tar").arg("-xf").arg(&place).arg("-C").arg(folder.path()).status();
            assert!(status.unwrap().success());
            assert_eq!(&fs::read(folder.path().join(name)).unwrap(), content);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1 + contents.len());
    }

    #[test]
    fn only_wanted_files_are_kept_and_a_torn_end_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("all.tar");
        let long = format!("{}.hdr", "n".repeat(150));
        for (name, content) in
            [("first.hdr", vec![1; BLOCK]), ("dropped.hdr", vec![2; 700]), (&long, vec![3; 3])]
        {
            append(&place, name, &content).unwrap();
        }
        // Killed while it added one more.
        let whole = fs::read(&place).unwrap();
        append(&place, "torn.hdr", &[4; 5_000]).unwrap();
        let torn = fs::read(&place).unwrap();
        fs::write(&place, &torn[..whole.len() + 1_000]).unwrap();
        let wanted = ["first.hdr", long.as_str(), "torn.hdr", "nowhere.hdr"].map(str::to_owned).into();
        keep(&place, &wanted).unwrap();
        append(&place, "next.hdr", b"next").unwrap();
        let listed = Command::new("tar").arg("-tf").arg(&place).output().unwrap();
        assert!(listed.status.success());
        let listed = String::from_utf8(listed.stdout).unwrap();
        assert_eq!(listed.lines().collect::<Vec<_>>(), ["first.hdr", &long, "next.hdr"]);
        let status = Command::new("tar").arg("-xf").arg(&place).arg("-C").arg(folder.path()).status();
        assert!(status.unwrap().success());
        assert_eq!(fs::read(folder.path().join(&long)).unwrap(), [3; 3]);
        assert_eq!(fs::read(folder.path().join("first.hdr")).unwrap(), [1; BLOCK]);
    }

    #[test]
    fn an_archive_that_is_not_there_stays_so() {
        let place = tempfile::tempdir().unwrap().path().join("none.tar");
        keep(&place, &BTreeSet::new()).unwrap();
        assert!(!place.exists());
    }
}
