// SPDX-License-Identifier: Apache-2.0
//! Page: one page of a listing.
use crate::core::entry::Entry;

#[derive(Default)]
pub struct Page {
    pub entries: Vec<Entry>,
    pub next_token: String,
    pub left_out: usize,
    pub left_out_example: String,
}

impl Page {
    /// Counts a name that cannot be addressed.
    pub fn leave_out(&mut self, key: String) {
        if self.left_out == 0 {
            self.left_out_example = key;
        }
        self.left_out += 1;
    }
}
