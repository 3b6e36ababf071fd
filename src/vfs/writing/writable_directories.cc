// SPDX-License-Identifier: Apache-2.0
// WritableFileSystem: the rename of a directory in a store that renames nothing. Each object is
// copied within the store, and the old ones are removed when all copies are there. A failure before
// that removes the copies; a crash may leave names in both directories, but loses none.
#include <fmt/format.h>

#include <utility>

#include "vfs/writing/writable_file_system.h"

namespace leat {
namespace {

// Objects of a directory that is renamed without the journal. More are renamed as in mode `back`,
// so that a crash in the middle is no loss.
constexpr size_t kCopiedMax = 1000;
constexpr uint64_t kCopiesAtOnce = 64;
// Names in one request.
constexpr size_t kRemovedAtOnce = 1000;

}  // namespace

// Returns the node of a path below `directory`, "a/b/c". The caller holds the nodes' mutex.
WrittenNodePtr WritableFileSystem::held_below(const WrittenNode& directory,
                                              std::string_view path) const {
  const WrittenNode* at = &directory;
  for (;;) {
    const std::string_view name = path.substr(0, path.find('/'));
    const WrittenNodePtr child = nodes_.child(*at, name);
    if (!child || name.size() == path.size()) return child;
    path.remove_prefix(name.size() + 1);
    at = child.get();
  }
}

Task<> WritableFileSystem::copy_one(Gate::Holder, Semaphore::Permit, Context context, Place from,
                                    Place to, std::string below, CopiedNamesPtr copied) {
  Source& source = *from.mount->source;
  Result<SourceObject> made = error(StatusCode::kInternal, "nothing was copied");
  if (below.empty() || below.ends_with('/')) {
    WriteRequest marker{.key = to.key + "/" + below};
    made = co_await source.write(context, std::move(marker), {});
  } else {
    CopyRequest request{.from = from.key + "/" + below, .to = to.key + "/" + below};
    made = co_await source.copy(context, std::move(request));
  }
  std::lock_guard lock(nodes_.mutex());
  if (made) {
    copied->versions[below] = made->version;
  } else {
    copied->failure = made.error();
  }
}

Task<Result<WritableFileSystem::CopiedNamesPtr>> WritableFileSystem::list_to_copy(
    Context context, Place from, size_t names_max) {
  Source& source = *from.mount->source;
  const std::string prefix = from.as_directory();
  auto copied = std::make_shared<CopiedNames>();
  copied->names = {""};  // the marker of the directory itself
  ListRequest request{.prefix = prefix, .recursive = true};
  do {
    LEAT_CO_TRY(const ListPage page, co_await source.list(context, request));
    for (const SourceObject& object : page.objects) {
      copied->names.push_back(object.key.substr(prefix.size()));
    }
    request.token = page.next_token;
    if (page.skipped > 0) {
      co_return error(StatusCode::kCrossDevice,
                      fmt::format("{} cannot rename directories, and {} has names that no folder "
                                  "shows; rename it in its store",
                                  source.name(), from.path));
    }
    copied->is_partial = copied->names.size() > names_max;
  } while (!request.token.empty() && !copied->is_partial);
  co_return copied;
}

Task<Result<WritableFileSystem::CopiedNamesPtr>> WritableFileSystem::list_few_to_copy(
    Context context, WrittenNodePtr node, Place from) {
  const SourceCapabilities store = from.capabilities();
  const bool renames = store.renames && store.real_directories;
  if (!node->is_directory() || renames || !store.copies) co_return CopiedNamesPtr();
  Result<CopiedNamesPtr> copied = co_await list_to_copy(context, from, kCopiedMax);
  co_return copied;
}

// A failure does not end it while others succeed: of many requests some fail.
Task<> WritableFileSystem::copy_names(Context context, Place from, Place to,
                                      CopiedNamesPtr copied) {
  size_t before;
  do {
    before = copied->versions.size();
    copied->failure = std::nullopt;
    co_await copy_some(context, from, to, copied);
  } while (copied->failure && copied->versions.size() > before);
}

Task<> WritableFileSystem::copy_some(Context context, Place from, Place to, CopiedNamesPtr copied) {
  Semaphore at_once(kCopiesAtOnce);
  Gate gate;
  for (const std::string& name : copied->names) {
    {
      std::lock_guard lock(nodes_.mutex());
      if (copied->versions.contains(name)) continue;
    }
    auto permit = co_await at_once.acquire(context, 1, "copies of a directory");
    {
      std::lock_guard lock(nodes_.mutex());
      if (!permit) copied->failure = permit.error();
      if (copied->failure) break;
    }
    executor_.spawn(copy_one(*gate.enter(), *std::move(permit), context, from, to, name, copied));
  }
  gate.close();
  co_await gate.wait_idle();
}

Task<Result<>> WritableFileSystem::remove_names(Context context, Place directory,
                                                CopiedNamesPtr copied) {
  RemoveRequest unneeded;
  // The marker of a directory goes after its names: some servers keep it until then.
  for (size_t left = copied->names.size(); left > 0; --left) {
    unneeded.keys.push_back(directory.key + "/" + copied->names[left - 1]);
    if (unneeded.keys.size() < kRemovedAtOnce && left > 1) continue;
    RemoveRequest request = std::exchange(unneeded, {});
    LEAT_CO_CHECK_OK(co_await directory.mount->source->remove(context, std::move(request)));
  }
  co_return Result<>();
}

Task<Result<>> WritableFileSystem::copy_directory(Context context, WrittenNodePtr directory,
                                                  Place from, Place to, CopiedNamesPtr copied) {
  if (copied->is_partial) {
    co_return error(StatusCode::kCrossDevice,
                    fmt::format("{} cannot rename directories, and {} has more than {} names to "
                                "copy; copy it and remove it",
                                from.mount->source->name(), from.path, kCopiedMax));
  }
  LEAT_CO_CHECK_OK(co_await keep_directory(context, from));
  co_await copy_names(context, from, to, copied);
  if (copied->failure) {
    static_cast<void>(co_await remove_names(Context::background(), to, copied));
    co_return Error(*copied->failure);
  }
  {
    std::lock_guard lock(nodes_.mutex());
    for (const auto& [name, version] : copied->versions) {
      const WrittenNodePtr node = held_below(*directory, name);
      if (node && !node->is_directory()) node->version = version;
    }
  }
  Result<> removed = co_await remove_names(Context::background(), from, copied);
  co_return removed;
}

}  // namespace leat
