// SPDX-License-Identifier: Apache-2.0
#include "catalog/store_query.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "catalog/catalog_metrics.h"
#include "catalog/spilled_names.h"
#include "source/range_listing.h"
#include "telemetry/log.h"

namespace leat {
namespace {

// Two requests that are sent at once are not answered at once.
constexpr Clock::duration kDirectoryWaitMin = std::chrono::milliseconds(5);

// Keys that a store cannot address, and objects that are neither file nor directory, are in no
// listing either.
bool is_missing(const Status& status) {
  return status.code() == StatusCode::kNotFound || status.code() == StatusCode::kNotDirectory ||
         status.code() == StatusCode::kUnsupported;
}

void report_skipped(const Directory& directory, const UnnameableKeys& skipped) {
  if (skipped.count == 0) return;
  catalog_metrics::skipped_keys.add(skipped.count);
  log::warning("{}: {} of {} cannot be shown as names, for example '{}': {}", directory.path(),
               skipped.count, directory.mount()->source->name(), skipped.example, skipped.reason);
}

Status missing_directory(const Directory& directory) {
  return {StatusCode::kNotFound,
          fmt::format("{} does not exist: there is nothing below {}/{}", directory.path(),
                      directory.mount()->source->name(), directory.key())};
}

// ListingNames: the names of a listing in progress: in memory, and above a limit in a file. If the
// file fails, the listing fails; it does not continue in memory.
class ListingNames {
 public:
  ListingNames(DirectoryPtr directory, NameTablePtr known, SpillOptions spill)
      : directory_(std::move(directory)), spill_(std::move(spill)), builder_(make_builder(known)) {}

  Task<Result<>> add(ListPage page) {
    builder_.add_page(page);
    const bool too_many = !spilled_ && !spill_.folder.empty() && builder_.size() > spill_.names_max;
    if (!spilled_ && !too_many) co_return Result<>();
    if (too_many) {
      spilled_ = std::make_shared<SpilledNames>(spill_.folder, directory_->mount()->source->id(),
                                                directory_->key(), directory_->policy());
    }
    if (spilled_ && builder_.size() >= kSpillBatch) co_return co_await spill_names();
    co_return Result<>();
  }

  Task<Result<std::shared_ptr<NameTable>>> finish() {
    if (!spilled_) {
      report_skipped(*directory_, builder_.skipped());
      co_return builder_.finish();
    }
    Result<> moved = co_await spill_names();
    if (!moved) co_return Error(moved.error());
    report_skipped(*directory_, skipped_);
    auto finish = [spilled = spilled_, skipped = skipped_count_] {
      return spilled->finish(skipped);
    };
    co_return co_await spill_.executor->blocking(std::move(finish));
  }

 private:
  // Names moved together, since each move waits for another thread.
  static constexpr size_t kSpillBatch = 10'000;

  NameTableBuilder make_builder(NameTablePtr known) const {
    // A table in a file has no FileRefs to keep.
    if (known && known->names_in_memory() == 0) known = nullptr;
    return {directory_->mount()->source->id(), directory_->key(), std::move(known),
            directory_->policy()};
  }
  Task<Result<>> spill_names() {
    const uint64_t before = skipped_.count;
    if (before == 0) skipped_ = builder_.skipped();
    skipped_.count = before + builder_.skipped().count;
    std::shared_ptr<NameTable> names = builder_.finish();
    skipped_count_ += names->skipped();
    builder_ = make_builder(nullptr);
    auto add = [spilled = spilled_, names] { return spilled->add(*names); };
    co_return co_await spill_.executor->blocking(std::move(add));
  }

