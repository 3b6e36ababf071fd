// SPDX-License-Identifier: Apache-2.0
// WorkerInfo: what a worker says of itself to those who want to reach it.
#pragma once

#include <cstdint>
#include <string>

#include "model/worker_id.h"

namespace leat {

enum class WorkerState : uint8_t {
  kActive,    // takes its share
  kDraining,  // gives its share away; what it has it still answers
};

inline constexpr uint32_t kBatchProtocol = 1;
inline constexpr uint32_t kFineRingProtocol = 2;  // reads rings whose weights are below a GiB
inline constexpr uint32_t kPeerProtocol = kFineRingProtocol;  // of this program

struct WorkerInfo {
  WorkerId id{};
  std::string address{};  // of its data door: "10.0.0.1:7480"
  // Of the machine as long as it runs: workers and clients that have the same one share a kernel,
  // so a file's descriptor can go from one to the other.
  std::string host_id{};
  std::string host_name{};  // for people
  std::string socket{};     // where descriptors are handed out, on that host; empty: nowhere
  uint64_t capacity_bytes = 0;
  WorkerState state = WorkerState::kActive;
  std::string version{};  // of its program
  // What it knows beyond the first one: batches from kBatchProtocol on, fine rings from
  // kFineRingProtocol on.
  uint32_t protocol = 0;

  bool answers_batches() const { return protocol >= kBatchProtocol; }
  bool reads_fine_rings() const { return protocol >= kFineRingProtocol; }

  friend bool operator==(const WorkerInfo&, const WorkerInfo&) = default;
};

}  // namespace leat
