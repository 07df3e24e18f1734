//! What the user wrote, with the origin of every value.
//!
//! [`Places`] says where things are, [`load`] reads the files in order of precedence into a [`Config`], and
//! [`instructions`] finds the texts for the model. Reads files and writes none but the list of trusted folders, and knows
//! no network, no provider and no clock; the environment is an argument. A file's keys are a table: see `schema.rs`.

mod agent_fields;
mod agent_merge;
mod agent_rights;
mod agents;
mod built_in;
mod check_definitions;
mod claude;
mod claude_path;
mod command;
mod command_line;
mod config;
mod definition;
mod duration;
mod extract;
mod fields;
mod frontmatter;
mod instructions;
mod keys;
mod layer;
mod load;
mod memory;
mod mention;
mod mode;
mod model;
mod native;
mod near;
mod origin;
mod path_pattern;
mod permission;
mod places;
mod project;
mod provider;
mod quoting;
mod read;
mod round;
mod rule_flag;
mod rule_key;
mod scan;
mod schema;
mod shelf;
mod show;
mod skill;
mod substitute;
mod template;
mod tree;
mod trust;
mod unbuilt;
mod wish;
mod yaml;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use agents::{Agents, agents};
pub use check_definitions::{DefinitionsChecked, check_agents};
pub use command::{Command, CommandKind, Commands, commands};
pub use command_line::{Line, lines};
pub use config::{Compaction, Compat, Concurrency, Config, InternalSettings, Later, Limits, Overrides, WorktreeSettings};
pub use duration::{DURATION_MAX, DurationError, parse_duration};
pub use instructions::{Instruction, Instructions, instructions};
pub use keys::{KeptKeys, KeySource};
pub use load::{Checked, ConfigError, check, load, load_with_hooks};
pub use memory::{Memory, Notes, memory, memory_dir, notes_of_project};
pub use mention::{Exists, IsAgent, Mention, Mentioned, existing, leading_agent, mentioned, mentions};
pub use mode::{PermissionMode, PermissionModeError};
pub use model::{ChosenModel, KnownProvider, ModelChoice, ModelChoiceError};
pub use near::nearest;
pub use origin::{Ignored, Origin, Problem, Sourced};
pub use permission::Rulebook;
pub use places::{Env, Places, PlacesError, unreadable_variable};
pub use provider::{Api, ApiChoice, Key, ModelSpec, Provider, Secret};
pub use round::RoundLimits;
pub use rule_flag::{RuleFlagError, parse_rule_flag, parse_rule_list};
pub use show::Row;
pub use skill::{Skill, Skills, skill_content, skills};
pub use template::{Given, Piece, expand, hints, words};
pub use trust::{KeepTrustError, Part, Trust, keep_trust, trust_file};
