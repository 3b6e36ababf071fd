// SPDX-License-Identifier: Apache-2.0
// KeptMounts: what a daemon's successor needs to go on with its mounts: the list of them, and of
// each door the connection and the records. Lies in memory that whoever started the daemon keeps
// (runtime/kept_descriptors.h). Thread-safe.
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
  MountRequest request{};     // by which it could be mounted again as it is now
  uint64_t door = 0;          // 0: none of its own, or none that could outlive the process
  bool lingering = false;     // unmounted; what is open in it is served on
  std::string snapshot_id{};  // of the one that it goes by; empty: none
  bool untold = false;        // of its last change the kernel may not know
};

// One text that changes, in a memory file: whoever reads it after a crash has the newest whole one.
class KeptText {
 public:
  static constexpr size_t kBytesMax = size_t{16} << 20;

  static Result<KeptText> create();
  static KeptText of(File memory) { return KeptText(std::move(memory)); }

  int fd() const { return memory_.fd(); }
  // kUnsupported where it is longer than kBytesMax.
  Result<> write(const std::string& text);
  // Empty where none was written.
  std::string read() const;

 private:
  explicit KeptText(File memory) : memory_(std::move(memory)) {}

  File memory_;
};

class KeptMounts {
 public:
  // `keeper` outlives it. Where nobody keeps anything it does nothing.
  explicit KeptMounts(KeptDescriptors& keeper);

  bool kept() const { return keeper_.kept(); }

  // What a predecessor had, the outer ones before what is in them.
  std::vector<KeptMount> left();
  struct Door {
    File connection;
    std::shared_ptr<SharedRecords> records;
  };
  // Of one of those; once.
  Result<Door> take(uint64_t door);
  // Connections that nobody took end: their programs get errors instead of waiting for ever.
  void drop_what_is_left();

  // A number that no door had, of this process or one before it.
  uint64_t new_door();
  Result<> keep(uint64_t door, int connection, const SharedRecords& records);
  void drop(uint64_t door);
  // The mounts as they are now. A failure is logged: a successor has them as they were.
  void write(const std::vector<KeptMount>& mounts);

 private:
  KeptDescriptors& keeper_;
  std::mutex mutex_;  // held over the write of a small memory file; leaf
  std::optional<KeptText> list_;
  uint64_t last_door_ = 0;
};

}  // namespace leat
