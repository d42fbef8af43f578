// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace strata {

std::string format_bytes(std::int64_t bytes);  ///< 1536 -> "1.5 KiB"
/// The same, rounded up: parse_bytes() gives no less.
std::string format_bytes_at_least(std::int64_t bytes);
std::string format_count(std::int64_t count);  ///< 1234567 -> "1,234,567"
std::string format_seconds(double seconds);    ///< 0.0123 -> "12.3 ms", 75 -> "1:15"
/// (1, "rank") -> "1 rank", (1234, "rank") -> "1,234 ranks"; for nouns whose plural has an s more.
std::string counted(std::int64_t count, std::string_view noun);
std::int64_t parse_bytes(std::string_view text);  ///< "1.5GiB", "800M", "4096"; throws InputError

/// The candidate closest to `word` by edit distance, for "did you mean --fanouts?"; an empty string if none
/// is near.
std::string closest(std::string_view word, const std::vector<std::string>& candidates);

/// A text table with aligned columns: the first to the left, the others to the right. Rows are as long as the
/// header.
///
///     Table table({"part", "nodes"});  table.row({"0", "1,354"});  fmt::print("{}", table.str());
class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string str() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// Offset of the first byte that belongs to no UTF-8 character (RFC 3629: no overlong forms, no surrogates);
/// none if all of `text` is UTF-8.
std::optional<std::size_t> first_invalid_utf8(std::string_view text);

/// Throws InputError naming `origin`, the byte and its offset if `text` is not UTF-8, as names in JSON
/// records must be.
void require_utf8(std::string_view text, const std::string& origin);

/// `text` as a message can show it: control characters and bytes that are not UTF-8 are written like "\xff".
std::string printable(std::string_view text);

/// `text` without the byte order mark that some editors put at the start of UTF-8 files.
std::string_view without_byte_order_mark(std::string_view text);

template <typename Enum>
struct EnumName {
  Enum value;
  std::string_view name;
};

/// The names of an enumeration's values as users write and read them: one table for command lines, files,
/// help, errors and records. Empty for enumerations that no user chooses from. Specialise it in namespace
/// strata:
///
///     template <>
///     inline constexpr auto enum_names<Color> =
///         std::to_array<EnumName<Color>>({{Color::red, "red"}, {Color::dark_red, "dark-red"}});
template <typename Enum>
inline constexpr std::array<EnumName<Enum>, 0> enum_names{};

template <typename Enum>
concept NamedEnum = std::is_enum_v<Enum> &&(enum_names<Enum>.size() > 0);

/// The name of a value; empty if it has none.
template <NamedEnum Enum>
constexpr std::string_view enum_name(Enum value) {
  for (const auto& entry : enum_names<Enum>)
    if (entry.value == value) return entry.name;
  return {};
}

template <NamedEnum Enum>
std::vector<std::string> enum_choices() {
  std::vector<std::string> names;
  for (const auto& entry : enum_names<Enum>) names.emplace_back(entry.name);
  return names;
}

/// "f32, tf32 or bf16".
std::string list_choices(const std::vector<std::string>& names);

/// Throws InputError for a name that is none of `choices`; the message has the nearest one. `option` says
/// what was being chosen: "--precision".
[[noreturn]] void refuse_choice(std::string_view option, std::string_view name,
                                const std::vector<std::string>& choices);

/// The value with this name; calls refuse_choice() if there is none.
template <NamedEnum Enum>
Enum enum_value(std::string_view name, std::string_view option) {
  for (const auto& entry : enum_names<Enum>)
    if (entry.name == name) return entry.value;
  refuse_choice(option, name, enum_choices<Enum>());
}

/// Wraps a text into lines of at most `columns` columns that begin with `indent` blanks, except the first,
/// which follows what stands there already. Words that are longer end after a comma. Ends with a newline.
std::string wrapped(std::string_view text, int indent, int columns);

}  // namespace strata
