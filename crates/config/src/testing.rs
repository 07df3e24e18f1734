//! A throw-away user with a home, a project and files, for tests.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use crate::{Config, ConfigError, Overrides, Places, load};

pub(crate) struct World {
    pub(crate) dir: PathBuf,
    env: HashMap<String, String>,
    cwd: PathBuf,
    pub(crate) overrides: Overrides,
    _guard: TempDir,
}

impl World {
    /// `home/` with `POSSE_HOME` in it, and a git project `proj/`, where the user stands.
    pub(crate) fn new() -> Self {
        let guard = tempfile::tempdir().unwrap();
        let dir = guard.path().canonicalize().unwrap();
        fs::create_dir_all(dir.join("home/posse")).unwrap();
        fs::create_dir_all(dir.join("proj/.git")).unwrap();
        let env = HashMap::from(
            [("HOME", "home"), ("POSSE_HOME", "home/posse")]
                .map(|(name, path)| (name.to_owned(), dir.join(path).to_string_lossy().into_owned())),
        );
        Self { cwd: dir.join("proj"), dir, env, overrides: Overrides::default(), _guard: guard }
    }

    /// A world in which only the user's own file says something.
    pub(crate) fn with_user(text: &str) -> Self {
        Self::new().user(text)
    }

    pub(crate) fn with_project(text: &str) -> Self {
        Self::new().file("proj/posse.json", text)
    }

    pub(crate) fn user(self, text: &str) -> Self {
        self.file("home/posse/posse.json", text)
    }

    pub(crate) fn file(self, path: &str, text: impl AsRef<[u8]>) -> Self {
        let path = self.dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Stands in a folder of the world, which is made.
    pub(crate) fn at(mut self, cwd: &str) -> Self {
        self.cwd = self.dir.join(cwd);
        fs::create_dir_all(&self.cwd).unwrap();
        self
    }

    pub(crate) fn model_flag(mut self, model: &str) -> Self {
        self.overrides.model = Some(model.to_owned());
        self
    }

    pub(crate) fn get(&self, name: &str) -> Option<String> {
        self.env.get(name).cloned()
    }

    pub(crate) fn places(&self) -> Places {
        Places::find(&self.cwd, &|name: &str| self.get(name)).unwrap()
    }

    pub(crate) fn load_with_hooks(&self, hooks: &[std::sync::Arc<dyn posse_session::Hook>]) -> Result<Config, ConfigError> {
        crate::load_with_hooks(&self.places(), &|name| self.env.get(name).cloned(), &self.overrides, hooks)
    }

    pub(crate) fn load(&self) -> Result<Config, ConfigError> {
        load(&self.places(), &|name: &str| self.get(name), &self.overrides)
    }

    /// The error's words, with the world's own path left out.
    pub(crate) fn error(&self) -> String {
        self.load().map(|_| "no error".to_owned()).unwrap_or_else(|error| self.near(&error.to_string()))
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        self.load().unwrap().warnings.iter().map(|warning| self.near(&warning.to_string())).collect()
    }

    pub(crate) fn near(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.dir.display()), "")
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.dir.join(Path::new(path))
    }
}
