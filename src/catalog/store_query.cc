// SPDX-License-Identifier: Apache-2.0
#include "catalog/store_query.h"

#include <fmt/format.h>

#include "catalog/catalog_metrics.h"
#include "telemetry/log.h"

namespace leat {
namespace {

// What a store cannot address, and what is neither file nor directory, is in no listing either.
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

// A store without real directories listed nothing: is there an empty directory (a marker), a file
// of that name, or nothing?
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

// Success with exists = false when the store says that there is none.
Task<Result<CheckedName>> check_object(Context context, MountPtr mount, std::string key) {
  SourcePtr source = mount->source;
  Result<SourceObject> object = co_await source->stat(context, {std::move(key)});
  CheckedName checked;
  if (!object) {
    // A directory was asked for by a file's key.
    bool other_kind = object.error().code() == StatusCode::kIsDirectory;
    if (!other_kind && !is_missing(object.error())) co_return Error(object.error());
    co_return checked;
  }
  checked.exists = true;
  checked.mtime_ns = to_mtime_ns(object->mtime);
  if (object->kind == FileKind::kFile) {
    const CacheUse use = cache_use(mount->entry.policy.cache, object->local);
    checked.ref = std::make_shared<const FileRef>(FileRef::make(
        source->id(), object->key, object->version, object->size, use, mount->entry.policy.pool));
  }
  co_return checked;
}

Task<Result<CheckedName>> check_directory(Context context, MountPtr mount, std::string key) {
  Result<CheckedName> directory = co_await check_object(context, mount, std::move(key));
  if (directory) directory->ref = nullptr;  // a marker may look like an object of no bytes
  co_return directory;
}

}  // namespace

Task<Result<std::shared_ptr<NameTable>>> list_directory(Context context, DirectoryPtr directory,
                                                        NameTablePtr known) {
  SourcePtr source = directory->mount()->source;
  catalog_metrics::listings.add();
  NameTableBuilder builder(source->id(), directory->key(), std::move(known),
                           directory->mount()->entry.policy.cache,
                           directory->mount()->entry.policy.pool);
  bool any = false;
  std::string token;
  do {
    ListRequest request{.prefix = directory->key(), .recursive = false, .token = token};
    Result<ListPage> page = co_await source->list(context, std::move(request));
    if (!page && page.error().code() == StatusCode::kUnsupported && !directory->is_mount_root()) {
      co_return Error(missing_directory(*directory));
    }
    if (!page) co_return Error(page.error());
    builder.add_page(*page);
    any |= !page->objects.empty() || page->left_out > 0;
    if (!page->next_token.empty() && page->next_token == token) {
      co_return error(StatusCode::kInternal,
                      fmt::format("{} answered the listing of '{}' with the same page token twice; "
                                  "the listing would never end",
                                  source->name(), directory->key()));
    }
    token = std::move(page->next_token);
  } while (!token.empty());
  if (!any && !directory->is_mount_root() && !source->capabilities().real_directories) {
    Result<> there = co_await explain_empty(context, directory);
    if (!there) co_return Error(there.error());
  }
  report_hidden(*directory, builder.hidden());
  co_return builder.finish();
}

Task<Result<CheckedName>> check_name(Context context, DirectoryPtr directory, std::string name,
                                     bool was_file) {
  catalog_metrics::checks.add();
  MountPtr mount = directory->mount();
  std::string key = directory->key() + name;
  if (was_file) {
    Result<CheckedName> checked = co_await check_object(context, mount, key);
    if (!checked || checked->exists) co_return checked;
    co_return co_await check_directory(context, mount, key + "/");
  }
  Result<CheckedName> checked = co_await check_directory(context, mount, key + "/");
  if (!checked || checked->exists) co_return checked;
  co_return co_await check_object(context, mount, std::move(key));
}

}  // namespace leat
