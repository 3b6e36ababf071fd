// SPDX-License-Identifier: Apache-2.0
// Where clients order jobs of a cluster from a worker. Format: docs/formats/peer-protocol.md.
#pragma once

namespace leat {

inline constexpr char kJobsPath[] = "/peer/v1/jobs";
// Drawn by who orders: an order that comes twice, since its answer was lost, is one job.
inline constexpr char kTicketMember[] = "ticket";

}  // namespace leat
