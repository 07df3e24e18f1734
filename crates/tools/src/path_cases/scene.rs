//! The folder of a path case: private, temporary, and the only place where anything is made.
//!
//! It stands for `/`: the first folder of the case's root is made in it, and everything else at the top of the machine is a
//! link there, so that `../../etc` leads to where it would lead. Gone when it is dropped.

use std::{
    fs::{self, DirBuilder, File},
    hash::{BuildHasher, Hasher, RandomState},
    io,
    os::unix::{
        fs::{DirBuilderExt, PermissionsExt, symlink},
        net::UnixListener,
    },
    path::{Component, Path, PathBuf},
};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use serde_json::Value;

use crate::paths::real;

/// What a made file holds unless the case says it.
const CONTENT: &str = "made for a path case\n";

pub(super) struct Scene {
    /// Stands for `/`.
    base: PathBuf,
    /// The name of the folder that is ours.
    first: String,
    root: String,
}

impl Scene {
    pub(super) fn new(root: &str) -> Result<Self, String> {
        let mut parts = Path::new(root).components();
        let (Some(Component::RootDir), Some(Component::Normal(first))) = (parts.next(), parts.next()) else {
            return Err(format!("`root` must be an absolute path, not {root}"));
        };
        let first = first.to_string_lossy().into_owned();
        let base = private_folder().map_err(|error| format!("no temporary folder: {error}"))?;
        let scene = Self { base, first, root: root.to_owned() };
        for entry in fs::read_dir("/").into_iter().flatten().flatten().filter(|entry| entry.file_name() != *scene.first) {
            symlink(entry.path(), scene.base.join(entry.file_name())).map_err(|error| format!("no temporary folder: {error}"))?;
        }
        Ok(scene)
    }

    /// A path of the case as it is on this machine.
    pub(super) fn mapped(&self, path: &str) -> String {
        if self.is_ours(path) { format!("{}{path}", self.base.display()) } else { path.to_owned() }
    }

    /// Words about this machine as words about the case.
    pub(super) fn unmapped(&self, words: &str) -> String {
        words.replace(&*self.base.to_string_lossy(), "")
    }

