// SPDX-License-Identifier: Apache-2.0
#include "source/file/file_pool.h"

namespace leat {
namespace {

// Enough for a fast disk, few enough to lose when a file system hangs.
constexpr unsigned kThreads = 16;

}  // namespace

FilePool& FilePool::of_process() {
  static auto* pool = new FilePool(kThreads);
  return *pool;
}

FilePool::FilePool(unsigned threads)
    : free_(std::make_shared<Semaphore>(threads)), threads_("leat-files", threads) {}

void FilePool::post(std::move_only_function<void()> call) {
  threads_.post([call = std::move(call)](const Status* rejected) mutable {
    if (rejected == nullptr) call();
  });
}

}  // namespace leat
