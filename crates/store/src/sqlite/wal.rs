//! The write-ahead log beside a database, read without SQLite.
//!
//! SQLite takes a log up to the first frame that does not fit its checksum, and drops the rest without a word: that is how
//! the end of a log looks after a power loss. A log that is hurt in its header or in its middle looks the same to it, and
//! then whole sessions would be gone. So we look before SQLite does.

use std::{collections::HashMap, fs::File, ops::Range, os::unix::fs::FileExt, path::Path};

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;

/// The last bit says in which order its checksums read numbers.
const MAGIC: u32 = 0x377f_0682;

/// Every commit is flushed before the next begins, so a power loss tears one transaction: one commit may stand behind the
/// tear. Where there are more, something that had been flushed is hurt.
const COMMITS_TORN_MAX: usize = 1;

/// What a burst leaves at most (`schema.rs`), read in some hundredths of a second. Of a larger log only the header is checked.
const SCANNED_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Where the newest committed bytes of a page lie.
type Newest = HashMap<u32, u64>;

pub(super) struct Wal {
    pub(super) file: File,
    /// As far as SQLite goes.
    pub(super) newest: Newest,
    /// Nothing where the log ends as logs end. Else what stands behind the damage, on top of what stands before it.
    pub(super) with_beyond: Option<Newest>,
}

/// Whether SQLite would drop what was committed. Another process that writes just now can make it look so.
pub(super) fn is_hurt(path: &Path, page_bytes: usize) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let length = file.metadata().map_or(0, |file| file.len());
    let reader = Reader::new(&file, page_bytes);
    if reader.frames.is_empty() {
        return false;
    }
    match reader.header() {
        None => true,
        Some(_) if SCANNED_BYTES_MAX < length => false,
        Some(header) => reader.is_hurt_after(&header, &reader.chain(&header)),
    }
}

impl Wal {
    pub(super) fn open(path: &Path, page_bytes: usize) -> Option<Self> {
        let file = File::open(path).ok()?;
        let reader = Reader::new(&file, page_bytes);
        let (newest, with_beyond) = match reader.header() {
            Some(header) => {
                let chain = reader.chain(&header);
                let is_hurt = reader.is_hurt_after(&header, &chain);
                let Chain { newest, open, broken } = chain;
                let with_beyond = is_hurt.then(|| newest.clone().into_iter().chain(reader.beyond(&header, broken, open)).collect());
                (newest, with_beyond)
            }
            None => (Newest::new(), reader.guessed_header().map(|header| reader.beyond(&header, 0, Vec::new()))),
        };
        Some(Self { file, newest, with_beyond })
    }
}

/// What all frames of a log have in common.
struct Header {
    is_big: bool,
    sum: (u32, u32),
    salts: [u8; 8],
}

/// What can be proven whole.
struct Chain {
    newest: Newest,
    /// Frames at its end that were not committed any more.
    open: Vec<(u32, u64)>,
    /// The first frame that cannot.
    broken: usize,
}

struct Reader<'a> {
    file: &'a File,
    page_bytes: usize,
    /// The numbers of all frames that are there in full length.
    frames: Range<usize>,
}

impl<'a> Reader<'a> {
    fn new(file: &'a File, page_bytes: usize) -> Self {
        let length = file.metadata().map_or(0, |file| file.len()).saturating_sub(HEADER_BYTES as u64);
        let count = usize::try_from(length).unwrap_or(usize::MAX) / (FRAME_HEADER_BYTES + page_bytes);
        Self { file, page_bytes, frames: 0..count }
    }

    fn head(&self) -> Option<[u8; HEADER_BYTES]> {
        let mut head = [0; HEADER_BYTES];
        self.file.read_exact_at(&mut head, 0).ok().map(|()| head)
    }

    fn header(&self) -> Option<Header> {
        let head = self.head()?;
        let magic = word(&head, 0);
        let is_big = magic & 1 == 1;
        let sum = checksum(is_big, (0, 0), &head[..24]);
        let is_whole =
            magic & !1 == MAGIC && usize::try_from(word(&head, 2)) == Ok(self.page_bytes) && sum == (word(&head, 6), word(&head, 7));
        is_whole.then(|| Header { is_big, sum, salts: salts(&head[16..]) })
    }

    /// Where the header is hurt its frames still tell: two neighbours of one log have the same salts.
    fn guessed_header(&self) -> Option<Header> {
        let head = self.head()?;
        let told: Vec<[u8; 8]> =
            self.frames.clone().map_while(|number| self.frame_header(number)).map(|frame| salts(&frame[8..])).collect();
        let own = salts(&head[16..]);
        let salts = if told.contains(&own) { own } else { *told.windows(2).find(|two| two[0] == two[1])?.first()? };
        Some(Header { is_big: cfg!(target_endian = "big"), sum: (word(&head, 6), word(&head, 7)), salts })
    }

