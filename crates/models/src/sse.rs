//! Server-sent events: bytes in, events out, wherever the network cut them.
//!
//! Follows the WHATWG parsing rules: a byte order mark is dropped, lines end with CR, LF or CRLF, an event counts only
//! once its blank line is there; what is open at the end is only shown. Knows nothing of JSON or providers. The state is a plain value that can be cloned, so
//! a test can ask "and if the stream ended here?" after every byte.

/// A whole image or file in one event stays below this; more is a server gone wrong, not an answer.
const EVENT_BYTES_MAX: usize = 16 * 1024 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One dispatched event. `name` is empty when the server did not name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) data: String,
}

/// The server sent an event that is larger than any answer. The stream is of no more use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// Where the parser stands between two bytes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parser {
    line: Vec<u8>,
    name: String,
    data: Vec<u8>,
    has_data: bool,
    after_first_line: bool,
    /// The last byte was CR: an LF now belongs to it, even in the next chunk.
    after_carriage_return: bool,
}

impl Parser {
    /// Takes the next bytes and returns the events they completed.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) -> Result<Vec<Event>, TooLarge> {
        let mut events = Vec::new();
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.after_carriage_return) && first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else {
                self.extend_line(bytes)?;
                break;
            };
            self.extend_line(&bytes[..end])?;
            self.after_carriage_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            events.extend(self.end_line());
        }
        Ok(events)
    }

    /// The event that was still open when the body ended. By the rules it never happened; whether it is whole all the
    /// same is for those to say who can read it.
    pub(crate) fn end(mut self) -> Option<Event> {
        self.end_line().or_else(|| self.dispatch())
    }

    fn extend_line(&mut self, bytes: &[u8]) -> Result<(), TooLarge> {
        if EVENT_BYTES_MAX < self.line.len() + self.data.len() + bytes.len() {
            return Err(TooLarge);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Option<Event> {
        let whole = std::mem::take(&mut self.line);
        let mut line = whole.as_slice();
        if !std::mem::replace(&mut self.after_first_line, true) {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch();
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
            // A comment (empty field), `id`, `retry` or something unknown: alive, and no content.
            _ => {}
        }
        None
    }

    fn dispatch(&mut self) -> Option<Event> {
        let name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data);
        std::mem::take(&mut self.has_data).then(|| Event { name, data: String::from_utf8_lossy(&data).into_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, data: &str) -> Event {
        Event { name: name.into(), data: data.into() }
    }

    /// Feeds the bytes whole, byte by byte, and split in two at every place: all must agree.
    fn parse(bytes: &[u8]) -> Vec<Event> {
        let whole = Parser::default().feed(bytes).unwrap();
        let mut single = Parser::default();
        let by_byte: Vec<Event> = bytes.iter().flat_map(|byte| single.feed(&[*byte]).unwrap()).collect();
        assert_eq!(by_byte, whole);
        for cut in 0..bytes.len() {
            let mut halves = Parser::default();
            let mut events = halves.feed(&bytes[..cut]).unwrap();
            events.extend(halves.feed(&bytes[cut..]).unwrap());
            assert_eq!(events, whole, "cut at {cut}");
        }
        whole
    }

    #[test]
    fn every_line_ending_gives_the_same_events() {
        let expected = vec![event("a", "1\n2"), event("", "3")];
        for end in ["\n", "\r", "\r\n"] {
            let text = ["event: a", "data: 1", "data:2", "", "data: 3", "", ""].join(end);
            assert_eq!(parse(text.as_bytes()), expected, "{end:?}");
        }
    }

    #[test]
    fn a_byte_order_mark_and_comments_are_no_content() {
        assert_eq!(parse("\u{feff}data: x\n\n: OPENROUTER PROCESSING\n\n:\n\ndata: y\n\n".as_bytes()), [event("", "x"), event("", "y")]);
    }

    #[test]
    fn a_character_split_over_chunks_stays_whole() {
        assert_eq!(parse("data: żółć 🦀\n\n".as_bytes()), [event("", "żółć 🦀")]);
    }

    #[test]
    fn an_event_without_its_blank_line_never_happened() {
        assert_eq!(parse(b"data: one\n\ndata: two\n"), [event("", "one")]);
        assert_eq!(parse(b"data: one\n\ndata: two"), [event("", "one")]);
    }

    #[test]
    fn what_is_open_at_the_end_is_shown() {
        for (text, open) in [
            ("event: a\ndata: two", Some(event("a", "two"))),
            ("data: one\n\nevent: a\ndata: two\r", Some(event("a", "two"))),
            ("data: one\n\n", None),
            ("data: one\n\nevent: a", None),
            ("", None),
        ] {
            let mut parser = Parser::default();
            parser.feed(text.as_bytes()).unwrap();
            assert_eq!(parser.end(), open, "{text:?}");
        }
    }

    #[test]
    fn unknown_fields_are_skipped_and_an_event_needs_data() {
        assert_eq!(parse(b"id: 7\nretry: 10\nnonsense\nevent: lonely\n\ndata\n\n"), [event("", "")]);
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut parser = Parser::default();
        let chunk = vec![b'x'; 1024 * 1024];
        let refused = (0..20).find_map(|n| parser.feed(&chunk).err().map(|_| n));
        assert_eq!(refused, Some(16));
    }
}
