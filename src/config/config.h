// SPDX-License-Identifier: Apache-2.0
// Config: the value of every option of a schema, and its origin. A later origin of this list wins,
// in whatever order the layers are read: default, file, environment, flag.
//
// A layer is read completely or, on any error, not at all. Not thread-safe while layers are read;
// any number of concurrent readers afterwards.
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
  std::string
      location;  // "/etc/leat.toml:3", "LEAT_CACHE_SIZE", "--cache-size"; empty for defaults
};

class Config {
 public:
  explicit Config(Schema schema);

  // Returns kNotFound if the file does not exist; the caller decides whether that matters. All
  // other faults are kInvalidArgument with file and line.
  Result<> read_file(const std::string& path);
  // Reads the same from text. `name` stands for the file in messages.
  Result<> read_toml(std::string_view text, const std::string& name);
  // Reads every "LEAT_…=value" of `variables` (as in environ). Skips those in `reserved`, which
  // have another purpose.
  Result<> read_environment(std::span<const char* const> variables,
                            std::span<const std::string> reserved = {});
  // Sets one option. `location` is where the user wrote it, such as "--cache-size".
  Result<> set(std::string_view name, std::string_view text, std::string location);

  // Each aborts unless the schema has `name` with this type.
  uint64_t bytes(std::string_view name) const;
  std::chrono::nanoseconds duration(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  bool boolean(std::string_view name) const;
  int64_t integer(std::string_view name) const;

  const OptionValue& value(std::string_view name) const;
  const OptionSource& source(std::string_view name) const;
  const Schema& schema() const { return schema_; }

  // Returns a TOML file that gives the same values, each with its help and origin.
  std::string to_toml() const;
  // Returns a TOML file with every option and its default as a comment, as a template. Sections
  // come in the order of the schema, which must keep the options of a section together.
  std::string to_template() const;
  // Returns the options with a value other than in `other`, in the schema's order. Both must have
  // the same schema.
  std::vector<std::string> differences(const Config& other) const;

 private:
  struct Setting {
    OptionValue value;
    OptionSource source;
  };
  // Values of one layer before all of it is validated.
  using Layer = std::map<std::string, Setting, std::less<>>;

  Result<> add(Layer& layer, std::string_view name, std::string_view text,
               OptionSource source) const;
  void apply(Layer layer);
  const Setting& setting(std::string_view name) const;

  Schema schema_;
  std::map<std::string, Setting, std::less<>> settings_;
};

}  // namespace leat
