// SPDX-License-Identifier: Apache-2.0
#include "cache/capacity.h"

#include "base/check.h"

namespace leat {

bool Capacity::reserve(uint64_t bytes) {
  uint64_t used = used_;
  do {
    if (used + bytes > limit()) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes));
  return true;
}

void Capacity::set_room(int64_t room_bytes) {
  auto limit = static_cast<int64_t>(used_.load()) + room_bytes;
  limit_ = std::min(configured_, static_cast<uint64_t>(std::max<int64_t>(limit, 0)));
}

void Capacity::note_refused() {
  if (!refused_.exchange(true)) ceiling_ = used_ / 100 * 95;
}

uint64_t Capacity::excess() const {
  // Each read once: others change them.
  uint64_t used = used_, hundredth = limit() / 100;
  return used > hundredth * 95 ? used - hundredth * 90 : 0;
}

Charge::~Charge() {
  if (kept_) return;
  if (held_) capacity_->held_ -= bytes_;
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
  if (held_) capacity_->held_ += bytes;
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
    if (held_) capacity_->held_ -= bytes;
  }
  capacity_->give_back(bytes);
}

void Charge::hold() {
  std::lock_guard lock(mutex_);
  if (held_ || kept_) return;
  held_ = true;
  capacity_->held_ += bytes_;
}

void Charge::never_give_back() {
  std::lock_guard lock(mutex_);
  kept_ = true;
  if (held_) capacity_->held_ -= bytes_;
  held_ = false;
}

uint64_t Charge::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace leat
