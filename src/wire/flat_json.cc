// SPDX-License-Identifier: Apache-2.0
#include "wire/flat_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/base64.h"

namespace leat {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kBase64 = "_base64";

// Returns the length of the UTF-8 sequence at the front (RFC 3629, 4), 0 if it is invalid.
size_t utf8_length(const unsigned char* at, size_t left) {
  const unsigned char lead = at[0];
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || left < length) return 0;
  // of the second byte: rejects overlong forms and surrogates
  unsigned char low = 0x80, high = 0xbf;
  if (lead == 0xe0) low = 0xa0;
  if (lead == 0xed) high = 0x9f;
  if (lead == 0xf0) low = 0x90;
  if (lead == 0xf4) high = 0x8f;
  if (at[1] < low || at[1] > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if ((at[i] & 0xc0) != 0x80) return 0;
  }
  return length;
}

Error wrong(std::string_view name, const char* wanted) {
  return error(StatusCode::kInvalidArgument, fmt::format("the member '{}' is {}", name, wanted));
}

// Converts nlohmann's events into members. depth_ counts open containers: 1 in the object, 2 in the
// list, 3 in its items.
class Events : public nlohmann::json_sax<Json> {
 public:
  Events(std::string_view list, FlatJsonSink& sink) : list_(list), sink_(sink) {}

  bool null() override { return value(FlatJsonValue::other()); }
  bool boolean(bool) override { return value(FlatJsonValue::other()); }
  bool number_integer(number_integer_t number) override {
    return value(FlatJsonValue::of_signed(number));
  }
  bool number_unsigned(number_unsigned_t number) override {
    return value(FlatJsonValue::of_unsigned(number));
  }
  bool number_float(number_float_t, const string_t&) override {
    return value(FlatJsonValue::other());
  }
  bool string(string_t& text) override { return value(FlatJsonValue::of_text(text)); }
  bool binary(binary_t&) override { return value(FlatJsonValue::other()); }
  bool key(string_t& name) override {
    if (at_member()) name_ = name;
    return true;
  }
  bool start_object(size_t) override {
    if (++depth_ != 3 || !in_list_) return true;
    in_item_ = true;
    return keep(sink_.begin_item());
  }
  bool end_object() override {
    if (--depth_ != 2 || !in_item_) return true;
    in_item_ = false;
    return keep(sink_.end_item());
  }
  bool start_array(size_t) override {
    if (depth_ == 0) return false;
    if (depth_ == 1) in_list_ = name_ == list_;
    ++depth_;
    return true;
  }
  bool end_array() override {
    if (--depth_ == 1) in_list_ = false;
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

  std::optional<Status> failed;

 private:
  // An array within the list is at depth 3, too, but has no members.
  bool at_member() const { return depth_ == 1 || (depth_ == 3 && in_item_); }

  bool keep(Result<> result) {
    if (!result) failed = std::move(result).error();
    return !failed;
  }
  bool value(const FlatJsonValue& given) {
    if (depth_ == 0) return false;
    if (!at_member()) return true;
    std::string_view name = name_;
    if (!name.ends_with(kBase64) || given.kind() != FlatJsonValue::Kind::kText) {
      return tell(name, given);
    }
    const auto bytes = from_base64(given.as_text());
    if (!bytes) return keep(wrong(name, "no base64"));
    name.remove_suffix(kBase64.size());
    return tell(name, FlatJsonValue::of_text(*bytes));
  }
  bool tell(std::string_view name, const FlatJsonValue& given) {
    return keep(depth_ == 1 ? sink_.member(name, given) : sink_.item_member(name, given));
  }

  const std::string_view list_;
  FlatJsonSink& sink_;
  std::string name_;
  size_t depth_ = 0;
  bool in_list_ = false, in_item_ = false;
};

}  // namespace

bool is_utf8(std::string_view text) {
  const auto* at = reinterpret_cast<const unsigned char*>(text.data());
  for (size_t left = text.size(); left > 0;) {
    const size_t length = utf8_length(at, left);
    if (length == 0) return false;
    at += length;
    left -= length;
  }
  return true;
}

void FlatJsonWriter::name(std::string_view name) {
  text_ += first_ ? "\"" : ",\"";
  text_ += name;
  text_ += "\":";
  first_ = false;
}

void FlatJsonWriter::quoted(std::string_view value) {
  text_ += '"';
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      text_ += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      text_ += c;
    }
  }
  text_ += '"';
}

void FlatJsonWriter::text(std::string_view member, std::string_view value) {
  name(member);
  quoted(value);
}

void FlatJsonWriter::bytes(std::string_view member, std::string_view value) {
  if (is_utf8(value)) {
    text(member, value);
  } else {
    name(std::string(member) += kBase64);
    quoted(base64(value));
  }
}

void FlatJsonWriter::put_signed(std::string_view member, int64_t value) {
  name(member);
  text_ += fmt::format_int(value).c_str();
}

void FlatJsonWriter::put_unsigned(std::string_view member, uint64_t value) {
  name(member);
  text_ += fmt::format_int(value).c_str();
}

void FlatJsonWriter::begin_list(std::string_view member) {
  name(member);
  text_ += '[';
  first_ = true;
}

void FlatJsonWriter::begin_item() {
  if (text_.back() != '[') text_ += ',';
  text_ += '{';
  first_ = true;
}

void FlatJsonWriter::end_list() {
  text_ += ']';
  first_ = false;
}

std::string FlatJsonWriter::take() {
  text_ += '}';
  return std::move(text_);
}

Result<> FlatJsonValue::get(std::string_view name, std::string& out) const {
  if (kind_ != Kind::kText) return wrong(name, "no text");
  out = text_;
  return {};
}

Result<> FlatJsonValue::get(std::string_view name, uint64_t& out) const {
  if (kind_ != Kind::kUnsigned) return wrong(name, "no number from 0 on");
  out = number_;
  return {};
}

Result<> FlatJsonValue::get(std::string_view name, int64_t& out) const {
  const bool fits = kind_ == Kind::kSigned || (kind_ == Kind::kUnsigned && number_ <= INT64_MAX);
  if (!fits) return wrong(name, "no number, or too large");
  out = static_cast<int64_t>(number_);
  return {};
}

Result<> FlatJsonSink::item_member(std::string_view, const FlatJsonValue&) {
  return {};
}

Result<> read_flat_json(std::string_view text, std::string_view what, std::string_view list,
                        FlatJsonSink& sink) {
  Events events(list, sink);
  if (Json::sax_parse(text.begin(), text.end(), &events)) return {};
  if (events.failed) return error(events.failed->with_context(std::string(what)));
  return error(StatusCode::kInvalidArgument,
               fmt::format("{} is not JSON of the documented form", what));
}

}  // namespace leat
