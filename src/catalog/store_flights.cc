// SPDX-License-Identifier: Apache-2.0
#include "catalog/store_flights.h"

#include "catalog/store_query.h"

namespace leat {
namespace {

// With more names, the comparison with the previous ones runs on a blocking thread.
constexpr uint64_t kInlineCompareMax = 20'000;

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
  DirectoryUpdate update = directory->finish_check(flight, name, checked);
  tree->evict(update.removed_directories);
  flight->result->set(std::move(checked));
  tree->apply(update);
}

}  // namespace leat
