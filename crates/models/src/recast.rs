//! A head with some of its fields changed, for a server that refused them.
//!
//! A head is bytes that were made once and kept. Changing one costs reading it again, so only a server that needs it pays
//! for it. Pure: the same change of the same head gives the same bytes, and so the bodies of one server still start alike.

use serde_json::{Map, Value};

/// The head after the change. One that cannot be read stays as it is: the server will say what is wrong with it.
pub(crate) fn recast(head: &[u8], change: impl FnOnce(&mut Map<String, Value>)) -> Vec<u8> {
    // A head ends inside its messages, perhaps after the first of them.
    let (start, is_begun) = head.strip_suffix(b",").map_or((head, false), |start| (start, true));
    let closed = [start, CLOSING].concat();
    let Ok(mut body) = serde_json::from_slice::<Map<String, Value>>(&closed) else { return head.to_vec() };
    change(&mut body);
    // The messages must stay last, whatever was added.
    if let Some(messages) = body.shift_remove("messages") {
        body.insert("messages".to_owned(), messages);
    }
    let mut bytes = Value::Object(body).to_string().into_bytes();
    bytes.truncate(bytes.len() - CLOSING.len());
    if is_begun {
        bytes.push(b',');
    }
    bytes
}

const CLOSING: &[u8] = b"]}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_goes_and_everything_else_stays_as_it_was() {
        for (head, expected) in [
            (r#"{"model":"m","x":{"y":1},"t":0.1,"messages":["#, r#"{"model":"m","t":0.1,"messages":["#),
            (r#"{"x":1,"s":"\"x\":1","messages":[{"role":"system"},"#, r#"{"s":"\"x\":1","messages":[{"role":"system"},"#),
            (r#"{"messages":["#, r#"{"messages":["#),
            ("no JSON", "no JSON"),
        ] {
            let changed = recast(head.as_bytes(), |body| drop(body.shift_remove("x")));
            assert_eq!(String::from_utf8(changed).unwrap(), expected);
        }
        let added = recast(br#"{"messages":["#, |body| drop(body.insert("stream".to_owned(), false.into())));
        assert_eq!(String::from_utf8(added).unwrap(), r#"{"stream":false,"messages":["#);
    }
}
