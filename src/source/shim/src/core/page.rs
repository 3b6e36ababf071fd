// SPDX-License-Identifier: Apache-2.0
//! Page: one page of a listing.
use crate::core::entry::Entry;

#[derive(Default)]
pub struct Page {
    pub entries: Vec<Entry>,
    pub next_token: String,
    pub skipped: usize,
    pub skipped_example: String,
}

impl Page {
    /// Counts a name that cannot be addressed.
    pub fn skip(&mut self, key: String) {
        if self.skipped == 0 {
            self.skipped_example = key;
        }
        self.skipped += 1;
    }
}
