// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace strata {

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

}  // namespace strata
