// SPDX-License-Identifier: Apache-2.0
#include "cache/capacity.h"

#include "base/check.h"

namespace leat {

namespace {

// Margin for bytes that arrive during eviction: 1/50 of the limit, at most 2 GiB.
constexpr uint64_t kMarginShare = 50, kMarginMax = uint64_t{2} << 30;

}  // namespace

bool Capacity::reserve(uint64_t bytes) {
  uint64_t used = used_;
  do {
    if (used + bytes > limit()) {
      note_shortfall(bytes);
      return false;
    }
  } while (!used_.compare_exchange_weak(used, used + bytes));
  if (parent_ == nullptr || parent_->reserve(bytes)) return true;
  used_ -= bytes;
  return false;
}

void Capacity::note_shortfall(uint64_t bytes) {
  if (bytes > limit()) return;  // no eviction can make room for it
  uint64_t before = largest_shortfall_;
  while (before < bytes && !largest_shortfall_.compare_exchange_weak(before, bytes)) {
  }
}

void Capacity::count(uint64_t bytes) {
  used_ += bytes;
  if (parent_ != nullptr) parent_->count(bytes);
}

void Capacity::release(uint64_t bytes) {
  used_ -= bytes;
  if (parent_ != nullptr) parent_->release(bytes);
}

void Capacity::add_unlinked(uint64_t bytes) {
  unlinked_ += bytes;
  if (parent_ != nullptr) parent_->add_unlinked(bytes);
}

void Capacity::remove_unlinked(uint64_t bytes) {
  unlinked_ -= bytes;
  if (parent_ != nullptr) parent_->remove_unlinked(bytes);
}

void Capacity::set_free_space(int64_t free_bytes) {
  auto limit = static_cast<int64_t>(used_.load()) + free_bytes;
  limit_ = std::min(configured_.load(), static_cast<uint64_t>(std::max<int64_t>(limit, 0)));
}

void Capacity::note_write_rejected() {
  if (!write_rejected_.exchange(true)) ceiling_ = used_ / 100 * 95;
}

uint64_t Capacity::headroom() const {
  const uint64_t high = high_mark(), used = used_, own = high > used ? high - used : 0;
  return parent_ == nullptr ? own : std::min(own, parent_->headroom());
}

uint64_t Capacity::high_mark() const {
  const uint64_t most = limit(), margin = std::min(most / kMarginShare, kMarginMax);
  return most - std::max(margin, std::min(largest_shortfall_.load(), most));
}

uint64_t Capacity::excess() const {
  // Read each value once: other threads change them.
  const uint64_t used = used_, most = limit();
  const uint64_t margin = std::min(most / kMarginShare, kMarginMax);
  const uint64_t wanted = std::min(largest_shortfall_.load(), most);
  const uint64_t high = most - std::max(margin, wanted);
  const uint64_t low = most - std::min(most, std::max(2 * margin, margin + wanted));
  return used > high ? used - low : 0;
}

Charge::~Charge() {
  if (never_released_) return;
  if (unlinked_) capacity_->remove_unlinked(bytes_);
  capacity_->release(bytes_);
}

bool Charge::grow(uint64_t bytes) {
  if (!capacity_->reserve(bytes)) return false;
  adopt(bytes);
  return true;
}

void Charge::adopt(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  bytes_ += bytes;
  if (unlinked_) capacity_->add_unlinked(bytes);
}

void Charge::count(uint64_t bytes) {
  capacity_->count(bytes);
  adopt(bytes);
}

void Charge::shrink(uint64_t bytes) {
  {
    std::lock_guard lock(mutex_);
    LEAT_CHECK(bytes <= bytes_);
    bytes_ -= bytes;
    if (unlinked_) capacity_->remove_unlinked(bytes);
  }
  capacity_->release(bytes);
}

void Charge::mark_unlinked() {
  std::lock_guard lock(mutex_);
  if (unlinked_ || never_released_) return;
  unlinked_ = true;
  capacity_->add_unlinked(bytes_);
}

void Charge::never_release() {
  std::lock_guard lock(mutex_);
  never_released_ = true;
  if (unlinked_) capacity_->remove_unlinked(bytes_);
  unlinked_ = false;
}

uint64_t Charge::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace leat
