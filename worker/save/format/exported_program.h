// Reads an archive of torch.export.save: a graph of operators as JSON, and a record of raw bytes
// for each weight.
// Promises: nothing in the file is executed; no tensor reaches beyond its record; each value of a
// graph is computed before it is used, so a graph has no circle.
// Source: torch/_export/serde/schema.py, version 8, and torch/export/pt2_archive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "worker/save/format/safetensors.h"
#include "worker/save/format/zip_file.h"

namespace ddp::worker {

/// A value of a graph: its place among them.
struct ValueId {
  std::size_t index = 0;
};

/// Numbers of torch's ScalarType, MemoryFormat and Layout in the file, which are not LibTorch's.
enum class FileDtype : std::int64_t {};
enum class FileMemoryFormat : std::int64_t {};
enum class FileLayout : std::int64_t {};
/// The device that tensors are made on: in a job, the job's.
struct FileDevice {};

/// An element of a list with values of the graph: none, a number, or a value.
using ListItem = std::variant<std::monostate, std::int64_t, ValueId>;

/// What a node is given: none, a constant, or values of the graph.
using ExportedValue = std::variant<std::monostate,
                                   bool,
                                   std::int64_t,
                                   double,
                                   std::string,
                                   std::vector<bool>,
                                   std::vector<std::int64_t>,
                                   std::vector<double>,
                                   FileDtype,
                                   FileMemoryFormat,
                                   FileLayout,
                                   FileDevice,
                                   ValueId,
                                   std::vector<ListItem>>;

struct ExportedArgument {
  std::string name;  // in the operator's schema
  ExportedValue value;
};

/// Where a result goes: to one value, to a list of them, or nowhere.
struct ExportedResult {
  std::vector<ValueId> values;
  bool is_list = false;
};

/// A block under torch.autocast().
struct ExportedAutocast {
  std::string device;  // "cpu", "cuda"
  FileDtype type{};
  bool is_enabled = true;
};

struct ExportedNode {
  std::string target;  // "torch.ops.aten.conv2d.default"
  std::vector<ExportedArgument> arguments;
  std::vector<ExportedResult> results;
  std::string place;                         // "conv2d at net.py:12"
  bool has_grad = true;                      // not under torch.no_grad()
  std::optional<ExportedAutocast> autocast;  // the innermost one
};

/// A tensor of the state that a graph takes as an input.
struct ExportedState {
  ValueId value;
  std::string name;  // among ExportedProgram's tensors
};

/// An output of the model: its name ("main", "0"; "" if it is the only one) and value.
struct ExportedOutput {
  std::string name;
  ValueId value;
};

/// For which sizes a graph was exported, both included.
struct SizeRange {
  std::int64_t min = 1;
  std::int64_t max = std::numeric_limits<std::int64_t>::max();

  [[nodiscard]] bool is_fixed() const { return min == max; }
  [[nodiscard]] bool has(std::int64_t size) const { return size >= min && size <= max; }
};

struct ExportedGraph {
  std::size_t values = 0;
  ValueId images;
  std::vector<SizeRange> image_sizes;
  std::vector<ExportedState> state;
  std::vector<std::pair<ValueId, ExportedValue>> constants;  // inputs that are no tensors
  std::vector<ExportedNode> nodes;
  std::vector<ExportedOutput> outputs;
  std::vector<ExportedState> mutations;  // buffers that get these values after a training step
};

struct ExportedTensor {
  enum class Kind { parameter, buffer, constant };  // a constant is not in Python's state_dict

  TensorView view;
  Kind kind = Kind::constant;
  bool requires_grad = false;
  std::string record;        // where its storage is
  std::int64_t offset = 0;   // in elements
  bool is_repeated = false;  // it has the name and value of one before it, for another graph
};

struct ExportedProgram {
  ExportedGraph training;
  std::optional<ExportedGraph> evaluation;     // absent: the training graph serves both
  std::vector<ExportedTensor> tensors;         // in the order of the file
  std::map<std::string, std::string> classes;  // of layers: "features.1": "BatchNorm2d"
};

/// Whether the records are those of torch.export.save.
bool is_exported_program(const ZipRecords& records);

/// `records` are those of the file `name`, and outlive the program. Errors: UsageError with what is
/// wrong or not supported.
ExportedProgram read_exported_program(const ZipRecords& records, const std::string& name);

}  // namespace ddp::worker
