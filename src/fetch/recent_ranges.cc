// SPDX-License-Identifier: Apache-2.0
#include "fetch/recent_ranges.h"

#include <utility>

#include "base/check.h"

namespace leat {
namespace {

// A stream's window is read within a second or two when its reader is alive.
constexpr auto kUnreadYoung = std::chrono::seconds(5);

}  // namespace

RecentRanges::RecentRanges(uint64_t bytes_max, std::function<Clock::time_point()> now)
    : bytes_max_(bytes_max), now_(std::move(now)) {}

RecentRanges::Evicted RecentRanges::reserve(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  under_way_bytes_ += bytes;
  return trim_locked();
}

RecentRanges::Reservation RecentRanges::try_reserve(uint64_t bytes) {
  Reservation reservation{false, {}};
  std::lock_guard lock(mutex_);
  if (under_way_bytes_ + bytes > bytes_max_) return reservation;
  while (under_way_bytes_ + recent_bytes_ + bytes > bytes_max_) {
    if (!read_.empty()) {
      reservation.evicted.push_back(pop_locked(read_));
    } else if (cheap_locked(*unread_.front())) {
      reservation.evicted.push_back(pop_locked(unread_));
    } else {
      return reservation;
    }
  }
  under_way_bytes_ += bytes;
  reservation.granted = true;
  return reservation;
}

void RecentRanges::release(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  LEAT_CHECK(under_way_bytes_ >= bytes);
  under_way_bytes_ -= bytes;
}

RecentRanges::Evicted RecentRanges::settle(const FlightPtr& flight, bool on_disk) {
  std::lock_guard lock(mutex_);
  LEAT_CHECK(flight->place == Flight::Place::kUnderWay);
  LEAT_CHECK(under_way_bytes_ >= flight->range.size);
  under_way_bytes_ -= flight->range.size;
  recent_bytes_ += flight->range.size;
  flight->on_disk = on_disk;
  flight->settled_at = now_();
  if (flight->read_through) read_bytes_ += flight->range.size;
  std::list<FlightPtr>& to = flight->read_through ? read_ : unread_;
  flight->place = flight->read_through ? Flight::Place::kRead : Flight::Place::kUnread;
  flight->position = to.insert(to.end(), flight);
  return trim_locked();
}

void RecentRanges::read_through(const FlightPtr& flight) {
  std::lock_guard lock(mutex_);
  flight->read_through = true;
  if (flight->place != Flight::Place::kUnread) return;
  read_.splice(read_.end(), unread_, flight->position);
  read_bytes_ += flight->range.size;
  flight->place = Flight::Place::kRead;
}

bool RecentRanges::evict(const FlightPtr& flight) {
  std::lock_guard lock(mutex_);
  if (flight->place == Flight::Place::kUnread) {
    unread_.erase(flight->position);
  } else if (flight->place == Flight::Place::kRead) {
    read_.erase(flight->position);
    read_bytes_ -= flight->range.size;
  } else {
    return false;
  }
  flight->place = Flight::Place::kGone;
  recent_bytes_ -= flight->range.size;
  return true;
}

uint64_t RecentRanges::bytes() const {
  std::lock_guard lock(mutex_);
  return under_way_bytes_ + recent_bytes_;
}

RecentRanges::Evicted RecentRanges::trim_locked() {
  Evicted evicted;
  while (under_way_bytes_ + recent_bytes_ > bytes_max_ && recent_bytes_ > 0) {
    evicted.push_back(pop_locked(read_.empty() ? unread_ : read_));
  }
  while (read_bytes_ > kReadBytesKept && read_.front()->on_disk) {
    evicted.push_back(pop_locked(read_));
  }
  return evicted;
}

FlightPtr RecentRanges::pop_locked(std::list<FlightPtr>& from) {
  FlightPtr flight = std::move(from.front());
  from.pop_front();
  if (&from == &read_) read_bytes_ -= flight->range.size;
  flight->place = Flight::Place::kGone;
  recent_bytes_ -= flight->range.size;
  return flight;
}

bool RecentRanges::cheap_locked(const Flight& unread) const {
  return unread.on_disk || now_() - unread.settled_at >= kUnreadYoung;
}

}  // namespace leat
