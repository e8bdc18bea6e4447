#include "launcher/plan/command_line/job_file_schema.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>

#include "common/job/job_keys.h"
#include "common/text/json_text.h"

namespace ddp::launcher {
namespace {

namespace json = boost::json;

/// The types of a text: a job file takes any unquoted YAML scalar as one.
json::value any_scalar() {
  return json::array{"string", "number", "boolean"};
}

/// A value as YAML reads it: true, 3 and 0.1 are not texts.
json::value as_yaml(std::string_view text) {
  const json::string_view word(text.data(), text.size());
  boost::system::error_code error;
  json::value value = json::parse(word, error);
  return error || value.is_string() ? json::value(word) : value;
}

/// The words of a choice; a word that YAML does not read as a text is listed in both forms.
json::array words_of(const JobKey& key) {
  json::array words;
  for (const std::string_view word : key.choices) {
    words.emplace_back(json::string_view(word.data(), word.size()));
    const json::value other = as_yaml(word);
    if (!other.is_string()) words.push_back(other);
  }
  return words;
}

json::object number(const JobKey& key, const char* type) {
  json::object schema{{"type", type}};
  schema.emplace(key.excludes_min ? "exclusiveMinimum" : "minimum", key.min);
  if (key.max < kAnyReal) schema.emplace("maximum", key.max);
  return schema;
}

json::object list_of(json::value items) {
  return {{"type", "array"}, {"items", std::move(items)}};
}

json::object texts_by_name() {
  json::array types = any_scalar().as_array();
  types.emplace_back("null");
  return {{"type", "object"}, {"additionalProperties", {{"type", std::move(types)}}}};
}

/// Texts, and maps of texts.
json::object arguments_by_name() {
  json::object schema = texts_by_name();
  schema["additionalProperties"] = {
      {"anyOf", {schema.at("additionalProperties"), texts_by_name()}}};
  return schema;
}

/// The allowed forms of the value.
json::array forms_of(const JobKey& key) {
  json::array forms;
  switch (key.type) {
    case JobKeyType::boolean:
      forms.push_back(json::object{{"type", "boolean"}});
      break;
    case JobKeyType::integer:
      forms.push_back(number(key, "integer"));
      break;
    case JobKeyType::real:
      forms.push_back(number(key, "number"));
      // Editors that read YAML 1.1 take 1e-4 for a text.
      forms.push_back(
          {{"type", "string"}, {"pattern", "^[-+]?[0-9]+(\\.[0-9]*)?[eE][-+]?[0-9]+$"}});
      break;
    case JobKeyType::text:
      forms.push_back(json::object{{"type", any_scalar()}});
      break;
    case JobKeyType::name:
      forms.push_back(
          json::object{{"type", any_scalar()}, {"pattern", "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$"}});
      break;
    case JobKeyType::choice:
      if (key.is_open) forms.push_back(json::object{{"type", "string"}});
      break;
    case JobKeyType::duration:
      forms.push_back(
          json::object{{"type", "string"}, {"pattern", "^[0-9]+(\\.[0-9]+)?(ms|s|min|h|d)$"}});
      forms.push_back(json::object{{"const", 0}});
      break;
    case JobKeyType::bytes:
      forms.push_back(
          json::object{{"type", "string"}, {"pattern", "^[0-9]+(\\.[0-9]+)?([KMGT]i|[kMGT])?B$"}});
      break;
    case JobKeyType::text_map:
      forms.push_back(key.path.ends_with(".args") ? arguments_by_name() : texts_by_name());
      break;
    case JobKeyType::integer_list:
      forms.push_back(list_of(number(key, "integer")));
      break;
    case JobKeyType::text_list:
      forms.push_back(list_of({{"type", any_scalar()}}));
      break;
    case JobKeyType::named_list: {
      json::object arguments = texts_by_name();
      arguments["type"] = json::array{"object", "null"};
      const json::object with_arguments{{"type", "object"},
                                        {"minProperties", 1},
                                        {"maxProperties", 1},
                                        {"additionalProperties", std::move(arguments)}};
      forms.push_back(list_of({{"anyOf", {{{"type", any_scalar()}}, with_arguments}}}));
      break;
    }
  }
  if (!key.choices.empty()) forms.insert(forms.begin(), json::object{{"enum", words_of(key)}});
  const bool may_be_null = key.default_value == "null" || key.type == JobKeyType::text_map;
  if (may_be_null) forms.push_back(json::object{{"type", "null"}});
  return forms;
}

json::object schema_of(const JobKey& key) {
  json::object schema{{"description", json::string_view(key.help.data(), key.help.size())},
                      {"default", as_yaml(key.default_value)}};
  json::array forms = forms_of(key);
  if (forms.size() > 1) {
    schema.emplace("anyOf", std::move(forms));
  } else {
    for (const auto& entry : forms[0].as_object())
      schema.insert(entry);
  }
  return schema;
}

/// An object that allows only the keys in its "properties".
json::object section() {
  return {{"type", json::array{"object", "null"}},
          {"properties", json::object()},
          {"additionalProperties", false}};
}

}  // namespace

std::string job_file_schema() {
  json::object root = section();
  root.emplace("$schema", "http://json-schema.org/draft-07/schema#");
  root.emplace("title", "a job of ddp-launch and ddp-worker");
  for (const JobKey& key : job_keys()) {
    json::object* parent = &root;
    std::string_view rest = key.path;
    for (std::size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
      json::object& inside = parent->at("properties").as_object();
      parent = &inside.emplace({rest.data(), dot}, section()).first->value().as_object();
      rest = rest.substr(dot + 1);
    }
    parent->at("properties").as_object().emplace({rest.data(), rest.size()}, schema_of(key));
  }
  return json_text(root) + "\n";
}

}  // namespace ddp::launcher
