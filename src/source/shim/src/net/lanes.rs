// SPDX-License-Identifier: Apache-2.0
//! Lanes: the threads that run requests, each with its own runtime and connections. Threads that
//! steal work wake each other for every small request, which costs more than the request itself.
//! Here small requests stay on the first lane while it keeps up. Their reports are passed on
//! together, so that a waiting caller is woken once.
use std::cell::Cell;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use tokio::runtime::Runtime;

/// A lane moves about 3 GiB/s in clear and 1 GiB/s under TLS.
pub const LANES_MIN: usize = 2;
pub const LANES_MAX: usize = 8;
/// Bytes in flight on a lane before another lane gets the next request.
const LOAD_STEP: u64 = 8 << 20;
/// Weight of a request for a listing page, which takes long to parse: enough to keep reads away.
pub const PAGE_WEIGHT: usize = LOAD_STEP as usize;
/// A request without a body is also work.
const WEIGHT_MIN: u64 = 64 << 10;

thread_local! {
    static LANE: Cell<usize> = const { Cell::new(0) };
}

type Report = Box<dyn FnOnce() + Send>;

struct Lane {
    runtime: Runtime,
    /// Bytes in flight.
    load: AtomicU64,
    /// Reports of requests that ended in this round.
    reports: Mutex<Vec<Report>>,
}

/// Returns all lanes of the process.
fn lanes() -> &'static [Lane] {
    static LANES: OnceLock<Vec<Lane>> = OnceLock::new();
    LANES.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let count = (cores / 2).clamp(LANES_MIN, LANES_MAX);
        (0..count).map(Lane::new).collect()
    })
}

/// Index of the lane of the calling thread.
pub fn current() -> usize {
    LANE.get()
}

/// A runtime for background work.
pub fn any() -> &'static Runtime {
    &lanes()[0].runtime
}

/// Runs background work on one of the first LANES_MIN lanes.
pub fn spawn(lane: usize, work: impl Future<Output = ()> + Send + 'static) {
    lanes()[lane].runtime.spawn(work);
}

/// Runs a request of `weight` bytes and then its report.
pub fn run<R: FnOnce() + Send + 'static>(
    weight: u64,
    work: impl Future<Output = R> + Send + 'static,
) {
    let weight = weight.max(WEIGHT_MIN);
    let lane = pick(lanes());
    lane.load.fetch_add(weight, Ordering::Relaxed);
    lane.runtime.spawn(async move {
        let report = work.await;
        lane.load.fetch_sub(weight, Ordering::Relaxed);
        lane.report(Box::new(report));
    });
}

/// A write to a process that has ended (sftp's ssh) must return an error, not end this process.
fn block_sigpipe() {
    // SAFETY: `set` is initialised by sigemptyset before it is read.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
    }
}

/// Returns the first of the least loaded lanes.
fn pick(lanes: &'static [Lane]) -> &'static Lane {
    let steps = |lane: &&Lane| lane.load.load(Ordering::Relaxed) / LOAD_STEP;
    lanes.iter().min_by_key(steps).expect("there are lanes")
}

impl Lane {
    fn new(index: usize) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name(format!("leat-store-{index}"))
            .on_thread_start(move || {
                LANE.set(index);
                block_sigpipe();
            })
            .enable_all()
            .build()
            .expect("the runtime of the stores cannot start its threads");
        Self {
            runtime,
            load: AtomicU64::new(0),
            reports: Mutex::default(),
        }
    }

    /// Runs the report after all other ready work.
    fn report(&'static self, report: Report) {
        let mut waiting = self.reports.lock().unwrap();
        waiting.push(report);
        if waiting.len() > 1 {
            return;
        }
        drop(waiting);
        self.runtime.spawn(async {
            tokio::task::yield_now().await;
            let ready = std::mem::take(&mut *self.reports.lock().unwrap());
            for report in ready {
                report();
            }
        });
    }
}
