// SPDX-License-Identifier: Apache-2.0
// PiecewiseSource: a bucket in memory with reads that advance as far as the test lets them, and
// report it. Thread-safe.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "source/memory_source_test.h"

namespace leat::testing {

class PiecewiseSource : public MemorySource {
 public:
  using MemorySource::MemorySource;

  // Each read, also one in flight, delivers its first `bytes` and waits; UINT64_MAX: all.
  void allow(uint64_t bytes) {
    change([&] { allowed_ = bytes; });
  }
  // Reads in flight fail at their position, after the permitted bytes.
  void break_off(StatusCode code) {
    change([&] {
      ++breaks_;
      code_ = code;
    });
  }
  // Start of each read, in the order of arrival.
  std::vector<uint64_t> offsets() const {
    std::lock_guard lock(mutex_);
    return offsets_;
  }

  Task<Result<>> read(Context context, ReadRequest request, std::span<std::byte> into) override {
    std::vector<std::byte> content(into.size());
    const unsigned before = begin(request.range.offset);
    ReadRequest whole = request;
    whole.progress = {};
    Result<> got = co_await MemorySource::read(context, std::move(whole), content);
    if (!got) co_return got;
    for (uint64_t done = 0; done < into.size();) {
      const State now = state();
      const uint64_t to = std::min<uint64_t>(now.allowed, into.size());
      if (to > done) {
        std::memcpy(into.data() + done, content.data() + done, to - done);
        done = to;
        request.progress.report(done);
      } else if (now.breaks != before) {
        co_return error(now.code, "it breaks off as the test ordered");
      } else {
        Result<bool> changed = co_await now.changed->wait(context, "a read in pieces");
        if (!changed) co_return Error(changed.error());
      }
    }
    co_return Result<>();
  }

 private:
  struct State {
    uint64_t allowed;
    unsigned breaks;
    StatusCode code;
    std::shared_ptr<SharedPromise<bool>> changed;
  };

  State state() const {
    std::lock_guard lock(mutex_);
    return {allowed_, breaks_, code_, changed_};
  }
  unsigned begin(uint64_t offset) {
    std::lock_guard lock(mutex_);
    offsets_.push_back(offset);
    return breaks_;
  }
  template <class Change>
  void change(const Change& apply) {
    std::shared_ptr<SharedPromise<bool>> changed = SharedPromise<bool>::make();
    {
      std::lock_guard lock(mutex_);
      apply();
      changed_.swap(changed);
    }
    changed->set(true);
  }

  mutable std::mutex mutex_;  // leaf
  uint64_t allowed_ = UINT64_MAX;
  unsigned breaks_ = 0;
  StatusCode code_ = StatusCode::kUnavailable;
  std::vector<uint64_t> offsets_;
  std::shared_ptr<SharedPromise<bool>> changed_ = SharedPromise<bool>::make();
};

}  // namespace leat::testing
