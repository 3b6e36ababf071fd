// SPDX-License-Identifier: Apache-2.0
//! Traffic: HTTP traffic of all stores since the process started. Bodies count as far as they were
//! received, in the bytes that they represent, without chunk sizes.
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use http::Method;

/// GET, HEAD, PUT, POST, DELETE, others: as leat_http_traffic has them.
pub const METHODS: usize = 6;

static REQUESTS: [AtomicU64; METHODS] = [const { AtomicU64::new(0) }; METHODS];
static RECEIVED: AtomicU64 = AtomicU64::new(0);
static SENT: AtomicU64 = AtomicU64::new(0);
static CONNECTIONS: AtomicU64 = AtomicU64::new(0);

#[repr(C)]
pub struct Traffic {
    requests: [u64; METHODS],
    received_bytes: u64,
    sent_bytes: u64,
    connections: u64,
}

pub fn now() -> Traffic {
    Traffic {
        requests: std::array::from_fn(|index| REQUESTS[index].load(Relaxed)),
        received_bytes: RECEIVED.load(Relaxed),
        sent_bytes: SENT.load(Relaxed),
        connections: CONNECTIONS.load(Relaxed),
    }
}

pub fn note_sent(method: &Method, body: usize) {
    let index = match *method {
        Method::GET => 0,
        Method::HEAD => 1,
        Method::PUT => 2,
        Method::POST => 3,
        Method::DELETE => 4,
        _ => 5,
    };
    REQUESTS[index].fetch_add(1, Relaxed);
    SENT.fetch_add(body as u64, Relaxed);
}

pub fn note_connection() {
    CONNECTIONS.fetch_add(1, Relaxed);
}

/// Bytes of one body, added once when it ends in any way: large bodies have many pieces.
#[derive(Default)]
pub struct Received(u64);

impl Received {
    pub fn add(&mut self, bytes: usize) {
        self.0 += bytes as u64;
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        if self.0 > 0 {
            RECEIVED.fetch_add(self.0, Relaxed);
        }
    }
}
