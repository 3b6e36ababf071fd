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
inline constexpr char kTimeoutField[] = "leat-timeout-ms";
inline constexpr std::chrono::milliseconds kPeerTimeoutMax = std::chrono::minutes(10);

struct PeerTerms {
  int64_t epoch = 0;            // of the ring by which the receiver was chosen
  bool only_if_cached = false;  // ask no store
  // The first candidate, which does not answer the sender: act as if the receiver were it.
  std::optional<WorkerId> instead{};
  std::chrono::milliseconds timeout{0};  // how long the sender waits; 0: it does not say

  friend bool operator==(const PeerTerms&, const PeerTerms&) = default;
};

// A timeout is cut at kPeerTimeoutMax.
void put_terms(const PeerTerms& terms, HttpRequest& request);
// kInvalidArgument says which of them is wrong.
Result<PeerTerms> terms_of(const HttpRequest& request);

// The receiver's epoch, in each answer of a worker.
void put_epoch(int64_t epoch, HttpResponse& response);
std::optional<int64_t> epoch_of(const HttpResponse& response);

}  // namespace leat
