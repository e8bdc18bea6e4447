#include "worker/save/format/exported_program.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <limits>
#include <regex>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "common/error.h"
#include "common/text/join_words.h"
#include "common/text/one_line.h"
#include "worker/save/format/output_names.h"
#include "worker/save/format/strided_view.h"

namespace ddp::worker {
namespace {

namespace json = boost::json;

constexpr std::string_view kFormatRecord = "archive_format";
constexpr std::string_view kGradBlock = "torch.ops.higher_order.wrap_with_set_grad_enabled";
constexpr std::string_view kAutocastBlock = "torch.ops.higher_order.wrap_with_autocast";
constexpr std::int64_t kSchemaMajor = 8;
constexpr std::size_t kMaxJsonDepth = 64;
constexpr std::size_t kMostGuard = 200;  // characters that are looked at

/// A file that torch.export.save does not write, with what is wrong.
struct Malformed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Something in the file that is not supported here, in words for the user.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// `advice`: what to do, as a part of a sentence. Errors: Unsupported.
[[noreturn]] void refuse_unsupported(const std::string& what, const std::string& advice = "") {
  throw Unsupported(what + " is not supported" + (advice.empty() ? "" : ": " + advice));
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

json::value parse_json(std::string_view text) {
  json::parse_options options;
  options.max_depth = kMaxJsonDepth;
  return json::parse(text, {}, options);
}

std::string string_of(const json::value& value) {
  return std::string(value.as_string());
}

std::int64_t integer_of(const json::value& value) {
  if (!value.is_int64()) throw Malformed(json::serialize(value) + " is not an integer");
  return value.get_int64();
}

/// torch writes those that JSON lacks as texts.
double number_of(const json::value& value) {
  if (!value.is_string()) return value.to_number<double>();
  const std::string text = string_of(value);
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  throw Malformed(text + " is not a number");
}

/// The only entry of a union: {"as_int": 3}.
const json::key_value_pair& entry_of(const json::value& value) {
  const json::object& entries = value.as_object();
  if (entries.size() != 1) throw Malformed(json::serialize(value) + " is not a union");
  return *entries.begin();
}

template <typename T, typename Read>
std::vector<T> list_of(const json::value& value, const Read& read) {
  std::vector<T> items;
  for (const json::value& item : value.as_array())
    items.push_back(read(item));
  return items;
}

/// Sizes and strides that the file knows: [{"as_int": 3}].
std::int64_t known_size(const json::value& size) {
  const json::key_value_pair& entry = entry_of(size);
  if (entry.key() != "as_int") throw Malformed("a weight has a size that is not a number");
  const std::int64_t number = integer_of(entry.value());
  if (number < 0) throw Malformed("a weight has a size or stride below 0");
  return number;
}

/// Of torch/_export/serde/schema.py.
std::string dtype_of(std::int64_t number) {
  switch (number) {
    case 1:
      return "U8";
    case 2:
      return "I8";
    case 3:
      return "I16";
    case 4:
      return "I32";
    case 5:
      return "I64";
    case 6:
      return "F16";
    case 7:
      return "F32";
    case 8:
      return "F64";
    case 12:
      return "BOOL";
    case 13:
      return "BF16";
    default:
      refuse_unsupported("a weight of torch's type " + std::to_string(number));
  }
}

/// "net.py:12": the last line of the user's own code in a stack.
std::string line_of(std::string_view stack) {
  std::string line;
  for (std::size_t at = 0; (at = stack.find("File \"", at)) != std::string_view::npos;) {
    at += 6;
    const std::size_t end = stack.find("\", line ", at);
    if (end == std::string_view::npos) break;
    const std::string_view path = stack.substr(at, end - at);
    at = end + 8;
    const std::size_t digits = stack.find_first_not_of("0123456789", at);
    const bool is_torch = path.starts_with('<') || path.find("/site-packages/") != path.npos;
    if (!line.empty() && is_torch) continue;
    line = std::string(path.substr(path.rfind('/') + 1)) + ":" +
           std::string(stack.substr(at, std::min(digits, stack.size()) - at));
  }
  return line;
}

/// A graph, read from first to last: names are known from the node that computes them on.
class GraphReader {
 public:
  ExportedGraph read(const json::value& program, std::map<std::string, std::string>& classes) {
    const json::value& module = program.at("graph_module");
    const json::value& graph = module.at("graph");
    const json::object& ranges = program.at("range_constraints").as_object();
    for (const json::value& spec : module.at("signature").at("input_specs").as_array())
      read_input(entry_of(spec), graph.at("tensor_values").as_object(), ranges);
    if (const json::value* const guards = program.as_object().if_contains("guards_code"))
      require_ranges_alone(*guards);
    if (!has_images_) refuse_unsupported("a graph without an input");
    for (const json::value& node : graph.at("nodes").as_array())
      read_node(node.as_object(), classes);
    std::vector<std::optional<ValueId>> outputs;
    for (const json::value& spec : module.at("signature").at("output_specs").as_array())
      read_output(entry_of(spec), outputs);
    const json::array& calls = module.at("module_call_graph").as_array();
    if (calls.empty()) throw Malformed("module_call_graph is empty");
    name_outputs(string_of(calls[0].at("signature").at("out_spec")), outputs);
    return std::move(graph_);
  }

 private:
  ValueId define(const std::string& name) {
    const ValueId value{graph_.values++};
    name_value(name, value);
    return value;
  }

  void name_value(const std::string& name, ValueId value) {
    if (!names_.try_emplace(name, value).second) throw Malformed("two values are called " + name);
  }

  [[nodiscard]] ValueId use(const json::value& name) const {
    const auto at = names_.find(string_of(name));
    if (at == names_.end()) throw Malformed(string_of(name) + " is used before it is computed");
    return at->second;
  }

  void read_input(const json::key_value_pair& spec,
                  const json::object& tensor_values,
                  const json::object& ranges) {
    const std::string_view kind = spec.key();
    const json::value& entry = spec.value();
    if (kind == "user_input") {
      const json::key_value_pair& argument = entry_of(entry.at("arg"));
      if (argument.key() == "as_none") return;
      if (argument.key() != "as_tensor" || has_images_)
        refuse_unsupported("a model whose forward() takes more than one batch of images");
      has_images_ = true;
      const std::string name = string_of(argument.value().at("name"));
      graph_.images = define(name);
      for (const json::value& size : tensor_values.at(name).at("sizes").as_array())
        graph_.image_sizes.push_back(image_size(entry_of(size), ranges));
    } else if (kind == "parameter" || kind == "buffer" || kind == "tensor_constant") {
      const ValueId value = define(string_of(entry.at("arg").at("name")));
      graph_.state.push_back({value, string_of(entry.at(std::string(kind) + "_name"))});
    } else if (kind == "constant_input") {
      const ValueId value = define(string_of(entry.at("name")));
      graph_.constants.emplace_back(value, read_value(entry_of(entry.at("value"))));
    } else {
      refuse_unsupported("an input of kind " + std::string(kind));
    }
  }

  /// `ranges`: by the names of symbols. An expression of several symbols has no range.
  static SizeRange image_size(const json::key_value_pair& size, const json::object& ranges) {
    if (size.key() == "as_int") {
      const std::int64_t fixed = integer_of(size.value());
      return {fixed, fixed};
    }
    std::string_view symbol = size.value().at("expr_str").as_string();  // "Symbol('s77', ...)"
    if (const std::size_t quote = symbol.find('\''); quote != std::string_view::npos)
      symbol = symbol.substr(quote + 1, symbol.find('\'', quote + 1) - quote - 1);
    const json::value* const range = ranges.if_contains(symbol);
    if (range == nullptr) return {};
    SizeRange sizes;
    const json::value& min = range->at("min_val");
    const json::value& max = range->at("max_val");
    // torch takes 2 for the smallest size of each that is not fixed: 1 could broadcast.
    if (!min.is_null() && integer_of(min) > 2) sizes.min = integer_of(min);
    if (!max.is_null()) sizes.max = integer_of(max);
    return sizes;
  }

  /// Conditions on sizes under which the graph is that of the code. Those of one size are ranges,
  /// too.
  static void require_ranges_alone(const json::value& guards) {
    static const std::regex range(R"(L\['\w+'\]\.size\(\)\[\d+\] (<|>|<=|>=) \d+)");
    for (const json::value& guard : guards.as_array()) {
      const std::string text = string_of(guard);
      if (!std::regex_match(text.substr(0, kMostGuard), range))
        refuse_unsupported("a graph that holds only where " + one_line(text),
                           "write forward() without a branch on the batch's size");
    }
  }

  void read_node(const json::object& node, std::map<std::string, std::string>& classes) {
    if (node.at("target").as_string() == kGradBlock) return read_grad_block(node, classes);
    if (node.at("target").as_string() == kAutocastBlock) return read_autocast_block(node, classes);
    ExportedNode read;
    read.has_grad = has_grad_;
    read.autocast = autocast_;
    read.target = string_of(node.at("target"));
    const json::object& facts = node.at("metadata").as_object();
    const json::value* const name = node.if_contains("name");
    read.place = one_line(name != nullptr && name->is_string() ? string_of(*name) : read.target);
    if (const json::value* const stack = facts.if_contains("stack_trace"))
      if (const std::string line = line_of(stack->as_string()); !line.empty())
        read.place += " at " + one_line(line);
    if (const json::value* const layers = facts.if_contains("nn_module_stack"))
      read_layers(layers->as_string(), classes);
    try {
      for (const json::value& argument : node.at("inputs").as_array())
        read.arguments.push_back(
            {string_of(argument.at("name")), read_value(entry_of(argument.at("arg")))});
      for (const json::value& result : node.at("outputs").as_array())
        read.results.push_back(read_result(entry_of(result)));
    } catch (const Unsupported& error) {
      throw Unsupported("node " + read.place + ": " + error.what());
    }
    graph_.nodes.push_back(std::move(read));
  }

  /// The value that {"as_tensor": {"name": "x"}}, or as_sym_int, refers to.
  [[nodiscard]] ValueId reference(const json::value& argument) const {
    const ExportedValue value = read_value(entry_of(argument));
    if (const auto* const id = std::get_if<ValueId>(&value)) return *id;
    throw Malformed(json::serialize(argument) + " is not a value");
  }

  /// A block under torch.no_grad() or enable_grad(): {enabled, a graph, its inputs}.
  void read_grad_block(const json::object& node, std::map<std::string, std::string>& classes) {
    const json::array& given = node.at("inputs").as_array();
    const bool was_enabled =
        std::exchange(has_grad_, entry_of(given.at(0).at("arg")).value().as_bool());
    read_block(node, 1, classes);
    has_grad_ = was_enabled;
  }

  /// A block under torch.autocast(): {device, type, enabled, cached, a graph, its inputs}.
  void read_autocast_block(const json::object& node, std::map<std::string, std::string>& classes) {
    const json::array& given = node.at("inputs").as_array();
    const auto setting = [&](std::size_t i) -> const json::value& {
      return entry_of(given.at(i).at("arg")).value();
    };
    const ExportedAutocast block{
        string_of(setting(0)), FileDtype(integer_of(setting(1))), setting(2).as_bool()};
    if (autocast_ && autocast_->device != block.device)
      refuse_unsupported("torch.autocast() of " + block.device + " inside of that of " +
                         autocast_->device);
    const std::optional<ExportedAutocast> around = std::exchange(autocast_, block);
    read_block(node, 4, classes);
    autocast_ = around;
  }

  /// The block's graph is its argument `at`, behind which its inputs follow. Its nodes become nodes
  /// of the graph around it; its names are its own.
  void read_block(const json::object& node,
                  std::size_t at,
                  std::map<std::string, std::string>& classes) {
    const json::array& given = node.at("inputs").as_array();
    const json::value& graph = entry_of(given.at(at).at("arg")).value().at("graph");
    const json::array& inputs = graph.at("inputs").as_array();
    if (given.size() != inputs.size() + at + 1)
      throw Malformed("a block has other inputs than it is given");
    std::map<std::string, ValueId> names;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      names.try_emplace(name_of(entry_of(inputs[i])), reference(given[at + 1 + i].at("arg")));
    names_.swap(names);
    for (const json::value& inner : graph.at("nodes").as_array())
      read_node(inner.as_object(), classes);
    const auto results = list_of<ValueId>(
        graph.at("outputs"), [this](const json::value& output) { return reference(output); });
    names_.swap(names);
    const json::array& outputs = node.at("outputs").as_array();
    if (outputs.size() != results.size())
      throw Malformed("a block has other outputs than it gives");
    for (std::size_t i = 0; i < results.size(); ++i)
      name_value(name_of(entry_of(outputs[i])), results[i]);
  }

  /// "x" of {"as_tensor": {"name": "x"}} and of {"as_sym_int": {"as_name": "x"}}.
  static std::string name_of(const json::key_value_pair& entry) {
    const json::object& value = entry.value().as_object();
    const json::value* const name = value.if_contains("name");
    return string_of(name != nullptr ? *name : value.at("as_name"));
  }

  /// "L__self__norm,norm,torch.nn.modules.batchnorm.BatchNorm2d;...": key, path and class.
  static void read_layers(std::string_view layers, std::map<std::string, std::string>& classes) {
    while (!layers.empty()) {
      const std::string_view layer = layers.substr(0, layers.find(';'));
      layers.remove_prefix(std::min(layers.size(), layer.size() + 1));
      const std::size_t first = layer.find(',');
      const std::size_t last = layer.rfind(',');
      if (first == last || first == std::string_view::npos) continue;
      const std::string_view type = layer.substr(last + 1);
      classes.try_emplace(std::string(layer.substr(first + 1, last - first - 1)),
                          type.substr(type.rfind('.') + 1));
    }
  }

  [[nodiscard]] ListItem read_item(const json::value& item) const {
    if (item.as_object().contains("name")) return use(item.at("name"));  // a tensor
    const json::key_value_pair& entry = entry_of(item);
    if (entry.key() == "as_none") return std::monostate();
    if (entry.key() == "as_name") return use(entry.value());
    if (entry.key() == "as_tensor") return use(entry.value().at("name"));
    if (entry.key() == "as_int") return integer_of(entry.value());
    refuse_unsupported("a list of " + std::string(entry.key()).substr(3) + "s");
  }

  [[nodiscard]] ExportedValue read_value(const json::key_value_pair& entry) const {
    const std::string_view kind = entry.key();
    const json::value& value = entry.value();
    if (kind == "as_none") return std::monostate();
    if (kind == "as_tensor") return use(value.at("name"));
    if (kind == "as_int") return integer_of(value);
    if (kind == "as_float") return number_of(value);
    if (kind == "as_bool") return value.as_bool();
    if (kind == "as_string") return string_of(value);
    if (kind == "as_ints") return list_of<std::int64_t>(value, integer_of);
    if (kind == "as_floats") return list_of<double>(value, number_of);
    if (kind == "as_bools")
      return list_of<bool>(value, [](const json::value& one) { return one.as_bool(); });
    if (kind == "as_scalar_type") return FileDtype(integer_of(value));
    if (kind == "as_memory_format") return FileMemoryFormat(integer_of(value));
    if (kind == "as_layout") return FileLayout(integer_of(value));
    if (kind == "as_device") return FileDevice();
    if (kind == "as_tensors" || kind == "as_optional_tensors" || kind == "as_sym_ints")
      return list_of<ListItem>(value, [this](const json::value& one) { return read_item(one); });
    if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool") {
      const json::key_value_pair& number = entry_of(value);
      return number.key() == "as_name" ? ExportedValue(use(number.value())) : read_value(number);
    }
    if (kind == "as_optional_tensor") return read_value(entry_of(value));
    if (kind == "as_graph")
      refuse_unsupported("a part of the model with a graph of its own (control flow)",
                         "write the model without it, or take model.script");
    refuse_unsupported("an argument of kind " + std::string(kind));
  }

  ExportedResult read_result(const json::key_value_pair& entry) {
    const std::string_view kind = entry.key();
    const json::value& value = entry.value();
    if (kind == "as_none") return {};
    if (kind == "as_tensor") return {{define(string_of(value.at("name")))}};
    if (kind == "as_tensors") {
      const auto name = [this](const json::value& one) {
        return define(string_of(one.at("name")));
      };
      return {list_of<ValueId>(value, name), true};
    }
    if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool") {
      const json::key_value_pair& number = entry_of(value);
      if (number.key() == "as_name") return {{define(string_of(number.value()))}};
      return {};
    }
    refuse_unsupported("a result of kind " + std::string(kind));
  }

