// SPDX-License-Identifier: Apache-2.0
#include "catalog/store_query.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "catalog/catalog_metrics.h"
#include "catalog/scratch_names.h"
#include "telemetry/log.h"

namespace leat {
namespace {

// Keys that a store cannot address, and objects that are neither file nor directory, are in no
// listing either.
bool is_missing(const Status& status) {
  return status.code() == StatusCode::kNotFound || status.code() == StatusCode::kNotDirectory ||
         status.code() == StatusCode::kUnsupported;
}

void report_hidden(const Directory& directory, const HiddenNames& hidden) {
  if (hidden.count == 0) return;
  catalog_metrics::hidden_names.add(hidden.count);
  log::warning("{}: {} of {} cannot be shown as names, for example '{}': {}", directory.path(),
               hidden.count, directory.mount()->source->name(), hidden.example, hidden.reason);
}

Status missing_directory(const Directory& directory) {
  return {StatusCode::kNotFound,
          fmt::format("{} does not exist: there is nothing below {}/{}", directory.path(),
                      directory.mount()->source->name(), directory.key())};
}

// ListedNames: the names of a listing in progress: in memory, and above a limit in a file. If the
// file fails, the listing fails; it does not continue in memory.
class ListedNames {
 public:
  ListedNames(DirectoryPtr directory, NameTablePtr known, LargeListings large)
      : directory_(std::move(directory)), large_(std::move(large)), builder_(begin(known)) {}

  Task<Result<>> add(ListPage page) {
    builder_.add_page(page);
    const bool too_many = !scratch_ && !large_.folder.empty() && builder_.size() > large_.names_max;
    if (!scratch_ && !too_many) co_return Result<>();
    if (too_many) {
      scratch_ = std::make_shared<ScratchNames>(large_.folder, directory_->mount()->source->id(),
                                                directory_->key(), directory_->policy());
    }
    if (scratch_ && builder_.size() >= kMovedAtOnce) co_return co_await move_to_scratch();
    co_return Result<>();
  }

  Task<Result<std::shared_ptr<NameTable>>> finish() {
    if (!scratch_) {
      report_hidden(*directory_, builder_.hidden());
      co_return builder_.finish();
    }
    Result<> moved = co_await move_to_scratch();
    if (!moved) co_return Error(moved.error());
    report_hidden(*directory_, hidden_);
    auto finish = [scratch = scratch_, left_out = left_out_] { return scratch->finish(left_out); };
    co_return co_await large_.executor->blocking(std::move(finish));
  }

 private:
  // Names moved together, since each move waits for another thread.
  static constexpr size_t kMovedAtOnce = 10'000;

  NameTableBuilder begin(NameTablePtr known) const {
    // A table in a file has no FileRefs to keep.
    if (known && known->held() == 0) known = nullptr;
    return {directory_->mount()->source->id(), directory_->key(), std::move(known),
            directory_->policy()};
  }
  Task<Result<>> move_to_scratch() {
    const uint64_t before = hidden_.count;
    if (before == 0) hidden_ = builder_.hidden();
    hidden_.count = before + builder_.hidden().count;
    std::shared_ptr<NameTable> names = builder_.finish();
    left_out_ += names->left_out();
    builder_ = begin(nullptr);
    auto add = [scratch = scratch_, names] { return scratch->add(*names); };
    co_return co_await large_.executor->blocking(std::move(add));
  }

  const DirectoryPtr directory_;
  const LargeListings large_;
  NameTableBuilder builder_;
  std::shared_ptr<ScratchNames> scratch_;  // blocking calls may outlive the task
  HiddenNames hidden_;
  uint64_t left_out_ = 0;
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
  checked.exists = true;
  checked.mtime_ns = to_mtime_ns(object->mtime);
  if (object->kind == FileKind::kFile) {
    const CacheUse use = cache_use(policy.cache, object->local);
    checked.ref = std::make_shared<const FileRef>(
        FileRef::make(source->id(), object->key, object->version, object->size, use, policy.pool));
  }
  co_return checked;
}

Task<Result<CheckedName>> check_directory(Context context, SourcePtr source, std::string key,
                                          Clock::duration age_max) {
  Result<CheckedName> directory =
      co_await check_object(context, source, std::move(key), {}, age_max);
  if (directory) directory->ref = nullptr;  // a marker may look like an empty object
  co_return directory;
}

}  // namespace

Task<Result<std::shared_ptr<NameTable>>> list_directory(Context context, DirectoryPtr directory,
                                                        NameTablePtr known, LargeListings large,
                                                        Clock::duration* age) {
  SourcePtr source = directory->mount()->source;
  const Clock::duration age_max = std::exchange(*age, Clock::duration{0});
  catalog_metrics::listings.add();
  ListedNames names(directory, std::move(known), std::move(large));
  bool any = false;
  std::string token;
  do {
    ListRequest request{.prefix = directory->key(), .recursive = false, .token = token};
    request.age_max = age_max;
    Result<ListPage> page = co_await source->list(context, std::move(request));
    if (!page && page.error().code() == StatusCode::kUnsupported && !directory->is_mount_root()) {
      co_return Error(missing_directory(*directory));
    }
    if (!page) co_return Error(page.error());
    any |= !page->objects.empty() || page->left_out > 0;
    if (!page->next_token.empty() && page->next_token == token) {
      co_return error(StatusCode::kInternal,
                      fmt::format("{} answered the listing of '{}' with the same page token twice; "
                                  "the listing would never end",
                                  source->name(), directory->key()));
    }
    token = page->next_token;
    *age = std::max(*age, page->age);
    Result<> added = co_await names.add(*std::move(page));
    if (!added) co_return Error(added.error());
  } while (!token.empty());
  if (!any && !directory->is_mount_root() && !source->capabilities().real_directories) {
    Result<> there = co_await explain_empty(context, directory);
    if (!there) co_return Error(there.error());
  }
  co_return co_await names.finish();
}

Task<Result<CheckedName>> check_name(Context context, DirectoryPtr directory, std::string name,
                                     bool was_file, Clock::duration age_max) {
  catalog_metrics::checks.add();
  SourcePtr source = directory->mount()->source;
  const PathPolicy policy = directory->policy().of_file(name);
  std::string key = directory->key() + name;
  if (was_file) {
    Result<CheckedName> checked = co_await check_object(context, source, key, policy, age_max);
    if (!checked || checked->exists) co_return checked;
    co_return co_await check_directory(context, source, key + "/", age_max);
  }
  Result<CheckedName> checked = co_await check_directory(context, source, key + "/", age_max);
  if (!checked || checked->exists) co_return checked;
  co_return co_await check_object(context, source, std::move(key), policy, age_max);
}

}  // namespace leat
