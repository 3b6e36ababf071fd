// SPDX-License-Identifier: Apache-2.0
// Path at which clients submit jobs of a cluster to a worker. Format:
// docs/formats/peer-protocol.md.
#pragma once

namespace leat {

inline constexpr char kJobsPath[] = "/peer/v1/jobs";
// Random id of the client's request; a request resent after a lost answer creates only one job.
inline constexpr char kIdempotencyKeyMember[] = "idempotency-key";

}  // namespace leat
