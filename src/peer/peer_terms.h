// SPDX-License-Identifier: Apache-2.0
// PeerTerms: fields common to all requests: timeout, ring epoch, failover, replicas and caching.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/status.h"
#include "http/message.h"
#include "model/worker_id.h"

namespace leat {

inline constexpr char kEpochField[] = "leat-epoch";
inline constexpr char kInsteadField[] = "leat-instead";
// In a request: the receiver is one of the first N candidates. In an answer: number of replicas to
// use, and for how many seconds.
inline constexpr char kReplicasField[] = "leat-replicas";
inline constexpr char kTimeoutField[] = "leat-timeout-ms";
inline constexpr std::chrono::milliseconds kPeerTimeoutMax = std::chrono::minutes(10);

struct PeerTerms {
  int64_t epoch = 0;            // of the ring that selected the receiver
  bool only_if_cached = false;  // do not read the store
  // Failover: the first candidate, which does not respond to the sender. The receiver acts in its
  // place.
  std::optional<WorkerId> instead{};
  uint32_t replicas = 1;                 // PeerRoute::replicas
  std::chrono::milliseconds timeout{0};  // how long the sender waits; 0: unknown

  friend bool operator==(const PeerTerms&, const PeerTerms&) = default;
};

// Sent by a stripe's first candidate with its bytes: use the first `replicas` candidates for that
// stripe for `lasts`.
struct ReplicaAdvice {
  uint32_t replicas = 1;
  std::chrono::seconds lasts{0};
  friend bool operator==(const ReplicaAdvice&, const ReplicaAdvice&) = default;
};

// Limits the timeout to kPeerTimeoutMax.
void put_terms(const PeerTerms& terms, HttpRequest& request);
// kInvalidArgument names the bad field.
Result<PeerTerms> terms_of(const HttpRequest& request);

// The receiver's epoch; in each answer of a worker.
void put_epoch(int64_t epoch, HttpResponse& response);
std::optional<int64_t> epoch_of(const HttpResponse& response);

// Adds nothing for a single replica.
void put_advice(const ReplicaAdvice& advice, HttpResponse& response);
// Malformed advice counts as none.
ReplicaAdvice advice_of(const HttpResponse& response);

}  // namespace leat
