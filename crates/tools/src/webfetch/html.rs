//! HTML as a row of tags and texts, read as browsers do: nothing is an error, what is never closed goes on to the end.
//!
//! Knows which elements hold raw text and nothing else about them. One pass, no recursion: every byte is looked at a
//! fixed number of times, whatever the page is.

use std::borrow::Cow;

use super::entities::decode;

#[derive(Debug, PartialEq)]
pub(super) enum Token<'a> {
    Start { name: Cow<'a, str>, attributes: Attributes<'a> },
    End { name: Cow<'a, str> },
    Text(Cow<'a, str>),
}

/// What stands in a tag after its name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Attributes<'a>(&'a str);

impl<'a> Attributes<'a> {
    /// The value of the first attribute of this name; empty when it has none.
    pub(super) fn get(&self, wanted: &str) -> Option<Cow<'a, str>> {
        let mut at = 0;
        while let Some((name, value, next)) = attribute(self.0, at) {
            if name.eq_ignore_ascii_case(wanted) {
                return Some(decode(value));
            }
            at = next;
        }
        None
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.trim().is_empty()
    }
}

pub(super) struct Tokens<'a> {
    html: &'a str,
    at: usize,
    /// Inside an element whose text is no markup: everything up to its end tag is text.
    raw: Option<&'static str>,
}

/// Elements whose text is no markup.
const RAW: [&str; 8] = ["iframe", "noembed", "noframes", "script", "style", "textarea", "title", "xmp"];

pub(super) fn tokens(html: &str) -> Tokens<'_> {
    Tokens { html, at: 0, raw: None }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        while self.at < self.html.len() {
            if let Some(name) = self.raw.take() {
                let text = self.up_to(end_tag_of(name, &self.html[self.at..]));
                if text.is_empty() {
                    continue;
                }
                return Some(Token::Text(if matches!(name, "textarea" | "title") { decode(text) } else { Cow::Borrowed(text) }));
            }
            let rest = &self.html[self.at..];
            let Some(markup) = rest.find('<') else { return Some(Token::Text(decode(self.up_to(None)))) };
            // A `<` that begins nothing is a text like any other.
            if markup != 0 || !begins_markup(rest) {
                let end = if markup == 0 { rest[1..].find('<').map(|at| at + 1) } else { Some(markup) };
                return Some(Token::Text(decode(self.up_to(end))));
            }
            if let Some(token) = self.markup() {
                return Some(token);
            }
        }
        None
    }
}

impl<'a> Tokens<'a> {
    /// The text from here to `end`, or to the end of the page, and goes there.
    fn up_to(&mut self, end: Option<usize>) -> &'a str {
        let text = &self.html[self.at..];
        let text = &text[..end.unwrap_or(text.len())];
        self.at += text.len();
        text
    }

    /// A tag, or nothing for a comment and the like.
    fn markup(&mut self) -> Option<Token<'a>> {
        let rest = &self.html[self.at..];
        if let Some(comment) = rest.strip_prefix("<!--") {
            self.up_to(comment_end(comment).map(|end| "<!--".len() + end));
            return None;
        }
        let is_end = rest.starts_with("</");
        let start = if is_end { 2 } else { 1 };
        if !rest[start..].starts_with(|letter: char| letter.is_ascii_alphabetic()) {
            // A declaration, or an end tag of nothing.
            self.up_to(rest.find('>').map(|end| end + 1));
            return None;
        }
        let name = &rest[start..];
        let name = &name[..name.find(|letter: char| letter.is_ascii_whitespace() || matches!(letter, '/' | '>')).unwrap_or(name.len())];
        let attributes = &rest[start + name.len()..];
        let mut at = 0;
        while let Some((_, _, next)) = attribute(attributes, at) {
            at = next;
        }
        let end = at + attributes[at..].find('>').unwrap_or(attributes.len() - at);
        self.at += start + name.len() + end + 1;
        if end == attributes.len() {
            // Never closed: browsers forget it.
            self.at = self.html.len();
            return None;
        }
        let name = lowercase(name);
        if is_end {
            return Some(Token::End { name });
        }
        self.raw = RAW.into_iter().find(|raw| *raw == name);
        Some(Token::Start { name, attributes: Attributes(&attributes[..end]) })
    }
}

fn begins_markup(rest: &str) -> bool {
    matches!(rest.as_bytes().get(1), Some(b'a'..=b'z' | b'A'..=b'Z' | b'/' | b'!' | b'?'))
}

