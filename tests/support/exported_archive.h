// An archive as torch.export.save writes it, made by hand: linear layers of images of 2 x 2.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/stored_zip.h"

namespace ddp {

/// Numbers as a record of float32.
inline std::string float_record(const std::vector<float>& numbers) {
  std::string bytes(numbers.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

/// The entry of a float32 tensor of C order in a list of weights.
inline std::string weight_entry(const std::string& name,
                                const std::string& record,
                                const std::vector<int>& sizes,
                                bool is_parameter) {
  const auto list = [](const std::vector<int>& numbers) {
    std::string text;
    for (const int number : numbers)
      text += (text.empty() ? "" : ",") + ("{\"as_int\":" + std::to_string(number) + "}");
    return "[" + text + "]";
  };
  std::vector<int> strides(sizes.size(), 1);
  for (std::size_t i = sizes.size(); i-- > 1;)
    strides[i - 1] = strides[i] * sizes[i];
  const std::string flag = is_parameter ? "true" : "false";
  return "\"" + name + "\":{\"path_name\":\"" + record + "\",\"is_param\":" + flag +
         ",\"use_pickle\":false,\"tensor_meta\":{\"dtype\":7,\"sizes\":" + list(sizes) +
         ",\"requires_grad\":" + flag + ",\"strides\":" + list(strides) +
         ",\"storage_offset\":{\"as_int\":0}}}";
}

/// A node of the graph with one result, a tensor. `inputs`: "{\"name\":...,\"arg\":...}, ...".
inline std::string node_entry(const std::string& target,
                              const std::string& inputs,
                              const std::string& result) {
  return "{\"target\":\"torch.ops.aten." + target + "\",\"inputs\":[" + inputs +
         "],\"outputs\":[{\"as_tensor\":{\"name\":\"" + result + "\"}}],\"name\":\"" + result +
         "\",\"metadata\":{\"stack_trace\":\"File \\\"/u/net.py\\\", line 7, in "
         "forward\\n\"," +
         "\"nn_module_stack\":\"L__self__,,net.Net;L__self__fc,fc,torch.nn.Linear\"}}";
}

inline std::string input_entry(const std::string& name, const std::string& argument) {
  return "{\"name\":\"" + name + "\",\"arg\":" + argument + "}";
}

inline std::string tensor_argument(const std::string& value) {
  return "{\"as_tensor\":{\"name\":\"" + value + "\"}}";
}

/// What a graph is made of.
struct ExportedParts {
  std::string input_specs =
      R"({"parameter":{"arg":{"name":"w"},"parameter_name":"fc.weight"}},)"
      R"({"buffer":{"arg":{"name":"b"},"buffer_name":"count","persistent":true}},)"
      R"({"user_input":{"arg":{"as_tensor":{"name":"x"}}}})";
  std::string image_sizes =
      R"({"as_expr":{"expr_str":"s0"}},{"as_int":1},{"as_int":2},{"as_int":2})";
  std::string nodes = node_entry("flatten.using_ints",
                                 input_entry("self", tensor_argument("x")) + "," +
                                     input_entry("start_dim", R"({"as_int":1})"),
                                 "flat") +
                      "," +
                      node_entry("linear.default",
                                 input_entry("input", tensor_argument("flat")) + "," +
                                     input_entry("weight", tensor_argument("w")),
                                 "scores");
  std::string output_specs = R"({"user_output":{"arg":{"as_tensor":{"name":"scores"}}}})";
  std::string out_spec = R"([1,{\"type\":null,\"context\":null,\"children_spec\":[]}])";
  int schema = 8;
  std::string batch_range = R"({"min_val":2,"max_val":null})";
  std::string guards;
  std::string constants;  // as weights, in a record of one number
  std::string weights = weight_entry("fc.weight", "weight_0", {3, 4}, true) + "," +
                        weight_entry("count", "weight_1", {1}, false);
  std::vector<float> weight = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
};

inline std::string exported_json(const ExportedParts& parts) {
  return R"({"graph_module":{"graph":{"nodes":[)" + parts.nodes +
         R"(],"tensor_values":{"x":{"sizes":[)" + parts.image_sizes +
         R"(]}}},"signature":{"input_specs":[)" + parts.input_specs + R"(],"output_specs":[)" +
         parts.output_specs + R"(]},"module_call_graph":[{"signature":{"out_spec":")" +
         parts.out_spec + R"("}}]},"range_constraints":{"s0":)" + parts.batch_range +
         R"(},"guards_code":[)" + parts.guards + R"(],"schema_version":{"major":)" +
         std::to_string(parts.schema) + "}}";
}

inline std::string exported_archive(const ExportedParts& parts) {
  return stored_zip(
      {{"net/archive_format", "pt2"},
       {"net/archive_version", "0"},
       {"net/byteorder", "little"},
       {"net/models/model.json", exported_json(parts)},
       {"net/data/weights/model_weights_config.json", "{\"config\":{" + parts.weights + "}}"},
       {"net/data/constants/model_constants_config.json", "{\"config\":{" + parts.constants + "}}"},
       {"net/data/weights/weight_0", float_record(parts.weight)},
       {"net/data/weights/weight_1", float_record({5})},
       {"net/data/constants/tensor_0", float_record({5})}});
}

}  // namespace ddp
