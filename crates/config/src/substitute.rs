//! `{env:NAME}` and `{file:path}` in a text, replaced by what they name.
//!
//! Only for files that are trusted; the reader sees to that. What was put in is not looked at again.

use std::{fs, path::Path};

use crate::places::{Env, variable};

/// What a text may refer to.
pub(crate) struct Surroundings<'a> {
    pub(crate) env: &'a Env<'a>,
    /// The folder that relative paths start from: that of the file the text stands in.
    pub(crate) dir: &'a Path,
    pub(crate) home: &'a Path,
}

/// A key, a header, a name: what is longer is the wrong file.
const FILE_BYTES_MAX: u64 = 64 * 1024;

const ENV: &str = "{env:";
const FILE: &str = "{file:";

pub(crate) fn refers(text: &str) -> bool {
    text.contains(ENV) || text.contains(FILE)
}

/// The text with everything put in; what is missing, in words, otherwise.
pub(crate) fn substitute(text: &str, around: &Surroundings<'_>) -> Result<String, String> {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        result.push_str(&rest[..open]);
        rest = &rest[open..];
        let prefix = [ENV, FILE].into_iter().find(|prefix| rest.starts_with(prefix));
        match prefix.and_then(|prefix| rest.find('}').map(|close| (prefix, close))) {
            Some((prefix, close)) => {
                let name = rest[prefix.len()..close].trim();
                result.push_str(&if prefix == ENV { from_env(name, around)? } else { from_file(name, around)? });
                rest = &rest[close + 1..];
            }
            None => {
                result.push('{');
                rest = &rest[1..];
            }
        }
    }
    result.push_str(rest);
    Ok(result)
}

fn from_env(name: &str, around: &Surroundings<'_>) -> Result<String, String> {
    variable(around.env, name).ok_or_else(|| format!("the environment variable {name} is not set"))
}

fn from_file(name: &str, around: &Surroundings<'_>) -> Result<String, String> {
    let path = match name.strip_prefix("~/") {
        Some(rest) => around.home.join(rest),
        None => around.dir.join(name),
    };
    let shown = path.display();
    let metadata = fs::metadata(&path).map_err(|error| format!("the file {shown} cannot be read: {error}"))?;
    if !metadata.is_file() {
        return Err(format!("{shown} is not a file"));
    }
    if FILE_BYTES_MAX < metadata.len() {
        return Err(format!("the file {shown} is larger than {} KiB", FILE_BYTES_MAX / 1024));
    }
    let text = fs::read_to_string(&path).map_err(|error| format!("the file {shown} cannot be read: {error}"))?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_and_everything_else_stays() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("key"), "  from a file\n").unwrap();
        fs::write(folder.path().join("large"), vec![b'x'; 70_000]).unwrap();
        let env = |name: &str| match name {
            "A" => Some("one".to_owned()),
            "LOOP" => Some("{env:A}".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        let around = Surroundings { env: &env, dir: folder.path(), home: folder.path() };
        let table = [
            ("plain", Ok("plain")),
            ("{env:A}", Ok("one")),
            ("a{env:A}b{env:A}{", Ok("aonebone{")),
            ("{file:key}!", Ok("from a file!")),
            ("{file:~/key}", Ok("from a file")),
            ("{env:LOOP}", Ok("{env:A}")),
            ("{env:A", Ok("{env:A")),
            ("{x} {env}", Ok("{x} {env}")),
            ("{env:NO}", Err("the environment variable NO is not set")),
            ("{env:EMPTY}", Err("the environment variable EMPTY is not set")),
        ];
        for (text, expected) in table {
            assert_eq!(substitute(text, &around), expected.map(str::to_owned).map_err(str::to_owned), "{text}");
        }
        assert!(substitute("{file:none}", &around).unwrap_err().contains("none cannot be read"));
        assert!(substitute("{file:large}", &around).unwrap_err().ends_with("larger than 64 KiB"));
        assert!(substitute("{file:.}", &around).unwrap_err().ends_with("is not a file"));
    }
}
