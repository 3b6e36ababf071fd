// SPDX-License-Identifier: Apache-2.0
// Operator commands for a host's cache, run on one directory after the other.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "cache/spread/spread_store.h"

namespace leat {

// A position in the listing is the directory's number, a colon, and the directory's own position.
Task<Result<ObjectPage>> SpreadStore::objects(Context context, std::string after, size_t limit) {
  size_t number = 0;
  std::string place;
  if (!after.empty()) {
    const char* end = after.data() + after.size();
    auto [colon, failed] = std::from_chars(after.data(), end, number);
    if (failed != std::errc() || colon == end || *colon != ':') {
      co_return error(StatusCode::kInvalidArgument,
                      fmt::format("'{}' is not what an earlier page named to go on with", after));
    }
    place = after.substr(colon + 1 - after.data());
  }
  ObjectPage page;
  for (; number < members_.size() && page.objects.size() < limit; ++number) {
    LEAT_CO_CHECK_OK(context.check("listing the cache"));
    DirectoryMember& member = *members_[number];
    if (member.usable() != nullptr) {
      LEAT_CO_TRY(ObjectPage part,
                  co_await member.objects(std::move(place), limit - page.objects.size()));
      std::ranges::move(part.objects, std::back_inserter(page.objects));
      page.next = std::move(part.next);
    }
    place.clear();
    if (!page.next.empty()) break;
  }
  if (number < members_.size()) page.next = fmt::format("{}:{}", number, page.next);
  co_return page;
}

Task<Result<>> SpreadStore::verify(Context context, StepListener listener) {
  Result<> first_failure;
  for (DirectoryMember* member : usable()) {
    Result<> verified = co_await member->verify(context, listener);
    if (!verified && first_failure) first_failure = verified;
  }
  co_return first_failure;
}

// Evicts from each directory in proportion to its share of the used bytes.
Task<uint64_t> SpreadStore::evict(std::optional<PoolId> pool, uint64_t bytes) {
  auto used_by = [&](const DirectoryMember& member) -> uint64_t {
    const DirectoryStore* store = member.store();
    if (store == nullptr) return 0;
    if (!pool) return store->stats().used_bytes;
    for (const PoolStats& one : store->pools()) {
      if (one.id == *pool) return one.used_bytes;
    }
    return 0;
  };
  uint64_t whole = 0, freed = 0;
  for (const DirectoryMember* member : usable()) whole += used_by(*member);
  bytes = std::min(bytes, whole);
  for (DirectoryMember* member : usable()) {
    const uint64_t used = used_by(*member);
    if (used == 0 || freed >= bytes) continue;
    const double share = static_cast<double>(used) / static_cast<double>(whole);
    const auto part = static_cast<uint64_t>(static_cast<double>(bytes) * share) + 1;
    Result<uint64_t> went = co_await member->evict(pool, std::min(part, used));
    freed += went.value_or(0);
  }
  co_return freed;
}

}  // namespace leat
