// SPDX-License-Identifier: Apache-2.0
#include "wire/peer_request_header.h"

#include <fmt/format.h>

#include <algorithm>

#include "cluster/cluster_view.h"
#include "wire/wire_text.h"

namespace leat {
namespace {

constexpr char kCacheControl[] = "Cache-Control";
constexpr char kOnlyIfCached[] = "only-if-cached";
// Limit of a hint: a dead worker cannot withdraw it.
constexpr std::chrono::seconds kHintTtlMax{60};

Error wrong(std::string reason) {
  return error(StatusCode::kInvalidArgument, std::move(reason));
}

}  // namespace

void put_request_header(const PeerRequestHeader& header, HttpRequest& request) {
  request.query["epoch"] = fmt::format_int(header.epoch).str();
  if (header.only_if_cached) request.headers.set(kCacheControl, kOnlyIfCached);
  if (header.failover_for) request.headers.set(kFailoverForField, header.failover_for->to_hex());
  if (header.replicas > 1) {
    request.headers.set(kReplicasField, fmt::format_int(header.replicas).str());
  }
  if (header.timeout.count() > 0) {
    const auto most = std::min(header.timeout, kPeerTimeoutMax);
    request.headers.set(kTimeoutField, fmt::format_int(most.count()).str());
  }
}

Result<PeerRequestHeader> request_header_of(const HttpRequest& request) {
  PeerRequestHeader header;
  const auto found = request.query.find("epoch");
  const auto epoch =
      found == request.query.end() ? std::nullopt : parse_decimal<int64_t>(found->second);
  if (!epoch) return wrong("the request does not name the epoch of its ring");
  header.epoch = *epoch;
  if (const auto control = request.headers.find(kCacheControl)) {
    if (*control != kOnlyIfCached) {
      return wrong(fmt::format("Cache-Control '{}' is none that is known here", *control));
    }
    header.only_if_cached = true;
  }
  if (const auto failover_for = request.headers.find(kFailoverForField)) {
    const auto id = Id128::from_hex(*failover_for);
    if (!id) return wrong(fmt::format("{} '{}' names no worker", kFailoverForField, *failover_for));
    header.failover_for = WorkerId(*id);
  }
  if (const auto text = request.headers.find(kReplicasField)) {
    const auto count = parse_decimal<uint32_t>(*text);
    if (!count || *count == 0) {
      return wrong(fmt::format("{} '{}' is no number", kReplicasField, *text));
    }
    header.replicas = std::min(*count, kReplicasMax);
  }
  if (const auto text = request.headers.find(kTimeoutField)) {
    const auto count = parse_decimal<int64_t>(*text);
    if (!count || *count == 0)
      return wrong(fmt::format("{} '{}' is no time", kTimeoutField, *text));
    header.timeout = std::min(std::chrono::milliseconds(*count), kPeerTimeoutMax);
  }
  return header;
}

void put_epoch(int64_t epoch, HttpResponse& response) {
  response.headers.set(kEpochField, fmt::format_int(epoch).str());
}

std::optional<int64_t> epoch_of(const HttpResponse& response) {
  const auto text = response.headers.find(kEpochField);
  return text ? parse_decimal<int64_t>(*text) : std::nullopt;
}

void put_replica_hint(const ReplicaHint& hint, HttpResponse& response) {
  const auto ttl = std::chrono::duration_cast<std::chrono::seconds>(hint.ttl);
  if (hint.replicas <= 1 || ttl.count() <= 0) return;
  response.headers.set(kReplicasField, fmt::format("{} {}", hint.replicas, ttl.count()));
}

ReplicaHint replica_hint_of(const HttpResponse& response) {
  const auto text = response.headers.find(kReplicasField);
  if (!text) return {};
  const size_t space = text->find(' ');
  if (space == std::string_view::npos) return {};
  const auto replicas = parse_decimal<uint32_t>(text->substr(0, space));
  const auto ttl = parse_decimal<uint32_t>(text->substr(space + 1));
  if (!replicas || *replicas <= 1 || !ttl || *ttl == 0) return {};
  return {.replicas = std::min(*replicas, kReplicasMax),
          .ttl = std::min(std::chrono::seconds(*ttl), kHintTtlMax)};
}

void put_cache_miss(HttpResponse& response) {
  response.headers.set(kCacheMissField, "1");
}

bool is_cache_miss(const HttpResponse& response) {
  return response.headers.find(kCacheMissField).has_value();
}

}  // namespace leat