  const DirectoryPtr directory_;
  const SpillOptions spill_;
  NameTableBuilder builder_;
  std::shared_ptr<SpilledNames> spilled_;  // blocking calls may outlive the task
  UnnameableKeys skipped_;
  uint64_t skipped_count_ = 0;
};

// A store without real directories listed nothing: finds out whether there is an empty directory (a
// marker), a file of that name, or nothing.
Task<Result<>> explain_empty(Context context, DirectoryPtr directory) {
  SourcePtr source = directory->mount()->source;
  Result<SourceObject> marker = co_await source->stat(context, {directory->key()});
  if (marker) co_return Result<>();
  if (!is_missing(marker.error())) co_return Error(marker.error());
  std::string key = directory->key();
  key.pop_back();
  Result<SourceObject> file = co_await source->stat(context, {key});
  if (file) {
    co_return error(StatusCode::kNotDirectory,
                    fmt::format("{} is a file, not a directory", directory->path()));
  }
  if (!is_missing(file.error())) co_return Error(file.error());
  co_return Error(missing_directory(*directory));
}

// Returns success with exists = false if the store has no such object.
Task<Result<CheckedName>> check_object(Context context, SourcePtr source, std::string key,
                                       PathPolicy policy, Clock::duration age_max) {
  StatRequest request{.key = std::move(key), .age_max = age_max};
  Result<SourceObject> object = co_await source->stat(context, std::move(request));
  CheckedName checked;
  if (!object) {
    // A file's key named a directory.
    bool other_kind = object.error().code() == StatusCode::kIsDirectory;
    if (!other_kind && !is_missing(object.error())) co_return Error(object.error());
    co_return checked;
  }
  co_return to_checked(*source, *object, policy);
}

Task<Result<CheckedName>> check_directory(Context context, SourcePtr source, std::string key,
                                          Clock::duration age_max) {
  Result<CheckedName> directory =
      co_await check_object(context, source, std::move(key), {}, age_max);
  if (directory) directory->ref = nullptr;  // a marker may look like an empty object
  co_return directory;
}

Task<> check_directory_into(Gate::Holder, Context context, SourcePtr source, std::string key,
                            Clock::duration age_max,
                            std::shared_ptr<SharedPromise<CheckedName>> into) {
  into->set(co_await check_directory(context, source, std::move(key), age_max));
}

// Checks for both at once. A store may search long for anything below a name. So a file is returned
// after an eighth of the time again. The listing corrects the rare name that is both.
Task<Result<CheckedName>> check_both(Gate::Holder token, Executor& executor, Context context,
                                     SourcePtr source, std::string key, PathPolicy policy,
                                     Clock::duration age_max) {
  auto directory = SharedPromise<CheckedName>::make();
  executor.spawn(
      check_directory_into(std::move(token), context, source, key + "/", age_max, directory));
  const Clock::time_point begun = Clock::now();
  Result<CheckedName> file = co_await check_object(context, source, key, policy, age_max);
  const bool is_file = file && file->exists;
  const Clock::duration wait = std::max((Clock::now() - begun) / 8, kDirectoryWaitMin);
  Result<CheckedName> checked =
      co_await directory->wait(is_file ? context.with_timeout(wait) : context, "looking up a name");
  if (checked && checked->exists) co_return checked;
  const bool timed_out = !checked && checked.error().code() == StatusCode::kTimedOut;
  if (!checked && !(is_file && timed_out && context.check(""))) co_return checked;
  co_return file;
}

}  // namespace

CheckedName to_checked(const Source& source, const SourceObject& object, const PathPolicy& policy) {
  CheckedName checked;
  checked.exists = true;
  checked.mtime_ns = to_mtime_ns(object.mtime);
  if (object.kind == FileKind::kFile) {
    const CacheUse use = cache_use(policy.cache, object.local);
    checked.ref = std::make_shared<const FileRef>(
        FileRef::make(source.id(), object.key, object.version, object.size, use, policy.pool));
  }
  return checked;
}

Task<Result<std::shared_ptr<NameTable>>> list_directory(Context context, DirectoryPtr directory,
                                                        NameTablePtr known, SpillOptions spill,
                                                        std::function<void()> on_first_page,
                                                        Clock::duration* age) {
  SourcePtr source = directory->mount()->source;
  const Clock::duration age_max = std::exchange(*age, Clock::duration{0});
  Executor* const executor = spill.executor;
  catalog_metrics::listings.add();
  ListingNames names(directory, std::move(known), std::move(spill));
  bool any = false;
  auto add = [&](ListPage page) {
    any |= !page.objects.empty() || page.skipped > 0;
    *age = std::max(*age, page.age);
    if (!page.next_token.empty() && on_first_page) std::exchange(on_first_page, nullptr)();
    return names.add(std::move(page));
  };
  ListRequest request{.prefix = directory->key(), .recursive = false, .token = {}};
  request.age_max = age_max;
  Result<> listed =
      co_await list_in_ranges(context, source, std::move(request), *executor, std::move(add));
  if (!listed && listed.error().code() == StatusCode::kUnsupported && !directory->is_mount_root()) {
    co_return Error(missing_directory(*directory));
  }
  if (!listed) co_return Error(listed.error());
  if (!any && !directory->is_mount_root() && !source->capabilities().real_directories) {
    Result<> there = co_await explain_empty(context, directory);
    if (!there) co_return Error(there.error());
  }
  co_return co_await names.finish();
}

Task<Result<CheckedName>> check_name(Gate::Holder token, Executor* executor, Context context,
                                     DirectoryPtr directory, std::string name, bool was_file,
                                     Clock::duration age_max) {
  catalog_metrics::checks.add();
  SourcePtr source = directory->mount()->source;
  const PathPolicy policy = directory->policy().of_file(name);
  std::string key = directory->key() + name;
  if (was_file) {
    Result<CheckedName> checked = co_await check_object(context, source, key, policy, age_max);
    if (!checked || checked->exists) co_return checked;
    co_return co_await check_directory(context, source, key + "/", age_max);
  }
  if (executor == nullptr) {
    Result<CheckedName> directory_first =
        co_await check_directory(context, source, key + "/", age_max);
    if (!directory_first || directory_first->exists) co_return directory_first;
    co_return co_await check_object(context, source, std::move(key), policy, age_max);
  }
  co_return co_await check_both(std::move(token), *executor, std::move(context), std::move(source),
                                std::move(key), policy, age_max);
}

}  // namespace leat
