// SPDX-License-Identifier: Apache-2.0
// WritableFileSystem: the rename of a directory in a store that renames nothing. Each object is
// copied within the store, and the old ones are removed when all copies are there. A failure before
// that removes the copies; a crash may leave names in both directories, but loses none.
#include <fmt/format.h>

#include <utility>

#include "vfs/writing/writable_file_system.h"

namespace leat {
namespace {

// Objects of a directory that is renamed by copies. More take too long for one call.
constexpr size_t kCopiedMax = 1000;

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

Task<> WritableFileSystem::copy_one(Gate::Holder, Context context, Place from, Place to,
                                    std::string below, std::shared_ptr<CopiedNames> copied) {
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

Task<Result<>> WritableFileSystem::copy_directory(Context context, WrittenNodePtr directory,
                                                  Place from, Place to) {
  Source& source = *from.mount->source;
  const std::string prefix = from.as_directory();
  std::vector<std::string> below{""};  // the marker of the directory itself
  ListRequest request{.prefix = prefix, .recursive = true};
  do {
    LEAT_CO_TRY(const ListPage page, co_await source.list(context, request));
    for (const SourceObject& object : page.objects) {
      below.push_back(object.key.substr(prefix.size()));
    }
    request.token = page.next_token;
    if (below.size() > kCopiedMax || page.skipped > 0) {
      co_return error(StatusCode::kCrossDevice,
                      fmt::format("{} cannot rename directories, and {} has more than {} names to "
                                  "copy; copy it and remove it",
                                  source.name(), from.path, kCopiedMax));
    }
  } while (!request.token.empty());
  LEAT_CO_CHECK_OK(co_await keep_directory(context, from));
  const auto copied = std::make_shared<CopiedNames>();
  Gate gate;
  for (const std::string& name : below) {
    executor_.spawn(copy_one(*gate.enter(), context, from, to, name, copied));
  }
  gate.close();
  co_await gate.wait_idle();
  const bool failed = copied->failure.has_value();
  if (!failed) {
    std::lock_guard lock(nodes_.mutex());
    for (const auto& [name, version] : copied->versions) {
      const WrittenNodePtr node = held_below(*directory, name);
      if (node && !node->is_directory()) node->version = version;
    }
  }
  RemoveRequest unneeded;
  const std::string& gone = failed ? to.key : from.key;
  for (const std::string& name : below) unneeded.keys.push_back(gone + "/" + name);
  Result<> removed = co_await source.remove(Context::background(), std::move(unneeded));
  if (failed) co_return Error(*copied->failure);
  co_return removed;
}

}  // namespace leat
