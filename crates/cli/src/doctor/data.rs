//! What `doctor` says of the sessions that are kept: where they are, and whether the file fits together.

use posse_config::Places;
use posse_store::Sqlite;

use super::{Finding, Health};

/// What is read in a second or so.
const CHECKED_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// Every page is read, which the start of a run has no time for.
pub(super) async fn finding(places: &Places) -> Finding {
    let folder = places.project_data_dir();
    let shown = folder.display();
    let bad = |words: String| Finding::new("data", Health::Bad, words);
    let store = match Sqlite::open(&folder) {
        Ok(store) => store,
        Err(error) => return bad(posse_api::words::storage(&error.to_string())),
    };
    if let Some(finding) = salvaged(&store) {
        return finding;
    }
    let bytes = std::fs::metadata(folder.join("posse.db")).map_or(0, |file| file.len());
    if CHECKED_BYTES_MAX < bytes {
        let words = format!("{shown} ({} MB: too large to be checked here; `posse sessions backup FILE` checks its copy)", bytes >> 20);
        return Finding::new("data", Health::Good, words);
    }
    match store.check().await {
        Ok(said) if said == "ok" => Finding::new("data", Health::Good, format!("{shown}, checked")),
        found => {
            // It is noted now, and mended by the next opening; another process that has it open keeps it from that.
            drop(store);
            let mended = Sqlite::open(&folder).ok().and_then(|store| salvaged(&store));
            mended.unwrap_or_else(|| match found {
                Ok(said) => bad(format!("{shown}: damaged ({said}); the next command saves what can be read into a new file")),
                Err(error) => bad(posse_api::words::storage(&error.to_string())),
            })
        }
    }
}

fn salvaged(store: &Sqlite) -> Option<Finding> {
    store.salvaged().map(|salvaged| Finding::new("data", Health::Note, salvaged.to_string()))
}
