//! `posse trust`: accepts what a folder would run, redirect or widen, as it is now, and says what that is.
//!
//! Asks nothing: to type the command is the answer. What counts as such a part is decided by `posse_config`.

use std::path::PathBuf;

use posse_config::{KeepTrustError, keep_trust, trust_file};
use posse_session::Clock as _;
use serde_json::json;

use crate::{
    args::{How, Listing},
    build::{self, SystemClock},
    exit::{Exit, Failure},
    print::{safe, to_stdout},
};

pub(crate) fn trust(dir: Option<PathBuf>, format: Listing) -> Result<Exit, Failure> {
    let places = build::places(dir.as_deref())?;
    let config = build::configuration(&places, &How::default())?;
    keep_trust(&places, &config, SystemClock.now().0).map_err(|error| match error {
        KeepTrustError::Unknown(_) | KeepTrustError::Name(_) => Failure::usage(error.to_string()),
        KeepTrustError::Unwritable { .. } => Failure::failed(format!("{error}; nothing was trusted")),
    })?;
    let kept_in = trust_file(&places);
    if format == Listing::Json {
        // A script reads them as files of the folder, wherever it was started.
        let within = |file: &str| {
            let path = places.stand.join(file);
            path.strip_prefix(&places.cwd).unwrap_or(&path).display().to_string()
        };
        let parts: Vec<_> = config.parts.iter().map(|part| json!({"file": within(&part.file), "key": part.key})).collect();
        to_stdout(&json!({"folder": places.project, "parts": parts, "kept_in": kept_in}).to_string());
        return Ok(Exit::Done);
    }
    for part in &config.parts {
        to_stdout(&safe(&format!("{}: {}", part.file, part.key)));
    }
    let what = match config.parts.len() {
        0 => "there is nothing in it yet that needs trust; something new will be asked about".to_owned(),
        1 => "1 part accepted, until it changes".to_owned(),
        count => format!("{count} parts accepted, until one of them changes"),
    };
    to_stdout(&safe(&format!("{}: {what}; kept in {}", places.project.display(), kept_in.display())));
    Ok(Exit::Done)
}
