//! `read`: a window of a text file with line numbers, a directory's entries, or an image.
//!
//! Files are streamed: a line, a window, the answer and the time have bounds, the file has none. Pipes and devices are not
//! opened. UTF-16 is shown as text; what else is no text is said to be what it is.

use std::{
    borrow::Cow,
    fs::{self, File, OpenOptions},
    io::{self, BufReader, Read as _, Seek},
    sync::Arc,
    time::Instant,
};

use posse_session::{BoxFuture, Look, Outcome, Part, Tool, ToolCall, ToolContext, ToolSpec, Workspace};
use serde_json::{Value, json};

use crate::{
    arguments::{Arguments, FILE_PATH, Parameter},
    blocking::blocking,
    charset,
    files::{self, Memory},
    judged::Judged,
    paths::{Place, trouble},
    private::Private,
    text::{Lines, base64, title, visible},
    walk::TIME_MAX,
};

const OFFSET: Parameter = Parameter::new("offset", &["startLine", "line"]);
const LIMIT: Parameter = Parameter::new("limit", &["lines", "numLines"]);

/// What one call shows unless it asks for less: most source files in one piece.
const LINES_MAX: u64 = 2_000;
/// Longer lines are minified code or data; the model can cut them with bash.
const LINE_CHARS_MAX: usize = 2_000;
/// About 12,000 tokens.
const OUTPUT_BYTES_MAX: usize = 50 * 1024;
/// What providers accept for one image.
const IMAGE_BYTES_MAX: u64 = 5 * 1024 * 1024;
/// Entries of a directory; more is a job for glob.
const ENTRIES_MAX: usize = 500;
/// A NUL this early means that the file is no text.
const PROBE_BYTES: usize = 8 * 1024;
/// Files up to here are read at once on the spot; that takes less time than handing them to another thread.
const INLINE_BYTES_MAX: u64 = 1024 * 1024;
/// Beyond the window lines are only counted, in files up to this size.
const COUNTED_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// UTF-16 is decoded as a whole; so large a text is data.
const UTF16_BYTES_MAX: u64 = 16 * 1024 * 1024;

pub(crate) struct Read {
    spec: ToolSpec,
    judged: Judged,
}

struct Wanted {
    place: Place,
    offset: u64,
    limit: u64,
}

impl Read {
    pub(crate) fn new() -> Self {
        let spec = ToolSpec {
            name: "read".into(),
            description: "Read a file, a window of it, or an image. Each line is shown as `number|text`; the number and the bar are not part of the file. \
                Up to 2000 lines are shown; for more, call again with the offset that the answer names. A directory gives its entries. \
                To search in files use grep, to find files by name use glob; do not use bash with cat, head or tail for this."
                .into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "filePath": {"type": "string", "description": "The file or directory: absolute, or relative to the working directory."},
                    "offset": {"type": "integer", "minimum": 1, "description": "The first line to show, counted from 1. Default 1."},
                    "limit": {"type": "integer", "minimum": 1, "description": "How many lines to show. Default and maximum 2000."}
                },
                "required": ["filePath"]
            }),
        };
        Self { spec, judged: Judged::default() }
    }
}

impl Tool for Read {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn look(&self, input: &Value, workspace: &dyn Workspace) -> Result<Look, String> {
        let wanted = wanted(input, workspace)?;
        let touches = wanted.place.read_touches("read");
        self.judged.note(input, &touches);
        Ok(Look { touches, repeatable: true, title: title(&wanted.place.name), ..Look::default() })
    }

    fn run<'a>(&'a self, call: &'a ToolCall, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let workspace = &*context.workspace;
            let wanted = wanted(&call.input, workspace).and_then(|wanted| {
                self.judged.check(&call.input, &wanted.place.read_touches("read"), &wanted.place)?;
                Ok(wanted)
            });
            let wanted = match wanted {
                Ok(wanted) => wanted,
                Err(words) => return Outcome::failed(words),
            };
            let (private, memory) = (Private::of(workspace), Arc::clone(&context.memory));
            let is_small = |metadata: &fs::Metadata| metadata.is_file() && metadata.len() <= INLINE_BYTES_MAX;
            let small = wanted.place.find().is_ok_and(|found| is_small(&found.metadata));
            if small {
                return outcome(&wanted, &private, &memory, &|| false).unwrap_or_else(Outcome::failed);
            }
            blocking("read", context, move |stopped| outcome(&wanted, &private, &memory, stopped)).await
        })
    }
}

