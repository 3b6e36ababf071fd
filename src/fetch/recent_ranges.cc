// SPDX-License-Identifier: Apache-2.0
#include "fetch/recent_ranges.h"

#include <utility>

#include "base/check.h"

namespace leat {

RecentRanges::RecentRanges(uint64_t bytes_max, Clock::duration unread_young,
                           std::function<Clock::time_point()> now)
    : bytes_max_(bytes_max), unread_young_(unread_young), now_(std::move(now)) {}

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
    Flights* const from = cheapest_locked();
    if (from == nullptr) return reservation;
    reservation.evicted.push_back(pop_locked(*from));
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
  const uint64_t bytes = flight->held_bytes();
  std::lock_guard lock(mutex_);
  LEAT_CHECK(flight->place == Flight::Place::kUnderWay);
  LEAT_CHECK(under_way_bytes_ >= bytes);
  under_way_bytes_ -= bytes;
  flight->on_disk = on_disk;
  if (on_disk && !flight->wanted) {
    flight->place = Flight::Place::kGone;
    return {flight};
  }
  recent_bytes_ += bytes;
  flight->settled_at = now_();
  if (flight->read_through) {
    read_bytes_ += bytes;
    flight->place = Flight::Place::kRead;
    flight->position = read_.insert(read_.end(), flight);
  } else {
    flight->place = on_disk ? Flight::Place::kUnreadStored : Flight::Place::kUnread;
    Flights& to = on_disk ? unread_stored_ : unread_;
    flight->position = to.insert(to.end(), flight);
  }
  return trim_locked();
}

RecentRanges::Evicted RecentRanges::drop_unread() {
  Evicted evicted;
  std::lock_guard lock(mutex_);
  while (!unread_stored_.empty() && !young_locked(*unread_stored_.front())) {
    evicted.push_back(pop_locked(unread_stored_));
  }
  return evicted;
}

bool RecentRanges::any_to_drop() const {
  std::lock_guard lock(mutex_);
  return !unread_stored_.empty();
}

void RecentRanges::read_through(const FlightPtr& flight) {
  std::lock_guard lock(mutex_);
  flight->read_through = true;
  const bool stored = flight->place == Flight::Place::kUnreadStored;
  if (!stored && flight->place != Flight::Place::kUnread) return;
  read_.splice(read_.end(), stored ? unread_stored_ : unread_, flight->position);
  read_bytes_ += flight->held_bytes();
  flight->place = Flight::Place::kRead;
}

bool RecentRanges::evict(const FlightPtr& flight) {
  std::lock_guard lock(mutex_);
  switch (flight->place) {
    case Flight::Place::kUnderWay:
    case Flight::Place::kGone:
      return false;
    case Flight::Place::kUnread:
      unread_.erase(flight->position);
      break;
    case Flight::Place::kUnreadStored:
      unread_stored_.erase(flight->position);
      break;
    case Flight::Place::kRead:
      read_.erase(flight->position);
      break;
  }
  leave_locked(*flight);
  return true;
}

uint64_t RecentRanges::bytes() const {
  std::lock_guard lock(mutex_);
  return under_way_bytes_ + recent_bytes_;
}

RecentRanges::Evicted RecentRanges::trim_locked() {
  Evicted evicted;
  while (under_way_bytes_ + recent_bytes_ > bytes_max_ && recent_bytes_ > 0) {
    evicted.push_back(pop_locked(read_.empty() ? older_unread_locked() : read_));
  }
  while (read_bytes_ > kReadBytesKept && read_.front()->on_disk) {
    evicted.push_back(pop_locked(read_));
  }
  return evicted;
}

FlightPtr RecentRanges::pop_locked(Flights& from) {
  FlightPtr flight = std::move(from.front());
  from.pop_front();
  leave_locked(*flight);
  return flight;
}

// The flight is already removed from its list.
void RecentRanges::leave_locked(Flight& flight) {
  const uint64_t bytes = flight.held_bytes();
  if (flight.place == Flight::Place::kRead) read_bytes_ -= bytes;
  recent_bytes_ -= bytes;
  flight.place = Flight::Place::kGone;
}

bool RecentRanges::young_locked(const Flight& unread) const {
  return now_() - unread.settled_at < unread_young_;
}

RecentRanges::Flights& RecentRanges::older_unread_locked() {
  if (unread_.empty()) return unread_stored_;
  if (unread_stored_.empty()) return unread_;
  const bool stored = unread_stored_.front()->settled_at <= unread_.front()->settled_at;
  return stored ? unread_stored_ : unread_;
}

RecentRanges::Flights* RecentRanges::cheapest_locked() {
  if (!read_.empty()) return &read_;
  Flights& older = older_unread_locked();
  if (&older == &unread_stored_ || !young_locked(*unread_.front())) return &older;
  return unread_stored_.empty() ? nullptr : &unread_stored_;
}

}  // namespace leat
