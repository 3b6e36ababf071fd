// SPDX-License-Identifier: Apache-2.0
// Patterns become regular expressions of RE2, which runs in time linear in the input.
#include "model/file_filter.h"

#include <fmt/format.h>
#include <re2/re2.h>
#include <re2/set.h>

#include <algorithm>
#include <optional>
#include <set>

namespace leat {
namespace {

constexpr size_t kPatternsMax = 1000;
constexpr int64_t kMemoryMax = int64_t{64} << 20;

Error refused(std::string_view what, std::string_view text, std::string_view why) {
  return error(StatusCode::kInvalidArgument, fmt::format("{} '{}': {}", what, text, why));
}

// Translates the "[a-z]" at `at`, and moves `at` to its end. Returns nothing if the bracket is not
// closed.
std::optional<std::string> bracket(std::string_view glob, size_t& at) {
  size_t end = at + 1;
  if (end < glob.size() && (glob[end] == '!' || glob[end] == '^')) ++end;
  if (end < glob.size() && glob[end] == ']') ++end;
  end = glob.find(']', end);
  if (end == std::string_view::npos) return std::nullopt;
  std::string_view given = glob.substr(at + 1, end - at - 1);
  std::string inside;
  if (given.starts_with('!') || given.starts_with('^')) {
    given.remove_prefix(1);
    inside = "^/";  // like '*' and '?', never a slash
  }
  for (char c : given) {
    if (std::string_view("\\[]^").contains(c)) inside += '\\';
    inside += c;
  }
  at = end;
  return fmt::format("[{}]", inside);
}

Result<std::string> regex_of(std::string_view glob) {
  std::string text;
  for (size_t at = 0; at < glob.size(); ++at) {
    const char c = glob[at];
    if (c == '*' && glob.substr(at).starts_with("**/")) {
      text += "(?:.*/)?";
      at += 2;
    } else if (c == '*' && glob.substr(at).starts_with("**")) {
      text += ".*";
      at += 1;
    } else if (c == '*') {
      text += "[^/]*";
    } else if (c == '?') {
      text += "[^/]";
    } else if (c == '[') {
      auto one = bracket(glob, at);
      if (!one) return refused("pattern", glob, "the '[' is not closed; write '\\[' for itself");
      text += *one;
    } else if (c == '\\' && at + 1 < glob.size()) {
      text += RE2::QuoteMeta(re2::StringPiece(glob.data() + ++at, 1));
    } else {
      text += RE2::QuoteMeta(re2::StringPiece(glob.data() + at, 1));
    }
  }
  return text;
}

// Returns the folder that every matching name begins with, up to a '/'.
std::string_view literal_folder(std::string_view glob) {
  const std::string_view literal = glob.substr(0, glob.find_first_of("*?[\\"));
  const size_t slash = literal.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : literal.substr(0, slash);
}

RE2::Options options() {
  RE2::Options options;
  options.set_encoding(RE2::Options::EncodingLatin1);  // names are bytes
  options.set_dot_nl(true);
  options.set_log_errors(false);
  options.set_max_mem(kMemoryMax);
  return options;
}

// Several patterns, at least one of which must match.
class Patterns {
 public:
  static Result<std::unique_ptr<const Patterns>> make(const std::vector<std::string>& globs) {
    if (globs.size() > kPatternsMax) {
      return error(StatusCode::kInvalidArgument,
                   fmt::format("{} patterns are more than {}; a list of files may be longer",
                               globs.size(), kPatternsMax));
    }
    auto patterns = std::make_unique<Patterns>();
    for (std::string glob : globs) {
      if (glob.starts_with('/')) {
        return refused("pattern", glob, "it is relative to the folder, without a '/' in front");
      }
      if (glob.empty()) return refused("pattern", glob, "it is empty");
      const bool of_folder = glob.ends_with('/');
      if (of_folder) glob.pop_back();
      const bool anywhere = !glob.contains('/');
      LEAT_TRY(std::string text, regex_of(glob));
      if (anywhere) text = "(?:.*/)?" + text;
      if (of_folder) text += "/.*";
      std::string why;
      if (patterns->set_.Add(text, &why) < 0) return refused("pattern", glob, why);
      patterns->folders_.emplace_back(anywhere ? std::string_view() : literal_folder(glob));
    }
    if (!patterns->set_.Compile()) {
      return error(StatusCode::kInvalidArgument, "the patterns together are too complex");
    }
    return patterns;
  }

