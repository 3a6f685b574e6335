//! What happens to an MCAP file when the disk is full or another program changes the file.

use super::{count, read};
use crate::channels::Format;
use crate::recording::claim::Claim;
use crate::recording::file::RecordingFile;
use crate::recording::mcap::Mcap;
use crate::recording::tests::testing::{UTC, block, column, content, in_folder, limits, moment, names, row, samples};
use crate::recording::writer::Writer;
use std::fs;
use std::path::Path;

fn mcap(path: &Path) -> Mcap {
    Mcap::new(RecordingFile::new(path.into(), Claim::take(path).unwrap(), limits(path), false))
}

/// A recording with one value and one row every second from the first on. Two chunks with one row each are on the disk, and a third row
/// waits.
fn three_rows(path: &Path) -> Mcap {
    let mut mcap = mcap(path);
    mcap.join(0, &content(vec![column("v", "")], None), &limits(path));
    for millis in [0, 1_000, 1_500] {
        mcap.begin(moment(millis));
        mcap.row(0, &row(millis.unsigned_abs(), &[1.0]), UTC);
        if millis < 1_500 {
            mcap.write();
        }
    }
    mcap
}

fn sequences(path: &Path) -> Vec<u32> {
    read(path).into_iter().map(|message| message.sequence).collect()
}

#[test]
fn a_file_that_was_moved_away_is_finished_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (path, moved) = (folder.path().join("x.mcap"), folder.path().join("moved.mcap"));
    let mut mcap = three_rows(&path);
    fs::rename(&path, &moved).unwrap();
    mcap.begin(moment(3_000));
    mcap.row(0, &row(3_000, &[1.0]), UTC);
    mcap.finish().unwrap();
    assert_eq!((sequences(&moved), count(&moved)), (vec![0, 1_000, 1_500], Some(3)));
    assert_eq!((sequences(&path), count(&path)), (vec![3_000], Some(1)));
    assert_eq!((mcap.counts(0).rows, mcap.counts(0).lost, mcap.counts(0).files), (4, 0, 2));
}

#[test]
fn what_waits_for_a_deleted_file_is_lost_and_counted() {
    let (_folder, path) = in_folder("x.mcap");
    let mut mcap = three_rows(&path);
    fs::remove_file(&path).unwrap();
    mcap.begin(moment(3_000));
    mcap.row(0, &row(3_000, &[1.0]), UTC);
    mcap.finish().unwrap();
    assert_eq!((sequences(&path), count(&path)), (vec![3_000], Some(1)));
    assert_eq!((mcap.counts(0).rows, mcap.counts(0).lost), (1, 3));
}

