// SPDX-License-Identifier: Apache-2.0
//! Reload: reopens a store with its options when its files have changed. Services read their
//! credentials once, or cache them until their expiry; a reopened service reads them again. S3's
//! are an exception, see `credentials`.
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::backends::build;
use crate::core::blocking_slot::Look;
use crate::store::open::Built;

/// Between two checks of the files, and between two reopenings after rejections: a store that
/// rejects everything must not cause either for each request.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// State of each file that changes when it is replaced; None if the file is missing.
type Stamps = Vec<Option<(u64, u64, i64, i64)>>;

struct State {
    stamps: Stamps,
    looked: Instant,
    reopened: Option<Instant>,
}

pub struct Reload {
    options: HashMap<String, String>,
    files: Vec<PathBuf>,
    /// A rejection may be caused by a credential that the service read long ago.
    after_refusals: bool,
    openings: AtomicU64,
    look: Look,
    state: Mutex<State>,
}

impl Reload {
    pub fn new(options: &HashMap<String, String>) -> Self {
        let files = files_of(options);
        let scheme = options
            .get("scheme")
            .map(String::as_str)
            .unwrap_or_default();
        let is_anonymous = options
            .get("anonymous")
            .is_some_and(|value| value == "true");
        Self {
            options: options.clone(),
            after_refusals: !is_anonymous
                && matches!(
                    scheme,
                    "gs" | "az" | "abfs" | "oss" | "cos" | "obs" | "b2" | "webhdfs"
                ),
            openings: AtomicU64::new(0),
            look: Look::default(),
            state: Mutex::new(State {
                stamps: stamps(&files),
                looked: Instant::now(),
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
        !self.files.is_empty() && self.state.lock().unwrap().looked.elapsed() >= AGAIN_AFTER
    }

    /// Reopens the store if one of its files has changed. A file that cannot be used now, such as
    /// one that is being written, is checked again.
    pub async fn if_changed(&self) -> Option<Built> {
        let known = {
            let mut state = self.state.lock().unwrap();
            if state.looked.elapsed() < AGAIN_AFTER {
                return None;
            }
            state.looked = Instant::now();
            state.stamps.clone()
        };
        let (files, options) = (self.files.clone(), self.options.clone());
        let look = move || {
            let found = stamps(&files);
            let built = (found != known).then(|| build::build(&options));
            (found, built.and_then(Result::ok))
        };
        let (found, built) = self.look.take(look).await?;
        if built.is_some() {
            self.state.lock().unwrap().stamps = found;
        }
        built
    }

    /// Reopens the store if its credentials may have changed since they were read.
    pub async fn after_refusal(&self) -> Option<Built> {
        if !self.after_refusals {
            return None;
        }
        {
            let mut state = self.state.lock().unwrap();
            if state
                .reopened
                .is_some_and(|when| when.elapsed() < AGAIN_AFTER)
            {
                return None;
            }
            state.reopened = Some(Instant::now());
        }
        let options = self.options.clone();
        self.look.take(move || build::build(&options)).await?.ok()
    }
}

fn stamps(files: &[PathBuf]) -> Stamps {
    let stamp = |file: &PathBuf| {
        let found = std::fs::metadata(file).ok()?;
        Some((found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
    };
    files.iter().map(stamp).collect()
}

/// Files that the store's options depend on.
fn files_of(options: &HashMap<String, String>) -> Vec<PathBuf> {
    let given = |name: &str| options.get(name).filter(|path| !path.is_empty());
    let variable = |name: &str| std::env::var(name).ok().filter(|path| !path.is_empty());
    let mut files: Vec<String> = Vec::new();
    files.extend(given("sse_customer_key_file").cloned());
    match options.get("scheme").map(String::as_str) {
        // Read again by `credentials`.
        Some("s3") => {}
        Some("gs") => match given("credentials") {
            Some(file) => files.push(file.clone()),
            None => {
                files.extend(variable("GOOGLE_APPLICATION_CREDENTIALS"));
                let folder = variable("XDG_CONFIG_HOME")
                    .or_else(|| variable("HOME").map(|home| format!("{home}/.config")));
                files.extend(
                    folder.map(|at| format!("{at}/gcloud/application_default_credentials.json")),
                );
            }
        },
        Some("az" | "abfs") => match given("credentials") {
            Some(file) => files.push(file.clone()),
            None => files.extend(variable("AZURE_CLIENT_CERTIFICATE_PATH")),
        },
        _ => files.extend(given("credentials").cloned()),
    }
    files.into_iter().map(PathBuf::from).collect()
}
