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
      note_short_of(bytes);
      return false;
    }
  } while (!used_.compare_exchange_weak(used, used + bytes));
  if (above_ == nullptr || above_->reserve(bytes)) return true;
  used_ -= bytes;
  return false;
}

void Capacity::note_short_of(uint64_t bytes) {
  if (bytes > limit()) return;  // no eviction can make room for it
  uint64_t before = short_of_;
  while (before < bytes && !short_of_.compare_exchange_weak(before, bytes)) {
  }
}

void Capacity::count(uint64_t bytes) {
  used_ += bytes;
  if (above_ != nullptr) above_->count(bytes);
}

void Capacity::give_back(uint64_t bytes) {
  used_ -= bytes;
  if (above_ != nullptr) above_->give_back(bytes);
}

void Capacity::hold(uint64_t bytes) {
  held_ += bytes;
  if (above_ != nullptr) above_->hold(bytes);
}

void Capacity::unhold(uint64_t bytes) {
  held_ -= bytes;
  if (above_ != nullptr) above_->unhold(bytes);
}

void Capacity::set_room(int64_t room_bytes) {
  auto limit = static_cast<int64_t>(used_.load()) + room_bytes;
  limit_ = std::min(configured_.load(), static_cast<uint64_t>(std::max<int64_t>(limit, 0)));
}

void Capacity::note_refused() {
  if (!refused_.exchange(true)) ceiling_ = used_ / 100 * 95;
}

uint64_t Capacity::room() const {
  const uint64_t high = high_mark(), used = used_, own = high > used ? high - used : 0;
  return above_ == nullptr ? own : std::min(own, above_->room());
}

uint64_t Capacity::high_mark() const {
  const uint64_t most = limit(), margin = std::min(most / kMarginShare, kMarginMax);
  return most - std::max(margin, std::min(short_of_.load(), most));
}

uint64_t Capacity::excess() const {
  // Read each value once: other threads change them.
  const uint64_t used = used_, most = limit();
  const uint64_t margin = std::min(most / kMarginShare, kMarginMax);
  const uint64_t wanted = std::min(short_of_.load(), most);
  const uint64_t high = most - std::max(margin, wanted);
  const uint64_t low = most - std::min(most, std::max(2 * margin, margin + wanted));
  return used > high ? used - low : 0;
}

Charge::~Charge() {
  if (kept_) return;
  if (held_) capacity_->unhold(bytes_);
  capacity_->give_back(bytes_);
}

bool Charge::grow(uint64_t bytes) {
  if (!capacity_->reserve(bytes)) return false;
  adopt(bytes);
  return true;
}

void Charge::adopt(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  bytes_ += bytes;
  if (held_) capacity_->hold(bytes);
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
    if (held_) capacity_->unhold(bytes);
  }
  capacity_->give_back(bytes);
}

void Charge::hold() {
  std::lock_guard lock(mutex_);
  if (held_ || kept_) return;
  held_ = true;
  capacity_->hold(bytes_);
}

void Charge::never_give_back() {
  std::lock_guard lock(mutex_);
  kept_ = true;
  if (held_) capacity_->unhold(bytes_);
  held_ = false;
}

uint64_t Charge::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace leat