  void read_output(const json::key_value_pair& spec, std::vector<std::optional<ValueId>>& outputs) {
    const std::string_view kind = spec.key();
    const json::value& entry = spec.value();
    if (kind == "user_output") {
      const json::key_value_pair& argument = entry_of(entry.at("arg"));
      // Others, as None and numbers, can be no scores.
      const bool is_tensor = argument.key() == "as_tensor";
      outputs.push_back(is_tensor ? std::optional<ValueId>(use(argument.value().at("name")))
                                  : std::nullopt);
    } else if (kind == "buffer_mutation") {
      graph_.mutations.push_back(
          {use(entry.at("arg").at("name")), string_of(entry.at("buffer_name"))});
    } else {
      refuse_unsupported("an output of kind " + std::string(kind));
    }
  }

  /// `spec`: Python's structure of outputs, as [1, {"type": "builtins.dict", "context":
  /// "[\"main\"]", "children_spec": [...]}]. `outputs`: its leaves, in order.
  void name_outputs(std::string_view spec, const std::vector<std::optional<ValueId>>& outputs) {
    const std::vector<std::string> names = output_names(parse_json(spec).as_array().at(1));
    if (names.size() != outputs.size()) throw Malformed("out_spec does not fit its outputs");
    for (std::size_t i = 0; i < names.size(); ++i)
      if (outputs[i]) graph_.outputs.push_back({names[i], *outputs[i]});
  }

