//! The shape of a final answer: a JSON schema that the user gives, and what is wrong with an answer that does not fit it.
//!
//! Providers that know schemas are told, but not all do and none is believed. Of JSON Schema this knows what describes a
//! value by itself: types, properties, items, choices, bounds, patterns, references within the schema. A keyword that it
//! does not know and that could refuse a value is an error of the schema, found before anything runs.

use std::sync::Arc;

use posse_engine::Shape;
use regex_automata::meta::Regex;
use serde_json::{Map, Value};

/// References may lead in circles; no real schema is deeper.
const DEPTH_MAX: usize = 128;

/// Wrong places that are named; the model mends one after the other.
const WRONG_MAX: usize = 5;

/// Keywords that say something about people, not about values.
const REMARKS: &[&str] = &[
    "$schema",
    "$id",
    "$comment",
    "$defs",
    "definitions",
    "title",
    "description",
    "default",
    "examples",
    "format",
    "deprecated",
    "readOnly",
    "writeOnly",
];

const KNOWN: &[&str] = &[
    "$ref",
    "type",
    "enum",
    "const",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "uniqueItems",
    "contains",
    "minLength",
    "maxLength",
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "nullable",
];

/// A schema that was read and understood.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) schema: Arc<Value>,
}

impl Answer {
    /// From the text of a schema, or the path of a file that holds one.
    pub(crate) fn read(given: &str) -> Result<Self, String> {
        let text = if given.trim_start().starts_with(['{', '[']) {
            given.to_owned()
        } else {
            std::fs::read_to_string(given).map_err(|error| format!("--output-schema {given}: {error}; give a file or the schema itself"))?
        };
        let schema: Value = serde_json::from_str(&text).map_err(|error| format!("--output-schema: this is no JSON ({error})"))?;
        if !schema.is_object() {
            return Err("--output-schema: a JSON schema is an object, like {\"type\": \"object\", \"properties\": {...}}".into());
        }
        understood(&schema, &schema, "#", 0).map_err(|wrong| format!("--output-schema: {wrong}"))?;
        Ok(Self { schema: Arc::new(schema) })
    }

    /// What the engine asks of every final answer.
    pub(crate) fn shape(&self) -> Shape {
        let answer = self.clone();
        Arc::new(move |text| answer.wrong(text))
    }

    /// What the model is told, whatever the provider makes of the schema.
    pub(crate) fn instruction(&self) -> String {
        format!(
            "When you have finished, your final answer must be nothing but one JSON value that fits this JSON schema, without any text or code fence around it:\n{}",
            self.schema
        )
    }

    pub(crate) fn wrong(&self, text: &str) -> Option<String> {
        let Some(value) = value_of(text) else { return Some("it is no JSON value".into()) };
        let mut wrong = Vec::new();
        check(&self.schema, &self.schema, &value, "", 0, &mut wrong);
        (!wrong.is_empty()).then(|| wrong.join("; "))
    }
}

/// The value an answer is, also where words stand around it: in the last fence that holds one, or the one object there is.
pub(crate) fn value_of(text: &str) -> Option<Value> {
    let read = |text: &str| serde_json::from_str(text.trim()).ok();
    read(text).or_else(|| fences(text).into_iter().rev().find_map(read)).or_else(|| only_object(text))
}

/// What stands between fences, each without the word behind its first one.
fn fences(text: &str) -> Vec<&str> {
    let pieces: Vec<&str> = text.split("```").collect();
    // Every second piece is inside; the last one has no end.
    let inside = pieces.iter().skip(1).step_by(2).take(pieces.len().saturating_sub(1) / 2);
    inside.map(|piece| piece.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric())).collect()
}

/// The object in an answer without any other brace.
fn only_object(text: &str) -> Option<Value> {
    let object = &text[text.find('{')?..=text.rfind('}')?.max(text.find('{')?)];
    serde_json::from_str(object).ok().filter(Value::is_object)
}

