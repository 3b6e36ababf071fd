// SPDX-License-Identifier: Apache-2.0
// KeptMounts: the state that a daemon's successor needs to take its mounts over: the list of
// mounts, and the connection and records of each door. It lies in memory that the parent process
// keeps (runtime/kept_descriptors.h). Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "doors/admin/host.h"
#include "runtime/kept_descriptors.h"
#include "runtime/shared_records.h"

namespace leat {

struct KeptMount {
  MountRequest request{};     // recreates the mount in its present state
  uint64_t door = 0;          // 0: none of its own, or none that can outlive the process
  bool lingering = false;     // unmounted, but still serves open files
  std::string snapshot_id{};  // of the snapshot in use; empty: none
  bool untold = false;        // the kernel may not have received the last invalidation
};

// A text in a memory file. A reader after a crash gets the newest complete one.
class KeptText {
 public:
  static constexpr size_t kBytesMax = size_t{16} << 20;

  static Result<KeptText> create();
  static KeptText of(File memory) { return KeptText(std::move(memory)); }

  int fd() const { return memory_.fd(); }
  // kUnsupported if it is longer than kBytesMax.
  Result<> write(const std::string& text);
  // Returns the empty string if none was written.
  std::string read() const;

 private:
  explicit KeptText(File memory) : memory_(std::move(memory)) {}

  File memory_;
};

class KeptMounts {
 public:
  // `keeper` must outlive it. No effect without a keeper.
  explicit KeptMounts(KeptDescriptors& keeper);

  bool kept() const { return keeper_.kept(); }

  // Returns the predecessor's mounts, outer ones before inner ones.
  std::vector<KeptMount> left();
  struct Door {
    File connection;
    std::shared_ptr<SharedRecords> records;
  };
  // Takes the door of one of those; once each.
  Result<Door> take(uint64_t door);
  // Ends connections that were not taken: their programs get errors instead of waiting for ever.
  void drop_what_is_left();

  // Returns a number that no door had, in this process or an earlier one.
  uint64_t new_door();
  Result<> keep(uint64_t door, int connection, const SharedRecords& records);
  void drop(uint64_t door);
  // Writes the present mounts. A failure is logged; a successor then has the older list.
  void write(const std::vector<KeptMount>& mounts);

 private:
  KeptDescriptors& keeper_;
  std::mutex mutex_;  // leaf; held during the write of a small memory file
  std::optional<KeptText> list_;
  uint64_t last_door_ = 0;
};

}  // namespace leat
