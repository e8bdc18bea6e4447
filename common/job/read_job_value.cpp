#include "common/job/read_job_value.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <stdexcept>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/text/join_words.h"
#include "common/text/one_line.h"
#include "common/text/parse_whole.h"
#include "common/text/spelling.h"
#include "common/text/units.h"

namespace ddp {

/// " (did you mean "auto"?)", or nothing.
static std::string suggest_choice(const JobKey& key, const std::string& text) {
  const std::optional<std::string> word = did_you_mean(text, key.choices);
  return word ? " (did you mean \"" + *word + "\"?)" : "";
}

std::string expected_choice(const JobKey& key, const std::string& text) {
  return "one of " + join_words(key.choices) + suggest_choice(key, text);
}

bool is_choice(const JobKey& key, const std::string& text) {
  return std::find(key.choices.begin(), key.choices.end(), text) != key.choices.end();
}

namespace {

std::string whole(double number) {
  return std::to_string(static_cast<long long>(number));
}

bool has_leading_zero(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' &&
         std::isdigit(static_cast<unsigned char>(text[1])) != 0;
}

// The value, or what is expected instead ("a whole number from 1 to 9").
struct Parsed {
  JobValue value;
  std::string expected;            // empty: fine
  std::string where{};             // the wrong part of a collection: "[0].flip"
  const YamlNode* what = nullptr;  // the wrong node; null: the whole node
};

Parsed parse_integer(const JobKey& key, const YamlNode& node) {
  std::string expected = "a whole number from " + whole(key.min) + " to " + whole(key.max);
  if (key.min == key.max) expected = whole(key.min);
  if (!key.choices.empty())
    expected += ", or " + join_words(key.choices, " or ") + suggest_choice(key, node.text);
  for (const std::string_view choice : key.choices) {
    if (node.text == choice) return {node.text, ""};
  }
  const auto value = parse_whole<std::int64_t>(node.text);
  const bool fits =
      value && static_cast<double>(*value) >= key.min && static_cast<double>(*value) <= key.max;
  if (node.quoted || !fits || has_leading_zero(node.text)) return {{}, expected};
  return {*value, ""};
}

Parsed parse_real(const JobKey& key, const YamlNode& node) {
  std::string expected =
      std::string("a number ") + (key.excludes_min ? "above " : "from ") + format_number(key.min);
  if (key.max < kAnyReal)
    expected += std::string(key.excludes_min ? ", at most " : " to ") + format_number(key.max);
  const auto value = parse_whole<double>(node.text, key.min, key.max);
  const bool fits = value && !(key.excludes_min && *value == key.min);
  if (node.quoted || !fits || has_leading_zero(node.text)) return {{}, expected};
  return {*value, ""};
}

Parsed parse_bytes_value(const JobKey& key, const YamlNode& node) {
  const std::optional<std::int64_t> value = parse_bytes(node.text);
  const bool fits =
      value && static_cast<double>(*value) >= key.min && static_cast<double>(*value) <= key.max;
  if (fits) return {*value, ""};
  return {{},
          "a size with a unit, as 25MiB, from " + format_bytes(static_cast<std::int64_t>(key.min)) +
              " to " + format_bytes(static_cast<std::int64_t>(key.max))};
}

Parsed parse_duration_value(const JobKey& key, const YamlNode& node) {
  const std::optional<std::chrono::milliseconds> value = parse_duration(node.text);
  const std::chrono::milliseconds least(static_cast<std::int64_t>(key.min));
  if (value && *value >= least) return {*value, ""};
  std::string expected = "a time with a unit, as 500ms, 30s, 10min or 2h";
  if (least.count() > 0)
    expected = "a time of at least " + format_duration(least) + ", as 30s, 10min or 2h";
  return {{}, expected};
}

bool is_name(const std::string& text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
  });
  return plain && !text.empty() && text.size() <= 100 && text[0] != '.' && text[0] != '-';
}

/// With `takes_maps` an entry may be a map of texts: {outputs: {main: 1}} is "outputs.main": 1.
Parsed parse_text_map(const YamlNode& node, bool takes_maps = false) {
  const Parsed wrong{{}, "a map of names to texts, as {NAME: text}"};
  if (node.kind != YamlNode::Kind::map) return wrong;
  TextMap map;
  for (const YamlNode::Entry& entry : node.entries) {
    const bool is_text =
        entry.value.kind == YamlNode::Kind::scalar || entry.value.kind == YamlNode::Kind::null;
    const bool bad_name = entry.key.empty() || entry.key.find('=') != std::string::npos;
    if (bad_name) return wrong;
    if (takes_maps && entry.value.kind == YamlNode::Kind::map) {
      Parsed inner = parse_text_map(entry.value);
      if (!inner.expected.empty()) {
        return {{},
                inner.expected,
                "." + entry.key + inner.where,
                inner.what != nullptr ? inner.what : &entry.value};
      }
      for (auto& [name, text] : std::get<TextMap>(inner.value))
        map[entry.key + "." + name] = std::move(text);
      continue;
    }
    if (!is_text) return {{}, "a text or a number", "." + entry.key, &entry.value};
    map[entry.key] = entry.value.text;
  }
  return {map, ""};
}

Parsed parse_integer_list(const JobKey& key, const YamlNode& node) {
  const Parsed wrong{{},
                     "an ascending list, as [30, 60], of whole numbers from " + whole(key.min) +
                         " to " + whole(key.max)};
  if (node.kind != YamlNode::Kind::sequence) return wrong;
  std::vector<std::int64_t> numbers;
  for (const YamlNode& item : node.items) {
    const Parsed parsed = parse_integer(key, item);
    const std::int64_t* const number = std::get_if<std::int64_t>(&parsed.value);
    if (number == nullptr || (!numbers.empty() && *number <= numbers.back())) return wrong;
    numbers.push_back(*number);
  }
  return {numbers, ""};
}

