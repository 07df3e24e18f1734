//! `--record` and `--replay`: every model of this process is kept in a file, or played from one.
//!
//! How models are chosen stays where it is (`build.rs`, `wardrobe.rs`); here their names and answers are written down, or
//! taken from what was written. A replay needs no provider, no key and no network.

use std::{path::Path, sync::Arc};

use posse_config::{Config, Key, Places};
use posse_models::{RecordSetup, Recorder, Replay, ReplaySetup, is_secret_header};
use posse_session::Model;

use crate::{
    args::How,
    build,
    exit::Failure,
    print::{flat, to_stderr},
};

/// Requests at once in a replay: more than any recording has. An answer waits for others, and one of those that waited for a
/// lane would hold them all up.
const REPLAYED_AT_ONCE: u64 = 100_000;

#[derive(Clone, Default)]
pub(crate) enum Tape {
    #[default]
    None,
    Recording(Arc<Recorder>),
    Replaying(Arc<Replay>),
}

impl Tape {
    pub(crate) fn open(how: &How, places: &Places, config: &Config) -> Result<Self, Failure> {
        let folders = folders(places);
        if let Some(path) = &how.record {
            let setup = RecordSetup {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                places: folders,
                secrets: secrets(config, places),
                base_urls: base_urls(config),
            };
            let recorder = Recorder::open(path, &setup).map_err(|error| Failure::usage(format!("--record: {error}")))?;
            return Ok(Self::Recording(recorder));
        }
        let Some(path) = &how.replay else { return Ok(Self::None) };
        let setup = ReplaySetup { places: folders, loose: how.loose, is_noise: is_change };
        let replay = Replay::open(path, setup).map_err(|error| Failure::usage(format!("--replay: {error}")))?;
        if replay.lead().is_none() {
            return Err(Failure::usage(format!("--replay: the recording {} has no model in it: nothing was asked", path.display())));
        }
        Ok(Self::Replaying(replay))
    }

    /// The configuration of a run: there is no provider to be spared in a replay.
    pub(crate) fn configure(&self, config: &mut Config) {
        if let Self::Replaying(_) = self {
            (config.concurrency.default, config.concurrency.named) = (REPLAYED_AT_ONCE, Vec::new());
        }
    }

    /// The model that a run begins or goes on with. `make` chooses and builds it; without a name it is the configured one.
    pub(crate) fn model(
        &self,
        name: Option<&str>,
        make: impl FnOnce() -> Result<Arc<dyn Model>, Failure>,
    ) -> Result<Arc<dyn Model>, Failure> {
        match self {
            Self::None => make(),
            Self::Recording(recorder) => {
                let model = make()?;
                if let Some(name) = name {
                    recorder.named(name, &model.facts().name);
                }
                Ok(recorder.wrap(model))
            }
            Self::Replaying(replay) => {
                let found = name.map_or(replay.lead(), |name| replay.resolve(name)).and_then(|name| replay.model(name));
                found.ok_or_else(|| Failure::usage(unknown(replay, name.unwrap_or_default())))
            }
        }
    }

    /// The model of a full name.
    pub(crate) fn model_named(&self, name: &str, make: impl FnOnce() -> Result<Arc<dyn Model>, String>) -> Result<Arc<dyn Model>, String> {
        match self {
            Self::None => make(),
            Self::Recording(recorder) => make().map(|model| recorder.wrap(model)),
            Self::Replaying(replay) => replay.model(name).ok_or_else(|| unknown(replay, name)),
        }
    }

    /// The full name of what somebody wrote.
    pub(crate) fn resolve(&self, name: &str, choose: impl FnOnce() -> Result<String, String>) -> Result<String, String> {
        match self {
            Self::None => choose(),
            Self::Recording(recorder) => {
                let model = choose()?;
                recorder.named(name, &model);
                Ok(model)
            }
            Self::Replaying(replay) => replay.resolve(name).map(str::to_owned).ok_or_else(|| unknown(replay, name)),
        }
    }

    /// Says at the end of a run what is wrong with the recording, or how the run differs from it.
    pub(crate) fn report(&self, quiet: bool) {
        let notes = match self {
            Self::None => Vec::new(),
            Self::Recording(recorder) => recorder.problem().into_iter().collect(),
            Self::Replaying(replay) => replay.notes().into_iter().filter(|_| !quiet).collect(),
        };
        notes.iter().for_each(|note| to_stderr(&format!("posse: {}", flat(note))));
    }
}

fn unknown(replay: &Replay, name: &str) -> String {
    let known: Vec<&str> = replay.models().collect();
    format!("the recording has no model `{name}`; it has {}", known.join(", "))
}

/// A word on a changed date or file is said when it has changed, and a replay is another day.
fn is_change(text: &str) -> bool {
    let reminder = text.strip_prefix("<system-reminder>\n").unwrap_or(text);
    posse_context::is_change(reminder)
}

/// The folders that another machine, or another day, has elsewhere.
fn folders(places: &Places) -> Vec<(String, String)> {
    let temporary = std::env::temp_dir();
    let data = places.project_data_dir();
    let folders: [(&str, &Path); 6] = [
        ("cwd", &places.cwd),
        ("project", &places.project),
        ("data", data.as_ref()),
        ("config", &places.config_dir),
        ("home", &places.home),
        ("tmp", &temporary),
    ];
    let mut named: Vec<(String, String)> = Vec::new();
    for (name, path) in folders {
        let path = path.display().to_string();
        // One folder, one name: the first says most.
        if !named.iter().any(|(_, known)| *known == path) {
            named.push((name.to_owned(), path));
        }
    }
    named
}

/// Every key and header of the configuration and the environment, and every key that posse keeps.
fn secrets(config: &Config, places: &Places) -> Vec<String> {
    let mut secrets = crate::auth::kept_keys(&places.data_dir);
    for provider in &config.providers {
        if let Key::Given(key) = &provider.key {
            secrets.push(key.expose().to_owned());
        }
        let private = provider.headers.iter().filter(|(name, _)| is_secret_header(name));
        secrets.extend(private.map(|(_, value)| value.expose().to_owned()));
        secrets.extend(provider.key_env.iter().filter_map(|name| build::env(name)));
    }
    for known in build::known() {
        secrets.extend(known.key_env.iter().filter_map(|name| build::env(name)));
    }
    secrets
}

/// Every address of the configuration and the environment: a password or a key may stand in it.
fn base_urls(config: &Config) -> Vec<String> {
    let configured = config.providers.iter().filter_map(|provider| provider.base_url.clone());
    configured.chain(build::known().iter().filter_map(|known| build::env(known.base_url_env))).collect()
}
