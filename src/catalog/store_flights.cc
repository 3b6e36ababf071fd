// SPDX-License-Identifier: Apache-2.0
#include "catalog/store_flights.h"

#include "catalog/store_query.h"

namespace leat {
namespace {

// Latency of a store that is far away (first_byte_median).
constexpr Clock::duration kFarStore = std::chrono::milliseconds(20);
constexpr unsigned kEarlyLookupsMax = 4;
constexpr Clock::duration kPageWaitMax = std::chrono::seconds(1);

// With more names, the comparison with the previous ones runs on a blocking thread.
constexpr uint64_t kInlineCompareMax = 20'000;

void end_check(Tree& tree, Directory& directory, const std::string& name,
               const CheckFlightPtr& flight, Result<CheckedName> checked) {
  const DirectoryUpdate update = directory.finish_check(flight, name, checked);
  tree.evict(update.removed_directories);
  flight->result->set(std::move(checked));
  tree.apply(update);
}

}  // namespace

Task<> run_listing(Gate::Holder, TreePtr tree, DirectoryPtr directory, ListingFlightPtr flight,
                   Executor* executor) {
  Context context = Context::background().with_cancel(tree->stopping()).with_trace(flight->trace);
  const CatalogOptions& options = tree->options();
  SpillOptions spill{executor, options.names_in_memory_max, options.scratch_directory};
  Clock::duration age = flight->age_max;
  Result<std::shared_ptr<NameTable>> table = co_await list_directory(
      context, directory, flight->known, std::move(spill),
      [&flight] { flight->first_page->set(true); }, &age);
  // A cluster source requested from the store earlier than this request.
  flight->fetch_times.store -= age;
  auto finish = [directory, flight, table] { return directory->finish_listing(*flight, table); };
  DirectoryUpdate update;
  if (flight->known && flight->known->size() > kInlineCompareMax) {
    update = co_await executor->blocking(std::move(finish));
  } else {
    update = finish();
  }
  flight->known = nullptr;
  flight->differences = std::move(update.differences);
  tree->evict(update.removed_directories);
  flight->result->set(table ? Result<bool>(true) : Result<bool>(Error(table.error())));
  if (!flight->first_page->ready()) flight->first_page->set(true);
  tree->apply(update);
  flight->notified->set(true);
}

Task<> run_check(Gate::Holder token, TreePtr tree, DirectoryPtr directory, std::string name,
                 CheckFlightPtr flight, Executor* executor) {
  Context context = Context::background().with_cancel(tree->stopping()).with_trace(flight->trace);
  Result<CheckedName> checked =
      co_await check_name(token.another(), flight->before_listing ? executor : nullptr, context,
                          directory, name, flight->was_file, flight->age_max);
  end_check(*tree, *directory, name, flight, std::move(checked));
}

void note_name(Tree& tree, Directory& directory, const std::string& name,
               const std::optional<SourceObject>& now) {
  CheckedName state;
  if (now) {
    state = to_checked(*directory.mount()->source, *now, directory.policy().of_file(name));
  }
  const CheckFlightPtr flight = directory.join_check(name, /*shared=*/false, tree.now()).first;
  end_check(tree, directory, name, flight, std::move(state));
}

// Longer than an answer of a near store takes, so that one page of names costs no further request.
// With a far store a further request costs less than its latency. There the first lookups of one
// listing wait only briefly, and the lookups after them wait for the page.
Clock::duration first_page_wait(const Tree& tree, const Directory& directory,
                                ListingFlight& flight) {
  const Clock::duration usual = directory.mount()->source->first_byte_median();
  const Clock::duration wait = tree.options().first_page_wait;
  const bool early = usual >= kFarStore && flight.early_lookups++ < kEarlyLookupsMax;
  return early ? std::min(wait, usual / 32) : std::max(wait, std::min(2 * usual, kPageWaitMax));
}

}  // namespace leat
