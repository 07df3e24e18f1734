//! `posse auth`: keys that posse keeps, in the keyring of the system or in a file of the user's own.
//!
//! A key comes from stdin or a prompt and goes to a place; nothing here shows one. Keys in a configuration or in the
//! environment count before kept ones, so an unusual shell or project can differ; `posse_config` decides that. A run asks
//! for a kept key only when it found no other, and asks the keyring only when the list says that the key is there.

mod entry;
mod file;
mod keyring;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use file::{Kept, KeyFile, List, Place};
use keyring::Keyring;
use posse_config::{Config, KeptKeys, KeySource, Places, Secret, nearest};
use posse_session::Clock as _;
use serde_json::json;

use crate::{
    args::{AuthCmd, How, Listing},
    build::{self, SystemClock, env},
    exit::{Exit, Failure},
    print::{flat, to_stderr, to_stdout},
};

/// A longer name that nobody knows is more likely a key that was pasted in the wrong place, so it is not repeated.
const NAME_CHARS_MAX: usize = 15;

pub(crate) fn auth(command: AuthCmd) -> Result<Exit, Failure> {
    let places = build::places(None)?;
    let config = build::configuration(&places, &How::default())?;
    let drawer = Drawer::of(&places.data_dir);
    match command {
        AuthCmd::Add { provider, file, keyring, rest } => {
            if !rest.is_empty() {
                let words = "a key on the command line can be read by other programs and stays in the shell's history, so it is not taken from there; \
                    pipe it in, or run `posse auth add PROVIDER` at a terminal. Replace the key if others may have seen it";
                return Err(Failure::usage(words));
            }
            let provider = provider_named(&config, &provider)?;
            let key = entry::key_for(&provider)?;
            let wanted = match (file, keyring) {
                (true, _) => Wanted::File,
                (_, true) => Wanted::Keyring,
                (false, false) => Wanted::Any,
            };
            drawer.add(&config, &provider, &key, wanted)
        }
        AuthCmd::List { format } => drawer.list(&config, format),
        AuthCmd::Remove { provider } => drawer.remove(&provider),
    }
}

/// Kept keys as a run asks for them.
pub(crate) fn kept(data_dir: &Path) -> Arc<dyn KeptKeys> {
    Arc::new(Asked { drawer: Drawer::of(data_dir), list: OnceLock::new(), answers: Mutex::default() })
}

/// Every key that is kept and can be had, so that it can be left out of what is written down. One that cannot be had is
/// not in this process either.
pub(crate) fn kept_keys(data_dir: &Path) -> Vec<String> {
    let asked = Asked { drawer: Drawer::of(data_dir), list: OnceLock::new(), answers: Mutex::default() };
    let names: Vec<String> = asked.list().map(|list| list.keys.keys().cloned().collect()).unwrap_or_default();
    names.iter().filter_map(|provider| asked.key(provider).ok().flatten()).map(|key| key.expose().to_owned()).collect()
}

/// Where a key comes from, in words.
pub(crate) fn source_words(source: &KeySource, provider: &str, data_dir: &Path) -> String {
    match source {
        KeySource::Configured(origin) => format!("api_key in {origin}"),
        KeySource::Missing(reason) => reason.clone(),
        KeySource::Variable(name) => name.clone(),
        KeySource::Kept => Drawer::of(data_dir).place_words(provider),
    }
}

/// Which key it is that a server refuses, and what to do about it, for the words behind `check`. Nothing where there is none.
pub(crate) fn refused_key_words(config: &Config, provider: &str) -> Option<String> {
    let source = config.key_sources(provider, &build::known(), &env).ok()?.into_iter().next()?;
    Some(match source {
        KeySource::Configured(origin) => format!("the api_key of provider \"{provider}\" in {origin}"),
        KeySource::Variable(name) => format!("the key in {name}"),
        KeySource::Missing(_) => return None,
        KeySource::Kept => {
            let places = Places::find(&std::env::current_dir().ok()?, &env).ok()?;
            let place = Drawer::of(&places.data_dir).place_words(provider);
            format!(
                "the key that is kept in {place}: `posse doctor --try {provider}` tries it, and `posse auth add {provider}` replaces it"
            )
        }
    })
}

/// How a key from there is replaced.
pub(crate) fn replace_words(source: Option<&KeySource>, provider: &str) -> String {
    match source {
        Some(KeySource::Configured(origin)) => {
            format!("write another key into {origin}, or remove it there and run `posse auth add {provider}`")
        }
        Some(KeySource::Variable(name)) => format!("set {name} to another key, or unset it and run `posse auth add {provider}`"),
        Some(KeySource::Missing(_) | KeySource::Kept) | None => format!("`posse auth add {provider}` replaces it"),
    }
}

/// The provider that was meant; nobody keeps a key for a slip of the hand.
pub(crate) fn provider_named(config: &Config, name: &str) -> Result<String, Failure> {
    let names = provider_names(config);
    if names.iter().any(|known| known == name) {
        return Ok(name.to_owned());
    }
    let others = format!("There are: {}. Others are named under `provider` in your posse.json first", names.join(", "));
    if NAME_CHARS_MAX < name.chars().count() {
        let words =
            "that is no provider's name. If it is a key, replace it: others may have seen it on the command line. Keys are given on stdin";
        return Err(Failure::usage(format!("{words}. {others}")));
    }
    let near = nearest(name, names.iter().map(String::as_str)).map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
    Err(Failure::usage(format!("unknown provider `{}`; {near}{others}", flat(name))))
}

