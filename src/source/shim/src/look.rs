// SPDX-License-Identifier: Apache-2.0
//! Look: at files that may lie on a file system that hangs. Never more than one at a time, so that
//! such a file system takes one thread and not all of them.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const LOOK_MAX: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct Look {
    is_out: Arc<AtomicBool>,
}

impl Look {
    /// What `work` finds, on a thread of its own; nothing when that takes too long, or when an
    /// earlier one has not come back yet.
    pub async fn take<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        if self.is_out.swap(true, Ordering::AcqRel) {
            return None;
        }
        let is_out = self.is_out.clone();
        let looking = tokio::task::spawn_blocking(move || {
            let found = work();
            is_out.store(false, Ordering::Release);
            found
        });
        tokio::time::timeout(LOOK_MAX, looking).await.ok()?.ok()
    }
}