/// Whether every keyword of a schema is one that is known here.
fn understood(root: &Value, schema: &Value, place: &str, depth: usize) -> Result<(), String> {
    let fields = match schema {
        Value::Bool(_) => return Ok(()),
        Value::Object(fields) => fields,
        other => return Err(format!("{place}: a schema is an object, true or false, not {other}")),
    };
    if DEPTH_MAX < depth {
        return Err(format!("{place}: this is nested too deeply"));
    }
    if let Some(unknown) =
        fields.keys().find(|key| !KNOWN.contains(&key.as_str()) && !REMARKS.contains(&key.as_str()) && !key.starts_with("x-"))
    {
        return Err(format!("{place}: the keyword `{unknown}` is not supported; leave it out or say it with {}", KNOWN[1..].join(", ")));
    }
    well_formed(fields).map_err(|wrong| format!("{place}: {wrong}"))?;
    if let Some(reference) = fields.get("$ref") {
        let named = reference.as_str().unwrap_or_default();
        resolve(root, named).ok_or_else(|| format!("{place}: `$ref` names {reference}, which is not in this schema"))?;
    }
    if let Some(pattern) = fields.get("pattern") {
        regex(pattern).ok_or_else(|| format!("{place}: `pattern` {pattern} is no regular expression"))?;
    }
    for pattern in object(fields.get("patternProperties")).map(|patterns| patterns.keys()).into_iter().flatten() {
        Regex::new(pattern).map_err(|_| format!("{place}: `{pattern}` in `patternProperties` is no regular expression"))?;
    }
    for (key, inner) in subschemas(fields) {
        understood(root, inner, &format!("{place}/{key}"), depth + 1)?;
    }
    Ok(())
}

/// Whether keywords have values that mean something: one that is passed over would let everything through.
fn well_formed(fields: &Map<String, Value>) -> Result<(), String> {
    const TYPES: &[&str] = &["object", "array", "string", "boolean", "null", "number", "integer"];
    let is_type = |name: &Value| name.as_str().is_some_and(|name| TYPES.contains(&name));
    for (key, value) in fields {
        let (fits, wanted) = match key.as_str() {
            "type" => (
                is_type(value) || value.as_array().is_some_and(|types| !types.is_empty() && types.iter().all(is_type)),
                "one of object, array, string, boolean, null, number, integer, or a list of them",
            ),
            "enum" => (value.is_array(), "a list of values"),
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => (value.as_array().is_some_and(|list| !list.is_empty()), "a list of schemas"),
            "required" => (value.as_array().is_some_and(|names| names.iter().all(Value::is_string)), "a list of names"),
            "properties" | "patternProperties" | "$defs" | "definitions" => (value.is_object(), "an object of schemas"),
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => (value.is_number(), "a number"),
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => (value.is_u64(), "a whole number"),
            "uniqueItems" | "nullable" => (value.is_boolean(), "true or false"),
            "$ref" | "pattern" => (value.is_string(), "a text"),
            _ => (true, ""),
        };
        if !fits {
            return Err(format!("`{key}` must be {wanted}, not {value}"));
        }
    }
    Ok(())
}

/// Every schema inside a schema, with its place.
fn subschemas(fields: &Map<String, Value>) -> Vec<(String, &Value)> {
    let mut found = Vec::new();
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("properties" | "patternProperties" | "$defs" | "definitions", Value::Object(named)) => {
                found.extend(named.iter().map(|(name, inner)| (format!("{key}/{name}"), inner)));
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(listed)) => {
                found.extend(listed.iter().enumerate().map(|(nth, inner)| (format!("{key}/{nth}"), inner)));
            }
            ("items" | "additionalProperties" | "not" | "contains" | "propertyNames", inner) => found.push((key.clone(), inner)),
            _ => {}
        }
    }
    found
}

fn resolve<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    match reference.strip_prefix('#')? {
        "" => Some(root),
        pointer => root.pointer(pointer),
    }
}

fn object(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}

fn regex(pattern: &Value) -> Option<Regex> {
    Regex::new(pattern.as_str()?).ok()
}

fn fits(root: &Value, schema: &Value, value: &Value, depth: usize) -> bool {
    let mut wrong = Vec::new();
    check(root, schema, value, "", depth, &mut wrong);
    wrong.is_empty()
}

