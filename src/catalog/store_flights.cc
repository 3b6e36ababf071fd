// SPDX-License-Identifier: Apache-2.0
#include "catalog/store_flights.h"

#include "catalog/store_query.h"

namespace leat {
namespace {

// With more names, the comparison with the previous ones runs on a blocking thread.
constexpr uint64_t kComparedInPlace = 20'000;

}  // namespace

Task<> fly_listing(Activity::Token, TreePtr tree, DirectoryPtr directory, ListingFlightPtr flight,
                   Executor* executor) {
  Context context = Context::background().with_cancel(tree->stopping()).with_trace(flight->trace);
  const CatalogOptions& options = tree->options();
  LargeListings large{executor, options.names_in_memory_max, options.scratch_directory};
  Clock::duration age = flight->age_max;
  Result<std::shared_ptr<NameTable>> table =
      co_await list_directory(context, directory, flight->known, std::move(large), &age);
  // A cluster source asked the store earlier than this request.
  flight->asked_at.store -= age;
  auto enter = [directory, flight, table] { return directory->finish_listing(*flight, table); };
  DirectoryNews news;
  if (flight->known && flight->known->size() > kComparedInPlace) {
    news = co_await executor->blocking(std::move(enter));
  } else {
    news = enter();
  }
  flight->known = nullptr;
  flight->news = std::move(news.learnt);
  tree->forget(news.gone_directories);
  flight->result->set(table ? Result<bool>(true) : Result<bool>(Error(table.error())));
  tree->take(news);
  flight->told->set(true);
}

Task<> fly_check(Activity::Token, TreePtr tree, DirectoryPtr directory, std::string name,
                 CheckFlightPtr flight) {
  Context context = Context::background().with_cancel(tree->stopping()).with_trace(flight->trace);
  Result<CheckedName> checked =
      co_await check_name(context, directory, name, flight->was_file, flight->age_max);
  DirectoryNews news = directory->finish_check(flight, name, checked);
  tree->forget(news.gone_directories);
  flight->result->set(std::move(checked));
  tree->take(news);
}

}  // namespace leat