/// After `<!--`: where the comment is over.
fn comment_end(comment: &str) -> Option<usize> {
    for empty in [">", "->"] {
        if comment.starts_with(empty) {
            return Some(empty.len());
        }
    }
    let closes = |at: &usize| comment[..*at].ends_with("--") || comment[..*at].ends_with("--!");
    comment.match_indices('>').map(|(at, _)| at).find(closes).map(|at| at + 1)
}

fn end_tag_of(name: &str, text: &str) -> Option<usize> {
    text.match_indices("</").map(|(at, _)| at).find(|at| {
        let tag = &text.as_bytes()[at + 2..];
        tag.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name.as_bytes()))
            && tag.get(name.len()).is_none_or(|next| next.is_ascii_whitespace() || matches!(next, b'/' | b'>'))
    })
}

/// The attribute at or after `at`: its name, its value, and where it ends. None at the end of the tag or of the page.
fn attribute(text: &str, at: usize) -> Option<(&str, &str, usize)> {
    let until = |from: usize, stop: &dyn Fn(u8) -> bool| {
        text.as_bytes()[from..].iter().position(|byte| stop(*byte)).map_or(text.len(), |found| from + found)
    };
    let start = until(at, &|byte| !byte.is_ascii_whitespace() && byte != b'/');
    if matches!(text.as_bytes().get(start), None | Some(b'>')) {
        return None;
    }
    // An equals sign may begin a name.
    let end = until(start + 1, &|byte| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>' | b'='));
    // A letter of several bytes may begin there too.
    let end = text.ceil_char_boundary(end);
    let name = &text[start..end];
    let equals = until(end, &|byte| !byte.is_ascii_whitespace());
    if text.as_bytes().get(equals) != Some(&b'=') {
        return Some((name, "", end));
    }
    let value = until(equals + 1, &|byte| !byte.is_ascii_whitespace());
    match text.as_bytes().get(value) {
        Some(quote @ (b'"' | b'\'')) => {
            let close = until(value + 1, &|byte| byte == *quote);
            Some((name, &text[value + 1..close], (close + 1).min(text.len())))
        }
        _ => {
            let close = until(value, &|byte| byte.is_ascii_whitespace() || byte == b'>');
            Some((name, &text[value..close], close))
        }
    }
}

fn lowercase(name: &str) -> Cow<'_, str> {
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) { Cow::Owned(name.to_ascii_lowercase()) } else { Cow::Borrowed(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(html: &str) -> String {
        let one = |token: Token<'_>| match token {
            Token::Start { name, attributes } => {
                let values: Vec<String> =
                    ["a", "b"].iter().filter_map(|name| attributes.get(name).map(|value| format!(" {name}={value}"))).collect();
                format!("<{name}{}>", values.concat())
            }
            Token::End { name } => format!("</{name}>"),
            Token::Text(text) => format!("{text:?}"),
        };
        tokens(html).map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_page_is_a_row_of_tags_and_texts() {
        for (html, row) in [
            ("", ""),
            ("plain &amp; simple", "\"plain & simple\""),
            ("<P>one</P ><br/>", "<p> \"one\" </p> <br>"),
            ("<x A=1 b='2 > 3'>", "<x a=1 b=2 > 3>"),
            ("<x a=\"&lt;\"b=c/d>", "<x a=< b=c/d>"),
            ("<x a b=>", "<x a= b=>"),
            ("<x a = 1 / b>", "<x a=1 b=>"),
            ("<x =a a=1>", "<x a=1>"),
            ("<x ü=1 a=é>", "<x a=é>"),
            ("1 < 2 <3 <", "\"1 \" \"< 2 \" \"<3 \" \"<\""),
            ("a<!-- <b> -- > -->b<!-->c<!--->d<!-- x --!>e", "\"a\" \"b\" \"c\" \"d\" \"e\""),
            ("a<!-- never closed <b>", "\"a\""),
            ("<!doctype html><?xml x?></ nothing><![CDATA[x]]>t", "\"t\""),
            ("a<b c=\"never closed> <p>x", "\"a\""),
            ("a<b never closed", "\"a\""),
            ("a</b", "\"a\""),
            ("<script>if (a</b && '<p>') {}</SCRIPT >t", "<script> \"if (a</b && '<p>') {}\" </script> \"t\""),
            ("<script></scripted></script>", "<script> \"</scripted>\" </script>"),
            ("<style>a{}", "<style> \"a{}\""),
            ("<title>a &amp; <b></title>", "<title> \"a & <b>\" </title>"),
            ("<title></title>x", "<title> </title> \"x\""),
        ] {
            assert_eq!(shown(html), row, "{html}");
        }
    }
}
