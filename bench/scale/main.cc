// SPDX-License-Identifier: Apache-2.0
// The cost of a cluster of a thousand workers, with the modules' own code: placement, records,
// messages, tables of names. Nothing of it runs a thousand processes: each figure is that of one
// worker, one client or one request, measured here, or a count that follows from the ring and the
// records. docs/design/scale.md has the results.
//
//   leat_scale [PART…] [--small] [--workers N] [--clients N] [--objects N] [--keys N] [--names N]
//              [--dir DIR] [--etcd PROGRAM]
//   PART: placement rebalance registry etcd peers memory listing; without any all but etcd
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string_view>

#include "scale/figures.h"
#include "scale/parts.h"

namespace leat::scale {
namespace {

struct Part {
  const char* name;
  void (*run)(const Setting&);
  bool only_if_named;  // only where it is named
};
constexpr Part kParts[] = {
    {"placement", run_placement, false}, {"rebalance", run_rebalance, false},
    {"registry", run_registry, false},   {"etcd", run_etcd, true},
    {"peers", run_peers, false},         {"memory", run_memory, false},
    {"listing", run_listing, false},
};

int run(int count, char** words) {
  Setting setting;
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(words[i], "--small") == 0) setting = small_setting();
  }
  const std::map<std::string_view, uint64_t*> numbers = {{"--workers", &setting.workers},
                                                         {"--clients", &setting.clients},
                                                         {"--objects", &setting.objects},
                                                         {"--keys", &setting.keys},
                                                         {"--names", &setting.names}};
  std::set<std::string_view> wanted;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    if (word == "--small") continue;
    if (!word.starts_with("--")) {
      wanted.insert(word);
      continue;
    }
    if (i + 1 == count) fail(fmt::format("{} wants a value", word));
    const char* value = words[++i];
    if (auto number = numbers.find(word); number != numbers.end()) {
      *number->second = std::strtoull(value, nullptr, 10);
      if (*number->second == 0) fail(fmt::format("{} is a number above 0", word));
    } else if (word == "--dir") {
      setting.folder = value;
    } else if (word == "--etcd") {
      setting.etcd = value;
    } else {
      fail(fmt::format("there is no {}", word));
    }
  }
  if (setting.workers < 50) fail("--workers is 50 or more");
  fmt::print("{} workers, {} clients, {} objects\n", number_text(double(setting.workers)),
             number_text(double(setting.clients)), number_text(double(setting.objects)));
  const bool all = wanted.empty();
  for (const Part& part : kParts) {
    if (wanted.erase(part.name) > 0 || (all && !part.only_if_named)) part.run(setting);
  }
  if (!wanted.empty()) fail(fmt::format("there is no part '{}'", *wanted.begin()));
  return 0;
}

}  // namespace
}  // namespace leat::scale

int main(int count, char** words) {
  return leat::scale::run(count, words);
}