    fn place(&self, number: usize) -> u64 {
        HEADER_BYTES as u64 + number as u64 * (FRAME_HEADER_BYTES + self.page_bytes) as u64
    }

    fn frame_header(&self, number: usize) -> Option<[u8; FRAME_HEADER_BYTES]> {
        let mut frame = [0; FRAME_HEADER_BYTES];
        self.file.read_exact_at(&mut frame, self.place(number)).ok().map(|()| frame)
    }

    /// What was committed and can be proven whole. The rest was never there for SQLite either.
    fn chain(&self, header: &Header) -> Chain {
        let (mut newest, mut open, mut sum) = (Newest::new(), Vec::new(), header.sum);
        let mut frame = vec![0; FRAME_HEADER_BYTES + self.page_bytes];
        for number in self.frames.clone() {
            let is_read = self.file.read_exact_at(&mut frame, self.place(number)).is_ok();
            sum = sum_of(header, sum, &frame);
            if !is_read || sum != told_sum(&frame) || salts(&frame[8..]) != header.salts {
                return Chain { newest, open, broken: number };
            }
            self.take(number, &frame, &mut open, &mut newest);
        }
        Chain { newest, open, broken: self.frames.end }
    }

    fn take(&self, number: usize, frame: &[u8], open: &mut Vec<(u32, u64)>, newest: &mut Newest) {
        open.push((word(frame, 0), self.place(number) + FRAME_HEADER_BYTES as u64));
        if is_commit(frame) {
            newest.extend(open.drain(..));
        }
    }

    fn is_hurt_after(&self, header: &Header, chain: &Chain) -> bool {
        let behind = (chain.broken..self.frames.end).map_while(|number| self.frame_header(number));
        let commits = behind.filter(|frame| is_commit(frame) && salts(&frame[8..]) == header.salts);
        COMMITS_TORN_MAX < commits.take(COMMITS_TORN_MAX + 1).count()
    }

    /// What was committed from this frame on. A checksum begins with the one before it, so a frame can be proven by its
    /// neighbour; behind one that is hurt there is no proof, and it is taken for what it says.
    fn beyond(&self, header: &Header, from: usize, mut open: Vec<(u32, u64)>) -> Newest {
        let mut newest = Newest::new();
        let before = from.checked_sub(1).and_then(|number| self.frame_header(number));
        let (mut sum, mut is_proof) = (before.map_or(header.sum, |frame| told_sum(&frame)), from != 0);
        let mut frame = vec![0; FRAME_HEADER_BYTES + self.page_bytes];
        for number in from..self.frames.end {
            if self.file.read_exact_at(&mut frame, self.place(number)).is_err() {
                is_proof = false;
                continue;
            }
            let is_ours = salts(&frame[8..]) == header.salts;
            let is_taken = is_ours && (!is_proof || sum_of(header, sum, &frame) == told_sum(&frame));
            if is_taken {
                self.take(number, &frame, &mut open, &mut newest);
            } else if is_ours && is_commit(&frame) {
                newest.extend(open.drain(..));
            }
            sum = told_sum(&frame);
            is_proof = is_taken;
        }
        newest
    }
}

fn word(bytes: &[u8], nth: usize) -> u32 {
    u32::from_be_bytes([bytes[nth * 4], bytes[nth * 4 + 1], bytes[nth * 4 + 2], bytes[nth * 4 + 3]])
}

fn salts(bytes: &[u8]) -> [u8; 8] {
    let mut salts = [0; 8];
    salts.copy_from_slice(&bytes[..8]);
    salts
}

fn is_commit(frame: &[u8]) -> bool {
    word(frame, 1) != 0
}

fn told_sum(frame: &[u8]) -> (u32, u32) {
    (word(frame, 4), word(frame, 5))
}

fn sum_of(header: &Header, before: (u32, u32), frame: &[u8]) -> (u32, u32) {
    checksum(header.is_big, checksum(header.is_big, before, &frame[..8]), &frame[FRAME_HEADER_BYTES..])
}

fn checksum(is_big: bool, mut sum: (u32, u32), bytes: &[u8]) -> (u32, u32) {
    let number = |bytes: &[u8]| {
        let bytes = [bytes[0], bytes[1], bytes[2], bytes[3]];
        if is_big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    };
    for pair in bytes.chunks_exact(8) {
        sum.0 = sum.0.wrapping_add(number(&pair[..4])).wrapping_add(sum.1);
        sum.1 = sum.1.wrapping_add(number(&pair[4..])).wrapping_add(sum.0);
    }
    sum
}