  ExportedGraph graph_;
  bool has_images_ = false;
  // Of the nodes that are read now:
  bool has_grad_ = true;
  std::optional<ExportedAutocast> autocast_;
  std::map<std::string, ValueId> names_;
};

/// The records of an archive by their names below its folder.
class ProgramArchive {
 public:
  ProgramArchive(const ZipRecords& records, std::string file)
      : records_(records), file_(std::move(file)) {
    for (const auto& [name, bytes] : records)
      if (name == kFormatRecord || name.ends_with("/" + std::string(kFormatRecord)))
        folder_ = name.substr(0, name.size() - kFormatRecord.size());
  }

  ExportedProgram read() {
    if (text_of(record(std::string(kFormatRecord))) != "pt2")
      throw Malformed("its archive_format is not pt2");
    if (text_of(record("archive_version")) != "0")
      refuse_unsupported("version " + std::string(text_of(record("archive_version"))) +
                         " of the archive");
    if (text_of(record("byteorder")) != "little")
      refuse_unsupported("an archive of a big-endian machine");
    ExportedProgram program;
    const std::vector<std::string> models = model_names();
    if (models.empty()) throw Malformed("it has no record " + folder_ + "models/NAME.json");
    if (models.size() == 1) {
      program.training = read_model(models[0], program);
    } else if (models == std::vector<std::string>{"eval", "train"}) {
      program.training = read_model("train", program);
      program.evaluation = read_model("eval", program);
    } else {
      refuse_unsupported("an archive of the models " + join_words(models),
                         "give one model, or two called train and eval");
    }
    return program;
  }

