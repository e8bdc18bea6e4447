#include "worker/save/format/output_names.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>

namespace ddp::worker {
namespace {

namespace json = boost::json;

/// A dictionary has its keys as a text, "[\"main\"]"; a dataclass "[[\"main\"], []]"; a defaultdict
/// has an object. Of a named tuple the file has no names.
std::vector<std::string> keys_of(const json::value& spec) {
  const json::value& context = spec.at("context");
  json::value parsed;
  if (context.is_object())
    parsed = context.at("dict_context");
  else if (context.is_string() && spec.at("type").as_string() != "collections.namedtuple")
    parsed = json::parse(context.as_string());
  const json::array* keys = parsed.if_array();
  if (keys != nullptr && !keys->empty() && keys->front().is_array())
    keys = &keys->front().get_array();
  std::vector<std::string> names;
  for (std::size_t i = 0; keys != nullptr && i < keys->size(); ++i) {
    const json::string* const text = keys->at(i).if_string();
    names.push_back(text != nullptr ? std::string(*text) : json::serialize(keys->at(i)));
  }
  return names;
}

void add_leaf_names(const json::value& spec,
                    const std::string& name,
                    std::vector<std::string>& names) {
  if (spec.at("type").is_null()) {
    names.push_back(name);
    return;
  }
  const json::array& children = spec.at("children_spec").as_array();
  const std::vector<std::string> keys = keys_of(spec);
  for (std::size_t i = 0; i < children.size(); ++i) {
    const std::string own = i < keys.size() ? keys[i] : std::to_string(i);
    add_leaf_names(children[i], name.empty() ? own : name + "." + own, names);
  }
}

}  // namespace

std::vector<std::string> output_names(const json::value& spec) {
  std::vector<std::string> names;
  add_leaf_names(spec, "", names);
  return names;
}

}  // namespace ddp::worker
