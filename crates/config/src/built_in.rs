//! What counts when nobody has said anything, written as a user would write it.
//!
//! Read like any other file, so that `config show` knows its origin and there is one reader only.

pub(crate) const NAME: &str = "built-in";

/// The default permission mode is OpenCode's build: everything inside the workspace; ask before leaving it, before
/// talking to a private address, before reading or writing what usually holds secrets, and when a call repeats itself.
pub(crate) const TEXT: &str = r#"{
  "permission": {
    "*": "allow",
    "doom_loop": "ask",
    "external_directory": "ask",
    "private_address": "ask",
    "task_merge": "ask",
    "read": {
      "*": "allow",
      "*.env": "ask", "*.env.*": "ask", ".env*": "ask", "*/.env*": "ask",
      "*.env.example": "allow", "*.env.sample": "allow", "*.env.template": "allow"
    },
    "edit": {
      "*.env": "ask", "*.env.*": "ask", ".env*": "ask", "*/.env*": "ask",
      "*.env.example": "allow", "*.env.sample": "allow", "*.env.template": "allow"
    }
  },
  "limits": { "depth": 3, "children": 200, "tree": 2000, "stream_idle": "5m", "step": "15m", "idle": "10m", "wall": "2h" },
  "concurrency": { "default": 16 },
  "background": true,
  "compat": { "opencode": true, "claude": true }
}"#;
