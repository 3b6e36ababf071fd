// SPDX-License-Identifier: Apache-2.0
#include "runtime/io_ring.h"

#include <pthread.h>

#include <cerrno>

#include "base/check.h"

namespace leat {

std::unique_ptr<IoRing> IoRing::create() {
  std::unique_ptr<IoRing> ring(new IoRing());
  if (io_uring_queue_init(kDepth, &ring->ring_, 0) < 0) return nullptr;
  ring->thread_ = std::thread([raw = ring.get()] { raw->gather(); });
  pthread_setname_np(ring->thread_.native_handle(), "leat-disk");
  return ring;
}

IoRing::~IoRing() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(submit_mutex_);
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    LEAT_CHECK(sqe != nullptr);
    io_uring_prep_nop(sqe);
    io_uring_sqe_set_data(sqe, nullptr);  // the sign to leave once nothing is in flight
    io_uring_submit(&ring_);
  }
  thread_.join();
  io_uring_queue_exit(&ring_);
}

bool IoRing::read(int fd, void* into, unsigned size, uint64_t offset, Completion& completion,
                  By by) {
  return submit(completion, [=](io_uring_sqe* sqe) {
    io_uring_prep_read(sqe, fd, into, size, offset);
    if (by == By::kWorker) io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
  });
}

bool IoRing::submit(Completion& completion, const std::function<void(io_uring_sqe*)>& prepare) {
  std::lock_guard lock(submit_mutex_);
  // One entry stays free for the leaving sign; the completion queue holds twice the depth.
  if (in_flight_.load() + 1 >= kDepth) return false;
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  if (sqe == nullptr) return false;
  prepare(sqe);
  auto* kept = new Completion(std::move(completion));
  io_uring_sqe_set_data(sqe, kept);
  in_flight_.fetch_add(1);
  int submitted;
  do {
    submitted = io_uring_submit(&ring_);
  } while (submitted == -EINTR || submitted == -EAGAIN || submitted == -EBUSY);
  LEAT_CHECK(submitted >= 0);
  return true;
}

void IoRing::gather() {
  bool leaving = false;
  while (!leaving || in_flight_.load() != 0) {
    io_uring_cqe* cqe = nullptr;
    int waited = io_uring_wait_cqe(&ring_, &cqe);
    if (waited == -EINTR || waited == -EAGAIN) continue;
    LEAT_CHECK(waited == 0);
    auto* completion = static_cast<Completion*>(io_uring_cqe_get_data(cqe));
    int result = cqe->res;
    io_uring_cqe_seen(&ring_, cqe);
    if (completion == nullptr) {
      leaving = true;
      continue;
    }
    // The kernel hands over what submit() wrote; this says so to whoever looks at threads only.
    (void)in_flight_.load();
    (*completion)(result);
    delete completion;
    in_flight_.fetch_sub(1);
  }
}

}  // namespace leat
