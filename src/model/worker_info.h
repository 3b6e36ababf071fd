// SPDX-License-Identifier: Apache-2.0
// WorkerInfo: a worker's description of itself in the registry and in its replies.
#pragma once

#include <cstdint>
#include <string>

#include "model/worker_id.h"

namespace leat {

enum class WorkerState : uint8_t {
  kActive,    // owns its share of the ring
  kDraining,  // moves its cache to the new owners, and serves until then
};

inline constexpr uint32_t kBatchProtocol = 1;
inline constexpr uint32_t kFineRingProtocol = 2;   // accepts rings with weights below a GiB
inline constexpr uint32_t kEpochLoadProtocol = 3;  // knows background loads
inline constexpr uint32_t kStagingProtocol = 4;    // keeps staged writes of others
inline constexpr uint32_t kPeerProtocol = kStagingProtocol;  // of this build

struct WorkerInfo {
  WorkerId id{};
  std::string address{};  // of its peer server: "10.0.0.1:7480"
  // Identifies the machine until it reboots. Workers and clients with the same one share a kernel,
  // so one can pass a file descriptor to another.
  std::string host_id{};
  std::string host_name{};  // for people
  std::string fd_socket{};  // socket for fd passing on that host; empty: none
  uint64_t capacity_bytes = 0;
  WorkerState state = WorkerState::kActive;
  std::string version{};  // of its build
  // Peer protocol version: see the constants above.
  uint32_t protocol = 0;
  // Workers in one failure domain may fail together; empty: those of one host.
  std::string failure_domain{};

  bool supports_batches() const { return protocol >= kBatchProtocol; }
  bool supports_fine_rings() const { return protocol >= kFineRingProtocol; }
  bool supports_staging() const { return protocol >= kStagingProtocol; }
  const std::string& domain() const { return failure_domain.empty() ? host_id : failure_domain; }
  bool supports_epoch_loads() const { return protocol >= kEpochLoadProtocol; }

  friend bool operator==(const WorkerInfo&, const WorkerInfo&) = default;
};

}  // namespace leat
