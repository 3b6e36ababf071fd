// SPDX-License-Identifier: Apache-2.0
//! Reload: builds the parts of a store again when its files have changed. Services read their
//! credentials once, or cache them until their expiry; a service that is built again reads them
//! again. S3's are an exception, see `auth`.
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::core::blocking_slot::BlockingSlot;

/// Between two checks of the files, and between two reopenings after rejections: a store that
/// rejects everything must not cause either for each request.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// State of each file that changes when it is replaced; None if the file is missing.
type Stamps = Vec<Option<(u64, u64, i64, i64)>>;

struct State {
    stamps: Stamps,
    checked: Instant,
    reopened: Option<Instant>,
}

type Build<T> = Arc<dyn Fn() -> Result<T, String> + Send + Sync>;

pub struct Reload<T> {
    build: Build<T>,
    files: Vec<PathBuf>,
    /// A rejection may be caused by a credential that the service read long ago.
    after_rejections: bool,
    openings: AtomicU64,
    slot: BlockingSlot,
    state: Mutex<State>,
}

impl<T: Send + 'static> Reload<T> {
    /// `build` depends on `files`, and runs on a thread that may block.
    pub fn new(
        files: Vec<PathBuf>,
        after_rejections: bool,
        build: impl Fn() -> Result<T, String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            build: Arc::new(build),
            after_rejections,
            openings: AtomicU64::new(0),
            slot: BlockingSlot::default(),
            state: Mutex::new(State {
                stamps: stamps(&files),
                checked: Instant::now(),
                reopened: None,
            }),
            files,
        }
    }

    /// How often the store was reopened.
    pub fn openings(&self) -> u64 {
        self.openings.load(Ordering::Acquire)
    }

    /// Called when the result is put to use, so that `openings` is not ahead of it.
    pub fn opened(&self) {
        self.openings.fetch_add(1, Ordering::Release);
    }

    /// Whether the files have to be checked.
    pub fn is_due(&self) -> bool {
        !self.files.is_empty() && self.state.lock().unwrap().checked.elapsed() >= CHECK_INTERVAL
    }

    /// Reopens the store if one of its files has changed. A file that cannot be used now, such as
    /// one that is being written, is checked again.
    pub async fn if_changed(&self) -> Option<T> {
        let known = {
            let mut state = self.state.lock().unwrap();
            if state.checked.elapsed() < CHECK_INTERVAL {
                return None;
            }
            state.checked = Instant::now();
            state.stamps.clone()
        };
        let (files, build) = (self.files.clone(), self.build.clone());
        let check = move || {
            let found = stamps(&files);
            let built = (found != known).then(|| build());
            (found, built.and_then(Result::ok))
        };
        let (found, built) = self.slot.run(check).await?;
        if built.is_some() {
            self.state.lock().unwrap().stamps = found;
        }
        built
    }

    /// Reopens the store if its credentials may have changed since they were read.
    pub async fn after_rejection(&self) -> Option<T> {
        if !self.after_rejections {
            return None;
        }
        {
            let mut state = self.state.lock().unwrap();
            if state
                .reopened
                .is_some_and(|when| when.elapsed() < CHECK_INTERVAL)
            {
                return None;
            }
            state.reopened = Some(Instant::now());
        }
        let build = self.build.clone();
        self.slot.run(move || build()).await?.ok()
    }
}

fn stamps(files: &[PathBuf]) -> Stamps {
    let stamp = |file: &PathBuf| {
        let found = std::fs::metadata(file).ok()?;
        Some((found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
    };
    files.iter().map(stamp).collect()
}