/// Adds what is wrong with a value, with the place it is at.
fn check(root: &Value, schema: &Value, value: &Value, place: &str, depth: usize, wrong: &mut Vec<String>) {
    if WRONG_MAX <= wrong.len() {
        return;
    }
    let at = if place.is_empty() { "the answer" } else { place };
    let fields = match schema {
        Value::Bool(true) => return,
        Value::Object(fields) if depth <= DEPTH_MAX => fields,
        _ => return wrong.push(format!("{at} must not be there")),
    };
    if let Some(inner) = fields.get("$ref").and_then(Value::as_str).and_then(|reference| resolve(root, reference)) {
        check(root, inner, value, place, depth + 1, wrong);
    }
    let nullable = fields.get("nullable") == Some(&Value::Bool(true)) && value.is_null();
    if let Some(types) = fields.get("type").filter(|_| !nullable) {
        let named: Vec<&str> =
            types.as_array().map_or_else(|| types.as_str().into_iter().collect(), |list| list.iter().filter_map(Value::as_str).collect());
        if !named.iter().any(|name| is_of(name, value)) {
            return wrong.push(format!("{at} must be of type {}, and is {}", named.join(" or "), kind(value)));
        }
    }
    if let Some(choices) = fields.get("enum").and_then(Value::as_array).filter(|choices| !choices.iter().any(|choice| same(choice, value)))
    {
        wrong.push(format!("{at} must be one of {}", Value::from(choices.clone())));
    }
    if let Some(only) = fields.get("const").filter(|only| !same(only, value)) {
        wrong.push(format!("{at} must be {only}"));
    }
    combined(root, fields, value, place, depth, wrong);
    match value {
        Value::Object(members) => check_object(root, fields, members, place, depth, wrong),
        Value::Array(items) => check_array(root, fields, items, place, depth, wrong),
        Value::String(text) => check_text(fields, text, at, wrong),
        Value::Number(number) => check_number(fields, number.as_f64().unwrap_or(f64::NAN), at, wrong),
        Value::Null | Value::Bool(_) => {}
    }
}

fn combined(root: &Value, fields: &Map<String, Value>, value: &Value, place: &str, depth: usize, wrong: &mut Vec<String>) {
    let at = if place.is_empty() { "the answer" } else { place };
    let all = |key: &str| fields.get(key).and_then(Value::as_array).map(Vec::as_slice);
    for inner in all("allOf").unwrap_or_default() {
        check(root, inner, value, place, depth + 1, wrong);
    }
    if let Some(any) = all("anyOf").filter(|any| !any.iter().any(|inner| fits(root, inner, value, depth + 1))) {
        wrong.push(format!("{at} fits none of the {} shapes that are allowed", any.len()));
    }
    if let Some(one) = all("oneOf") {
        let fitting = one.iter().filter(|inner| fits(root, inner, value, depth + 1)).count();
        if fitting != 1 {
            wrong.push(format!("{at} must fit exactly one of {} shapes, and fits {fitting}", one.len()));
        }
    }
    if fields.get("not").is_some_and(|inner| fits(root, inner, value, depth + 1)) {
        wrong.push(format!("{at} has a shape that is not allowed"));
    }
}

fn check_object(
    root: &Value,
    fields: &Map<String, Value>,
    members: &Map<String, Value>,
    place: &str,
    depth: usize,
    wrong: &mut Vec<String>,
) {
    let at = if place.is_empty() { "the answer" } else { place };
    let inside = |name: &str| if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") };
    for name in fields.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        if !members.contains_key(name) {
            wrong.push(format!("{} is missing", inside(name)));
        }
    }
    let patterns: Vec<(Regex, &Value)> = object(fields.get("patternProperties"))
        .into_iter()
        .flatten()
        .filter_map(|(pattern, inner)| Some((Regex::new(pattern).ok()?, inner)))
        .collect();
    for (name, member) in members {
        let named = object(fields.get("properties")).and_then(|properties| properties.get(name));
        let matching: Vec<&Value> = patterns.iter().filter(|(pattern, _)| pattern.is_match(name)).map(|(_, inner)| *inner).collect();
        let others = if named.is_none() && matching.is_empty() { fields.get("additionalProperties") } else { None };
        for inner in named.into_iter().chain(matching).chain(others) {
            check(root, inner, member, &inside(name), depth + 1, wrong);
        }
        if let Some(names) = fields.get("propertyNames")
            && !fits(root, names, &Value::from(name.as_str()), depth + 1)
        {
            wrong.push(format!("{} is a name that is not allowed", inside(name)));
        }
    }
    bounded(fields, ("minProperties", "maxProperties"), members.len() as f64, &format!("the number of members of {at}"), wrong);
}