 private:
  [[nodiscard]] std::span<const std::byte> record(const std::string& name) const {
    const auto at = records_.find(folder_ + name);
    if (at == records_.end()) throw Malformed("it has no record " + folder_ + name);
    return at->second;
  }

  /// In the order of their names.
  [[nodiscard]] std::vector<std::string> model_names() const {
    constexpr std::string_view kEnd = ".json";
    const std::string begin = folder_ + "models/";
    std::vector<std::string> names;
    for (const auto& [name, bytes] : records_) {
      if (name.starts_with(begin) && name.ends_with(kEnd) &&
          name.size() > begin.size() + kEnd.size())
        names.push_back(name.substr(begin.size(), name.size() - begin.size() - kEnd.size()));
    }
    return names;
  }

  ExportedGraph read_model(const std::string& model, ExportedProgram& program) {
    const json::value parsed = parse_json(text_of(record("models/" + model + ".json")));
    const std::int64_t major = integer_of(parsed.at("schema_version").at("major"));
    if (major != kSchemaMajor) {
      refuse_unsupported("version " + std::to_string(major) + " of torch.export's schema",
                         "export it with torch 2.11 to 2.15");
    }
    ExportedGraph graph = GraphReader().read(parsed, program.classes);
    read_tensors("data/weights/", model + "_weights_config.json", "", program);
    // Two graphs have the same weights, and each its own constants.
    const std::string own = model + " graph: ";
    read_tensors("data/constants/", model + "_constants_config.json", own, program);
    for (auto* const list : {&graph.state, &graph.mutations}) {
      for (ExportedState& one : *list) {
        if (tensors_.contains(own + one.name)) one.name = own + one.name;
        if (!tensors_.contains(one.name)) throw Malformed("it has no tensor " + one.name);
      }
    }
    return graph;
  }

