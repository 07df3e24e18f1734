//! The pages of a database file, read without SQLite: for a file that SQLite refuses, or stops in the middle of.
//!
//! Knows the layout of the file, nothing of our tables; its write-ahead log is read in `wal.rs`. Nothing in here is trusted: every
//! number is checked against what is there, a chain of pages has a bound, and what does not fit together is no row.

use std::{collections::HashMap, fs::File, io, ops::Range, os::unix::fs::FileExt, path::Path};

use super::{schema::wal_of, wal::Wal};

/// What SQLite uses where nobody chose otherwise; we never do.
const PAGE_BYTES: usize = 4096;

/// The header of the file takes the beginning of the first page.
const FILE_HEADER_BYTES: usize = 100;

/// Where the header has the number that `PRAGMA user_version` sets.
const FORMAT_AT: usize = 60;

const LEAF_OF_TABLE: u8 = 13;
const LEAF_OF_INDEX: u8 = 10;
const INNER_OF_INDEX: u8 = 2;

/// More than SQLite stores in one row.
const ROW_BYTES_MAX: usize = 1 << 30;

/// No table of ours has as many columns.
const COLUMNS_MAX: usize = 16;

pub(super) struct Pages {
    file: File,
    size: usize,
    in_file: u32,
    /// The numbers of those that are only in the write-ahead log.
    in_wal: Vec<u32>,
    count: u32,
    /// Pages that are newer in the write-ahead log: where each lies in it.
    newer: Option<(File, HashMap<u32, u64>)>,
}

/// One row as it lies on its page; what is too long for the page goes on elsewhere.
pub(super) struct Cell {
    /// Rows of an index, and of a table without row ids, have none.
    pub(super) rowid: Option<i64>,
    payload: usize,
    local: Range<usize>,
    overflow: Option<u32>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Integer(i64),
    Text(String),
    Blob(Vec<u8>),
}

/// What a column holds, as its row's header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    Null,
    Integer(usize),
    Constant(i64),
    Text(usize),
    Blob(usize),
}

impl Pages {
    /// The file as SQLite sees it. Where its log is hurt there is a second sight of it, with what stands behind the damage:
    /// some pages are newer there, and some rows are only in one of the two.
    pub(super) fn open(path: &Path) -> io::Result<Vec<Self>> {
        let file = File::open(path)?;
        let size = page_bytes(&file);
        let Some(wal) = Wal::open(&wal_of(path), size) else { return Ok(vec![Self::with(file, size, None)?]) };
        let second = wal.with_beyond.map(|newest| Self::with(file.try_clone()?, size, Some((wal.file.try_clone()?, newest))));
        let mut sights = vec![Self::with(file, size, Some((wal.file, wal.newest)))?];
        sights.extend(second.transpose()?);
        Ok(sights)
    }

    fn with(file: File, size: usize, newer: Option<(File, HashMap<u32, u64>)>) -> io::Result<Self> {
        let in_file = file.metadata()?.len().div_ceil(size as u64);
        let in_file = u32::try_from(in_file).unwrap_or(u32::MAX);
        // A log that is hurt may speak of any number: what is in neither is not walked.
        let mut in_wal: Vec<u32> = newer.iter().flat_map(|(_, newest)| newest.keys().copied()).filter(|number| in_file < *number).collect();
        in_wal.sort_unstable();
        let count = in_wal.last().map_or(in_file, |last| *last);
        Ok(Self { file, size, in_file, in_wal, count, newer })
    }

