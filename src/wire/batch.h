// SPDX-License-Identifier: Apache-2.0
// Bodies of POST /peer/v1/batch: several small reads in one request and one answer. Format:
// docs/formats/peer-protocol.md. Neither direction copies payloads.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "base/units.h"
#include "wire/read_request.h"

namespace leat {

inline constexpr char kBatchPath[] = "/peer/v1/batch";
inline constexpr size_t kBatchRecordsMax = 1024;
inline constexpr uint64_t kBatchBytesMax = 16 * kMiB;        // sum of the ranges of one batch
inline constexpr uint64_t kBatchRecordBytesMax = 24 * kKiB;  // JSON of one record
inline constexpr uint64_t kBatchRequestBytesMax = 4 * kMiB;  // body of a request

// In the order of the requests: the bytes, or the error of that record.
using BatchAnswer = std::vector<Result<Bytes>>;

// Checks that the requests fit one batch. The body does not carry their terms; the terms of the
// batch request apply to all.
Result<> check_batch(std::span<const PeerReadRequest> requests);
std::string encode_batch(std::span<const PeerReadRequest> requests);
// Returns at least one request. kInvalidArgument names the bad record; one bad record fails the
// whole batch.
Result<std::vector<PeerReadRequest>> decode_batch(std::string_view body);

// `only_if_cached` is the flag of the request; it selects the HTTP status for uncached records.
Bytes encode_batch_answer(const BatchAnswer& answer, bool only_if_cached);
// The returned parts share the memory of `body`. kInvalidArgument if `body` is no answer to
// `requests`: the number of parts or a length differs.
Result<BatchAnswer> decode_batch_answer(const Bytes& body,
                                        std::span<const PeerReadRequest> requests);

}  // namespace leat
