// SPDX-License-Identifier: Apache-2.0
//! Trace: details of a request, besides its result.
use std::time::Duration;

use crate::attempt::exchange::LastResponse;

#[derive(Default)]
pub struct Trace {
    /// Requests sent: more than one if a credential was renewed.
    pub requests: u32,
    /// Latency of the last attempt; None if no response arrived.
    pub first_byte: Option<Duration>,
    pub retry_after: Option<Duration>,
    pub response: LastResponse,
}
