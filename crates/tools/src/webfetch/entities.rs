//! The names of characters in HTML, and what a reference to one stands for.
//!
//! The table has the names of HTML 4 and those of HTML 5 that pages really use; an unknown name stays as it was written.
//! Knows nothing of tags.

use std::borrow::Cow;

use crate::charset::windows_1252;

/// No name is longer; what is longer is no name.
const NAME_BYTES_MAX: usize = 24;

/// These were written without their semicolon for so long that everyone reads them.
const BARE: [&str; 5] = ["amp", "gt", "lt", "nbsp", "quot"];

/// A text with its references replaced.
pub(super) fn decode(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        match reference(rest) {
            Some((letter, used)) => {
                out.push(letter);
                rest = &rest[used..];
            }
            None => out.push('&'),
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// What stands after an ampersand: the character and how many bytes name it.
fn reference(text: &str) -> Option<(char, usize)> {
    if let Some(number) = text.strip_prefix('#') {
        let (digits, radix) = number.strip_prefix(['x', 'X']).map_or((number, 10), |digits| (digits, 16));
        let count = digits.bytes().take_while(|byte| char::from(*byte).is_digit(radix)).count();
        if count == 0 {
            return None;
        }
        // A number that is too large for a character is too large in every way.
        let number = u32::from_str_radix(&digits[..count], radix).unwrap_or(u32::MAX);
        let used = text.len() - digits.len() + count;
        return Some((numbered(number), used + usize::from(text[used..].starts_with(';'))));
    }
    let count = text.bytes().take(NAME_BYTES_MAX).take_while(u8::is_ascii_alphanumeric).count();
    let name = &text[..count];
    let ends = text.as_bytes().get(count);
    if ends != Some(&b';') && (ends == Some(&b'=') || !BARE.contains(&name)) {
        return None;
    }
    let found = NAMES.binary_search_by(|(known, _)| (*known).cmp(name)).ok()?;
    Some((NAMES[found].1, count + usize::from(ends == Some(&b';'))))
}

fn numbered(number: u32) -> char {
    match number {
        0 => char::REPLACEMENT_CHARACTER,
        // Pages mean the Windows characters by these numbers, which are control characters otherwise.
        0x80..=0x9f => windows_1252(number as u8),
        _ => char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER),
    }
}

#[rustfmt::skip]
static NAMES: &[(&str, char)] = &[
    ("AElig", '\u{c6}'), ("Aacute", '\u{c1}'), ("Acirc", '\u{c2}'), ("Agrave", '\u{c0}'), ("Alpha", '\u{391}'), ("Aring", '\u{c5}'),
    ("Atilde", '\u{c3}'), ("Auml", '\u{c4}'), ("Beta", '\u{392}'), ("Ccedil", '\u{c7}'), ("Chi", '\u{3a7}'), ("Dagger", '\u{2021}'),
    ("Delta", '\u{394}'), ("ETH", '\u{d0}'), ("Eacute", '\u{c9}'), ("Ecirc", '\u{ca}'), ("Egrave", '\u{c8}'), ("Epsilon", '\u{395}'),
    ("Eta", '\u{397}'), ("Euml", '\u{cb}'), ("Gamma", '\u{393}'), ("Hat", '\u{5e}'), ("Iacute", '\u{cd}'), ("Icirc", '\u{ce}'),
    ("Igrave", '\u{cc}'), ("Iota", '\u{399}'), ("Iuml", '\u{cf}'), ("Kappa", '\u{39a}'), ("Lambda", '\u{39b}'), ("Mu", '\u{39c}'),
    ("NewLine", '\u{a}'), ("Ntilde", '\u{d1}'), ("Nu", '\u{39d}'), ("OElig", '\u{152}'), ("Oacute", '\u{d3}'), ("Ocirc", '\u{d4}'),
    ("Ograve", '\u{d2}'), ("Omega", '\u{3a9}'), ("Omicron", '\u{39f}'), ("Oslash", '\u{d8}'), ("Otilde", '\u{d5}'), ("Ouml", '\u{d6}'),
    ("Phi", '\u{3a6}'), ("Pi", '\u{3a0}'), ("Prime", '\u{2033}'), ("Psi", '\u{3a8}'), ("Rho", '\u{3a1}'), ("Scaron", '\u{160}'),
    ("Sigma", '\u{3a3}'), ("THORN", '\u{de}'), ("Tab", '\u{9}'), ("Tau", '\u{3a4}'), ("Theta", '\u{398}'), ("Uacute", '\u{da}'),
    ("Ucirc", '\u{db}'), ("Ugrave", '\u{d9}'), ("Upsilon", '\u{3a5}'), ("Uuml", '\u{dc}'), ("Xi", '\u{39e}'), ("Yacute", '\u{dd}'),
    ("Yuml", '\u{178}'), ("ZeroWidthSpace", '\u{200b}'), ("Zeta", '\u{396}'), ("aacute", '\u{e1}'), ("acirc", '\u{e2}'),
    ("acute", '\u{b4}'), ("aelig", '\u{e6}'), ("agrave", '\u{e0}'), ("alefsym", '\u{2135}'), ("alpha", '\u{3b1}'), ("amp", '\u{26}'),
    ("and", '\u{2227}'), ("ang", '\u{2220}'), ("apos", '\u{27}'), ("aring", '\u{e5}'), ("ast", '\u{2a}'), ("asymp", '\u{2248}'),
    ("atilde", '\u{e3}'), ("auml", '\u{e4}'), ("bdquo", '\u{201e}'), ("beta", '\u{3b2}'), ("blank", '\u{2423}'), ("block", '\u{2588}'),
    ("brvbar", '\u{a6}'), ("bsol", '\u{5c}'), ("bull", '\u{2022}'), ("bullet", '\u{2022}'), ("cap", '\u{2229}'), ("ccedil", '\u{e7}'),
    ("cedil", '\u{b8}'), ("cent", '\u{a2}'), ("centerdot", '\u{b7}'), ("check", '\u{2713}'), ("checkmark", '\u{2713}'),
    ("chi", '\u{3c7}'), ("cir", '\u{25cb}'), ("circ", '\u{2c6}'), ("clubs", '\u{2663}'), ("colon", '\u{3a}'), ("comma", '\u{2c}'),
    ("commat", '\u{40}'), ("cong", '\u{2245}'), ("copy", '\u{a9}'), ("copysr", '\u{2117}'), ("crarr", '\u{21b5}'), ("cross", '\u{2717}'),
    ("cup", '\u{222a}'), ("curren", '\u{a4}'), ("dArr", '\u{21d3}'), ("dagger", '\u{2020}'), ("darr", '\u{2193}'), ("dash", '\u{2010}'),
    ("deg", '\u{b0}'), ("delta", '\u{3b4}'), ("diams", '\u{2666}'), ("divide", '\u{f7}'), ("dollar", '\u{24}'), ("downarrow", '\u{2193}'),
    ("eacute", '\u{e9}'), ("ecirc", '\u{ea}'), ("egrave", '\u{e8}'), ("ell", '\u{2113}'), ("empty", '\u{2205}'), ("emsp", '\u{2003}'),
    ("ensp", '\u{2002}'), ("epsilon", '\u{3b5}'), ("equals", '\u{3d}'), ("equiv", '\u{2261}'), ("eta", '\u{3b7}'), ("eth", '\u{f0}'),
    ("euml", '\u{eb}'), ("euro", '\u{20ac}'), ("excl", '\u{21}'), ("exist", '\u{2203}'), ("female", '\u{2640}'), ("fnof", '\u{192}'),
    ("forall", '\u{2200}'), ("frac12", '\u{bd}'), ("frac13", '\u{2153}'), ("frac14", '\u{bc}'), ("frac23", '\u{2154}'),
    ("frac34", '\u{be}'), ("frasl", '\u{2044}'), ("gE", '\u{2267}'), ("gamma", '\u{3b3}'), ("ge", '\u{2265}'), ("geq", '\u{2265}'),
    ("grave", '\u{60}'), ("gt", '\u{3e}'), ("hArr", '\u{21d4}'), ("hairsp", '\u{200a}'), ("half", '\u{bd}'), ("harr", '\u{2194}'),
    ("hbar", '\u{210f}'), ("hearts", '\u{2665}'), ("hellip", '\u{2026}'), ("hyphen", '\u{2010}'), ("iacute", '\u{ed}'),
    ("icirc", '\u{ee}'), ("iexcl", '\u{a1}'), ("igrave", '\u{ec}'), ("image", '\u{2111}'), ("infin", '\u{221e}'), ("int", '\u{222b}'),
    ("iota", '\u{3b9}'), ("iquest", '\u{bf}'), ("isin", '\u{2208}'), ("iuml", '\u{ef}'), ("kappa", '\u{3ba}'), ("lArr", '\u{21d0}'),
    ("lE", '\u{2266}'), ("lambda", '\u{3bb}'), ("lang", '\u{2329}'), ("laquo", '\u{ab}'), ("larr", '\u{2190}'), ("lbrace", '\u{7b}'),
    ("lbrack", '\u{5b}'), ("lceil", '\u{2308}'), ("lcub", '\u{7b}'), ("ldquo", '\u{201c}'), ("le", '\u{2264}'), ("leftarrow", '\u{2190}'),
    ("leftrightarrow", '\u{2194}'), ("leq", '\u{2264}'), ("lfloor", '\u{230a}'), ("lowast", '\u{2217}'), ("lowbar", '\u{5f}'),
    ("loz", '\u{25ca}'), ("lpar", '\u{28}'), ("lrm", '\u{200e}'), ("lsaquo", '\u{2039}'), ("lsqb", '\u{5b}'), ("lsquo", '\u{2018}'),
    ("lt", '\u{3c}'), ("macr", '\u{af}'), ("male", '\u{2642}'), ("mdash", '\u{2014}'), ("micro", '\u{b5}'), ("midast", '\u{2a}'),
    ("middot", '\u{b7}'), ("minus", '\u{2212}'), ("mldr", '\u{2026}'), ("mu", '\u{3bc}'), ("nabla", '\u{2207}'), ("nbsp", '\u{a0}'),
    ("ndash", '\u{2013}'), ("ne", '\u{2260}'), ("ni", '\u{220b}'), ("nldr", '\u{2025}'), ("not", '\u{ac}'), ("notin", '\u{2209}'),
    ("nsub", '\u{2284}'), ("ntilde", '\u{f1}'), ("nu", '\u{3bd}'), ("num", '\u{23}'), ("numsp", '\u{2007}'), ("oacute", '\u{f3}'),
    ("ocirc", '\u{f4}'), ("oelig", '\u{153}'), ("ograve", '\u{f2}'), ("oline", '\u{203e}'), ("omega", '\u{3c9}'), ("omicron", '\u{3bf}'),
    ("oplus", '\u{2295}'), ("or", '\u{2228}'), ("ordf", '\u{aa}'), ("ordm", '\u{ba}'), ("oslash", '\u{f8}'), ("otilde", '\u{f5}'),
    ("otimes", '\u{2297}'), ("ouml", '\u{f6}'), ("para", '\u{b6}'), ("part", '\u{2202}'), ("percnt", '\u{25}'), ("period", '\u{2e}'),
    ("permil", '\u{2030}'), ("perp", '\u{22a5}'), ("phi", '\u{3c6}'), ("phone", '\u{260e}'), ("pi", '\u{3c0}'), ("piv", '\u{3d6}'),
    ("plus", '\u{2b}'), ("plusmn", '\u{b1}'), ("pound", '\u{a3}'), ("prime", '\u{2032}'), ("prod", '\u{220f}'), ("prop", '\u{221d}'),
    ("psi", '\u{3c8}'), ("puncsp", '\u{2008}'), ("quest", '\u{3f}'), ("quot", '\u{22}'), ("rArr", '\u{21d2}'), ("radic", '\u{221a}'),
    ("rang", '\u{232a}'), ("raquo", '\u{bb}'), ("rarr", '\u{2192}'), ("rbrace", '\u{7d}'), ("rbrack", '\u{5d}'), ("rceil", '\u{2309}'),
    ("rcub", '\u{7d}'), ("rdquo", '\u{201d}'), ("real", '\u{211c}'), ("reg", '\u{ae}'), ("rfloor", '\u{230b}'), ("rho", '\u{3c1}'),
    ("rightarrow", '\u{2192}'), ("rlm", '\u{200f}'), ("rpar", '\u{29}'), ("rsaquo", '\u{203a}'), ("rsqb", '\u{5d}'),
    ("rsquo", '\u{2019}'), ("sbquo", '\u{201a}'), ("scaron", '\u{161}'), ("sdot", '\u{22c5}'), ("sect", '\u{a7}'), ("semi", '\u{3b}'),
    ("shy", '\u{ad}'), ("sigma", '\u{3c3}'), ("sigmaf", '\u{3c2}'), ("sim", '\u{223c}'), ("sol", '\u{2f}'), ("spades", '\u{2660}'),
    ("squ", '\u{25a1}'), ("square", '\u{25a1}'), ("star", '\u{2606}'), ("starf", '\u{2605}'), ("sub", '\u{2282}'), ("sube", '\u{2286}'),
    ("sum", '\u{2211}'), ("sup", '\u{2283}'), ("sup1", '\u{b9}'), ("sup2", '\u{b2}'), ("sup3", '\u{b3}'), ("supe", '\u{2287}'),
    ("szlig", '\u{df}'), ("tau", '\u{3c4}'), ("there4", '\u{2234}'), ("theta", '\u{3b8}'), ("thetasym", '\u{3d1}'),
    ("thinsp", '\u{2009}'), ("thorn", '\u{fe}'), ("tilde", '\u{2dc}'), ("times", '\u{d7}'), ("trade", '\u{2122}'), ("uArr", '\u{21d1}'),
    ("uacute", '\u{fa}'), ("uarr", '\u{2191}'), ("ucirc", '\u{fb}'), ("ugrave", '\u{f9}'), ("uml", '\u{a8}'), ("uparrow", '\u{2191}'),
    ("upsih", '\u{3d2}'), ("upsilon", '\u{3c5}'), ("uuml", '\u{fc}'), ("verbar", '\u{7c}'), ("vert", '\u{7c}'), ("weierp", '\u{2118}'),
    ("xi", '\u{3be}'), ("yacute", '\u{fd}'), ("yen", '\u{a5}'), ("yuml", '\u{ff}'), ("zeta", '\u{3b6}'), ("zwj", '\u{200d}'),
    ("zwnj", '\u{200c}'),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_read_as_browsers_do() {
        assert!(NAMES.is_sorted(), "it is searched by halves");
        for (written, meant) in [
            ("no reference", "no reference"),
            ("a &amp; b &lt;c&gt; &quot;d&quot; &apos;e&apos;", "a & b <c> \"d\" 'e'"),
            ("&eacute;&Eacute;&hellip;&mdash;&rarr;", "éÉ…—→"),
            ("&#65;&#x41;&#X41;&#65", "AAAA"),
            ("&#150; &#x80;", "– €"),
            ("&#0; &#xD800; &#x110000; &#99999999999999;", "\u{fffd} \u{fffd} \u{fffd} \u{fffd}"),
            ("AT&T, R&D; &unknown; & &; &#; &#x;", "AT&T, R&D; &unknown; & &; &#; &#x;"),
            ("?a=1&copy=2&lt=3", "?a=1&copy=2&lt=3"),
            ("&amp &lt.", "& <."),
            ("&amp;lt;", "&lt;"),
            ("&üml;&", "&üml;&"),
        ] {
            assert_eq!(decode(written), meant, "{written}");
        }
    }
}