  /// Adds the tensors of a model, each called `prefix` and its name.
  void read_tensors(const std::string& folder,
                    const std::string& list,
                    const std::string& prefix,
                    ExportedProgram& program) {
    const json::value parsed = parse_json(text_of(record(folder + list)));
    for (const auto& [name, entry] : parsed.at("config").as_object()) {
      if (entry.at("use_pickle").as_bool())
        refuse_unsupported("the tensor " + one_line(name) + ", a Python object,");
      const json::value& meta = entry.at("tensor_meta");
      ExportedTensor tensor;
      tensor.view.name = prefix + one_line(name);
      tensor.view.dtype = dtype_of(integer_of(meta.at("dtype")));
      tensor.view.shape = list_of<std::int64_t>(meta.at("sizes"), known_size);
      tensor.view.strides = list_of<std::int64_t>(meta.at("strides"), known_size);
      tensor.offset = known_size(meta.at("storage_offset"));
      tensor.record = folder_ + folder + string_of(entry.at("path_name"));
      const bool is_parameter = entry.at("is_param").as_bool();
      if (prefix.empty())
        tensor.kind = is_parameter ? ExportedTensor::Kind::parameter : ExportedTensor::Kind::buffer;
      tensor.requires_grad = meta.at("requires_grad").as_bool();
      cut_out(tensor.view, record(tensor.record.substr(folder_.size())), tensor.offset, file_);
      const auto [known, is_new] = tensors_.try_emplace(tensor.view.name, program.tensors.size());
      if (!is_new) require_same(tensor.view, program.tensors[known->second].view);
      tensor.is_repeated = !is_new;
      program.tensors.push_back(std::move(tensor));
    }
  }