fn check_array(root: &Value, fields: &Map<String, Value>, items: &[Value], place: &str, depth: usize, wrong: &mut Vec<String>) {
    let at = if place.is_empty() { "the answer" } else { place };
    let first = fields.get("prefixItems").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (nth, item) in items.iter().enumerate() {
        if let Some(inner) = first.get(nth).or(fields.get("items")) {
            check(root, inner, item, &format!("{place}[{nth}]"), depth + 1, wrong);
        }
    }
    if fields.get("uniqueItems") == Some(&Value::Bool(true))
        && items.iter().enumerate().any(|(nth, item)| items[..nth].iter().any(|other| same(other, item)))
    {
        wrong.push(format!("{at} has the same item twice"));
    }
    if let Some(inner) = fields.get("contains")
        && !items.iter().any(|item| fits(root, inner, item, depth + 1))
    {
        wrong.push(format!("{at} has no item of the shape that it must contain"));
    }
    bounded(fields, ("minItems", "maxItems"), items.len() as f64, &format!("the number of items of {at}"), wrong);
}

fn check_text(fields: &Map<String, Value>, text: &str, at: &str, wrong: &mut Vec<String>) {
    bounded(fields, ("minLength", "maxLength"), text.chars().count() as f64, &format!("the length of {at}"), wrong);
    if let Some(pattern) = fields.get("pattern")
        && !regex(pattern).is_some_and(|regex| regex.is_match(text))
    {
        wrong.push(format!("{at} must match {pattern}"));
    }
}

fn check_number(fields: &Map<String, Value>, number: f64, at: &str, wrong: &mut Vec<String>) {
    bounded(fields, ("minimum", "maximum"), number, at, wrong);
    let limit = |key: &str| fields.get(key).and_then(Value::as_f64);
    if let Some(least) = limit("exclusiveMinimum").filter(|least| number <= *least) {
        wrong.push(format!("{at} must be more than {least}"));
    }
    if let Some(most) = limit("exclusiveMaximum").filter(|most| *most <= number) {
        wrong.push(format!("{at} must be less than {most}"));
    }
    if let Some(step) = limit("multipleOf").filter(|step| 0.0 < *step) {
        let steps = number / step;
        if 1e-9 < (steps - steps.round()).abs() {
            wrong.push(format!("{at} must be a multiple of {step}"));
        }
    }
}

fn bounded(fields: &Map<String, Value>, keys: (&str, &str), number: f64, what: &str, wrong: &mut Vec<String>) {
    if let Some(least) = fields.get(keys.0).and_then(Value::as_f64).filter(|least| number < *least) {
        wrong.push(format!("{what} must be at least {least}"));
    }
    if let Some(most) = fields.get(keys.1).and_then(Value::as_f64).filter(|most| *most < number) {
        wrong.push(format!("{what} must be at most {most}"));
    }
}

fn is_of(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => false,
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Object(_) => "an object",
        Value::Array(_) => "an array",
        Value::String(_) => "a string",
        Value::Bool(_) => "a boolean",
        Value::Null => "null",
        Value::Number(_) => "a number",
    }
}

