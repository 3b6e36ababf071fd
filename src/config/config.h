// SPDX-License-Identifier: Apache-2.0
// Config: the value of every option of a schema, and where it came from. A later origin of this
// list wins over an earlier one, in whatever order they are read: default, file, environment, flag.
//
// Reading a layer takes all of it or, on any error, nothing. Not thread-safe while layers are read;
// any number of readers afterwards.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "config/schema.h"

namespace leat {

enum class OptionOrigin : uint8_t { kDefault, kFile, kEnvironment, kFlag };

// "default", "file", "environment", "command line".
std::string_view to_string(OptionOrigin origin);

struct OptionSource {
  OptionOrigin origin = OptionOrigin::kDefault;
  std::string place;  // "/etc/leat.toml:3", "LEAT_CACHE_SIZE", "--cache-size"; empty for defaults
};

class Config {
 public:
  explicit Config(Schema schema);

  // kNotFound when there is no such file; whether that matters is the caller's to say. Everything
  // else that is wrong is kInvalidArgument with file and line.
  Result<> read_file(const std::string& path);
  // The same from text; `name` stands in messages for the file.
  Result<> read_toml(std::string_view text, const std::string& name);
  // Every "LEAT_…=value" of `variables` (as in environ) that is not among `reserved`, which are
  // variables of that form with another purpose.
  Result<> read_environment(std::span<const char* const> variables,
                            std::span<const std::string> reserved = {});
  // One option by hand; `place` is what the user wrote it with, such as "--cache-size".
  Result<> set(std::string_view name, std::string_view text, std::string place);

  // Each aborts unless the schema has `name` with this type.
  uint64_t bytes(std::string_view name) const;
  std::chrono::nanoseconds duration(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  bool boolean(std::string_view name) const;
  int64_t integer(std::string_view name) const;

  const OptionValue& value(std::string_view name) const;
  const OptionSource& source(std::string_view name) const;
  const Schema& schema() const { return schema_; }

  // A TOML file that gives the same values, each with its help and where it came from.
  std::string to_toml() const;
  // A TOML file with every option and its default as a comment, to be filled in. Sections come in
  // the schema's order, which names those of a section one after the other.
  std::string to_template() const;
  // Options whose values differ from `other`'s, which has the same schema; in the schema's order.
  std::vector<std::string> differences(const Config& other) const;

 private:
  struct Setting {
    OptionValue value;
    OptionSource source;
  };
  // What a layer says, before all of it is known to be right.
  using Layer = std::map<std::string, Setting, std::less<>>;

  Result<> add(Layer& layer, std::string_view name, std::string_view text,
               OptionSource source) const;
  void take(Layer layer);
  const Setting& setting(std::string_view name) const;

  Schema schema_;
  std::map<std::string, Setting, std::less<>> settings_;
};

}  // namespace leat
