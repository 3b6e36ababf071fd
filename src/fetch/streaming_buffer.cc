// SPDX-License-Identifier: Apache-2.0
#include "fetch/streaming_buffer.h"

#include <utility>
#include <vector>

#include "base/check.h"

namespace leat {

std::span<std::byte> StreamingBuffer::open() {
  LEAT_CHECK(memory_.empty());
  Buffer buffer(size_);
  const std::span<std::byte> memory = buffer.span();
  memory_ = Bytes(std::move(buffer));
  return memory;
}

void StreamingBuffer::on_bytes(uint64_t bytes) {
  if (bytes < size_) advance(bytes);
}

void StreamingBuffer::advance(uint64_t bytes) {
  std::vector<Wait> ready;
  {
    std::lock_guard lock(mutex_);
    if (bytes <= arrived_.load(std::memory_order_relaxed)) return;
    arrived_.store(bytes, std::memory_order_release);
    const auto end = waits_.upper_bound(bytes);
    for (auto wait = waits_.begin(); wait != end; ++wait) ready.push_back(std::move(wait->second));
    waits_.erase(waits_.begin(), end);
  }
  for (const Wait& wait : ready) wait->set(true);
}

void StreamingBuffer::fail(const Status& why) {
  std::map<uint64_t, Wait> waiting;
  {
    std::lock_guard lock(mutex_);
    LEAT_CHECK(!failure_);
    failure_ = why;
    waiting.swap(waits_);
  }
  for (const auto& [least, wait] : waiting) wait->set(Error(why));
}

std::optional<Bytes> StreamingBuffer::slice(uint64_t offset, uint64_t size) const {
  if (bytes() < offset + size) return std::nullopt;
  return memory_.sub(offset, size);
}

Task<Result<uint64_t>> StreamingBuffer::wait(Context context, uint64_t least, const char* what) {
  Wait wait;
  {
    std::lock_guard lock(mutex_);
    LEAT_CHECK(least <= size_);
    if (const uint64_t now = arrived_.load(std::memory_order_relaxed); now >= least) co_return now;
    if (failure_) co_return Error(*failure_);
    Wait& same = waits_[least];
    if (same == nullptr) same = SharedPromise<bool>::make();
    wait = same;
  }
  Result<bool> arrived = co_await wait->wait(context, what);
  if (!arrived) co_return Error(arrived.error());
  co_return bytes();
}

}  // namespace leat
