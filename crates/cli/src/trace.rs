//! `POSSE_LOG`: a tracing filter; what it lets through goes to a file in the data folder.

use std::{fs::OpenOptions, os::unix::fs::OpenOptionsExt as _, path::Path, sync::Mutex};

use tracing_subscriber::EnvFilter;

use crate::exit::Failure;

pub(crate) fn start(data_dir: &Path) -> Result<(), Failure> {
    let Ok(filter) = std::env::var("POSSE_LOG") else { return Ok(()) };
    let path = data_dir.join("posse.log");
    let filter =
        EnvFilter::try_new(&filter).map_err(|error| Failure::usage(format!("POSSE_LOG={filter}: {error}; for example POSSE_LOG=debug")))?;
    let open = std::fs::create_dir_all(data_dir).and_then(|()| OpenOptions::new().create(true).append(true).mode(0o600).open(&path));
    let file = open.map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?;
    // A command may look for its places twice; the first file counts.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(Mutex::new(file)).try_init();
    Ok(())
}
