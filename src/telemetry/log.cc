// SPDX-License-Identifier: Apache-2.0
#include "telemetry/log.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "telemetry/log_file.h"

namespace leat::log {
namespace {

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarning:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

constexpr const char* kTextPattern = "%Y-%m-%dT%H:%M:%S.%f%z %l %v";
// The message is the rest of the JSON object.
constexpr const char* kJsonPattern = R"({"time":"%Y-%m-%dT%H:%M:%S.%f%z","level":"%l",%v})";

std::atomic<Format> written_as = Format::kText;

std::string in_json(std::string_view text, const std::vector<Field>& fields) {
  nlohmann::ordered_json line = {{"message", text}};
  for (const auto& [name, value] : fields) {
    if (const auto* words = std::get_if<std::string>(&value); words && words->empty()) continue;
    std::visit([&](const auto& known) { line[std::string(name)] = known; }, value);
  }
  using Handler = nlohmann::ordered_json::error_handler_t;
  const std::string object = line.dump(-1, ' ', false, Handler::replace);
  return object.substr(1, object.size() - 2);
}

// Names are arbitrary bytes from outside: a line break in one must not begin a new line of the log.
std::string in_one_line(std::string_view text) {
  std::string line;
  line.reserve(text.size());
  for (const char c : text) {
    if (c == '\n') {
      line += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      line += '?';
    } else {
      line += c;
    }
  }
  return line;
}

class FileSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit FileSink(const std::string& path) : file_(path) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    file_.write({line.data(), line.size()});
  }
  void flush_() override {}  // unbuffered

  LogFile file_;
};

std::shared_ptr<spdlog::logger>& logger() {
  static std::shared_ptr<spdlog::logger> instance = [] {
    auto made =
        std::make_shared<spdlog::logger>("leat", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_level(spdlog::level::warn);
    made->set_pattern(kTextPattern);
    return made;
  }();
  return instance;
}

}  // namespace

void set_up(const Options& options) {
  if (!options.file.empty()) {
    logger() = std::make_shared<spdlog::logger>("leat", std::make_shared<FileSink>(options.file));
    logger()->set_pattern(kTextPattern);
  }
  logger()->set_level(to_spdlog(options.level));
  logger()->flush_on(spdlog::level::info);
}

void set_level(Level level) {
  logger()->set_level(to_spdlog(level));
}

void set_format(Format format) {
  written_as = format;
  logger()->set_pattern(format == Format::kJson ? kJsonPattern : kTextPattern);
}

bool enabled(Level level) {
  return logger()->should_log(to_spdlog(level));
}

void write(Level level, std::string_view text) {
  event(level, text, {});
}

void event(Level level, std::string_view text, const std::vector<Field>& fields) {
  if (!enabled(level)) return;
  if (written_as == Format::kJson) {
    logger()->log(to_spdlog(level), in_json(text, fields));
  } else {
    logger()->log(to_spdlog(level), in_one_line(text));
  }
}

}  // namespace leat::log