    /// Pages are counted from one.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        (1..=self.in_file).chain(self.in_wal.iter().copied())
    }

    /// Where nothing was ever stored: a file that only says that its contents are in the log.
    pub(super) fn holds_nothing(path: &Path) -> bool {
        let mut head = [0; FILE_HEADER_BYTES + 8];
        let is_read = File::open(path).and_then(|file| file.read_exact_at(&mut head, 0)).is_ok();
        is_read
            && head[..16] == *b"SQLite format 3\0"
            && head[FORMAT_AT..FORMAT_AT + 4] == [0; 4]
            && number_at(&head, FILE_HEADER_BYTES + 3) == 0
    }

    /// The bytes of a page. What the disk cannot read, or the file no longer has, is zeros.
    pub(super) fn page(&self, number: u32) -> Vec<u8> {
        let mut page = vec![0; self.size];
        if number == 0 || self.count < number {
            return page;
        }
        let newer = self.newer.as_ref().and_then(|(file, newest)| Some((file, *newest.get(&number)?)));
        let (file, place) = newer.unwrap_or((&self.file, u64::from(number - 1) * self.size as u64));
        let mut filled = 0;
        while filled < self.size {
            match file.read_at(&mut page[filled..], place + filled as u64) {
                Ok(0) | Err(_) => break,
                Ok(read) => filled += read,
            }
        }
        page
    }

    /// The rows that lie on a page, if it is one that holds rows.
    pub(super) fn cells(&self, number: u32, page: &[u8]) -> Vec<Cell> {
        let start = if number == 1 { FILE_HEADER_BYTES } else { 0 };
        let Some(&kind) = page.get(start) else { return Vec::new() };
        let header = match kind {
            LEAF_OF_TABLE | LEAF_OF_INDEX => 8,
            INNER_OF_INDEX => 12,
            _ => return Vec::new(),
        };
        let count = usize::from(number_at(page, start + 3));
        (0..count)
            .filter_map(|nth| {
                let pointer = start + header + 2 * nth;
                if page.len() < pointer + 2 {
                    return None;
                }
                self.cell(page, kind, usize::from(number_at(page, pointer)))
            })
            .collect()
    }

    fn cell(&self, page: &[u8], kind: u8, at: usize) -> Option<Cell> {
        let mut at = if kind == INNER_OF_INDEX { at.checked_add(4)? } else { at };
        let (payload, read) = varint(page.get(at..)?)?;
        at += read;
        let mut rowid = None;
        if kind == LEAF_OF_TABLE {
            let (id, read) = varint(page.get(at..)?)?;
            rowid = Some(id);
            at += read;
        }
        let payload = usize::try_from(payload).ok().filter(|payload| *payload <= ROW_BYTES_MAX)?;
        // How much of a long row stays on its page: the rule of the file format.
        let most = if kind == LEAF_OF_TABLE { self.size - 35 } else { (self.size - 12) * 64 / 255 - 23 };
        let local = if payload <= most {
            payload
        } else {
            let least = (self.size - 12) * 32 / 255 - 23;
            let fitting = least + (payload - least) % (self.size - 4);
            if fitting <= most { fitting } else { least }
        };
        let local = at..at.checked_add(local).filter(|end| *end <= page.len())?;
        let overflow = if local.len() < payload {
            let bytes = page.get(local.end..local.end + 4)?;
            Some(u32::from_be_bytes(bytes.try_into().ok()?))
        } else {
            None
        };
        Some(Cell { rowid, payload, local, overflow })
    }

    /// What the columns of a row are, without reading what lies on other pages.
    pub(super) fn columns(page: &[u8], cell: &Cell) -> Option<Vec<Column>> {
        columns(page.get(cell.local.clone())?).map(|(columns, _)| columns)
    }

    /// The whole row, from all its pages.
    pub(super) fn row(&self, page: &[u8], cell: &Cell) -> Option<Vec<Value>> {
        let mut bytes = page.get(cell.local.clone())?.to_vec();
        let mut next = cell.overflow;
        while bytes.len() < cell.payload {
            let number = next.filter(|number| 1 < *number && *number <= self.count)?;
            let page = self.page(number);
            let more = (cell.payload - bytes.len()).min(self.size - 4);
            bytes.extend_from_slice(page.get(4..4 + more)?);
            next = Some(u32::from_be_bytes(page[..4].try_into().ok()?));
        }
        values(&bytes)
    }
}

/// As the header of the file says, if that can be.
pub(super) fn page_bytes(file: &File) -> usize {
    let mut head = [0; FILE_HEADER_BYTES];
    let read = file.read_at(&mut head, 0).unwrap_or(0);
    let told = if read < head.len() { 0 } else { usize::from(u16::from_be_bytes([head[16], head[17]])) };
    if (512..=32768).contains(&told) && told.is_power_of_two() { told } else { PAGE_BYTES }
}

