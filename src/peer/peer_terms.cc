// SPDX-License-Identifier: Apache-2.0
#include "peer/peer_terms.h"

#include <fmt/format.h>

#include <algorithm>

#include "cluster/cluster_view.h"
#include "peer/wire_text.h"

namespace leat {
namespace {

constexpr char kCacheControl[] = "Cache-Control";
constexpr char kOnlyIfCached[] = "only-if-cached";
// Limit for advice: a dead worker cannot withdraw it.
constexpr std::chrono::seconds kAdviceLastsMax{60};

Error wrong(std::string reason) {
  return error(StatusCode::kInvalidArgument, std::move(reason));
}

}  // namespace

void put_terms(const PeerTerms& terms, HttpRequest& request) {
  request.query["epoch"] = fmt::format_int(terms.epoch).str();
  if (terms.only_if_cached) request.headers.set(kCacheControl, kOnlyIfCached);
  if (terms.instead) request.headers.set(kInsteadField, terms.instead->to_hex());
  if (terms.replicas > 1) {
    request.headers.set(kReplicasField, fmt::format_int(terms.replicas).str());
  }
  if (terms.timeout.count() > 0) {
    const auto most = std::min(terms.timeout, kPeerTimeoutMax);
    request.headers.set(kTimeoutField, fmt::format_int(most.count()).str());
  }
}

Result<PeerTerms> terms_of(const HttpRequest& request) {
  PeerTerms terms;
  const auto found = request.query.find("epoch");
  const auto epoch =
      found == request.query.end() ? std::nullopt : parse_decimal<int64_t>(found->second);
  if (!epoch) return wrong("the request does not name the epoch of its ring");
  terms.epoch = *epoch;
  if (const auto control = request.headers.find(kCacheControl)) {
    if (*control != kOnlyIfCached) {
      return wrong(fmt::format("Cache-Control '{}' is none that is known here", *control));
    }
    terms.only_if_cached = true;
  }
  if (const auto instead = request.headers.find(kInsteadField)) {
    const auto id = Id128::from_hex(*instead);
    if (!id) return wrong(fmt::format("{} '{}' names no worker", kInsteadField, *instead));
    terms.instead = WorkerId(*id);
  }
  if (const auto text = request.headers.find(kReplicasField)) {
    const auto count = parse_decimal<uint32_t>(*text);
    if (!count || *count == 0) {
      return wrong(fmt::format("{} '{}' is no number", kReplicasField, *text));
    }
    terms.replicas = std::min(*count, kReplicasMax);
  }
  if (const auto text = request.headers.find(kTimeoutField)) {
    const auto count = parse_decimal<int64_t>(*text);
    if (!count || *count == 0)
      return wrong(fmt::format("{} '{}' is no time", kTimeoutField, *text));
    terms.timeout = std::min(std::chrono::milliseconds(*count), kPeerTimeoutMax);
  }
  return terms;
}

void put_epoch(int64_t epoch, HttpResponse& response) {
  response.headers.set(kEpochField, fmt::format_int(epoch).str());
}

std::optional<int64_t> epoch_of(const HttpResponse& response) {
  const auto text = response.headers.find(kEpochField);
  return text ? parse_decimal<int64_t>(*text) : std::nullopt;
}

void put_advice(const ReplicaAdvice& advice, HttpResponse& response) {
  const auto lasts = std::chrono::duration_cast<std::chrono::seconds>(advice.lasts);
  if (advice.replicas <= 1 || lasts.count() <= 0) return;
  response.headers.set(kReplicasField, fmt::format("{} {}", advice.replicas, lasts.count()));
}

ReplicaAdvice advice_of(const HttpResponse& response) {
  const auto text = response.headers.find(kReplicasField);
  if (!text) return {};
  const size_t space = text->find(' ');
  if (space == std::string_view::npos) return {};
  const auto replicas = parse_decimal<uint32_t>(text->substr(0, space));
  const auto lasts = parse_decimal<uint32_t>(text->substr(space + 1));
  if (!replicas || *replicas <= 1 || !lasts || *lasts == 0) return {};
  return {.replicas = std::min(*replicas, kReplicasMax),
          .lasts = std::min(std::chrono::seconds(*lasts), kAdviceLastsMax)};
}

}  // namespace leat
