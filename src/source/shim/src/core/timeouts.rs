// SPDX-License-Identifier: Apache-2.0
//! Timeouts: the time limits of one attempt.
use std::time::Duration;

#[derive(Clone, Copy)]
pub struct Timeouts {
    /// Until the first byte of a response, connecting included.
    pub first_byte: Duration,
    /// Between two pieces of a response.
    pub idle: Duration,
}

impl Timeouts {
    /// The same limit for both.
    pub fn both(limit: Duration) -> Self {
        Self {
            first_byte: limit,
            idle: limit,
        }
    }
}
