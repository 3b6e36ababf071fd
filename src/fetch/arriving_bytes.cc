// SPDX-License-Identifier: Apache-2.0
#include "fetch/arriving_bytes.h"

#include <utility>
#include <vector>

#include "base/check.h"

namespace leat {

std::span<std::byte> ArrivingBytes::open() {
  LEAT_CHECK(memory_.empty());
  Buffer buffer(size_);
  const std::span<std::byte> room = buffer.span();
  memory_ = Bytes(std::move(buffer));
  return room;
}

void ArrivingBytes::arrived(uint64_t bytes) {
  if (bytes < size_) rise(bytes);
}

void ArrivingBytes::rise(uint64_t bytes) {
  std::vector<Wait> over;
  {
    std::lock_guard lock(mutex_);
    if (bytes <= arrived_.load(std::memory_order_relaxed)) return;
    arrived_.store(bytes, std::memory_order_release);
    const auto end = waits_.upper_bound(bytes);
    for (auto wait = waits_.begin(); wait != end; ++wait) over.push_back(std::move(wait->second));
    waits_.erase(waits_.begin(), end);
  }
  for (const Wait& wait : over) wait->set(true);
}

void ArrivingBytes::fail(const Status& why) {
  std::map<uint64_t, Wait> over;
  {
    std::lock_guard lock(mutex_);
    LEAT_CHECK(!failure_);
    failure_ = why;
    over.swap(waits_);
  }
  for (const auto& [least, wait] : over) wait->set(Error(why));
}

std::optional<Bytes> ArrivingBytes::part(uint64_t offset, uint64_t size) const {
  if (bytes() < offset + size) return std::nullopt;
  return memory_.sub(offset, size);
}

Task<Result<uint64_t>> ArrivingBytes::wait(Context context, uint64_t least, const char* what) {
  Wait wait;
  {
    std::lock_guard lock(mutex_);
    LEAT_CHECK(least <= size_);
    if (const uint64_t now = arrived_.load(std::memory_order_relaxed); now >= least) co_return now;
    if (failure_) co_return Error(*failure_);
    Wait& same = waits_[least];
    if (same == nullptr) same = SharedResult<bool>::make();
    wait = same;
  }
  Result<bool> come = co_await wait->wait(context, what);
  if (!come) co_return Error(come.error());
  co_return bytes();
}

}  // namespace leat
