//! A call's arguments that come in pieces, each with its place: `$.steps[2].name`.
//!
//! Vertex sends them so. Pure; a place that no honest server would name is refused, so that it cannot fill the memory.

use serde_json::{Map, Value};

use crate::fold::{VALUE_BYTES, weight};

/// As deep as JSON may be nested where it is read again.
const STEPS_MAX: usize = 100;

/// A longer list has never been an argument; a number from the wire must not decide how much is allocated.
const ITEMS_MAX: usize = 10_000;

/// Arguments being put together.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pieces {
    whole: Value,
    /// The place of a text that goes on with the next piece.
    continues: Option<String>,
}

/// The server named a place that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoPlace;

impl Default for Pieces {
    fn default() -> Self {
        Self { whole: Value::Object(Map::new()), continues: None }
    }
}

impl Pieces {
    /// Arguments that came at once.
    pub(crate) fn of(whole: Value) -> Self {
        Self { whole, continues: None }
    }

    pub(crate) fn whole(&self) -> &Value {
        &self.whole
    }

    /// Takes one element of `partialArgs` and says how many bytes are kept because of it.
    pub(crate) fn add(&mut self, piece: &Value) -> Result<usize, NoPlace> {
        let path = piece["jsonPath"].as_str().ok_or(NoPlace)?;
        let steps = steps(path).ok_or(NoPlace)?;
        let (place, made) = place(&mut self.whole, &steps)?;
        let goes_on = self.continues.take().is_some_and(|continued| continued == path);
        let other = || ["numberValue", "boolValue"].iter().find_map(|key| piece.get(*key));
        let value = piece.get("stringValue").filter(|value| value.is_string()).or_else(other).unwrap_or(&Value::Null);
        match (place, value) {
            (Value::String(text), Value::String(more)) if goes_on => text.push_str(more),
            (place, value) => *place = value.clone(),
        }
        if piece["willContinue"] == true {
            self.continues = Some(path.to_owned());
        }
        Ok(made + weight(value))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Field(String),
    Item(usize),
}

/// Reads `$.a.b[0]['c.d']`.
fn steps(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if STEPS_MAX <= steps.len() {
            return None;
        }
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            steps.push(Step::Field(after[..end].to_owned()));
            rest = &after[end..];
            continue;
        }
        let after = rest.strip_prefix('[')?;
        rest = match after.chars().next()? {
            quote @ ('\'' | '"') => {
                let (name, after) = after[1..].split_once(&format!("{quote}]"))?;
                steps.push(Step::Field(name.to_owned()));
                after
            }
            _ => {
                let (number, after) = after.split_once(']')?;
                steps.push(Step::Item(number.parse().ok().filter(|number| *number < ITEMS_MAX)?));
                after
            }
        };
    }
    // The arguments themselves are an object, so the first step is a field of it.
    matches!(steps.first(), Some(Step::Field(_))).then_some(steps)
}

/// The value at a place, with everything on the way made if it is not there, and how many bytes that took.
fn place<'a>(whole: &'a mut Value, steps: &[Step]) -> Result<(&'a mut Value, usize), NoPlace> {
    let (mut at, mut made) = (whole, 0);
    for step in steps {
        if at.is_null() {
            *at = if matches!(step, Step::Field(_)) { Value::Object(Map::new()) } else { Value::Array(Vec::new()) };
        }
        at = match (step, at) {
            (Step::Field(name), Value::Object(fields)) => fields.entry(name.clone()).or_insert_with(|| {
                made += name.len() + VALUE_BYTES;
                Value::Null
            }),
            (Step::Item(number), Value::Array(items)) => {
                if items.len() <= *number {
                    made += (number + 1 - items.len()) * VALUE_BYTES;
                    items.resize(number + 1, Value::Null);
                }
                &mut items[*number]
            }
            _ => return Err(NoPlace),
        };
    }
    Ok((at, made))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn together(pieces: &[Value]) -> Result<Value, NoPlace> {
        let mut whole = Pieces::default();
        pieces.iter().try_for_each(|piece| whole.add(piece).map(drop))?;
        Ok(whole.whole)
    }

    #[test]
    fn pieces_are_put_where_they_belong() {
        let pieces = [
            json!({ "jsonPath": "$.a", "stringValue": "one ", "willContinue": true }),
            json!({ "jsonPath": "$.a", "stringValue": "two", "willContinue": true }),
            json!({ "jsonPath": "$.a", "stringValue": "" }),
            json!({ "jsonPath": "$.list[1].x", "numberValue": 0.5 }),
            json!({ "jsonPath": "$.list[0]", "boolValue": true }),
            json!({ "jsonPath": "$.none", "nullValue": "NULL_VALUE" }),
            json!({ "jsonPath": "$['with.dot'][\"quoted]\"]", "stringValue": "y" }),
            json!({ "jsonPath": "$.empty", "stringValue": "" }),
        ];
        let expected = json!({ "a": "one two", "list": [true, { "x": 0.5 }], "none": null, "with.dot": { "quoted]": "y" }, "empty": "" });
        assert_eq!(together(&pieces), Ok(expected));
    }

    #[test]
    fn a_text_goes_on_only_where_it_was_said_to() {
        let again = [json!({ "jsonPath": "$.a", "stringValue": "one" }), json!({ "jsonPath": "$.a", "stringValue": "two" })];
        assert_eq!(together(&again), Ok(json!({ "a": "two" })));
        let elsewhere = [
            json!({ "jsonPath": "$.a", "stringValue": "one", "willContinue": true }),
            json!({ "jsonPath": "$.b", "stringValue": "two" }),
            json!({ "jsonPath": "$.a", "stringValue": "three" }),
        ];
        assert_eq!(together(&elsewhere), Ok(json!({ "a": "three", "b": "two" })));
    }

    #[test]
    fn a_place_that_cannot_be_is_refused() {
        let deep = format!("${}", ".a".repeat(STEPS_MAX + 1));
        for path in ["", "a", "$", "$[0]", "$.a[-1]", "$.a[x]", "$.a[4294967295]", "$.a[", "$.a['b", "$a", &deep] {
            assert_eq!(together(&[json!({ "jsonPath": path, "stringValue": "x" })]), Err(NoPlace), "{path}");
        }
        assert_eq!(together(&[json!({ "stringValue": "x" })]), Err(NoPlace));
        let through_text = [json!({ "jsonPath": "$.a", "stringValue": "x" }), json!({ "jsonPath": "$.a.b", "stringValue": "y" })];
        assert_eq!(together(&through_text), Err(NoPlace));
    }
}
