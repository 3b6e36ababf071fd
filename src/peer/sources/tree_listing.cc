// SPDX-License-Identifier: Apache-2.0
#include "peer/sources/tree_listing.h"

#include <utility>
#include <vector>

namespace leat {
namespace {

constexpr size_t kPageNames = 1000;

// One directory on the way to the present one.
struct Level {
  std::string prefix;
  ListPage page{};
  size_t next = 0;  // in page.objects
  bool is_listed = false;
};

}  // namespace

Task<Result<ListPage>> list_tree(Source& source, Context context, ListRequest request) {
  ListPage all;
  std::vector<Level> levels;
  levels.push_back({.prefix = request.prefix});
  while (!levels.empty()) {
    Level& level = levels.back();
    if (level.next == level.page.objects.size()) {
      if (level.is_listed && level.page.next_token.empty()) {
        levels.pop_back();
        continue;
      }
      ListRequest next{.prefix = level.prefix, .token = level.page.next_token};
      next.age_max = request.age_max;
      LEAT_CO_TRY(level.page, co_await source.list(context, std::move(next)));
      level.next = 0;
      level.is_listed = true;
      if (request.token.empty()) all.skipped += level.page.skipped;
      all.age = std::max(all.age, level.page.age);
      continue;
    }
    SourceObject object = std::move(level.page.objects[level.next]);
    ++level.next;
    const bool is_directory = object.key.ends_with('/');
    const bool is_known = object.key <= request.token;
    const bool leads_on = is_directory && (!is_known || request.token.starts_with(object.key));
    if (leads_on) levels.push_back({.prefix = object.key});  // `level` is invalid from here on
    if (is_known) continue;
    all.objects.push_back(std::move(object));
    if (all.objects.size() < kPageNames) continue;
    all.next_token = all.objects.back().key;
    break;
  }
  co_return all;
}

}  // namespace leat