#[test]
fn a_file_that_was_cut_off_is_put_aside_as_it_is() {
    let (folder, path) = in_folder("x.mcap");
    // Cut off before the end of the last chunk, or to nothing; noticed by the next drain, or by the next write.
    for (cut, by_write) in [(40, false), (40, true), (u64::MAX, false), (u64::MAX, true)] {
        let mut mcap = three_rows(&path);
        let length = fs::metadata(&path).unwrap().len().saturating_sub(cut);
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length).unwrap();
        let left = fs::read(&path).unwrap();
        match by_write {
            true => mcap.write(),
            false => mcap.begin(moment(1_510)),
        }
        assert!(mcap.flush().unwrap_err().to_string().contains("another program"));
        mcap.row(0, &row(2_000, &[1.0]), UTC);
        mcap.finish().unwrap();
        assert_eq!((sequences(&path), count(&path)), (vec![2_000], Some(1)));
        // Of the two chunks on the disk, either the first remains whole, or nothing remains.
        let kept = u64::from(length > 0);
        assert_eq!((mcap.counts(0).rows, mcap.counts(0).lost), (1 + kept, 3 - kept));
        let aside: Vec<_> = names(folder.path()).into_iter().filter(|name| name != "x.mcap").collect();
        assert_eq!(aside.len(), usize::from(length > 0), "{aside:?}");
        for name in &aside {
            assert_eq!(fs::read(folder.path().join(name)).unwrap(), left, "nothing is written behind what is left");
            fs::remove_file(folder.path().join(name)).unwrap();
        }
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn what_a_full_disk_does_not_take_waits_or_is_counted() {
    let (_folder, path) = in_folder("x.mcap");
    let content = content(vec![column("v", "")], None);
    let mut mcap = mcap(&path);
    mcap.join(0, &content, &limits(&path));
    let tick = |mcap: &mut Mcap, millis: i64| {
        mcap.begin(moment(millis));
        mcap.row(0, &row(millis.unsigned_abs(), &[1.0]), UTC);
        mcap.flush()
    };
    tick(&mut mcap, 0).unwrap();
    tick(&mut mcap, 1_000).unwrap();
    let counts = |mcap: &Mcap| (mcap.counts(0).rows, mcap.counts(0).lost);
    assert_eq!(counts(&mcap), (2, 0));
    let whole = fs::read(&path).unwrap();
    mcap.fill_up();
    tick(&mut mcap, 1_100).unwrap();
    tick(&mut mcap, 1_900).unwrap();
    // The disk does not accept the chunk, so it waits; messages after it find no room.
    mcap.write();
    assert!(mcap.flush().is_err());
    mcap.row(0, &row(2_000, &[1.0]), UTC);
    assert_eq!(counts(&mcap), (2, 1));
    assert_eq!(fs::read(&path).unwrap(), whole, "the file ends with a whole chunk");
    // There is room again: the same file continues with the chunk that has waited.
    mcap.make_room();
    tick(&mut mcap, 2_950).unwrap();
    assert_eq!(counts(&mcap), (4, 1));
    tick(&mut mcap, 3_000).unwrap();
    mcap.finish().unwrap();
    let sequences: Vec<_> = read(&path).into_iter().map(|message| message.sequence).collect();
    assert_eq!((counts(&mcap), sequences), ((6, 1), vec![0, 1_000, 1_100, 1_900, 2_950, 3_000]));
    assert_eq!(count(&path), Some(6));
}

#[test]
fn a_block_that_is_lost_from_its_middle_on_counts_as_lost() {
    let (_folder, path) = in_folder("x.mcap");
    let content = content(Vec::new(), Some(Format::Samples(vec![column("x", ""), column("y", "")])));
    let mut mcap = mcap(&path);
    mcap.join(0, &content, &limits(&path));
    mcap.begin(moment(0));
    mcap.fill_up();
    // More than a chunk: the full disk is noticed within the block.
    let many = samples(&vec![(1, 0.5, -1.0); 30_000]);
    mcap.block(0, &block(0, &many), UTC);
    assert!(mcap.flush().is_err());
    assert_eq!((mcap.counts(0).blocks, mcap.counts(0).lost), (0, 1));
    mcap.make_room();
    mcap.begin(moment(2_000));
    mcap.block(0, &block(30_000, &many[..24]), UTC);
    mcap.finish().unwrap();
    let counts = mcap.counts(0);
    assert_eq!((counts.blocks, counts.lost, counts.gaps), (1, 1, 1));
    assert_eq!(read(&path).len() as u64, counts.samples);
}

#[test]
fn an_end_that_finds_no_room_leaves_whole_chunks() {
    let (_folder, path) = in_folder("x.mcap");
    let mut mcap = mcap(&path);
    mcap.join(0, &content(vec![column("v", "")], None), &limits(&path));
    mcap.begin(moment(0));
    mcap.row(0, &row(1, &[1.0]), UTC);
    mcap.write();
    mcap.row(0, &row(2, &[1.0]), UTC);
    mcap.fill_up();
    mcap.finish().unwrap_err();
    assert_eq!((mcap.counts(0).rows, mcap.counts(0).lost), (1, 1));
    assert_eq!(read(&path).len(), 1);
}
