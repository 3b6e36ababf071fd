// SPDX-License-Identifier: Apache-2.0
// DoorRecords: what a door keeps for its successor beside the nodes (runtime/shared_records.h):
// what was agreed with the kernel, and what is being answered this moment. A request that a killed
// process had not answered comes again; what it had done for it is then taken back first, so that
// counts stay exact. Format: docs/formats/connection.md. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "doors/fuse/connection/connection_record.h"
#include "runtime/shared_records.h"
#include "vfs/file_system.h"

namespace leat {

class DoorRecords {
 public:
  // `records` may be null: nothing is kept. It outlives this.
  explicit DoorRecords(SharedRecords* records) : records_(records) {}

  bool kept() const { return records_ != nullptr; }
  SharedRecords* records() const { return records_; }

  // What the kernel said first, and what was made of it.
  struct Agreement {
    std::vector<std::byte> request{};  // the INIT request, header included
    uint64_t features = 0;             // FUSE_CAP_… of libfuse, those in use
    uint32_t request_bytes_max = 0;
    bool resends = false;  // the kernel can send a successor what was not answered
  };
  // Noted by the first door of a connection; kUnsupported where it does not fit.
  Result<> note_agreement(const Agreement& agreement);
  // Nothing where there was none yet.
  std::optional<Agreement> agreement() const;

  // This process serves the connection from now on; the last that did before, of whom some may not
  // have ended yet.
  std::vector<ProcessMark> exchange_server(const ProcessMark& server);

  // The newest number that the kernel gave for a backing file, as far as it was noted.
  void note_backing(int32_t id);
  int32_t newest_backing() const;

  enum class Deed : uint32_t { kNone = 0, kLookup = 1, kOpen = 2, kRelease = 3 };
  // As long as it lives, what `unique` asks for is done or being done, and not answered. Made after
  // a count went up and before it goes down: whoever is killed in between leaves one too many,
  // which costs memory, and never one too few. `backing`: a number that a release gives back.
  class Doing {
   public:
    Doing(DoorRecords& all, uint64_t unique, Deed deed, NodeId node, int32_t backing = 0);
    ~Doing();
    Doing(const Doing&) = delete;

   private:
    struct Slot* slot_ = nullptr;
  };

  struct Done {
    Deed deed = Deed::kNone;
    NodeId node = 0;
    int32_t backing = 0;
  };
  // At the beginning of a successor: takes what a predecessor was doing out of the records, and
  // tells it.
  std::vector<Done> collect_unanswered();
  // While it is on, a release that comes twice is carried out once.
  void watch_releases(bool on);
  // Whether this one is to be carried out.
  bool release_once(uint64_t unique);
  // What had been done for this request, which came again; once.
  std::optional<Done> take_unanswered(uint64_t unique);

 private:
  friend class Doing;
  struct Head;
  Head* head() const;

  SharedRecords* const records_;
  std::mutex mutex_;  // leaf
  std::unordered_map<uint64_t, Done> unanswered_;
  std::atomic<bool> watching_ = false;
  std::unordered_set<uint64_t> released_;
};

}  // namespace leat
