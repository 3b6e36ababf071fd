// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <random>
#include <thread>

#include "apps/cli/client/daemon_client.h"
#include "apps/cli/client/mount_paths.h"
#include "apps/cli/command/command_table.h"
#include "apps/cli/trace/otlp.h"
#include "apps/cli/trace/trace_text.h"
#include "base/pluralize.h"
#include "base/program_version.h"
#include "base/units.h"
#include "config/paths.h"
#include "http/json_fields.h"
#include "source/stores/schemes.h"

namespace leat {
namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(200);
constexpr auto kTimeout = std::chrono::seconds(2);
// The kernel may split a program's read into several requests.
constexpr auto kRestComes = std::chrono::milliseconds(300);
constexpr uint64_t kReadMax = 64 * kMiB;

bool is_read(const RequestView& request) {
  return request.operation == "read" || request.operation == "list";
}

// The command's own read of the mount.
struct OwnRead {
  uint64_t bytes = 0;  // entries if it is a directory
  double seconds = 0;
  bool directory = false;
};

class TraceCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("PATH", path_, "File or folder in a mount")->type_name("PATH")->required();
    app.add_option("--offset", offset_, "Offset of the read (0)")->type_name("SIZE");
    app.add_option("--size", size_, "Bytes to read (128KiB)")->type_name("SIZE");
    app.add_option("--wait", wait_, "Do not read: wait this long for a read by another program")
        ->type_name("DURATION");
    app.add_option("--otlp", otlp_,
                   "Also write OpenTelemetry JSON, to a file or a collector (http://HOST:4318)")
        ->type_name("FILE");
  }

  CommandResult<> run() override {
    LEAT_CHECK_OK(parse());
    DaemonClient client(runtime_directory());
    LEAT_CHECK_OK(find_in_mounts(client));
    LEAT_TRY(Json begun, client.post("/v1/traces", {{"path", path_}}));
    const std::string place = fmt::format("/v1/traces/{}", begun.at("id").get<uint64_t>());
    CommandResult<OwnRead> read = wait_.empty() ? read_once() : wait_for_others(client, place);
    CommandResult<TraceView> trace = client.get_as<TraceView>(place);
    static_cast<void>(client.remove(place));
    if (!trace) return std::unexpected(trace.error());
    LEAT_CHECK_OK(show(*trace, read));
    LEAT_CHECK_OK(hand_on(*trace));
    if (!read) return std::unexpected(read.error());
    return {};
  }

 private:
  CommandResult<> parse() {
    LEAT_TRY(offset_bytes_, parse_bytes(offset_));
    LEAT_TRY(size_bytes_, parse_bytes(size_));
    if (size_bytes_ == 0 || size_bytes_ > kReadMax) {
      return failure(
          StatusCode::kInvalidArgument,
          fmt::format("--size {} is not between 1 B and {}", size_, format_bytes(kReadMax)));
    }
    if (!wait_.empty()) {
      LEAT_TRY(waited_, parse_duration(wait_));
    }
    if (otlp_.starts_with("https://")) {
      return failure(StatusCode::kUnsupported,
                     "--otlp speaks plain HTTP, to a collector on this host or network; write a "
                     "file and send that by curl --data-binary @FILE -H "
                     "'Content-Type: application/json' URL/v1/traces");
    }
    return {};
  }

  // Leaves the lookup of the last name to the read, so that it is traced. Exception: a link from
  // outside.
  CommandResult<> find_in_mounts(DaemonClient& client) {
    if (is_store_url(path_)) {
      LEAT_CHECK_OK(path_in_mounts("trace", path_));
    }
    LEAT_TRY(Json answer, client.get("/v1/mounts"));
    std::vector<std::string> folders;
    for (const Json& json : answer.at("mounts")) {
      LEAT_TRY(MountView mount, from_json<MountView>(json));
      folders.push_back(mount.path);
    }
    auto mounted = [&folders](const std::string& path) {
      return std::ranges::any_of(folders, [&path](const std::string& folder) {
        return path == folder || path.starts_with(folder + "/");
      });
    };
    const std::filesystem::path given(path_);
    const std::string name = given.filename();
    if (!name.empty() && name != "." && name != "..") {
      const std::string parent = given.has_parent_path() ? given.parent_path().string() : ".";
      path_ = (std::filesystem::path(absolute_path(parent)) / name).string();
    }
    if (!mounted(path_)) path_ = absolute_path(path_);
    if (mounted(path_)) return {};
    return failure(StatusCode::kNotFound,
                   fmt::format("{} is in no mount; 'leat mounts' lists them", path_));
  }

  CommandResult<OwnRead> read_once() const {
    auto reading = std::async(std::launch::async, [this] { return read_path(); });
    if (reading.wait_for(kTimeout) != std::future_status::ready) {
      note("reading, which takes longer than two seconds; Ctrl-C ends it");
    }
    return reading.get();
  }

  CommandResult<OwnRead> read_path() const {
    struct stat about{};
    if (::stat(path_.c_str(), &about) != 0) return failed("look at");
    OwnRead read{.directory = S_ISDIR(about.st_mode)};
    const auto begin = std::chrono::steady_clock::now();
    if (read.directory) {
      DIR* directory = ::opendir(path_.c_str());
      if (directory == nullptr) return failed("list");
      while (::readdir(directory) != nullptr) ++read.bytes;
      ::closedir(directory);
    } else {
      const int file = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
      if (file < 0) return failed("open");
      const auto offset = static_cast<off_t>(offset_bytes_);
      // Drop the kernel's cached pages, which would be read without the daemon.
      ::posix_fadvise(file, offset, static_cast<off_t>(size_bytes_), POSIX_FADV_DONTNEED);
      std::vector<char> buffer(size_bytes_);
      const ssize_t got = ::pread(file, buffer.data(), buffer.size(), offset);
      const int why = errno;
      ::close(file);
      errno = why;
      if (got < 0) return failed("read");
      read.bytes = static_cast<uint64_t>(got);
    }
    const auto took = std::chrono::steady_clock::now() - begin;
    read.seconds = std::chrono::duration<double>(took).count();
    return read;
  }

  std::unexpected<Failure> failed(const char* what) const {
    return std::unexpected(
        Failure(status_from_errno(errno, fmt::format("cannot {} {}", what, path_))));
  }

  CommandResult<OwnRead> wait_for_others(DaemonClient& client, const std::string& place) const {
    note(fmt::format("waiting up to {} for a program to read {}; Ctrl-C ends it", wait_, path_));
    const auto until = std::chrono::steady_clock::now() + waited_;
    while (std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(kPollInterval);
      LEAT_TRY(TraceView trace, client.get_as<TraceView>(place));
      if (std::ranges::none_of(trace.requests, is_read)) continue;
      std::this_thread::sleep_for(kRestComes);
      return OwnRead();
    }
    return OwnRead();
  }

  CommandResult<> show(const TraceView& trace, const CommandResult<OwnRead>& read) const {
    if (json) {
      Json document = to_json(trace);
      document.erase("id");
      put_bytes(document, "path", path_);
      if (read && wait_.empty()) document["seconds"] = read->seconds;
      print_json(document);
      return {};
    }
    std::string text;
    if (read && wait_.empty()) text = own_line(*read);
    for (const RequestView& request : trace.requests) {
      text += (text.empty() ? "" : "\n\n") + trace_text(request);
    }
    if (!text.empty()) print(text);
    if (std::ranges::none_of(trace.requests, is_read) && read) {
      note(wait_.empty() ? why_no_read(trace) : "nobody read it in this time");
    }
    return {};
  }

  std::string own_line(const OwnRead& read) const {
    const std::string what = read.directory
                                 ? pluralize(read.bytes, "name")
                                 : fmt::format("{} at {}", format_bytes(read.bytes), offset_bytes_);
    return fmt::format("{}: {} in {:.1f} ms, as a program sees it\nbegin ms, took ms", path_, what,
                       read.seconds * 1e3);
  }

  std::string why_no_read(const TraceView& trace) const {
    const bool opened = std::ranges::any_of(
        trace.requests, [](const RequestView& request) { return request.operation == "open"; });
    return opened ? "no read came to Leat: the kernel reads this file by itself, from the cache "
                    "(passthrough) or from its page cache"
                  : "nothing came to Leat: the kernel answered from what it holds";
  }

  CommandResult<> hand_on(const TraceView& trace) const {
    if (otlp_.empty()) return {};
    char host[256] = "";
    ::gethostname(host, sizeof host - 1);
    std::random_device device;
    std::mt19937_64 random((uint64_t{device()} << 32) | device());
    const Json document = to_otlp(path_, trace.requests, {std::string(program_version()), host},
                                  [&random] { return random(); });
    return otlp_.starts_with("http://") ? send(document) : write(document);
  }

  CommandResult<> write(const Json& document) const {
    errno = 0;
    std::ofstream file(otlp_, std::ios::binary);
    file << dump_json(document) << '\n';
    file.close();
    if (file) return {};
    return std::unexpected(Failure(status_from_errno(errno, "cannot write " + otlp_)));
  }

  CommandResult<> send(const Json& document) const {
    std::string rest = otlp_.substr(std::string_view("http://").size());
    const size_t slash = rest.find('/');
    std::string path = slash == std::string::npos ? "" : rest.substr(slash);
    if (path.empty() || path == "/") path = "/v1/traces";
    std::string place = rest.substr(0, slash);
    if (!place.contains(':')) place += ":4318";
    LEAT_TRY(HttpEndpoint endpoint, HttpEndpoint::parse(place));
    HttpRequest request{.method = "POST", .path = path, .body = dump_json(document)};
    request.headers.set("Content-Type", "application/json");
    Executor executor({.threads = 1, .blocking_threads = 1});
    const HttpClient client(endpoint);
    const Context context = Context::background().with_timeout(std::chrono::seconds(10));
    Result<HttpResponse> answer = executor.block_on(client.request(context, std::move(request)));
    if (!answer) {
      return std::unexpected(
          Failure(answer.error().with_context(fmt::format("cannot send the trace to {}", otlp_))));
    }
    if (answer->status / 100 == 2) return {};
    return failure(StatusCode::kUnavailable,
                   fmt::format("{} did not take the trace: HTTP {} {}", otlp_, answer->status,
                               answer->body.substr(0, 200)));
  }

  std::string path_, wait_, otlp_;
  std::string offset_ = "0", size_ = "128KiB";
  uint64_t offset_bytes_ = 0, size_bytes_ = 0;
  std::chrono::nanoseconds waited_{};
};

}  // namespace

std::unique_ptr<Command> make_trace_command() {
  return std::make_unique<TraceCommand>();
}

}  // namespace leat