Parsed parse_text_list(const YamlNode& node) {
  const Parsed wrong{{}, "a list of texts, as [one, two]"};
  if (node.kind != YamlNode::Kind::sequence) return wrong;
  std::vector<std::string> texts;
  for (const YamlNode& item : node.items) {
    if (item.kind != YamlNode::Kind::scalar || item.text.empty()) return wrong;
    texts.push_back(item.text);
  }
  return {texts, ""};
}

Parsed parse_named_list(const YamlNode& node) {
  const Parsed wrong{{}, "a list of names, some with arguments, as [flip, {crop: {padding: 4}}]"};
  if (node.kind != YamlNode::Kind::sequence) return wrong;
  std::vector<NamedEntry> named;
  for (const YamlNode& item : node.items) {
    const std::string where = "[" + std::to_string(named.size()) + "]";
    NamedEntry& entry = named.emplace_back();
    if (item.kind == YamlNode::Kind::scalar) {
      entry.name = item.text;
    } else if (item.kind == YamlNode::Kind::map && item.entries.size() == 1) {
      entry.name = item.entries[0].key;
      const YamlNode& args = item.entries[0].value;
      if (args.kind != YamlNode::Kind::null) {
        const std::string place = where + "." + one_line(entry.name, 100);
        if (args.kind != YamlNode::Kind::map)
          return {{}, "a map of its arguments, as in {crop: {padding: 4}}", place, &args};
        const Parsed parsed = parse_text_map(args);
        if (!parsed.expected.empty())
          return {{}, parsed.expected, place + parsed.where, parsed.what ? parsed.what : &args};
        entry.args = std::get<TextMap>(parsed.value);
      }
    }
    if (!is_name(entry.name))
      return {{}, "a name, or one with its arguments, as {crop: {padding: 4}}", where, &item};
  }
  return {named, ""};
}

Parsed parse_node(const JobKey& key, const YamlNode& node) {
  switch (key.type) {
    case JobKeyType::boolean:
      if (!node.quoted && (node.text == "true" || node.text == "false"))
        return {node.text == "true", ""};
      return {{}, "true or false"};
    case JobKeyType::integer:
      return parse_integer(key, node);
    case JobKeyType::real:
      return parse_real(key, node);
    case JobKeyType::text:
      return {node.text, ""};
    case JobKeyType::name:
      if (is_name(node.text)) return {node.text, ""};
      return {{}, "letters, digits, '.', '_' and '-', at most 100, not starting with '.' or '-'"};
    case JobKeyType::choice:
      if (is_choice(key, node.text) || (key.is_open && is_name(node.text))) return {node.text, ""};
      return {{}, expected_choice(key, node.text)};
    case JobKeyType::duration:
      return parse_duration_value(key, node);
    case JobKeyType::bytes:
      return parse_bytes_value(key, node);
    case JobKeyType::text_map:
      return parse_text_map(node, key.path.ends_with(".args"));
    case JobKeyType::integer_list:
      return parse_integer_list(key, node);
    case JobKeyType::text_list:
      return parse_text_list(node);
    case JobKeyType::named_list:
      return parse_named_list(node);
  }
  throw std::logic_error("unknown job type");
}

}  // namespace

std::string show(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::null:
      return "null";
    case YamlNode::Kind::scalar:
      if (node.text.empty()) return "\"\"";
      return node.text.size() <= 60 ? node.text : node.text.substr(0, 57) + "...";
    case YamlNode::Kind::sequence:
      return "a list";
    case YamlNode::Kind::map:
      return "a map";
  }
  return "";
}

std::optional<std::string> read_job_value(const JobKey& key,
                                          const YamlNode& node,
                                          JobValue& value) {
  const std::string path(key.path);
  const bool nullable = key.default_value == "null";
  if (node.kind == YamlNode::Kind::null) {
    if (!nullable && key.type != JobKeyType::text_map)
      return path + ": must have a value, not null";
    value = key.type == JobKeyType::text_map ? JobValue(TextMap()) : JobValue();
    return {};
  }
  for (const std::string_view word : key.planned_choices) {
    // "cuda" also stands for "cuda:1".
    const bool same =
        node.text == word || (node.text.starts_with(word) && node.text[word.size()] == ':');
    if (!same) continue;
    const std::string available =
        key.type == JobKeyType::boolean ? "false" : join_words(key.choices);
    return path + ": " + show(node) + " is not available in this version. Available: " + available +
           ".";
  }
  const bool is_collection =
      key.type == JobKeyType::text_map || key.type == JobKeyType::integer_list ||
      key.type == JobKeyType::text_list || key.type == JobKeyType::named_list;
  const bool shape_fits = is_collection || node.kind == YamlNode::Kind::scalar;
  Parsed parsed = shape_fits ? parse_node(key, node) : Parsed{{}, "a single value"};
  if (!parsed.expected.empty())
    return path + parsed.where + ": " + show(parsed.what != nullptr ? *parsed.what : node) +
           " is not " + parsed.expected;
  value = std::move(parsed.value);
  return {};
}

JobValue parse_value(const JobKey& key, const std::string& text, const std::string& origin) {
  YamlNode node;
  node.kind = YamlNode::Kind::scalar;
  node.text = text;
  JobValue value;
  const std::optional<std::string> problem = read_job_value(key, node, value);
  if (problem) throw UsageError((origin.empty() ? "" : origin + ": ") + *problem + ".");
  return value;
}

}  // namespace ddp