/// Whether two values are the same: 1 and 1.0 are, and the order of members does not matter.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other)),
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len() && one.iter().all(|(name, value)| other.get(name).is_some_and(|found| same(value, found)))
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_named_with_its_place() {
        let schema = r##"{"type": "object", "required": ["name", "age"], "additionalProperties": false, "$defs": {"tag": {"enum": ["a", "b"]}},
            "properties": {"name": {"type": "string", "minLength": 2, "pattern": "^[a-z]+$"}, "age": {"type": "integer", "minimum": 0, "exclusiveMaximum": 150},
            "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "uniqueItems": true, "maxItems": 2}, "next": {"anyOf": [{"type": "null"}, {"$ref": "#"}]},
            "kind": {"oneOf": [{"const": 1}, {"type": "string"}]}, "half": {"multipleOf": 0.5}}}"##;
        let answer = Answer::read(schema).unwrap();
        for (text, wrong) in [
            (r#"{"name": "bo", "age": 3}"#, ""),
            ("```json\n{\"name\": \"bo\", \"age\": 3.0}\n```", ""),
            (r#"{"name": "bo", "age": 3, "next": {"name": "al", "age": 1, "next": null}, "tags": ["a", "b"], "kind": 1, "half": 1.5}"#, ""),
            ("fine, done", "it is no JSON value"),
            ("Here it is:\n```json\n{\"name\": \"bo\", \"age\": 3}\n```\nThat is all.", ""),
            ("First ```{\"name\": 1}``` and then\n```\n{\"name\": \"bo\", \"age\": 3}\n```", ""),
            ("It is {\"name\": \"bo\", \"age\": 3}.", ""),
            ("Either {\"name\": \"bo\", \"age\": 3} or {\"name\": \"al\", \"age\": 4}", "it is no JSON value"),
            ("```json\n{\"name\": \"bo\"", "it is no JSON value"),
            ("} then {", "it is no JSON value"),
            ("```\nno\n```", "it is no JSON value"),
            ("[]", "the answer must be of type object, and is an array"),
            (r#"{"name": "bo"}"#, "age is missing"),
            (
                r#"{"name": "B", "age": 150}"#,
                "the length of name must be at least 2; name must match \"^[a-z]+$\"; age must be less than 150",
            ),
            (r#"{"name": "bo", "age": 1.5}"#, "age must be of type integer, and is a number"),
            (r#"{"name": "bo", "age": 1, "more": 1}"#, "more must not be there"),
            (r#"{"name": "bo", "age": 1, "tags": ["a", "c"]}"#, "tags[1] must be one of [\"a\",\"b\"]"),
            (r#"{"name": "bo", "age": 1, "tags": ["a", "a"]}"#, "tags has the same item twice"),
            (r#"{"name": "bo", "age": 1, "next": {"name": "al"}}"#, "next fits none of the 2 shapes that are allowed"),
            (r#"{"name": "bo", "age": 1, "kind": 2}"#, "kind must fit exactly one of 2 shapes, and fits 0"),
            (r#"{"name": "bo", "age": 1, "half": 0.3}"#, "half must be a multiple of 0.5"),
        ] {
            assert_eq!(answer.wrong(text).unwrap_or_default(), wrong, "{text}");
        }
    }

    #[test]
    fn a_schema_that_could_not_be_checked_is_refused_before_anything_runs() {
        for (schema, words) in [
            ("[1]", "is an object"),
            ("{", "no JSON"),
            (r#"{"if": {}}"#, "`if` is not supported"),
            (r#"{"properties": {"a": {"dependentSchemas": {}}}}"#, "#/properties/a"),
            (r##"{"$ref": "#/$defs/x"}"##, "not in this schema"),
            (r##"{"$ref": "http://x/y"}"##, "not in this schema"),
            (r#"{"pattern": "("}"#, "no regular expression"),
            (r#"{"type": "int"}"#, "`type` must be one of"),
            (r#"{"required": "a"}"#, "a list of names"),
            (r#"{"properties": {"a": {"enum": 1}}}"#, "#/properties/a: `enum` must be a list"),
            ("/no/such/file.json", "No such file"),
        ] {
            let error = Answer::read(schema).err().unwrap_or_default();
            assert!(error.contains(words), "{schema}: {error}");
        }
        assert!(
            Answer::read(r##"{"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}"##).unwrap().wrong("1").is_some(),
            "a circle ends"
        );
    }
}
