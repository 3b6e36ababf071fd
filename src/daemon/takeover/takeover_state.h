// SPDX-License-Identifier: Apache-2.0
// TakeoverState: the state that a daemon's successor needs to take its mounts over: the list of
// mounts, and the connection and records of each FUSE server. It lies in memory that the parent
// process keeps (runtime/fd_store.h). Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "frontends/admin/daemon_api.h"
#include "runtime/fd_store.h"
#include "runtime/memfd_record_table.h"

namespace leat {

struct SavedMount {
  MountRequest request{};             // recreates the mount in its present state
  uint64_t connection_number = 0;     // 0: none of its own, or none that can outlive the process
  bool lingering = false;             // unmounted, but still serves open files
  std::string snapshot_id{};          // of the snapshot in use; empty: none
  bool invalidation_pending = false;  // the kernel may not have received the last invalidation
};

// A text in a memory file. A reader after a crash gets the newest complete one.
class MemfdText {
 public:
  static constexpr size_t kBytesMax = size_t{16} << 20;

  static Result<MemfdText> create();
  static MemfdText of(File memory) { return MemfdText(std::move(memory)); }

  int fd() const { return memory_.fd(); }
  // kUnsupported if it is longer than kBytesMax.
  Result<> write(const std::string& text);
  // Returns the empty string if none was written.
  std::string read() const;

 private:
  explicit MemfdText(File memory) : memory_(std::move(memory)) {}

  File memory_;
};

class TakeoverState {
 public:
  // `fd_store` must outlive it. No effect without a supervisor.
  explicit TakeoverState(FdStore& fd_store);

  bool enabled() const { return fd_store_.available(); }

  // Returns the predecessor's mounts, outer ones before inner ones.
  std::vector<SavedMount> load();
  struct SavedConnection {
    File connection;
    std::shared_ptr<MemfdRecordTable> records;
  };
  // Takes the connection of one of those; once each.
  Result<SavedConnection> take(uint64_t number);
  // Ends connections that were not taken: their programs get errors instead of waiting for ever.
  void close_unclaimed();

  // Returns a number that no connection had, in this process or an earlier one.
  uint64_t new_number();
  Result<> store(uint64_t number, int connection, const MemfdRecordTable& records);
  void remove(uint64_t number);
  // Writes the present mounts. A failure is logged; a successor then has the older list.
  void write(const std::vector<SavedMount>& mounts);

 private:
  FdStore& fd_store_;
  std::mutex mutex_;  // leaf; held during the write of a small memory file
  std::optional<MemfdText> list_;
  uint64_t last_number_ = 0;
};

}  // namespace leat
