// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/help/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "apps/cli/help/command_description.h"
#include "daemon/daemon_options.h"
#include "model/mount_options.h"
#include "model/policy_settings.h"
#include "model/profile.h"

namespace leat {
namespace {

class Completer {
 public:
  Completer(std::string typed, const DynamicCandidates& dynamic)
      : typed_(std::move(typed)), dynamic_(dynamic) {}

  void offer(std::string word, std::string help = "") {
    if (word.starts_with(typed_)) found_.candidates.push_back({std::move(word), std::move(help)});
  }
  void offer_commands();
  void offer_parts(const CommandDescription& command);
  void offer_flags(const CommandDescription& command);
  void offer_values(const ArgumentDescription& argument, std::string_view in_front = "");

  const std::string& typed() const { return typed_; }
  Completion take() { return std::move(found_); }

 private:
  void offer_options(const std::vector<Candidate>& names, std::string_view in_front);
  void offer_mount_option(std::string_view in_front);

  const std::string typed_;
  const DynamicCandidates& dynamic_;
  Completion found_;
};

void Completer::offer_commands() {
  for (const CommandEntry& entry : command_table()) {
    if (!entry.hidden) offer(entry.name, entry.summary);
  }
}

void Completer::offer_parts(const CommandDescription& command) {
  for (const CommandDescription& part : command.parts) {
    offer(part_word(part), part.summary);
    // Offer an alias only if its beginning is typed.
    if (part_word(part).starts_with(typed_)) continue;
    for (const std::string& alias : part.aliases) offer(alias, part.summary);
  }
}

void Completer::offer_flags(const CommandDescription& command) {
  for (const ArgumentDescription& argument : command.arguments) {
    for (const std::string& flag : argument.flags) offer(flag, argument.help);
  }
  offer("--help", "What it takes, with an example");
}

// Offers option names, or values of an option that is typed already.
void Completer::offer_options(const std::vector<Candidate>& names, std::string_view in_front) {
  for (const Candidate& name : names) {
    offer(fmt::format("{}{}=", in_front, name.word), name.help);
  }
  found_.continues = true;
}

void Completer::offer_mount_option(std::string_view in_front) {
  const std::string_view option = std::string_view(typed_).substr(in_front.size());
  const size_t equals = option.find('=');
  if (equals == std::string_view::npos) {
    std::vector<Candidate> names;
    for (std::string_view name : policy_options()) names.push_back({std::string(name)});
    for (std::string_view name : mount_option_names()) names.push_back({std::string(name)});
    offer_options(names, in_front);
    return;
  }
  const std::string_view name = option.substr(0, equals);
  std::vector<std::string> values = {"true", "false"};
  if (name == "freshness") values = {"immutable", "validate", "max-age="};
  if (name == "priority") values = {"low", "normal", "high"};
  if (name == "cache") values = {"auto", "always", "never"};
  if (name == "folder_profile") {
    values.clear();
    for (const Profile& profile : profiles()) values.emplace_back(profile.name);
  }
  for (std::string_view free : {"quota", "ttl", "negative_ttl", "uid", "gid", "umask",
                                "kernel_readahead", "prefetch_window"}) {
    if (name == free) values.clear();
  }
  for (const std::string& value : values) offer(fmt::format("{}{}={}", in_front, name, value));
}

void Completer::offer_values(const ArgumentDescription& argument, std::string_view in_front) {
  for (const std::string& choice : argument.choices) offer(fmt::format("{}{}", in_front, choice));
  const std::string_view kind = argument.value;
  if (kind == value_name::kPath || kind == value_name::kFile) {
    found_.files = Completion::Files::kAll;
  } else if (kind == value_name::kFolder) {
    found_.files = Completion::Files::kDirectories;
  } else if (kind == value_name::kMount || kind == value_name::kJob ||
             kind == value_name::kSnapshot || kind == value_name::kClusterMount ||
             kind == value_name::kClusterJob) {
    for (const Candidate& name : dynamic_(kind)) {
      offer(fmt::format("{}{}", in_front, name.word), name.help);
    }
  } else if (kind == value_name::kMountOption) {
    offer_mount_option(in_front);
  } else if (kind == value_name::kOption) {
    std::vector<Candidate> names;
    const Schema schema = daemon_schema();
    for (const Option& option : schema.options()) names.push_back({option.name, option.help});
    offer_options(names, in_front);
  }
}

// The position of the typed word in a command's line.
struct Place {
  const CommandDescription* command;
  const ArgumentDescription* awaits = nullptr;  // a flag before the word that needs a value
  size_t positionals = 0;                       // number of positionals before
  bool only_positionals = false;                // after "--"
};

Place find_place(const CommandDescription& command, std::span<const std::string> before) {
  Place place{.command = &command};
  for (const std::string& word : before) {
    if (place.awaits != nullptr) {
      place.awaits = nullptr;
    } else if (word == "--") {
      place.only_positionals = true;
    } else if (word.starts_with('-') && !place.only_positionals) {
      const ArgumentDescription* flag = place.command->flag(word);
      if (flag != nullptr && !flag->value.empty()) place.awaits = flag;
    } else if (const CommandDescription* part = place.command->part(word)) {
      place.command = part;
    } else {
      ++place.positionals;
    }
  }
  return place;
}

const ArgumentDescription* positional(const CommandDescription& command, size_t index) {
  const ArgumentDescription* last = nullptr;
  for (const ArgumentDescription& argument : command.arguments) {
    if (!argument.positional()) continue;
    last = &argument;
    if (index-- == 0) return last;
  }
  return last != nullptr && last->repeated ? last : nullptr;
}

}  // namespace

std::vector<std::string> split_line(std::string_view line) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote == 0 && (c == ' ' || c == '\t')) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (quote != 0 ? c == quote : c == '\'' || c == '"') {
      quote = quote != 0 ? 0 : c;
    } else if (c == '\\' && quote != '\'' && i + 1 < line.size()) {
      words.back() += line[++i];
    } else {
      words.back() += c;
    }
  }
  if (!in_word) words.emplace_back();
  return words;
}

Completion complete(const std::vector<std::string>& words, const DynamicCandidates& dynamic) {
  Completer completer(words.empty() ? "" : words.back(), dynamic);
  if (words.size() < 2) {
    completer.offer_commands();
    if (completer.typed().starts_with('-')) {
      completer.offer("--help");
      completer.offer("--version");
    }
    return completer.take();
  }
  auto entry = std::ranges::find(command_table(), words.front(),
                                 [](const CommandEntry& one) { return std::string(one.name); });
  if (entry == command_table().end()) return {};
  const CommandDescription command = describe(*entry);
  const Place place = find_place(command, std::span(words).subspan(1, words.size() - 2));
  const std::string& typed = completer.typed();
  if (place.awaits != nullptr) {
    completer.offer_values(*place.awaits);
  } else if (const size_t equals = typed.find('=');
             typed.starts_with("--") && equals != std::string::npos) {
    const ArgumentDescription* flag = place.command->flag(typed.substr(0, equals));
    if (flag != nullptr) completer.offer_values(*flag, typed.substr(0, equals + 1));
  } else if (typed.starts_with('-') && !place.only_positionals) {
    completer.offer_flags(*place.command);
  } else {
    if (place.positionals == 0) completer.offer_parts(*place.command);
    const ArgumentDescription* next = positional(*place.command, place.positionals);
    if (next != nullptr) completer.offer_values(*next);
  }
  return completer.take();
}

}  // namespace leat
