// SPDX-License-Identifier: Apache-2.0
// ReadProgress: how far a read has come, for those who want its first bytes before its last. What
// has been told is final: it is of the version that was demanded, and not written to any more, so
// who reads again after a failure reads the rest only (rest_of).
#pragma once

#include <cstdint>

namespace leat {

// Who listens. Thread-safe; called from any thread, by one at a time.
class ArrivalListener {
 public:
  virtual ~ArrivalListener() = default;
  // So many bytes have come, counted from the start; never fewer than before. Does not wait.
  virtual void arrived(uint64_t bytes) = 0;
  // What was told last.
  virtual uint64_t bytes() const = 0;
};

// Cheap to copy; the listener must outlive all that carry it. Of a read that nobody listens to
// nothing is told, and all of it is read again.
class ReadProgress {
 public:
  ReadProgress() = default;
  explicit ReadProgress(ArrivalListener& listener) : listener_(&listener) {}

  bool wanted() const { return listener_ != nullptr; }
  void arrived(uint64_t bytes) const {
    if (listener_ != nullptr) listener_->arrived(before_ + bytes);
  }
  // Of this read.
  uint64_t bytes() const {
    const uint64_t all = listener_ == nullptr ? 0 : listener_->bytes();
    return all > before_ ? all - before_ : 0;
  }
  // That of what follows the first `bytes` of this read.
  ReadProgress after(uint64_t bytes) const {
    ReadProgress rest = *this;
    rest.before_ += bytes;
    return rest;
  }

 private:
  ArrivalListener* listener_ = nullptr;
  uint64_t before_ = 0;
};

}  // namespace leat
