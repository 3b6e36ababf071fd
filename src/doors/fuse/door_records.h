// SPDX-License-Identifier: Apache-2.0
// DoorRecords: state for a successor besides nodes (runtime/shared_records.h): the INIT parameters
// and the requests in flight. A killed process's unanswered requests are resent. Its work on them
// is undone first, so that counts stay exact. Format: docs/formats/connection.md. Thread-safe.
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
  // `records` may be null: then nothing is kept. Must outlive the object.
  explicit DoorRecords(SharedRecords* records) : records_(records) {}

  bool kept() const { return records_ != nullptr; }
  SharedRecords* records() const { return records_; }

  // The kernel's INIT request and its result.
  struct Agreement {
    std::vector<std::byte> request{};  // the INIT request, header included
    uint64_t features = 0;             // libfuse's FUSE_CAP_… in use
    uint32_t request_bytes_max = 0;
    bool resends = false;  // the kernel can resend unanswered requests to a successor
  };
  // Called by the first server of a connection; kUnsupported if it does not fit.
  Result<> note_agreement(const Agreement& agreement);
  // Returns nothing before the first INIT.
  std::optional<Agreement> agreement() const;

  // Registers this process as the connection's server. Returns the latest previous servers, some of
  // which may not have ended yet.
  std::vector<ProcessMark> exchange_server(const ProcessMark& server);

  // The kernel's latest backing id, as far as it was recorded.
  void note_backing(int32_t id);
  int32_t newest_backing() const;

  enum class Deed : uint32_t { kNone = 0, kLookup = 1, kOpen = 2, kRelease = 3 };
  // Marks the work for request `unique` as unanswered during its lifetime. Create it after a count
  // went up and before it goes down. A process killed in between leaves a count one too high, which
  // costs memory, and never one too low. `backing` is an id that a release returns.
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
  // In a starting successor: removes and returns the predecessor's unanswered work.
  std::vector<Done> collect_unanswered();
  // While on, a repeated release is executed only once.
  void watch_releases(bool on);
  // Returns true if this release must be executed.
  bool release_once(uint64_t unique);
  // Returns the work already done for this resent request; once.
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
