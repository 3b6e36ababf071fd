// SPDX-License-Identifier: Apache-2.0
// The daemon's options: shows present values, checks a file, and reloads.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "apps/cli/client/daemon_client.h"
#include "apps/cli/command/command_table.h"
#include "base/text_table.h"
#include "config/nearest.h"
#include "config/paths.h"
#include "daemon/daemon_options.h"

namespace leat {
namespace {

std::vector<OptionView> views_of(const Config& config) {
  std::vector<OptionView> views;
  for (const Option& option : config.schema().options()) {
    views.push_back(view_of(option, config));
  }
  return views;
}

class ConfigCommand : public Command {
 public:
  void declare(CLI::App& app) override;
  CommandResult<> run() override { return action_(); }

 private:
  CommandResult<> show();
  CommandResult<> check();
  CommandResult<> reload();
  CommandResult<> show_template();
  CommandResult<std::vector<OptionView>> in_effect();

  std::function<CommandResult<>()> action_ = [this] { return show(); };
  std::string name_, file_;
  bool changed_ = false;
};

void ConfigCommand::declare(CLI::App& app) {
  app.require_subcommand(0, 1);
  app.fallthrough();
  auto add = [&](const char* name, const char* help, CommandResult<> (ConfigCommand::*action)()) {
    CLI::App* sub = app.add_subcommand(name, help);
    sub->callback([this, action] { action_ = [this, action] { return (this->*action)(); }; });
    return sub;
  };
  CLI::App* show = add(
      "show",
      "Show each option with its value and origin, of the running daemon, else of one started now",
      &ConfigCommand::show);
  show->add_option("NAME", name_, "Only this option or section")->type_name("OPTION");
  show->add_flag("--changed", changed_, "Only options that differ from their defaults");
  CLI::App* check = add("check", "Check that a daemon would start with a file and this environment",
                        &ConfigCommand::check);
  check->add_option("FILE", file_, "Configuration file (the one that a daemon would read)")
      ->type_name("FILE");
  add("reload", "Reload the configuration of the running daemon", &ConfigCommand::reload);
  add("template", "Print a configuration file with all options and defaults",
      &ConfigCommand::show_template);
}

CommandResult<std::vector<OptionView>> ConfigCommand::in_effect() {
  DaemonClient client(runtime_directory());
  if (!client.running()) {
    note("no daemon runs; this is what one would have that is started here and now");
    LEAT_TRY(Config config, read_daemon_config({}));
    return views_of(config);
  }
  LEAT_TRY(Json answer, client.get("/v1/config"));
  std::vector<OptionView> options;
  for (const Json& item : answer["options"]) {
    LEAT_TRY(options.emplace_back(), from_json<OptionView>(item));
  }
  return options;
}

CommandResult<> ConfigCommand::show() {
  LEAT_TRY(std::vector<OptionView> options, in_effect());
  if (!name_.empty()) {
    std::vector<std::string> names;
    for (const OptionView& option : options) names.push_back(option.name);
    auto wanted = [&](const OptionView& option) {
      return option.name == name_ || option.name.starts_with(name_ + ".");
    };
    if (std::ranges::none_of(options, wanted)) {
      return failure(StatusCode::kInvalidArgument,
                     fmt::format("there is no option '{}'{}", name_, did_you_mean(name_, names)));
    }
    std::erase_if(options, std::not_fn(wanted));
  }
  if (changed_) std::erase_if(options, [](const auto& one) { return one.origin == "default"; });
  if (json) {
    Json list = Json::array();
    for (const OptionView& option : options) list.push_back(to_json(option));
    print_json({{"options", list}});
    return {};
  }
  TextTable table("lll");
  for (const OptionView& option : options) {
    table.add(
        {option.name, option.value.empty() ? "\"\"" : option.value,
         option.place.empty() ? option.origin : fmt::format("{} {}", option.origin, option.place)});
  }
  if (std::string text = table.to_string(); !text.empty()) print(text);
  return {};
}

CommandResult<> ConfigCommand::check() {
  const std::string file = file_.empty() ? default_config_file() : absolute_path(file_);
  LEAT_TRY(Config config, read_daemon_config({.config = file}));
  const std::string what = file.empty() ? "there is no configuration file" : file;
  if (json) {
    Json options = Json::object();
    for (const OptionView& option : views_of(config)) options[option.name] = option.value;
    print_json({{"file", file}, {"options", options}});
    return {};
  }
  print(fmt::format("{}: a daemon would start with it", what));
  for (const OptionView& option : views_of(config)) {
    if (option.origin == "default") continue;
    print(fmt::format("  {} = {} ({} {})", option.name, option.value, option.origin, option.place));
  }
  return {};
}

CommandResult<> ConfigCommand::reload() {
  LEAT_TRY(Json answer,
           DaemonClient(runtime_directory()).post("/v1/config/reload", Json::object()));
  LEAT_TRY(ReloadView read, from_json<ReloadView>(answer));
  if (json) {
    print_json(answer);
    return {};
  }
  if (!read.changed.empty()) print(fmt::format("changed: {}", fmt::join(read.changed, ", ")));
  if (!read.waiting.empty()) {
    print(fmt::format("waiting for 'leat upgrade', which unmounts no folder: {}",
                      fmt::join(read.waiting, ", ")));
  }
  if (read.changed.empty() && read.waiting.empty()) print("nothing is otherwise");
  return {};
}

CommandResult<> ConfigCommand::show_template() {
  const std::string text = Config(daemon_schema()).to_template();
  if (json) {
    print_json({{"template", text}});
  } else {
    std::fputs(text.c_str(), stdout);
  }
  return {};
}

}  // namespace

std::unique_ptr<Command> make_config_command() {
  return std::make_unique<ConfigCommand>();
}

}  // namespace leat
