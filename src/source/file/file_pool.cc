// SPDX-License-Identifier: Apache-2.0
#include "source/file/file_pool.h"

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

namespace leat {
namespace {

// Enough for a fast disk, few enough to lose when a file system hangs.
constexpr unsigned kThreads = 16;

}  // namespace

struct FilePool::Threads {
  explicit Threads(unsigned count) : pool(count) {}
  boost::asio::thread_pool pool;
};

FilePool& FilePool::of_process() {
  static auto* pool = new FilePool(kThreads);
  return *pool;
}

FilePool::FilePool(unsigned threads)
    : free_(threads), threads_(std::make_unique<Threads>(threads)) {}

FilePool::~FilePool() {
  threads_->pool.join();
}

void FilePool::post(std::move_only_function<void()> call) {
  boost::asio::post(threads_->pool, std::move(call));
}

}  // namespace leat
