//! An outfit for a session that cannot work: its own folder is gone, and cannot be made again.
//!
//! Its log is the truth about it, so it is opened all the same and comes to its end there: every call and every step fails
//! with the same words, and nothing reaches a tool or a model. Whoever wakes it later opens it anew.

use std::sync::Arc;

use posse_session::{
    BoxFuture, Head, Launch, Live, Look, Message, Model, ModelError, ModelFacts, ModelFailure, Outcome, Reply, Request, TaskEnd, TaskView,
    Tool, ToolCall, ToolContext, ToolSpec, Workspace,
};
use serde_json::Value;

use crate::world::{Advising, Outfit};

impl Outfit {
    /// Nothing is done with it any more; these words say why.
    pub(crate) fn make_unready(&mut self, words: &str) {
        let words: Arc<str> = words.into();
        let unready = |tool: &Arc<dyn Tool>| Arc::new(UnreadyTool { tool: tool.clone(), words: words.clone() }) as Arc<dyn Tool>;
        self.tools = self.tools.iter().map(unready).collect();
        self.model = Arc::new(UnreadyModel { model: self.model.clone(), words: words.clone() });
        // Who does nothing is not talked about, and nothing is summed up for a request that is never sent.
        self.hooks.clear();
        self.compaction.auto = false;
        self.advice = Advising::default();
        self.unready = Some(words);
    }
}

struct UnreadyTool {
    tool: Arc<dyn Tool>,
    words: Arc<str>,
}

impl Tool for UnreadyTool {
    fn spec(&self) -> &ToolSpec {
        self.tool.spec()
    }

    fn look(&self, _input: &Value, _workspace: &dyn Workspace) -> Result<Look, String> {
        Err(self.words.to_string())
    }

    fn run<'a>(&'a self, _call: &'a ToolCall, _context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async { Outcome::failed(&*self.words) })
    }

    // How the tasks that it had started come to their ends is worded as ever.
    fn ended(&self, end: &TaskEnd) -> String {
        self.tool.ended(end)
    }

    fn launched(&self, launch: &Launch) -> Outcome {
        self.tool.launched(launch)
    }

    fn noticed(&self, end: &TaskEnd) -> String {
        self.tool.noticed(end)
    }

    fn lapsed(&self, view: &TaskView) -> Outcome {
        self.tool.lapsed(view)
    }
}

struct UnreadyModel {
    model: Arc<dyn Model>,
    words: Arc<str>,
}

impl Model for UnreadyModel {
    fn facts(&self) -> &ModelFacts {
        self.model.facts()
    }

    fn encode_head(&self, head: &Head) -> Arc<[u8]> {
        self.model.encode_head(head)
    }

    fn encode(&self, message: &Message) -> Arc<[u8]> {
        self.model.encode(message)
    }

    fn reply<'a>(&'a self, _request: Request, _live: &'a dyn Live) -> BoxFuture<'a, Result<Reply, ModelError>> {
        // Never tried again by itself.
        Box::pin(async { Err(ModelError::new(ModelFailure::BadRequest, &*self.words)) })
    }
}
