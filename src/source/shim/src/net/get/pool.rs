// SPDX-License-Identifier: Apache-2.0
//! Pool: idle connections, bounded in number and in time.
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::connection::Connection;
use super::route::Origin;

/// Shorter than the minute after which servers close connections.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// As many as may be in flight to one store: with fewer, each burst would make them again.
const IDLE_OF_ORIGIN_MAX: usize = 1024;
const IDLE_TOTAL_MAX: usize = 2048;

struct Idle {
    connection: Connection,
    since: Instant,
}

#[derive(Default)]
pub struct Pool {
    idle: Mutex<HashMap<Origin, Vec<Idle>>>,
    /// Connections that are made ahead.
    connecting: Mutex<HashMap<Origin, usize>>,
    has_sweeper: AtomicBool,
}

impl Pool {
    /// Returns the connection that was used last, so that the others may expire. Never returns one
    /// that has received anything since its last response: it would be taken for the next response.
    /// The check costs a system call only if the last response filled its memory to the end, so not
    /// for small ones.
    pub fn take(&self, origin: &Origin) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap();
        let of_origin = idle.get_mut(origin)?;
        while let Some(mut newest) = of_origin.pop() {
            if newest.since.elapsed() < IDLE_MAX && newest.connection.is_idle() {
                return Some(newest.connection);
            }
        }
        None
    }

    /// Returns how many connections the caller is to make ahead, so that `wanted` are idle, and
    /// counts them as being made.
    pub fn take_missing(&self, origin: &Origin, wanted: usize) -> usize {
        let idle = self.idle.lock().unwrap().get(origin).map_or(0, Vec::len);
        if idle >= wanted {
            return 0;
        }
        let mut connecting = self.connecting.lock().unwrap();
        let count = connecting.entry(origin.clone()).or_default();
        let missing = wanted.saturating_sub(idle + *count);
        *count += missing;
        missing
    }

    /// One of them was made, or failed.
    pub fn put_ahead(self: &Arc<Self>, origin: &Origin, made: Option<Connection>) {
        if let Some(connection) = made {
            self.put(origin, connection);
        }
        let mut connecting = self.connecting.lock().unwrap();
        if let Some(count) = connecting.get_mut(origin) {
            *count -= 1;
            if *count == 0 {
                connecting.remove(origin);
            }
        }
    }

    /// Closes all idle connections to `origin`.
    pub fn close_idle(&self, origin: &Origin) {
        self.idle.lock().unwrap().remove(origin);
    }

    pub fn put(self: &Arc<Self>, origin: &Origin, mut connection: Connection) {
        connection.release_buffers();
        let mut idle = self.idle.lock().unwrap();
        if idle.values().map(Vec::len).sum::<usize>() >= IDLE_TOTAL_MAX {
            drop_oldest(&mut idle);
        }
        let since = Instant::now();
        match idle.get_mut(origin) {
            Some(of_origin) => {
                if of_origin.len() >= IDLE_OF_ORIGIN_MAX {
                    of_origin.remove(0);
                }
                of_origin.push(Idle { connection, since });
            }
            None => {
                idle.insert(origin.clone(), vec![Idle { connection, since }]);
            }
        }
        drop(idle);
        if !self.has_sweeper.swap(true, Ordering::Relaxed) {
            tokio::spawn(sweep(self.clone()));
        }
    }
}

fn drop_oldest(idle: &mut HashMap<Origin, Vec<Idle>>) {
    let oldest = idle
        .iter()
        .filter_map(|(origin, of_origin)| Some((of_origin.first()?.since, origin.clone())))
        .min_by_key(|(since, _)| *since);
    if let Some((_, origin)) = oldest {
        idle.get_mut(&origin).expect("found above").remove(0);
    }
}

/// Closes expired connections, for the life of the process.
async fn sweep(pool: Arc<Pool>) {
    loop {
        tokio::time::sleep(IDLE_MAX / 3).await;
        let mut idle = pool.idle.lock().unwrap();
        idle.retain(|_, of_origin| {
            of_origin.retain_mut(|one| one.since.elapsed() < IDLE_MAX && one.connection.is_idle());
            !of_origin.is_empty()
        });
    }
}
