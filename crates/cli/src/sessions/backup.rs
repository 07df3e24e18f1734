//! `posse sessions backup`: everything of this project's database in one file, while other processes go on writing.

use std::path::Path;

use posse_api::words;
use posse_store::BackupError;
use serde_json::json;

use crate::{
    args::Listing,
    build,
    exit::{Exit, Failure},
    print::to_stdout,
};

pub(crate) async fn backup(file: &Path, force: bool, format: Listing) -> Result<Exit, Failure> {
    let places = build::places(None)?;
    let database = places.project_data_dir().join("posse.db");
    if !posse_store::Sqlite::is_in(places.project_data_dir()) {
        return Err(Failure::usage(format!("there are no sessions in {} yet, and so nothing to keep", places.project.display())));
    }
    let inside = build::open_store(&places)?.backup(file, force).await.map_err(|error| match error {
        BackupError::Exists(_) => Failure::usage(format!("{error}; --force replaces it")),
        BackupError::Itself(_) => Failure::usage(error.to_string()),
        BackupError::Failed(_) => Failure::failed(format!("no backup was made: {error}")),
    })?;
    if format == Listing::Json {
        let told = json!({
            "file": file, "sessions": inside.sessions, "events": inside.events, "texts": inside.blobs, "bytes": inside.bytes,
        });
        to_stdout(&told.to_string());
        return Ok(Exit::Done);
    }
    to_stdout(&format!(
        "{}: {}, {}, {} ({} KB), checked",
        file.display(),
        words::count(inside.sessions, "session"),
        words::count(inside.events, "event"),
        words::count(inside.blobs, "long text"),
        inside.bytes.div_ceil(1024)
    ));
    to_stdout(&format!(
        "to go back to it: end every posse of this project, remove {0}-wal and {0}-shm, and copy the file to {0}",
        database.display()
    ));
    Ok(Exit::Done)
}
