//! Bytes to text: UTF-8, UTF-16 and Latin 1 are understood, anything else is read as UTF-8 with marks for what is not.
//!
//! The order is the browsers': a byte order mark, then the header, then what an HTML page says itself, then a guess.

/// Where a page says its charset; further down nobody looks.
const DECLARED_BYTES: usize = 1024;

enum Charset {
    Utf8,
    Utf16 { big: bool },
    Windows1252,
}

/// The text of a body. `content_type` is the header as it came, `is_html` whether the page may declare its charset itself.
pub(crate) fn decode(body: &[u8], content_type: &str, is_html: bool) -> String {
    let (charset, body) = match body {
        [0xef, 0xbb, 0xbf, rest @ ..] => (Charset::Utf8, rest),
        [0xff, 0xfe, rest @ ..] => (Charset::Utf16 { big: false }, rest),
        [0xfe, 0xff, rest @ ..] => (Charset::Utf16 { big: true }, rest),
        _ => {
            let declared = || if is_html { declared_in(&body[..body.len().min(DECLARED_BYTES)]) } else { None };
            (named(content_type).or_else(declared).unwrap_or_else(|| guessed(body)), body)
        }
    };
    match charset {
        Charset::Utf8 => String::from_utf8_lossy(body).into_owned(),
        Charset::Utf16 { big } => utf16(body, big),
        Charset::Windows1252 => body.iter().map(|byte| windows_1252(*byte)).collect(),
    }
}

/// The charset after `charset=`, if it is one we know.
fn named(text: &str) -> Option<Charset> {
    let lower = text.to_ascii_lowercase();
    let (_, after) = lower.split_once("charset")?;
    let name = after.trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
    let name = name.split(|letter: char| !letter.is_ascii_alphanumeric() && !matches!(letter, '-' | '_')).next()?;
    match name {
        "utf-8" | "utf8" => Some(Charset::Utf8),
        "utf-16" | "utf-16le" => Some(Charset::Utf16 { big: false }),
        "utf-16be" => Some(Charset::Utf16 { big: true }),
        // The web means the larger Windows set by all of these.
        "iso-8859-1" | "iso8859-1" | "latin1" | "latin-1" | "l1" | "us-ascii" | "ascii" | "windows-1252" | "cp1252" => {
            Some(Charset::Windows1252)
        }
        _ => None,
    }
}

fn declared_in(head: &[u8]) -> Option<Charset> {
    // A page that can be read so far is not UTF-16, whatever it says.
    named(&String::from_utf8_lossy(head)).map(|charset| if matches!(charset, Charset::Utf16 { .. }) { Charset::Utf8 } else { charset })
}

fn guessed(body: &[u8]) -> Charset {
    match std::str::from_utf8(body) {
        Ok(_) => Charset::Utf8,
        // A letter cut in two at the very end, because the body was.
        Err(error) if error.error_len().is_none() => Charset::Utf8,
        Err(_) => Charset::Windows1252,
    }
}

/// UTF-16 without its byte order mark; half a letter becomes a mark.
pub(crate) fn utf16(bytes: &[u8], big: bool) -> String {
    let units = bytes.chunks_exact(2).map(|pair| {
        let pair = [pair[0], pair[1]];
        if big { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) }
    });
    let mut text: String = char::decode_utf16(units).map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    if bytes.len() % 2 == 1 {
        text.push(char::REPLACEMENT_CHARACTER);
    }
    text
}

/// Latin 1 with what Windows put in place of its second set of control characters.
pub(crate) fn windows_1252(byte: u8) -> char {
    const HIGH: [char; 32] = [
        '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}', //
        '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
    ];
    match byte {
        0x80..=0x9f => HIGH[usize::from(byte - 0x80)],
        other => char::from(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_read_in_the_charset_it_has() {
        for (body, content_type, is_html, text) in [
            (&b"gr\xc3\xbcn"[..], "text/html; charset=utf-8", true, "grün"),
            (b"gr\xfcn \x93x\x94", "text/html; charset=ISO-8859-1", true, "grün “x”"),
            (b"gr\xfcn", "text/plain; Charset=\"latin1\"", false, "grün"),
            (b"gr\xfcn", "text/plain", false, "grün"),
            (b"gr\xc3\xbcn", "text/plain", false, "grün"),
            (b"<meta charset='windows-1252'>\xe9", "text/html", true, "<meta charset='windows-1252'>é"),
            (b"<meta charset=utf-16>\xc3\xa9", "text/html", true, "<meta charset=utf-16>é"),
            (b"<meta charset=latin1>\xc3\xa9", "text/plain", false, "<meta charset=latin1>é"),
            // The mark and the header know better than the page.
            (b"\xef\xbb\xbf<meta charset=latin1>\xc3\xa9", "text/html; charset=latin1", true, "<meta charset=latin1>é"),
            (b"<meta charset=latin1>\xc3\xa9", "text/html; charset=utf-8", true, "<meta charset=latin1>é"),
            (b"\xff\xfeh\0i\0\x3d\xd8\x00\xde", "text/plain", false, "hi😀"),
            (b"\xfe\xff\0h\0i\xd8", "text/plain", false, "hi\u{fffd}"),
            (b"\0h\0i", "text/plain; charset=utf-16be", false, "hi"),
            // Unknown: what is UTF-8 is read, the rest is marked or guessed.
            (b"\x83e\x83X", "text/plain; charset=shift_jis", false, "ƒeƒX"),
            (b"ab\xff\xc3\xbc", "text/plain; charset=utf8", false, "ab\u{fffd}ü"),
            (b"cut \xc3", "text/plain", false, "cut \u{fffd}"),
            (b"", "", false, ""),
        ] {
            assert_eq!(decode(body, content_type, is_html), text, "{content_type} {body:?}");
        }
    }
}