    fn is_ours(&self, path: &str) -> bool {
        let below = path.trim_start_matches('/').strip_prefix(&self.first);
        path.starts_with('/') && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// A folder or file that stands for one elsewhere on the machine, so that even a broken check would touch nothing real.
    pub(super) fn stand_in(&self, path: &str, is_folder: bool) -> Result<PathBuf, String> {
        if self.is_ours(path) || !path.starts_with('/') {
            return Ok(PathBuf::from(self.mapped(path)));
        }
        let stand_in = self.base.join("elsewhere").join(path.trim_start_matches('/'));
        let (folder, file) = if is_folder { (Some(&*stand_in), None) } else { (stand_in.parent(), Some(&stand_in)) };
        let made = folder.map_or(Ok(()), fs::create_dir_all).and_then(|()| file.map_or(Ok(()), |file| fs::write(file, CONTENT)));
        made.map_err(|error| format!("{path}: {error}"))?;
        Ok(stand_in)
    }

    /// The root, which a case need not mention; behind a link it is made where the link leads.
    pub(super) fn make_root(&self) -> Result<PathBuf, String> {
        let root = self.resolved(&self.root)?;
        fs::create_dir_all(&root).map_err(|error| format!("{}: {error}", self.root))?;
        Ok(PathBuf::from(self.mapped(&self.root)))
    }

    /// One entry of `setup`.
    pub(super) fn make(&self, entry: &Value) -> Result<(), String> {
        const KINDS: [(&str, &[&str]); 10] = [
            ("file", &["content", "mode", "size"]),
            ("dir", &["mode"]),
            ("symlink", &["target"]),
            ("hardlink", &["target"]),
            ("fifo", &[]),
            ("socket", &[]),
            ("device", &[]),
            ("chardev", &[]),
            ("blockdev", &[]),
            ("sparse", &["size"]),
        ];
        let fields = entry.as_object().ok_or_else(|| format!("an entry of `setup` must be an object, not {entry}"))?;
        let known = KINDS.iter().find_map(|(kind, more)| Some((*kind, entry[*kind].as_str()?, *more)));
        let Some((kind, path, _)) = known.filter(|(kind, _, more)| fields.keys().all(|key| key == kind || more.contains(&&**key))) else {
            return Err(format!("this entry of `setup` is not understood: {entry}"));
        };
        if !self.is_ours(path) {
            // It is on this machine or it is not; nothing is made there.
            return if ["file", "dir"].contains(&kind) {
                Ok(())
            } else {
                Err(format!("{path} is outside of /{}, where nothing is made", self.first))
            };
        }
        let made = |error: io::Error| match error.kind() {
            io::ErrorKind::PermissionDenied => format!("this machine does not permit to make {kind} {path}"),
            _ => format!("{kind} {path}: {error}"),
        };
        self.make_kind(kind, path, entry).map_err(made)
    }

    fn make_kind(&self, kind: &str, path: &str, entry: &Value) -> io::Result<()> {
        let text = |field: &str| entry[field].as_str().ok_or_else(|| io::Error::other(format!("`{field}` must be a string")));
        let at = self.place_for(path)?;
        match kind {
            "file" if entry["size"].is_null() => fs::write(&at, entry["content"].as_str().unwrap_or(CONTENT))?,
            "dir" => fs::create_dir_all(&at)?,
            "symlink" => symlink(self.mapped(text("target")?), &at)?,
            "hardlink" => {
                let target = self.place_for(text("target")?)?;
                if !target.exists() {
                    fs::write(&target, CONTENT)?;
                }
                fs::hard_link(target, &at)?;
            }
            "fifo" => mknodat(CWD, &at, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?,
            "socket" => drop(UnixListener::bind(&at)?),
            // The one that swallows everything, and one that is never there.
            "device" | "chardev" => mknodat(CWD, &at, FileType::CharacterDevice, Mode::from_raw_mode(0o600), makedev(1, 3))?,
            "blockdev" => mknodat(CWD, &at, FileType::BlockDevice, Mode::from_raw_mode(0o600), makedev(240, 0))?,
            _ => File::create(&at)?
                .set_len(bytes(text("size")?).ok_or_else(|| io::Error::other("`size` must be a number with K, M, G or T"))?)?,
        }
        if let Some(mode) = entry["mode"].as_str() {
            let mode = u32::from_str_radix(mode, 8).map_err(|_| io::Error::other("`mode` must be octal digits"))?;
            fs::set_permissions(&at, fs::Permissions::from_mode(mode))?;
        }
        Ok(())
    }

    /// Where an entry is made: below its folders, which are made too. Its last name is not followed.
    fn place_for(&self, path: &str) -> io::Result<PathBuf> {
        let spelled = Path::new(path);
        let name = spelled.file_name().ok_or_else(|| io::Error::other("it has no name"))?;
        let folder = self.resolved(&spelled.parent().unwrap_or(spelled).to_string_lossy()).map_err(io::Error::other)?;
        fs::create_dir_all(&folder)?;
        Ok(folder.join(name))
    }

    /// Through the links that were made already, and never out of the folder that is ours.
    fn resolved(&self, path: &str) -> Result<PathBuf, String> {
        if !self.is_ours(path) || Path::new(path).components().any(|part| part == Component::ParentDir) {
            return Err(format!("{path} is outside of /{}, where nothing is made", self.first));
        }
        let resolved = real(Path::new(&self.mapped(path))).map_err(|error| format!("{path}: {error}"))?;
        match resolved.starts_with(self.base.join(&self.first)) {
            true => Ok(resolved),
            false => Err(format!("{path} leads outside of /{}, where nothing is made", self.first)),
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // It is in the temporary folder of the machine and has nothing of anybody's in it.
        let _ = fs::remove_dir_all(&self.base);
    }
}

fn private_folder() -> io::Result<PathBuf> {
    let name = format!("posse-path-case-{:016x}", RandomState::new().build_hasher().finish());
    let folder = std::env::temp_dir().canonicalize()?.join(name);
    DirBuilder::new().mode(0o700).create(&folder)?;
    Ok(folder)
}

fn bytes(size: &str) -> Option<u64> {
    let digits = size.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let power = match &size[digits.len()..] {
        "" => 0,
        "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1024_u64.checked_pow(power)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_scene_is_private_and_gone_afterwards() {
        let scene = Scene::new("/w/proj").unwrap();
        let base = scene.base.clone();
        assert_eq!(fs::metadata(&base).unwrap().mode() & 0o777, 0o700);
        scene.make(&json!({"file": "/w/out/a"})).unwrap();
        scene.make(&json!({"symlink": "/w/proj/etc", "target": "/etc"})).unwrap();
        assert!(base.join("w/out/a").is_file() && base.join("etc/passwd").is_file() && base.join("w/proj/etc").is_symlink());
        assert_eq!(
            (scene.mapped("//w/x"), scene.mapped("/wx"), scene.mapped("w/x")),
            (format!("{}//w/x", base.display()), "/wx".into(), "w/x".into())
        );
        // What stands for the machine in a race is ours too.
        let stand_in = scene.stand_in("/etc/passwd", false).unwrap();
        assert_eq!((stand_in.starts_with(&base), fs::read_to_string(stand_in).unwrap().as_str()), (true, CONTENT));
        drop(scene);
        assert!(!base.exists() && Path::new("/etc/passwd").exists());
    }

    #[test]
    fn sizes_have_letters() {
        for (size, count) in
            [("1T", Some(1 << 40)), ("8G", Some(8 << 30)), ("10", Some(10)), ("1X", None), ("many", None), ("99999999T", None)]
        {
            assert_eq!(bytes(size), count, "{size}");
        }
    }
}
