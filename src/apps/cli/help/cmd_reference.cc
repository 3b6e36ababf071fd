// SPDX-License-Identifier: Apache-2.0
// Describes the program as data, from which tools/reference generates pages.
#include <fmt/format.h>

#include "apps/cli/help/command_description.h"
#include "base/program_version.h"
#include "daemon/daemon_options.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

Json to_json(const ArgumentDescription& argument) {
  return {{"name", argument.name},        {"flags", argument.flags},
          {"value", argument.value},      {"choices", argument.choices},
          {"help", argument.help},        {"required", argument.required},
          {"repeated", argument.repeated}};
}

Json to_json(const CommandDescription& command) {
  Json arguments = Json::array(), parts = Json::array();
  for (const ArgumentDescription& argument : command.arguments) {
    arguments.push_back(to_json(argument));
  }
  for (const CommandDescription& part : command.parts) parts.push_back(to_json(part));
  return {{"name", command.name},       {"aliases", command.aliases},
          {"summary", command.summary}, {"usage", usage_line(command)},
          {"arguments", arguments},     {"parts", parts}};
}

Json to_json(const Option& option) {
  return {{"name", option.name},
          {"type", to_string(option.type)},
          {"unit", unit_of(option)},
          {"range", range_of(option)},
          {"default", option.default_text},
          {"default_help", option.default_help},
          {"help", option.help},
          {"reloadable", option.reloadable},
          {"environment", environment_name(option.name)}};
}

Json to_json(const MetricFamily& family) {
  return {{"name", family.name()},
          {"type", to_string(family.type())},
          {"unit", family.unit()},
          {"labels", family.labels()},
          {"stability", to_string(family.stability())},
          {"help", family.help()}};
}

class ReferenceCommand : public Command {
 public:
  void declare(CLI::App&) override {}

  // The output is JSON with or without --json.
  CommandResult<> run() override {
    Json commands = Json::array(), options = Json::array(), metrics = Json::array();
    for (const CommandEntry& entry : command_table()) {
      Json command = to_json(describe(entry));
      command["group"] = entry.group;
      command["hidden"] = entry.hidden;
      command["example"] = entry.example;
      commands.push_back(std::move(command));
    }
    for (const Option& option : daemon_schema().options()) options.push_back(to_json(option));
    for (const MetricFamily& family : metric_catalogue()) metrics.push_back(to_json(family));
    print_json({{"version", program_version()},
                {"commands", commands},
                {"options", options},
                {"metrics", metrics}});
    return {};
  }
};

}  // namespace

std::unique_ptr<Command> make_reference_command() {
  return std::make_unique<ReferenceCommand>();
}

}  // namespace leat