/// Known and configured.
pub(crate) fn provider_names(config: &Config) -> Vec<String> {
    let configured = config.providers.iter().map(|provider| provider.name.clone());
    let mut names: Vec<String> = build::known().iter().map(|known| known.name.to_owned()).collect();
    for name in configured {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// The keyring if it answers, else the file.
    Any,
    File,
    Keyring,
}

/// The list and the keyring of one data folder.
struct Drawer {
    file: KeyFile,
    data_dir: PathBuf,
}

impl Drawer {
    fn of(data_dir: &Path) -> Self {
        Self { file: KeyFile::of(data_dir), data_dir: data_dir.to_owned() }
    }

    /// Looked for only when it is needed: a start has no time for it.
    fn keyring(&self) -> Option<Keyring> {
        Keyring::find(&env("PATH").unwrap_or_default(), &self.data_dir)
    }

    fn add(&self, config: &Config, provider: &str, key: &str, wanted: Wanted) -> Result<Exit, Failure> {
        // Before a secret goes anywhere: a list that cannot be used would lose it.
        let before = self.file.read().map_err(Failure::failed)?;
        let was_in_keyring = before.keys.get(provider).is_some_and(|kept| matches!(kept.place, Place::Keyring));
        let stored = self.try_keyring(provider, key, wanted, was_in_keyring)?;
        let in_keyring = stored.is_some();
        let place = if in_keyring { Place::Keyring } else { Place::File { key: key.to_owned() } };
        let since = SystemClock.now().0;
        let listed = self.file.change(|list| drop(list.keys.insert(provider.to_owned(), Kept { place, since })));
        if let Err(words) = listed {
            if let Some(stored) = stored {
                stored.undo(provider);
            }
            return Err(Failure::failed(words));
        }
        if was_in_keyring
            && !in_keyring
            && let Some(Err(words)) = self.keyring().map(|keyring| keyring.clear(provider))
        {
            to_stderr(&format!("posse: the older key stays in the keyring: {words}"));
        }
        to_stdout(&format!("{provider}: the key is in {}", if in_keyring { "the keyring".to_owned() } else { self.file_words() }));
        if let Some(first) = self.counts_before(config, provider) {
            to_stderr(&format!("posse: {first} counts before it"));
        }
        to_stderr(&format!("posse: `posse doctor --try {provider}` tries it"));
        Ok(Exit::Done)
    }

    /// The key in the keyring, if it is there now. One that does not answer is passed over, unless nothing else is wanted.
    fn try_keyring(&self, provider: &str, key: &str, wanted: Wanted, has_older: bool) -> Result<Option<Stored>, Failure> {
        let keyring = match (self.keyring(), wanted) {
            (_, Wanted::File) => return Ok(None),
            (None, Wanted::Any) => return Ok(None),
            (None, Wanted::Keyring) => Err("there is no program for it; install secret-tool (libsecret)".to_owned()),
            (Some(keyring), _) => Ok(keyring),
        };
        match keyring.and_then(|keyring| Stored::make(keyring, provider, key, has_older)) {
            Ok(stored) => Ok(Some(stored)),
            Err(words) if wanted == Wanted::Keyring => Err(Failure::failed(format!(
                "the keyring cannot be used: {words}; `--file` keeps the key in a file that only you can read. Nothing was kept"
            ))),
            Err(words) => {
                to_stderr(&format!("posse: the keyring cannot be used: {words}; the key goes to a file that only you can read"));
                Ok(None)
            }
        }
    }

    fn list(&self, config: &Config, format: Listing) -> Result<Exit, Failure> {
        let list = self.file.read().map_err(Failure::failed)?;
        let place = |kept: &Kept| if matches!(kept.place, Place::Keyring) { "keyring" } else { "file" };
        let shadow = |provider: &str| self.counts_before(config, provider);
        if format == Listing::Json {
            let row = |(provider, kept): (&String, &Kept)| json!({"provider": provider, "place": place(kept), "since": kept.since, "shadowed_by": shadow(provider)});
            to_stdout(&json!(list.keys.iter().map(row).collect::<Vec<_>>()).to_string());
            return Ok(Exit::Done);
        }
        if list.keys.is_empty() {
            to_stderr("posse: no keys are kept; `posse auth add PROVIDER` keeps one");
        }
        let width = list.keys.keys().map(|name| name.chars().count()).max().unwrap_or(0);
        for (provider, kept) in &list.keys {
            let note = shadow(provider).map(|first| format!("  shadowed: {first} counts before it")).unwrap_or_default();
            to_stdout(&format!("{:width$}  {:7}  since {}{note}", flat(provider), place(kept), day(kept.since)));
        }
        Ok(Exit::Done)
    }

    fn remove(&self, provider: &str) -> Result<Exit, Failure> {
        let list = self.file.read().map_err(Failure::failed)?;
        let Some(kept) = list.keys.get(provider) else {
            let names: Vec<&str> = list.keys.keys().map(String::as_str).collect();
            let there = if names.is_empty() { "no keys are kept".to_owned() } else { format!("keys are kept for: {}", names.join(", ")) };
            return Err(Failure::usage(format!("no key is kept for `{}`; {there}", flat(provider))));
        };
        if matches!(kept.place, Place::Keyring) {
            let cleared = match self.keyring() {
                Some(keyring) => keyring.clear(provider),
                None => Err("there is no program for it any more".to_owned()),
            };
            cleared.map_err(|words| Failure::failed(format!("the keyring cannot be used: {words}; the key is still there")))?;
        }
        self.file.change(|list| drop(list.keys.remove(provider))).map_err(Failure::failed)?;
        to_stdout(&format!("{provider}: the key is removed"));
        Ok(Exit::Done)
    }

    /// The place whose key is used instead of the kept one.
    fn counts_before(&self, config: &Config, provider: &str) -> Option<String> {
        let sources = config.key_sources(provider, &build::known(), &env).ok()?;
        let first = sources.into_iter().next().filter(|source| *source != KeySource::Kept)?;
        Some(match first {
            KeySource::Configured(origin) => format!("api_key in {origin}"),
            KeySource::Variable(name) => name,
            KeySource::Missing(reason) => format!("what {reason}"),
            KeySource::Kept => return None,
        })
    }

    fn place_words(&self, provider: &str) -> String {
        let list = self.file.read().unwrap_or_default();
        match list.keys.get(provider).map(|kept| &kept.place) {
            Some(Place::Keyring) => "the keyring".to_owned(),
            _ => self.file.path().display().to_string(),
        }
    }

    fn file_words(&self) -> String {
        format!("{}, which only you can read", self.file.path().display())
    }
}

/// A key that went into the keyring, and the way back: a command that fails leaves the keyring as it was.
struct Stored {
    keyring: Keyring,
    /// The key that was there before.
    older: Option<String>,
}

impl Stored {
    fn make(keyring: Keyring, provider: &str, key: &str, has_older: bool) -> Result<Self, String> {
        // A keyring that does not give the older key back does not take another either.
        let older = if has_older { keyring.lookup(provider)? } else { None };
        let answer = keyring.store(provider, key);
        let stored = Self { keyring, older };
        match answer {
            Ok(()) => Ok(stored),
            Err(words) => {
                // It may have the key all the same, and nobody would ever ask for it.
                stored.undo(provider);
                Err(words)
            }
        }
    }

    /// As well as it goes: the error that led here is the one to tell, unless a key is lost by it.
    fn undo(self, provider: &str) {
        let Some(older) = self.older else {
            let _ = self.keyring.clear(provider);
            return;
        };
        if let Err(words) = self.keyring.store(provider, &older) {
            to_stderr(&format!(
                "posse: the older key cannot be put back into the keyring: {words}; `posse auth add {provider}` keeps one anew"
            ));
        }
    }
}

fn day(since: u64) -> String {
    let moment = i64::try_from(since).ok().and_then(|since| jiff::Timestamp::from_millisecond(since).ok());
    moment.map(|moment| moment.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d").to_string()).unwrap_or_default()
}

/// A drawer that is opened at most once, and asks the keyring at most once for each key.
struct Asked {
    drawer: Drawer,
    list: OnceLock<Result<List, String>>,
    answers: Mutex<HashMap<String, Result<Option<Secret>, String>>>,
}

impl Asked {
    fn list(&self) -> Result<&List, String> {
        self.list.get_or_init(|| self.drawer.file.read()).as_ref().map_err(Clone::clone)
    }

    fn kept(&self, provider: &str) -> Result<Option<&Kept>, String> {
        self.list().map(|list| list.keys.get(provider))
    }

    fn ask_keyring(&self, provider: &str) -> Result<Option<Secret>, String> {
        let again = format!("`posse auth add {provider}` keeps it anew");
        let Some(keyring) = self.drawer.keyring() else {
            return Err(format!("its key is in the keyring, and there is no program to ask for it; {again}"));
        };
        match keyring.lookup(provider) {
            Ok(Some(key)) => Ok(Some(Secret::new(key))),
            Ok(None) => Err(format!("the keyring has its key no more; {again}")),
            Err(words) => Err(format!("the keyring cannot be asked for its key: {words}; unlock it and try again, or {again}")),
        }
    }
}

impl KeptKeys for Asked {
    fn has(&self, provider: &str) -> Result<bool, String> {
        self.kept(provider).map(|kept| kept.is_some())
    }

    fn key(&self, provider: &str) -> Result<Option<Secret>, String> {
        match self.kept(provider)?.map(|kept| &kept.place) {
            None => Ok(None),
            Some(Place::File { key }) => Ok(Some(Secret::new(key))),
            Some(Place::Keyring) => {
                let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
                answers.entry(provider.to_owned()).or_insert_with(|| self.ask_keyring(provider)).clone()
            }
        }
    }
}
