// SPDX-License-Identifier: Apache-2.0
// PeerRequestHeader: fields common to all requests: timeout, ring epoch, failover, replicas and
// caching.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/status.h"
#include "http/message.h"
#include "model/worker_id.h"

namespace leat {

inline constexpr char kEpochField[] = "leat-epoch";
inline constexpr char kFailoverForField[] = "leat-failover-for";
// In a request: the receiver is one of the first N candidates. In an answer: number of replicas to
// use, and for how many seconds.
inline constexpr char kReplicasField[] = "leat-replicas";
inline constexpr char kCacheMissField[] = "leat-cache-miss";
inline constexpr char kTimeoutField[] = "leat-timeout-ms";
inline constexpr std::chrono::milliseconds kPeerTimeoutMax = std::chrono::minutes(10);

struct PeerRequestHeader {
  int64_t epoch = 0;            // of the ring that selected the receiver
  bool only_if_cached = false;  // do not read the store
  // The owner, which does not respond to the sender; the receiver is its failover.
  std::optional<WorkerId> failover_for{};
  uint32_t replicas = 1;                 // PeerRoute::replicas
  std::chrono::milliseconds timeout{0};  // how long the sender waits; 0: unknown

  friend bool operator==(const PeerRequestHeader&, const PeerRequestHeader&) = default;
};

// Sent by a stripe's owner with its bytes: use the first `replicas` candidates for that
// stripe for `ttl`.
struct ReplicaHint {
  uint32_t replicas = 1;
  std::chrono::seconds ttl{0};
  friend bool operator==(const ReplicaHint&, const ReplicaHint&) = default;
};

// Limits the timeout to kPeerTimeoutMax.
void put_request_header(const PeerRequestHeader& header, HttpRequest& request);
// kInvalidArgument names the bad field.
Result<PeerRequestHeader> request_header_of(const HttpRequest& request);

// The receiver's epoch; in each answer of a worker.
void put_epoch(int64_t epoch, HttpResponse& response);
std::optional<int64_t> epoch_of(const HttpResponse& response);

// Adds nothing for a single replica.
void put_replica_hint(const ReplicaHint& hint, HttpResponse& response);
// A malformed hint counts as none.
ReplicaHint replica_hint_of(const HttpResponse& response);

// The bytes were not cached: the worker had to wait for the store.
void put_cache_miss(HttpResponse& response);
bool is_cache_miss(const HttpResponse& response);

}  // namespace leat