  static void require_same(const TensorView& one, const TensorView& other) {
    const bool is_same = one.dtype == other.dtype && one.shape == other.shape &&
                         one.strides == other.strides && std::ranges::equal(one.bytes, other.bytes);
    if (!is_same)
      refuse_unsupported("another value of " + one.name + " in its second graph",
                         "export both from the same net");
  }

  const ZipRecords& records_;
  std::string file_;
  std::string folder_;
  std::map<std::string, std::size_t> tensors_;  // places by name
};

}  // namespace

bool is_exported_program(const ZipRecords& records) {
  return std::ranges::any_of(records, [](const auto& entry) {
    return entry.first == kFormatRecord || entry.first.ends_with("/" + std::string(kFormatRecord));
  });
}

ExportedProgram read_exported_program(const ZipRecords& records, const std::string& name) try {
  return ProgramArchive(records, name).read();
} catch (const UsageError&) {
  throw;
} catch (const Unsupported& error) {
  throw UsageError(name + ": " + error.what() + ".");
} catch (const std::exception& error) {   // also Boost.JSON's for a missing or other entry
  const std::string what = error.what();  // of Boost's with its own place: "not an object [...]"
  throw UsageError(name + ": is not what torch.export.save writes: " +
                   what.substr(0, what.find(" [")) + ". Write it again.");
}

}  // namespace ddp::worker
