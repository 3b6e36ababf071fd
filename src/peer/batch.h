// SPDX-License-Identifier: Apache-2.0
// The bodies of POST /peer/v1/batch: several small reads asked for, and answered, together. Format:
// docs/formats/peer-protocol.md. Payloads are not copied either way.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "base/units.h"
#include "peer/read_request.h"

namespace leat {

inline constexpr char kBatchPath[] = "/peer/v1/batch";
inline constexpr size_t kBatchRecordsMax = 1024;
inline constexpr uint64_t kBatchBytesMax = 16 * kMiB;        // asked for together
inline constexpr uint64_t kBatchRecordBytesMax = 24 * kKiB;  // of one record's JSON
inline constexpr uint64_t kBatchRequestBytesMax = 4 * kMiB;  // of a request's body

// In the order of the requests: bytes, or why there are none.
using BatchAnswer = std::vector<Result<Bytes>>;

// Whether they fit one batch. Their terms do not stand in the body: they are those of the whole.
Result<> check_batch(std::span<const PeerReadRequest> requests);
std::string encode_batch(std::span<const PeerReadRequest> requests);
// At least one. kInvalidArgument says which record is wrong; one bad record ends all of it.
Result<std::vector<PeerReadRequest>> decode_batch(std::string_view body);

// `only_if_cached`: as the request said, for the status of what is not cached.
Bytes encode_batch_answer(const BatchAnswer& answer, bool only_if_cached);
// `body` stays as long as any of the parts. kInvalidArgument where it is not an answer to
// `requests`: another number of parts, or other lengths than were asked for.
Result<BatchAnswer> decode_batch_answer(const Bytes& body,
                                        std::span<const PeerReadRequest> requests);

}  // namespace leat
