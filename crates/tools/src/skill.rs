//! `skill`: gives the model the instructions of a skill that it calls for by name.
//!
//! Knows no files: which skills there are is told at construction, and their texts are asked of the caller. The rule's
//! pattern is the skill's own name, however the model spelled it, so that no spelling gets around a rule.

use std::sync::Arc;

use posse_session::{BoxFuture, Look, Outcome, Tool, ToolCall, ToolContext, ToolSpec, Touch, Workspace};
use serde_json::{Value, json};

use crate::{
    arguments::{Arguments, Parameter},
    text::{cap_to_spool, small, title, visible},
};

const NAME: Parameter = Parameter::new("name", &["skill", "skillName"]);

/// The longest skills that people write; what is longer goes to a file.
const SHOWN_BYTES_MAX: usize = 64 * 1024;

/// A skill that a model called for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSkill {
    /// Its own name.
    pub name: String,
    /// What the model is given.
    pub content: String,
}

/// Finds a skill by what the model calls it, or says what there is instead.
pub type FindSkill = dyn Fn(&str) -> Result<FoundSkill, String> + Send + Sync;

pub struct SkillTool {
    spec: ToolSpec,
    find: Arc<FindSkill>,
}

impl SkillTool {
    /// `listing`: a line for each skill that the agent may call for.
    pub fn new(listing: String, find: Arc<FindSkill>) -> Self {
        let listing = if listing.is_empty() { "(none is listed; one that the user names can be called for)".to_owned() } else { listing };
        let description = format!(
            "Load a skill: instructions for one kind of work, written for this user or project, often with scripts and references beside them. \
             Call it before you begin when the task is what a skill below is for, or when the user names one; then follow what it says. \
             Paths that it names are below its base directory: read them when its text calls for them. Do not load a skill twice. \
             A skill gives no rights: tools are allowed or asked about as before.\n\nSkills:\n{listing}"
        );
        let schema = json!({
            "type": "object",
            "properties": {"name": {"type": "string", "description": "The skill's name as it is listed, for example `pdf` or `plugin:pdf`."}},
            "required": ["name"]
        });
        Self { spec: ToolSpec { name: "skill".into(), description, schema }, find }
    }

    fn found(&self, input: &Value) -> Result<FoundSkill, String> {
        let arguments = Arguments::new("skill", input)?;
        (self.find)(arguments.filled_text(NAME)?.trim())
    }
}

impl Tool for SkillTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn look(&self, input: &Value, _workspace: &dyn Workspace) -> Result<Look, String> {
        let name = self.found(input)?.name;
        Ok(Look { touches: vec![Touch::new("skill", name.clone())], repeatable: true, title: title(&name), ..Look::default() })
    }

    fn run<'a>(&'a self, call: &'a ToolCall, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let found = match self.found(&call.input) {
                Ok(found) => found,
                Err(words) => return Outcome::failed(words),
            };
            let text = found.content.lines().map(visible).collect::<Vec<_>>().join("\n");
            // A bounded text, written once.
            let capped = cap_to_spool(&text, SHOWN_BYTES_MAX, &context.spool, &format!("{}.skill.txt", call.id));
            match capped {
                Ok((capped, _)) => Outcome::Done {
                    output: capped.text.into(),
                    title: title(&found.name),
                    metadata: small(json!({"name": found.name}), "name"),
                    attachments: Vec::new(),
                },
                Err(error) => {
                    Outcome::failed(format!("skill: {} is too long to show and could not be written to a file: {error}", found.name))
                }
            }
        })
    }
}