fn number_at(page: &[u8], at: usize) -> u16 {
    page.get(at..at + 2).map_or(0, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// A number of one to nine bytes, and how many they were.
fn varint(bytes: &[u8]) -> Option<(i64, usize)> {
    let mut number = 0_u64;
    for (nth, byte) in bytes.iter().enumerate().take(8) {
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((number as i64, nth + 1));
        }
    }
    Some(((number << 8 | u64::from(*bytes.get(8)?)) as i64, 9))
}

/// The columns of a row and where their values begin.
fn columns(bytes: &[u8]) -> Option<(Vec<Column>, usize)> {
    let (header, mut at) = varint(bytes)?;
    let header = usize::try_from(header).ok()?;
    let mut columns = Vec::new();
    while at < header {
        let (kind, read) = varint(bytes.get(at..header)?)?;
        at += read;
        let length = |from: i64| usize::try_from((kind - from) / 2).ok().filter(|length| *length <= ROW_BYTES_MAX);
        columns.push(match kind {
            0 => Column::Null,
            1..=4 => Column::Integer(usize::try_from(kind).ok()?),
            5 => Column::Integer(6),
            6 => Column::Integer(8),
            8 | 9 => Column::Constant(kind - 8),
            12.. if kind % 2 == 0 => Column::Blob(length(12)?),
            13.. => Column::Text(length(13)?),
            // Fractions are in no table of ours.
            _ => return None,
        });
        if COLUMNS_MAX < columns.len() {
            return None;
        }
    }
    (at == header).then_some((columns, at))
}

fn values(bytes: &[u8]) -> Option<Vec<Value>> {
    let (columns, mut at) = columns(bytes)?;
    let mut take = |length: usize| {
        let piece = bytes.get(at..at.checked_add(length)?);
        at += length;
        piece
    };
    columns
        .into_iter()
        .map(|column| {
            Some(match column {
                Column::Null => Value::Null,
                Column::Constant(number) => Value::Integer(number),
                Column::Integer(length) => {
                    let piece = take(length)?;
                    let sign = if piece[0] & 0x80 == 0 { 0 } else { -1_i64 };
                    Value::Integer(piece.iter().fold(sign, |number, byte| number << 8 | i64::from(*byte)))
                }
                Column::Text(length) => Value::Text(std::str::from_utf8(take(length)?).ok()?.to_owned()),
                Column::Blob(length) => Value::Blob(take(length)?.to_vec()),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use rusqlite::{Connection, params};

    use super::*;

    fn rows_of(path: &Path) -> Vec<(i64, Vec<Value>)> {
        let pages = Pages::open(path).unwrap().pop().unwrap();
        let mut rows = Vec::new();
        for number in pages.numbers().skip(1) {
            let page = pages.page(number);
            for cell in pages.cells(number, &page) {
                let _ = Pages::columns(&page, &cell);
                if let (Some(rowid), Some(row)) = (cell.rowid, pages.row(&page, &cell)) {
                    rows.push((rowid, row));
                }
            }
        }
        rows.sort_by_key(|(rowid, _)| *rowid);
        rows
    }

    /// SQLite itself is the other reader: what it wrote is what is found, of every length and kind, also in the log.
    #[test]
    fn every_row_that_sqlite_wrote_is_found_without_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("posse.db");
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (a INTEGER PRIMARY KEY, b, c, d)").unwrap();
        let numbers = [0, 1, -1, 127, -128, 40_000, -40_000, 1 << 23, 1 << 31, -(1 << 40), 1 << 47, i64::MAX, i64::MIN];
        let mut expected = Vec::new();
        for nth in 0..400_i64 {
            let text = "é".repeat((nth * 37 % 9_000) as usize);
            let blob = vec![nth as u8; (nth * nth % 20_000) as usize];
            let number = numbers[nth as usize % numbers.len()];
            connection.execute("INSERT INTO t VALUES (?1, ?2, ?3, ?4)", params![nth << 20, text, number, blob]).unwrap();
            expected.push((nth << 20, vec![Value::Null, Value::Text(text), Value::Integer(number), Value::Blob(blob)]));
            if nth == 200 {
                connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
            }
        }
        assert!(rows_of(&path) == expected, "with the second half in the log");
        drop(connection);
        assert!(rows_of(&path) == expected, "with all of it in the file");
    }

    #[test]
    fn nonsense_is_no_row_and_no_panic() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("posse.db");
        let mut seed = 1_u64;
        for round in 0..60 {
            let mut noise: Vec<u8> = std::iter::repeat_with(|| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (seed >> 56) as u8
            })
            .take(40_000)
            .collect();
            // Pages that claim to hold rows, which random bytes seldom do.
            noise.chunks_mut(PAGE_BYTES).for_each(|page| page[0] = [LEAF_OF_TABLE, LEAF_OF_INDEX, INNER_OF_INDEX][round % 3]);
            std::fs::write(&path, &noise).unwrap();
            std::fs::write(wal_of(&path), &noise).unwrap();
            rows_of(&path);
        }
    }
}
