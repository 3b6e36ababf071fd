// SPDX-License-Identifier: Apache-2.0
// TakeoverRecords: state for a successor besides nodes (runtime/memfd_record_table.h): the INIT
// parameters and the requests in flight. A killed process's unanswered requests are resent. Its
// work on them is undone first, so that counts stay exact. Format: docs/formats/connection.md.
// Thread-safe.
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

#include "frontends/fuse/connection/connection_record.h"
#include "runtime/memfd_record_table.h"
#include "vfs/file_system.h"

namespace leat {

class TakeoverRecords {
 public:
  // `records` may be null: then nothing is recorded. Must outlive the object.
  explicit TakeoverRecords(MemfdRecordTable* records) : records_(records) {}

  bool enabled() const { return records_ != nullptr; }
  MemfdRecordTable* records() const { return records_; }

  // The kernel's INIT request and its result.
  struct InitParams {
    std::vector<std::byte> request{};  // the INIT request, header included
    uint64_t features = 0;             // libfuse's FUSE_CAP_… in use
    uint32_t request_bytes_max = 0;
    bool resends = false;  // the kernel can resend unanswered requests to a successor
  };
  // Called by the first server of a connection; kUnsupported if it does not fit.
  Result<> record_init_params(const InitParams& params);
  // Returns nothing before the first INIT.
  std::optional<InitParams> init_params() const;

  // Registers this process as the connection's server. Returns the latest previous servers, some of
  // which may not have ended yet.
  std::vector<ProcessIdentity> exchange_server(const ProcessIdentity& server);

  // The kernel's latest backing id, as far as it was recorded.
  void record_backing(int32_t id);
  int32_t latest_backing() const;

  enum class Operation : uint32_t { kNone = 0, kLookup = 1, kOpen = 2, kRelease = 3 };
  // Marks the work for request `unique` as unanswered during its lifetime. Create it after a count
  // went up and before it goes down. A process killed in between leaves a count one too high, which
  // costs memory, and never one too low. `backing` is an id that a release returns.
  class InflightOp {
   public:
    InflightOp(TakeoverRecords& all, uint64_t unique, Operation operation, NodeId node,
               int32_t backing = 0);
    ~InflightOp();
    InflightOp(const InflightOp&) = delete;

   private:
    struct Slot* slot_ = nullptr;
  };

  struct UnansweredOp {
    Operation operation = Operation::kNone;
    NodeId node = 0;
    int32_t backing = 0;
  };
  // In a starting successor: removes and returns the predecessor's unanswered work.
  std::vector<UnansweredOp> collect_unanswered();
  // While on, a repeated release is executed only once.
  void deduplicate_releases(bool on);
  // Returns true if this release must be executed.
  bool release_once(uint64_t unique);
  // Returns the work already done for this resent request; once.
  std::optional<UnansweredOp> take_unanswered(uint64_t unique);

 private:
  friend class InflightOp;
  struct Head;
  Head* head() const;

  MemfdRecordTable* const records_;
  std::mutex mutex_;  // leaf
  std::unordered_map<uint64_t, UnansweredOp> unanswered_;
  std::atomic<bool> deduplicating_ = false;
  std::unordered_set<uint64_t> released_;
};

}  // namespace leat