fn outcome(wanted: &Wanted, private: &Private, memory: &Memory, stopped: &dyn Fn() -> bool) -> Result<Outcome, String> {
    let shown = show(wanted, private, stopped)?;
    if shown.is_text {
        files::remember(memory, &wanted.place, shown.whole.as_deref());
    }
    let (output, title) = (shown.output.into(), title(&wanted.place.name));
    Ok(Outcome::Done { output, title, metadata: Some(shown.metadata), attachments: shown.attachments })
}

struct Shown {
    output: String,
    metadata: Value,
    attachments: Vec<Part>,
    is_text: bool,
    /// The whole file, when it was small.
    whole: Option<Vec<u8>>,
}

impl Shown {
    fn words(output: String, metadata: Value) -> Self {
        Self { output, metadata, attachments: Vec::new(), is_text: false, whole: None }
    }
}

fn wanted(input: &Value, workspace: &dyn Workspace) -> Result<Wanted, String> {
    let arguments = Arguments::new("read", input)?;
    Ok(Wanted {
        place: Place::of(workspace, arguments.filled_text(FILE_PATH)?)?,
        offset: arguments.maybe_number(OFFSET)?.unwrap_or(1).max(1),
        limit: arguments.maybe_number(LIMIT)?.filter(|limit| *limit != 0).unwrap_or(LINES_MAX).min(LINES_MAX),
    })
}

fn show(wanted: &Wanted, private: &Private, stopped: &dyn Fn() -> bool) -> Result<Shown, String> {
    let place = &wanted.place;
    let trouble = |error: io::Error| trouble(place, &error);
    let found = place.find().map_err(trouble)?;
    if found.metadata.is_dir() {
        return found.entries().and_then(|entries| show_directory(place, entries, stopped)).map_err(trouble);
    }
    let (mut file, metadata) = files::open_found(found, private, OpenOptions::new().read(true)).map_err(trouble)?;
    let mut probe = Vec::new();
    file.by_ref().take(PROBE_BYTES as u64).read_to_end(&mut probe).map_err(trouble)?;
    file.rewind().map_err(trouble)?;
    if let Some(mime) = image(&probe) {
        return show_image(place, file, metadata.len(), mime);
    }
    if probe.starts_with(b"%PDF-") {
        let words = "Its text is to be had with bash: `pdftotext -layout FILE -` (from poppler-utils).";
        return Err(format!("{} is a PDF document of {} bytes, which read does not show. {words}", place.name, metadata.len()));
    }
    if let Some(big) = utf16_order(&probe) {
        return show_utf16(wanted, file, metadata.len(), big, stopped);
    }
    if probe.contains(&0) {
        let words = "Use bash with a program that understands it.";
        return Err(format!("{} is not text: {} bytes of {}. {words}", place.name, metadata.len(), guess(&probe)));
    }
    if probe.is_empty() {
        let mut shown = Shown::words(format!("{} is empty (0 lines).", place.name), json!({"lines": 0}));
        (shown.is_text, shown.whole) = (true, Some(Vec::new()));
        return Ok(shown);
    }
    if metadata.len() <= INLINE_BYTES_MAX {
        // The same handle in memory: hashed for the guard of later edits, then shown like any other.
        let mut whole = Vec::new();
        file.take(INLINE_BYTES_MAX).read_to_end(&mut whole).map_err(trouble)?;
        let mut shown = show_text(wanted, &whole[..], true, stopped)?;
        shown.whole = Some(whole);
        return Ok(shown);
    }
    let file = Watched { file, stopped, until: Instant::now() + TIME_MAX };
    show_text(wanted, BufReader::with_capacity(64 * 1024, file), metadata.len() <= COUNTED_BYTES_MAX, stopped)
}

