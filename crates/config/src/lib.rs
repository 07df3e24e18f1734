//! What the user wrote, with the origin of every value.
//!
//! [`Places`] says where things are, [`load`] reads the files in order of precedence into a [`Config`], and
//! [`instructions`] finds the texts for the model. Reads files and writes none but the list of trusted folders, and knows
//! no network, no provider and no clock; the environment is an argument. A file's keys are a table: see `schema.rs`.

mod built_in;
mod claude;
mod claude_path;
mod config;
mod definition;
mod duration;
mod extract;
mod instructions;
mod layer;
mod load;
mod mode;
mod model;
mod near;
mod origin;
mod permission;
mod places;
mod project;
mod provider;
mod read;
mod rule_flag;
mod rule_key;
mod scan;
mod schema;
mod show;
mod substitute;
mod tree;
mod trust;
mod wish;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use config::{Compat, Concurrency, Config, Later, Limits, Overrides};
pub use duration::{DURATION_MAX, DurationError, format_duration, parse_duration};
pub use instructions::{Instruction, Instructions, instructions};
pub use load::{Checked, ConfigError, check, load, load_with_hooks};
pub use mode::{PermissionMode, PermissionModeError};
pub use model::{ChosenModel, KnownProvider, ModelChoice, ModelChoiceError};
pub use near::nearest;
pub use origin::{Ignored, Origin, Problem, Sourced};
pub use permission::Rulebook;
pub use places::{Env, Places, PlacesError, unreadable_variable};
pub use provider::{Api, ApiChoice, Key, ModelSpec, Provider, Secret};
pub use rule_flag::{RuleFlagError, parse_rule_flag, parse_rule_list};
pub use show::Row;
pub use trust::{KeepTrustError, Part, Trust, keep_trust, trust_file};
