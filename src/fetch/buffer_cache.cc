// SPDX-License-Identifier: Apache-2.0
#include "fetch/buffer_cache.h"

#include <utility>

#include "base/check.h"

namespace leat {

BufferCache::BufferCache(uint64_t bytes_max, Clock::duration unread_ttl,
                         std::function<Clock::time_point()> now)
    : bytes_max_(bytes_max), unread_ttl_(unread_ttl), now_(std::move(now)) {}

BufferCache::Evicted BufferCache::reserve(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  in_flight_bytes_ += bytes;
  return trim_locked();
}

BufferCache::Reservation BufferCache::try_reserve(uint64_t bytes) {
  Reservation reservation{false, {}};
  std::lock_guard lock(mutex_);
  if (in_flight_bytes_ + bytes > bytes_max_) return reservation;
  while (in_flight_bytes_ + cached_bytes_ + bytes > bytes_max_) {
    Flights* const from = cheapest_locked();
    if (from == nullptr) return reservation;
    reservation.evicted.push_back(pop_locked(*from));
  }
  in_flight_bytes_ += bytes;
  reservation.granted = true;
  return reservation;
}

void BufferCache::release(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  LEAT_CHECK(in_flight_bytes_ >= bytes);
  in_flight_bytes_ -= bytes;
}

BufferCache::Evicted BufferCache::on_stored(const FlightPtr& flight, bool on_disk) {
  const uint64_t bytes = flight->held_bytes();
  std::lock_guard lock(mutex_);
  LEAT_CHECK(flight->state == Flight::CacheState::kInFlight);
  LEAT_CHECK(in_flight_bytes_ >= bytes);
  in_flight_bytes_ -= bytes;
  flight->on_disk = on_disk;
  if (on_disk && !flight->wanted) {
    flight->state = Flight::CacheState::kEvicted;
    return {flight};
  }
  cached_bytes_ += bytes;
  flight->inserted_at = now_();
  if (flight->fully_read) {
    read_bytes_ += bytes;
    flight->state = Flight::CacheState::kRead;
    flight->position = read_.insert(read_.end(), flight);
  } else {
    flight->state = on_disk ? Flight::CacheState::kUnreadStored : Flight::CacheState::kUnread;
    Flights& to = on_disk ? unread_stored_ : unread_;
    flight->position = to.insert(to.end(), flight);
  }
  return trim_locked();
}

BufferCache::Evicted BufferCache::evict_unread() {
  Evicted evicted;
  std::lock_guard lock(mutex_);
  while (!unread_stored_.empty() && !young_locked(*unread_stored_.front())) {
    evicted.push_back(pop_locked(unread_stored_));
  }
  return evicted;
}

bool BufferCache::any_to_evict() const {
  std::lock_guard lock(mutex_);
  return !unread_stored_.empty();
}

void BufferCache::on_fully_read(const FlightPtr& flight) {
  std::lock_guard lock(mutex_);
  flight->fully_read = true;
  const bool stored = flight->state == Flight::CacheState::kUnreadStored;
  if (!stored && flight->state != Flight::CacheState::kUnread) return;
  read_.splice(read_.end(), stored ? unread_stored_ : unread_, flight->position);
  read_bytes_ += flight->held_bytes();
  flight->state = Flight::CacheState::kRead;
}

bool BufferCache::evict(const FlightPtr& flight) {
  std::lock_guard lock(mutex_);
  switch (flight->state) {
    case Flight::CacheState::kInFlight:
    case Flight::CacheState::kEvicted:
      return false;
    case Flight::CacheState::kUnread:
      unread_.erase(flight->position);
      break;
    case Flight::CacheState::kUnreadStored:
      unread_stored_.erase(flight->position);
      break;
    case Flight::CacheState::kRead:
      read_.erase(flight->position);
      break;
  }
  remove_locked(*flight);
  return true;
}

uint64_t BufferCache::bytes() const {
  std::lock_guard lock(mutex_);
  return in_flight_bytes_ + cached_bytes_;
}

BufferCache::Evicted BufferCache::trim_locked() {
  Evicted evicted;
  while (in_flight_bytes_ + cached_bytes_ > bytes_max_ && cached_bytes_ > 0) {
    evicted.push_back(pop_locked(read_.empty() ? older_unread_locked() : read_));
  }
  while (read_bytes_ > kReadBytesMax && read_.front()->on_disk) {
    evicted.push_back(pop_locked(read_));
  }
  return evicted;
}

FlightPtr BufferCache::pop_locked(Flights& from) {
  FlightPtr flight = std::move(from.front());
  from.pop_front();
  remove_locked(*flight);
  return flight;
}

// The flight is already removed from its list.
void BufferCache::remove_locked(Flight& flight) {
  const uint64_t bytes = flight.held_bytes();
  if (flight.state == Flight::CacheState::kRead) read_bytes_ -= bytes;
  cached_bytes_ -= bytes;
  flight.state = Flight::CacheState::kEvicted;
}

bool BufferCache::young_locked(const Flight& unread) const {
  return now_() - unread.inserted_at < unread_ttl_;
}

BufferCache::Flights& BufferCache::older_unread_locked() {
  if (unread_.empty()) return unread_stored_;
  if (unread_stored_.empty()) return unread_;
  const bool stored = unread_stored_.front()->inserted_at <= unread_.front()->inserted_at;
  return stored ? unread_stored_ : unread_;
}

BufferCache::Flights* BufferCache::cheapest_locked() {
  if (!read_.empty()) return &read_;
  Flights& older = older_unread_locked();
  if (&older == &unread_stored_ || !young_locked(*unread_.front())) return &older;
  return unread_stored_.empty() ? nullptr : &unread_stored_;
}

}  // namespace leat