/// A file that ends with an error when the call is stopped or takes too long; one line of it may be a terabyte.
struct Watched<'a> {
    file: File,
    stopped: &'a dyn Fn() -> bool,
    until: Instant,
}

impl io::Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if (self.stopped)() {
            return Err(io::Error::other("read was stopped"));
        }
        if self.until < Instant::now() {
            let words = format!("not read to the wanted line within {} s; use bash with tail or dd", TIME_MAX.as_secs());
            return Err(io::Error::other(words));
        }
        self.file.read(buffer)
    }
}

/// Whether the larger byte comes first, in a file that begins with the mark of UTF-16.
fn utf16_order(probe: &[u8]) -> Option<bool> {
    match probe {
        // The mark of UTF-32 begins in the same way.
        [0xff, 0xfe, 0, 0, ..] => None,
        [0xff, 0xfe, ..] => Some(false),
        [0xfe, 0xff, ..] => Some(true),
        _ => None,
    }
}

fn show_utf16(wanted: &Wanted, file: File, bytes: u64, big: bool, stopped: &dyn Fn() -> bool) -> Result<Shown, String> {
    let place = &wanted.place;
    if UTF16_BYTES_MAX < bytes {
        return Err(format!("{} is UTF-16 text of {bytes} bytes, too long to be shown. Use bash with `iconv -f utf-16`.", place.name));
    }
    let mut whole = Vec::new();
    file.take(UTF16_BYTES_MAX).read_to_end(&mut whole).map_err(|error| trouble(place, &error))?;
    let text = charset::utf16(&whole[2..], big);
    if text.is_empty() {
        return Ok(Shown::words(format!("{} is empty (0 lines; UTF-16).", place.name), json!({"lines": 0})));
    }
    let mut shown = show_text(wanted, text.as_bytes(), true, stopped)?;
    shown.output.push_str("(this file is UTF-16; edit cannot change it, only bash can)\n");
    (shown.is_text, shown.whole) = (true, Some(whole));
    Ok(shown)
}

fn show_text(wanted: &Wanted, input: impl io::BufRead, count_all: bool, stopped: &dyn Fn() -> bool) -> Result<Shown, String> {
    let Wanted { place, offset, limit } = wanted;
    // Four bytes for the longest letter, one line more than shown, so that a cut is noticed.
    let mut lines = Lines::new(input, LINE_CHARS_MAX * 4 + 4);
    let mut output = String::new();
    let mut ways = Ways::default();
    let (mut number, mut last, mut more) = (0, 0, false);
    while let Some(line) = lines.next().map_err(|error| trouble(place, &error))? {
        number += 1;
        if number % 4096 == 0 && stopped() {
            return Err("read was stopped.".into());
        }
        if number < *offset {
            continue;
        }
        if more {
            if !count_all {
                break;
            }
            continue;
        }
        let text = numbered(number, &line.kept, line.bytes, &mut ways);
        if offset.saturating_add(*limit) <= number || (OUTPUT_BYTES_MAX < output.len() + text.len() && last != 0) {
            more = true;
            continue;
        }
        output.push_str(&text);
        last = number;
    }
    if last == 0 {
        let lines = if number == 1 { "1 line".to_owned() } else { format!("{number} lines") };
        return Err(format!("{} has only {lines}; offset {offset} is beyond its end.", place.name));
    }
    let total = if more && !count_all { "more".to_owned() } else { number.to_string() };
    if more {
        output.push_str(&format!("(lines {offset}-{last} of {total}; to go on, call read with offset {})\n", last + 1));
    } else if *offset != 1 {
        output.push_str(&format!("(lines {offset}-{last}; end of file)\n"));
    }
    if ways.crlf {
        output.push_str("(the lines of this file end with CRLF)\n");
    }
    if ways.broken {
        output.push_str("(this file is not UTF-8; bytes that are no text are shown as \u{fffd}, and edit cannot change it)\n");
    }
    let mut shown = Shown::words(output, json!({"from": offset, "to": last, "truncated": more}));
    shown.is_text = true;
    Ok(shown)
}

/// What the model must know about the bytes behind the lines.
#[derive(Default)]
struct Ways {
    crlf: bool,
    broken: bool,
}

