// SPDX-License-Identifier: Apache-2.0
#include "runtime/io_ring.h"

#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/check.h"

namespace leat {
namespace {

constexpr unsigned kDepth = 256;
// Time for reads that are about to end. A hanging disk costs it once.
constexpr auto kLeavingTime = std::chrono::milliseconds(100);

}  // namespace

// Shared by the ring and its thread, which may live longer.
struct IoRing::State {
  ~State() {
    if (made) io_uring_queue_exit(&ring);
  }

  void submit_one() {
    int submitted;
    do {
      submitted = io_uring_submit(&ring);
    } while (submitted == -EINTR || submitted == -EAGAIN || submitted == -EBUSY);
    LEAT_CHECK(submitted >= 0);
  }
  void gather();

  io_uring ring{};
  bool made = false;
  std::mutex submit_mutex;  // leaf; the submission queue has one writer at a time
  std::atomic<unsigned> in_flight = 0;

  std::mutex mutex;  // leaf
  std::condition_variable thread_left;
  bool ended = false;
};

std::unique_ptr<IoRing> IoRing::create() {
  auto state = std::make_shared<State>();
  state->made = io_uring_queue_init(kDepth, &state->ring, 0) >= 0;
  if (!state->made) return nullptr;
  try {
    std::thread thread([state] { state->gather(); });
    pthread_setname_np(thread.native_handle(), "leat-disk");
    thread.detach();
  } catch (const std::system_error&) {
    return nullptr;
  }
  return std::unique_ptr<IoRing>(new IoRing(std::move(state)));
}

IoRing::~IoRing() {
  {
    std::lock_guard lock(state_->submit_mutex);
    io_uring_sqe* sqe = io_uring_get_sqe(&state_->ring);
    LEAT_CHECK(sqe != nullptr);
    io_uring_prep_nop(sqe);
    io_uring_sqe_set_data(sqe, nullptr);  // makes the thread exit once nothing is in flight
    state_->submit_one();
  }
  std::unique_lock lock(state_->mutex);
  state_->thread_left.wait_for(lock, kLeavingTime, [this] { return state_->ended; });
}

bool IoRing::read(int fd, void* into, unsigned size, uint64_t offset, Completion& completion,
                  Issuer by) {
  std::lock_guard lock(state_->submit_mutex);
  // One entry stays free for the exit request; the completion queue holds twice the depth.
  if (state_->in_flight.load() + 1 >= kDepth) return false;
  io_uring_sqe* sqe = io_uring_get_sqe(&state_->ring);
  if (sqe == nullptr) return false;
  io_uring_prep_read(sqe, fd, into, size, offset);
  if (by == Issuer::kWorker) io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
  io_uring_sqe_set_data(sqe, new Completion(std::move(completion)));
  state_->in_flight.fetch_add(1);
  state_->submit_one();
  return true;
}

void IoRing::State::gather() {
  bool leaving = false;
  while (!leaving || in_flight.load() != 0) {
    io_uring_cqe* cqe = nullptr;
    int waited = io_uring_wait_cqe(&ring, &cqe);
    if (waited == -EINTR || waited == -EAGAIN) continue;
    LEAT_CHECK(waited == 0);
    auto* completion = static_cast<Completion*>(io_uring_cqe_get_data(cqe));
    int result = cqe->res;
    io_uring_cqe_seen(&ring, cqe);
    if (completion == nullptr) {
      leaving = true;
      continue;
    }
    // The kernel orders this after the writes of read(). The load makes that visible to tools that
    // see only threads.
    (void)in_flight.load();
    (*completion)(result);
    delete completion;
    in_flight.fetch_sub(1);
  }
  std::lock_guard lock(mutex);
  ended = true;
  thread_left.notify_all();
}

}  // namespace leat
