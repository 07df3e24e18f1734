//! A call's arguments: found under any of their spellings, checked, and complained about in words the model can act on.
//!
//! Models mix the spellings of several products (`filePath`, `file_path`, `FilePath`, `path`); one place forgives that.
//! Unknown extra keys are ignored.

use serde_json::{Map, Value};

/// A wrong value is quoted up to here; the model knows what it wrote.
const QUOTED_CHARS_MAX: usize = 80;

/// One parameter of a tool: its name and the other names it is known by. Case, `_` and `-` never matter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) also: &'static [&'static str],
}

impl Parameter {
    pub(crate) const fn new(name: &'static str, also: &'static [&'static str]) -> Self {
        Self { name, also }
    }
}

pub(crate) const FILE_PATH: Parameter = Parameter::new("filePath", &["path", "file", "filename", "absolutePath", "targetFile"]);
pub(crate) const PATH: Parameter = Parameter::new("path", &["directory", "dir", "filePath", "folder"]);

pub(crate) struct Arguments<'a> {
    tool: &'static str,
    values: &'a Map<String, Value>,
}

impl<'a> Arguments<'a> {
    pub(crate) fn new(tool: &'static str, input: &'a Value) -> Result<Self, String> {
        match input {
            Value::Object(values) => Ok(Self { tool, values }),
            other => Err(format!("{tool}: the input must be a JSON object of named parameters; got {}", described(other))),
        }
    }

    /// The value under its own name, else under the first other name that is there. `null` counts as absent.
    pub(crate) fn find(&self, parameter: Parameter) -> Option<&'a Value> {
        std::iter::once(&parameter.name).chain(parameter.also).find_map(|name| {
            let folded = fold(name);
            let exact = self.values.get(*name);
            exact
                .or_else(|| self.values.iter().find(|(key, _)| fold(key) == folded).map(|(_, value)| value))
                .filter(|value| !value.is_null())
        })
    }

    pub(crate) fn text(&self, parameter: Parameter) -> Result<&'a str, String> {
        self.maybe_text(parameter)?.ok_or_else(|| self.missing(parameter, "a string"))
    }

    pub(crate) fn maybe_text(&self, parameter: Parameter) -> Result<Option<&'a str>, String> {
        match self.find(parameter) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(parameter, "a string", other)),
        }
    }

    /// A text that must say something: a path, a pattern, a command.
    pub(crate) fn filled_text(&self, parameter: Parameter) -> Result<&'a str, String> {
        let text = self.text(parameter)?;
        if text.trim().is_empty() {
            return Err(format!("{}: parameter `{}` must not be empty.", self.tool, parameter.name));
        }
        if text.contains('\0') {
            return Err(format!("{}: parameter `{}` must not contain a NUL character.", self.tool, parameter.name));
        }
        Ok(text)
    }

    /// A whole number that is not negative; also as a string of digits, which some models write.
    pub(crate) fn maybe_number(&self, parameter: Parameter) -> Result<Option<u64>, String> {
        let Some(value) = self.find(parameter) else { return Ok(None) };
        let number = match value {
            Value::Number(number) => number
                .as_u64()
                .or_else(|| number.as_f64().filter(|float| float.fract() == 0.0 && (0.0..9e15).contains(float)).map(|float| float as u64)),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        number.map(Some).ok_or_else(|| self.wrong(parameter, "a whole number, not negative", value))
    }

    pub(crate) fn flag(&self, parameter: Parameter) -> Result<bool, String> {
        match self.find(parameter) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(Value::String(text)) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(Value::String(text)) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(other) => Err(self.wrong(parameter, "true or false", other)),
        }
    }

    pub(crate) fn missing(&self, parameter: Parameter, expected: &str) -> String {
        let keys: Vec<&str> = self.values.keys().map(String::as_str).collect();
        let got = if keys.is_empty() { "no parameters at all".to_owned() } else { format!("only: {}", quoted(&keys.join(", "))) };
        format!(
            "{}: the required parameter `{}` ({expected}) is missing; the call had {got}. Call {} again with it.",
            self.tool, parameter.name, self.tool
        )
    }

    pub(crate) fn wrong(&self, parameter: Parameter, expected: &str, got: &Value) -> String {
        format!(
            "{}: parameter `{}` must be {expected}; got {}. Call {} again with that corrected.",
            self.tool,
            parameter.name,
            described(got),
            self.tool
        )
    }
}

fn fold(name: &str) -> String {
    name.chars().filter(|letter| !matches!(letter, '_' | '-')).flat_map(char::to_lowercase).collect()
}

fn described(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => format!("the boolean {flag}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the string \"{}\"", quoted(text)),
        Value::Array(items) => format!("a list of {} items", items.len()),
        Value::Object(_) => "an object".to_owned(),
    }
}

fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED_CHARS_MAX) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_parameter_has_many_spellings() {
        for input in [
            json!({"filePath": "a"}),
            json!({"file_path": "a"}),
            json!({"FilePath": "a"}),
            json!({"path": "a"}),
            json!({"FILE-PATH": "a", "extra": 1}),
        ] {
            assert_eq!(Arguments::new("read", &input).unwrap().text(FILE_PATH), Ok("a"), "{input}");
        }
        let both = json!({"path": "other", "filePath": "own name wins"});
        assert_eq!(Arguments::new("read", &both).unwrap().text(FILE_PATH), Ok("own name wins"));
    }

    #[test]
    fn numbers_and_flags_are_forgiven_their_quotes() {
        const LIMIT: Parameter = Parameter::new("limit", &[]);
        const ALL: Parameter = Parameter::new("replaceAll", &[]);
        for (value, number) in [(json!(7), Ok(Some(7))), (json!(7.0), Ok(Some(7))), (json!("7"), Ok(Some(7))), (json!(null), Ok(None))] {
            assert_eq!(Arguments::new("read", &json!({"limit": value})).unwrap().maybe_number(LIMIT), number);
        }
        for (value, flag) in [(json!(true), true), (json!("True"), true), (json!("false"), false), (json!(null), false)] {
            assert_eq!(Arguments::new("edit", &json!({"replace_all": value})).unwrap().flag(ALL), Ok(flag));
        }
    }

    #[test]
    fn complaints_name_the_parameter_the_type_and_what_came() {
        let complain = |input: Value| {
            Arguments::new("read", &input).and_then(|arguments| arguments.filled_text(FILE_PATH).map(str::to_owned)).unwrap_err()
        };
        assert_eq!(
            complain(json!({})),
            "read: the required parameter `filePath` (a string) is missing; the call had no parameters at all. Call read again with it."
        );
        assert_eq!(
            complain(json!({"limit": 1})),
            "read: the required parameter `filePath` (a string) is missing; the call had only: limit. Call read again with it."
        );
        assert_eq!(
            complain(json!({"filePath": 3})),
            "read: parameter `filePath` must be a string; got the number 3. Call read again with that corrected."
        );
        assert_eq!(complain(json!({"filePath": " "})), "read: parameter `filePath` must not be empty.");
        assert_eq!(complain(json!(["a"])), "read: the input must be a JSON object of named parameters; got a list of 1 items");
    }
}