fn numbered(number: u64, kept: &[u8], bytes: u64, ways: &mut Ways) -> String {
    let whole = kept.len() as u64 == bytes;
    let kept = match kept.strip_suffix(b"\r") {
        Some(stripped) if whole => {
            ways.crlf = true;
            stripped
        }
        _ => kept,
    };
    let text = String::from_utf8_lossy(kept);
    // Text that is valid is borrowed; the end of a cut line may be half a letter.
    ways.broken |= whole && matches!(text, Cow::Owned(_));
    // A byte order mark is no text.
    let text = if number == 1 { text.strip_prefix('\u{feff}').unwrap_or(&text) } else { &text };
    match text.char_indices().nth(LINE_CHARS_MAX) {
        Some((cut, _)) => format!("{number}|{}... (line cut: {bytes} bytes)\n", visible(&text[..cut])),
        None => format!("{number}|{}\n", visible(text)),
    }
}

fn show_directory(place: &Place, entries: fs::ReadDir, stopped: &dyn Fn() -> bool) -> io::Result<Shown> {
    let begun = Instant::now();
    let mut names: Vec<String> = Vec::new();
    let (mut total, mut least) = (0usize, "");
    for entry in entries {
        let entry = entry?;
        if total % 1024 == 1023 && (stopped() || TIME_MAX < begun.elapsed()) {
            least = "at least ";
            break;
        }
        total += 1;
        if names.len() < ENTRIES_MAX * 20 {
            let slash = if entry.file_type().is_ok_and(|kind| kind.is_dir()) { "/" } else { "" };
            names.push(format!("{}{slash}", visible(&entry.file_name().to_string_lossy())));
        }
    }
    names.sort();
    names.truncate(ENTRIES_MAX);
    let entries = if total == 1 { "entry" } else { "entries" };
    let mut output = format!("{} is a directory with {least}{total} {entries}:\n{}", place.name, names.join("\n"));
    if names.len() < total {
        output.push_str(&format!("\n({} more; use glob or list to see them)", total - names.len()));
    }
    Ok(Shown::words(output, json!({"entries": total})))
}

fn show_image(place: &Place, file: File, bytes: u64, mime: &str) -> Result<Shown, String> {
    if IMAGE_BYTES_MAX < bytes {
        return Err(format!("{} is an image of {bytes} bytes; at most {IMAGE_BYTES_MAX} can be shown. Scale it down first.", place.name));
    }
    let mut content = Vec::new();
    file.take(IMAGE_BYTES_MAX).read_to_end(&mut content).map_err(|error| trouble(place, &error))?;
    let mut shown =
        Shown::words(format!("{} is an image ({mime}, {bytes} bytes); it is attached.", place.name), json!({"mime": mime, "bytes": bytes}));
    let name = place.real.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    shown.attachments.push(Part::File { mime: mime.into(), name, data: Some(base64(&content).into()) });
    Ok(shown)
}

/// By content, not by name: a provider refuses a picture with the wrong type and the session with it.
pub(crate) fn image(probe: &[u8]) -> Option<&'static str> {
    match probe {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

fn guess(probe: &[u8]) -> &'static str {
    const KNOWN: &[(&[u8], &str)] = &[
        (b"\x7fELF", "an ELF program or library"),
        (b"PK\x03\x04", "a ZIP archive or an office document"),
        (b"\x1f\x8b", "gzip data"),
        (b"BZh", "bzip2 data"),
        (b"\xfd7zXZ", "xz data"),
        (b"\x28\xb5\x2f\xfd", "zstd data"),
        (b"SQLite format 3\0", "an SQLite database"),
        (b"\0asm", "a WebAssembly module"),
        (b"\xff\xfe\0\0", "UTF-32 text (try iconv -f utf-32)"),
        (b"\xca\xfe\xba\xbe", "a Java class or a Mach-O program"),
    ];
    let tar = || probe.get(257..262) == Some(b"ustar");
    KNOWN
        .iter()
        .find(|(magic, _)| probe.starts_with(magic))
        .map_or_else(|| if tar() { "a tar archive" } else { "binary data" }, |(_, name)| name)
}