  Patterns() : set_(options(), RE2::ANCHOR_BOTH) {}

  bool fit(std::string_view name) const {
    return set_.Match(re2::StringPiece(name.data(), name.size()), nullptr);
  }
  bool may_hold(std::string_view folder) const;

 private:
  RE2::Set set_;
  std::vector<std::string> folders_;  // literal prefixes of the patterns
};

// Returns whether one is at or below the other.
bool on_one_way(std::string_view a, std::string_view b) {
  if (a.size() > b.size()) std::swap(a, b);
  return a.empty() || (b.starts_with(a) && (b.size() == a.size() || b[a.size()] == '/'));
}

bool Patterns::may_hold(std::string_view folder) const {
  return std::ranges::any_of(
      folders_, [&](const std::string& literal) { return on_one_way(folder, literal); });
}

std::string_view without_ends(std::string_view name) {
  while (name.starts_with("./")) name.remove_prefix(2);
  while (name.ends_with('/')) name.remove_suffix(1);
  return name;
}

// A set of names, and of all folders above them.
class NameList {
 public:
  static Result<NameList> make(const std::vector<std::string>& files) {
    NameList list;
    for (const std::string& given : files) {
      const std::string_view name = without_ends(given);
      if (name.empty() || name.starts_with('/')) {
        return refused("file of the list", given, "it is relative to the folder");
      }
      list.names_.emplace(name);
      for (size_t slash = name.rfind('/'); slash != std::string_view::npos && slash > 0;
           slash = name.rfind('/', slash - 1)) {
        if (!list.above_.emplace(name.substr(0, slash)).second) break;
      }
    }
    return list;
  }

  // Returns whether the list has `name` or a folder above it.
  bool fits(std::string_view name) const {
    if (names_.contains(name)) return true;
    for (size_t slash = name.rfind('/'); slash != std::string_view::npos && slash > 0;
         slash = name.rfind('/', slash - 1)) {
      if (names_.contains(name.substr(0, slash))) return true;
    }
    return false;
  }
  bool may_hold(std::string_view folder) const {
    return folder.empty() || above_.contains(folder) || fits(folder);
  }

 private:
  std::set<std::string, std::less<>> names_, above_;
};

}  // namespace

struct FileFilter::Rules {
  std::unique_ptr<const Patterns> include, exclude;
  std::unique_ptr<const RE2> regex;
  std::optional<NameList> files;
};

Result<FileFilter> FileFilter::make(const FileSelection& selection) {
  FileFilter filter;
  if (selection.everything()) return filter;
  auto rules = std::make_shared<Rules>();
  if (!selection.include.empty()) {
    LEAT_TRY(rules->include, Patterns::make(selection.include));
  }
  if (!selection.exclude.empty()) {
    LEAT_TRY(rules->exclude, Patterns::make(selection.exclude));
  }
  if (!selection.regex.empty()) {
    rules->regex = std::make_unique<const RE2>(selection.regex, options());
    if (!rules->regex->ok()) {
      return refused("regular expression", selection.regex, rules->regex->error());
    }
  }
  if (!selection.files.empty()) {
    LEAT_TRY(rules->files, NameList::make(selection.files));
  }
  filter.rules_ = std::move(rules);
  return filter;
}

bool FileFilter::matches(std::string_view name) const {
  if (everything()) return true;
  if (rules_->files && !rules_->files->fits(name)) return false;
  if (rules_->include && !rules_->include->fit(name)) return false;
  if (rules_->exclude && rules_->exclude->fit(name)) return false;
  return !rules_->regex ||
         RE2::PartialMatch(re2::StringPiece(name.data(), name.size()), *rules_->regex);
}

bool FileFilter::may_hold(std::string_view folder) const {
  if (everything()) return true;
  if (rules_->files && !rules_->files->may_hold(folder)) return false;
  return !rules_->include || rules_->include->may_hold(folder);
}

}  // namespace leat
