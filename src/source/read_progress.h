// SPDX-License-Identifier: Apache-2.0
// ReadProgress: reports how far a read has come, so that its first bytes can be used before its
// last. Reported bytes are final: they have the demanded version and are not written again. A retry
// therefore reads only the rest (rest_of).
#pragma once

#include <cstdint>

namespace leat {

// Receives the progress. Thread-safe; called from any thread, one call at a time.
class ArrivalListener {
 public:
  virtual ~ArrivalListener() = default;
  // `bytes` have arrived, counted from the start; never decreases. Does not wait.
  virtual void arrived(uint64_t bytes) = 0;
  // The value reported last.
  virtual uint64_t bytes() const = 0;
};

// Cheap to copy; the listener must outlive all copies. A read without a listener reports nothing,
// and a retry reads all of it again.
class ReadProgress {
 public:
  ReadProgress() = default;
  explicit ReadProgress(ArrivalListener& listener) : listener_(&listener) {}

  bool wanted() const { return listener_ != nullptr; }
  void arrived(uint64_t bytes) const {
    if (listener_ != nullptr) listener_->arrived(before_ + bytes);
  }
  // Bytes reported of this read.
  uint64_t bytes() const {
    const uint64_t all = listener_ == nullptr ? 0 : listener_->bytes();
    return all > before_ ? all - before_ : 0;
  }
  // Returns the progress of the part behind the first `bytes` of this read.
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
