// SPDX-License-Identifier: Apache-2.0
// PeerTerms: what a request says beside what it asks for: for how long, by which ring, at what
// price.
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
// In a request: of how many first candidates the receiver is asked as one. In an answer: of how
// many one is to be asked, and for how many seconds.
inline constexpr char kReplicasField[] = "leat-replicas";
inline constexpr char kTimeoutField[] = "leat-timeout-ms";
inline constexpr std::chrono::milliseconds kPeerTimeoutMax = std::chrono::minutes(10);

struct PeerTerms {
  int64_t epoch = 0;            // of the ring by which the receiver was chosen
  bool only_if_cached = false;  // ask no store
  // The first candidate, which does not answer the sender: act as if the receiver were it.
  std::optional<WorkerId> instead{};
  uint32_t replicas = 1;                 // PeerRoute::replicas
  std::chrono::milliseconds timeout{0};  // how long the sender waits; 0: it does not say

  friend bool operator==(const PeerTerms&, const PeerTerms&) = default;
};

// What a stripe's first candidate says with its bytes: for so long so many of the first candidates
// are to be asked for that stripe.
struct ReplicaAdvice {
  uint32_t replicas = 1;
  std::chrono::seconds lasts{0};
  friend bool operator==(const ReplicaAdvice&, const ReplicaAdvice&) = default;
};

// A timeout is cut at kPeerTimeoutMax.
void put_terms(const PeerTerms& terms, HttpRequest& request);
// kInvalidArgument says which of them is wrong.
Result<PeerTerms> terms_of(const HttpRequest& request);

// The receiver's epoch, in each answer of a worker.
void put_epoch(int64_t epoch, HttpResponse& response);
std::optional<int64_t> epoch_of(const HttpResponse& response);

// Where it says anything: more than one.
void put_advice(const ReplicaAdvice& advice, HttpResponse& response);
// What cannot be read says nothing.
ReplicaAdvice advice_of(const HttpResponse& response);

}  // namespace leat
