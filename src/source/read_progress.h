// SPDX-License-Identifier: Apache-2.0
// ReadProgress: reports how far a read has come, so that its first bytes can be used before its
// last. Reported bytes are final: they have the demanded version and are not written again. A retry
// therefore reads only the rest (rest_of).
#pragma once

#include <cstdint>

namespace leat {

// Receives the progress. Thread-safe; called from any thread, one call at a time.
class ProgressListener {
 public:
  virtual ~ProgressListener() = default;
  // `bytes` have arrived, counted from the start; never decreases. Does not wait.
  virtual void on_bytes(uint64_t bytes) = 0;
  // The value reported last.
  virtual uint64_t bytes() const = 0;
};

// Cheap to copy; the listener must outlive all copies. A read without a listener reports nothing,
// and a retry reads all of it again.
class ReadProgress {
 public:
  ReadProgress() = default;
  explicit ReadProgress(ProgressListener& listener) : listener_(&listener) {}

  bool has_listener() const { return listener_ != nullptr; }
  void report(uint64_t bytes) const {
    if (listener_ != nullptr) listener_->on_bytes(offset_ + bytes);
  }
  // Bytes reported of this read.
  uint64_t bytes() const {
    const uint64_t all = listener_ == nullptr ? 0 : listener_->bytes();
    return all > offset_ ? all - offset_ : 0;
  }
  // Returns the progress of the part behind the first `bytes` of this read.
  ReadProgress after(uint64_t bytes) const {
    ReadProgress rest = *this;
    rest.offset_ += bytes;
    return rest;
  }

 private:
  ProgressListener* listener_ = nullptr;
  uint64_t offset_ = 0;
};

}  // namespace leat
