// SPDX-License-Identifier: Apache-2.0
// Ledger: the state that a store must show after it ends at any moment: which objects must be
// there, and which must not. Entries are written before or after the call they describe, so the
// ledger never promises too much. Kept in a file, it outlives the process. Thread-safe.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cache/torture/working_set_test.h"

namespace leat {

class Ledger {
 public:
  // `path`: continues the ledger there; empty: in memory only.
  Ledger(const WorkingSet& set, const std::string& path) : objects_(set.size()) {
    if (path.empty()) return;
    file_ = File(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    Line line;
    while (::read(file_.fd(), &line, sizeof line) == sizeof line) replay(line);
  }

  // Counts objects found right or missing at a start.
  void count_checked(size_t objects) {
    std::lock_guard lock(mutex_);
    append({Kind::kChecked, static_cast<uint32_t>(objects)});
  }
  uint64_t checked() const { return checked_; }
  uint64_t starts() const { return starts_; }

  // Expected state as of now: whole, durable and not dropped since; or durably removed.
  enum class Expected { kAny, kPresent, kRemoved };
  std::vector<Expected> expected() const {
    std::lock_guard lock(mutex_);
    std::vector<Expected> expected;
    for (const Object& object : objects_) expected.push_back(object.expected);
    return expected;
  }
  // Runs `call` as a power cut: no drop or write begins meanwhile, and later ends change no
  // expectation. adopt_state() begins again.
  template <class F>
  void end_with(F call) {
    std::lock_guard lock(mutex_);
    call();
    ended_ = true;
  }
  // From now on objects may be evicted, so none must be there.
  void may_be_evicted() {
    std::lock_guard lock(mutex_);
    evicts_ = true;
  }
  // Takes over the state that a start found, after differences were reported.
  void adopt_state(const std::vector<bool>& there) {
    std::lock_guard lock(mutex_);
    ended_ = false;
    for (size_t number = 0; number < there.size(); ++number) {
      objects_[number].written = there[number];
      objects_[number].dropped = false;
    }
  }

  // Wrappers around the calls of the store.
  template <class F>
  void write(size_t number, bool whole, F call) {
    uint64_t at_begin;
    {
      std::lock_guard lock(mutex_);
      Object& object = objects_[number];
      if (object.expected == Expected::kRemoved)
        append({Kind::kWriting, static_cast<uint32_t>(number)});
      object.dropped = false;
      ++object.writers;
      ++object.writes;
      at_begin = object.changes;
    }
    const bool kept = call();
    std::lock_guard lock(mutex_);
    Object& object = objects_[number];
    --object.writers;
    if (kept && whole && object.changes == at_begin && object.droppers == 0) object.written = true;
  }
  template <class F>
  void drop(size_t number, F call) {
    uint64_t writes;
    bool alone;
    {
      std::lock_guard lock(mutex_);
      Object& object = objects_[number];
      ++object.changes;
      ++object.droppers;
      object.written = false;
      writes = object.writes;
      alone = object.writers == 0;
      append({Kind::kDropping, static_cast<uint32_t>(number)});
    }
    call();
    std::lock_guard lock(mutex_);
    Object& object = objects_[number];
    ++object.changes;
    --object.droppers;
    // A concurrent writer may have written after the drop.
    object.dropped = alone && object.writes == writes && object.droppers == 0;
  }
  template <class F>
  void flush(F call) {
    std::map<size_t, uint64_t> written, dropped;
    {
      std::lock_guard lock(mutex_);
      for (size_t number = 0; number < objects_.size(); ++number) {
        const Object& object = objects_[number];
        if (object.written) written[number] = object.changes;
        if (object.dropped) dropped[number] = object.changes;
      }
    }
    if (!call()) return;
    std::lock_guard lock(mutex_);
    if (evicts_) written.clear();
    std::vector<Line> lines;
    for (const auto& [number, changes] : written) {
      if (objects_[number].changes == changes && objects_[number].expected != Expected::kPresent) {
        lines.push_back({Kind::kFlushed, static_cast<uint32_t>(number)});
      }
    }
    for (const auto& [number, changes] : dropped) {
      const Object& object = objects_[number];
      if (object.changes == changes && object.dropped && object.expected != Expected::kRemoved) {
        lines.push_back({Kind::kRemoved, static_cast<uint32_t>(number)});
      }
    }
    append(lines);
  }

 private:
  enum class Kind : uint32_t { kFlushed = 1, kDropping, kRemoved, kWriting, kChecked };
  struct Line {
    Kind kind;
    uint32_t number;
  };
  struct Object {
    Expected expected = Expected::kAny;
    uint64_t changes = 0;  // drops begun and ended
    uint64_t writes = 0;   // begun
    int writers = 0, droppers = 0;
    bool written = false;  // whole, and not dropped since
    bool dropped = false;  // and not written since
  };

  void append(Line line) { append(std::vector{line}); }
  void append(const std::vector<Line>& lines) {
    if (ended_) return;
    for (const Line& line : lines) replay(line);
    // One call: a kill cuts it between two lines at worst.
    if (file_ && !lines.empty()) {
      const size_t bytes = lines.size() * sizeof(Line);
      if (::write(file_.fd(), lines.data(), bytes) != static_cast<ssize_t>(bytes)) std::abort();
    }
  }
  void replay(Line line) {
    if (line.kind == Kind::kChecked) {
      checked_ += line.number;
      ++starts_;
      return;
    }
    Object& object = objects_.at(line.number);
    switch (line.kind) {
      case Kind::kFlushed:
        object.expected = Expected::kPresent;
        break;
      case Kind::kRemoved:
        object.expected = Expected::kRemoved;
        break;
      default:
        object.expected = Expected::kAny;
    }
  }

  File file_;
  mutable std::mutex mutex_;
  std::vector<Object> objects_;
  bool evicts_ = false, ended_ = false;
  uint64_t checked_ = 0, starts_ = 0;
};

}  // namespace leat
