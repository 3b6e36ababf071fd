// SPDX-License-Identifier: Apache-2.0
//! Lanes: the threads on which requests run, each a runtime of its own with connections of its own.
//! Threads that steal each other's work wake each other for every small request, which costs more
//! than the request's own work. Here small requests stay together on the first lane as long as it
//! keeps up, and what they report is handed over in one go, so that whoever waits is woken once.
use std::cell::Cell;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use tokio::runtime::Runtime;

/// One moves about 3 GiB/s in clear and 1 GiB/s under TLS.
const LANES_MIN: usize = 2;
pub const LANES_MAX: usize = 8;
/// What has to be under way on a lane before another one takes the next request, in bytes.
const LOAD_STEP: u64 = 8 << 20;
/// Of a request for a page of a listing, which is long to read: enough to keep reads away.
pub const PAGE_WEIGHT: usize = LOAD_STEP as usize;
/// A request without a body is work as well.
const WEIGHT_MIN: u64 = 64 << 10;

thread_local! {
    static LANE: Cell<usize> = const { Cell::new(0) };
}

type Report = Box<dyn FnOnce() + Send>;

struct Lane {
    runtime: Runtime,
    /// Bytes that are under way.
    load: AtomicU64,
    /// Of requests that have ended in this round.
    reports: Mutex<Vec<Report>>,
}

/// All of the process.
fn lanes() -> &'static [Lane] {
    static LANES: OnceLock<Vec<Lane>> = OnceLock::new();
    LANES.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let count = (cores / 2).clamp(LANES_MIN, LANES_MAX);
        (0..count).map(Lane::new).collect()
    })
}

/// Of the thread that asks: which of the lanes it is.
pub fn current() -> usize {
    LANE.get()
}

/// For work that no request waits for.
pub fn any() -> &'static Runtime {
    &lanes()[0].runtime
}

/// Runs a request of `weight` bytes and then what it ends with.
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

/// A write to a process that has gone (sftp's ssh) is an error like others, not the end of ours.
fn block_sigpipe() {
    // SAFETY: `set` is initialised by sigemptyset before it is read.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
    }
}

/// The first of those with the least to do.
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

    /// After what else is ready now.
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
