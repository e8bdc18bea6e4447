#include "worker/save/metrics_writer.h"

#include <array>
#include <boost/json.hpp>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/error.h"
#include "common/files.h"
#include "common/log.h"
#include "common/units.h"

namespace ddp::worker {
namespace {

using Value = std::variant<std::monostate, std::int64_t, double>;
struct Field {
  std::string name;
  Value value;
};
using Fields = std::vector<Field>;

// What only some runs have: left out of a record without it.
struct Figure {
  std::string_view name;
  std::string_view tag;  // in TensorBoard
};
constexpr std::array<Figure, 7> kFigures{{{"forward_ms", "ddp/forward_ms"},
                                          {"backward_ms", "ddp/backward_ms"},
                                          {"communication_ms", "ddp/communication_ms"},
                                          {"overlap_ms", "ddp/overlap_ms"},
                                          {"loss_scale", "amp/loss_scale"},
                                          {"skipped_steps", "amp/skipped_steps"},
                                          {"data_wait_ms", "data/wait_ms"}}};

// The columns of the CSV behind `kind`, in order. A record has some of them.
std::vector<std::string> columns_of(const MetricsRequest& request) {
  std::vector<std::string> columns{"epoch", "step", "loss", "lr"};
  const auto add = [&columns](const std::string& half, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      if (name.find('/') == std::string::npos) columns.push_back(half + name);
    }
  };
  add("train_", request.train_names);
  add("test_", request.test_names);
  columns.insert(columns.end(), {"images_per_s", "seconds"});
  for (const Figure& figure : kFigures)
    columns.emplace_back(figure.name);
  return columns;
}
constexpr std::size_t kStepColumn = 2;  // behind kind and epoch

// Numbers as they read back; `missing` for what is not there.
std::string encode(const Value& value, std::string_view missing) {
  if (const auto* const number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
  if (const auto* const number = std::get_if<double>(&value)) return format_number(*number);
  return std::string(missing);
}

std::string to_json_line(std::string_view kind, const Fields& fields) {
  std::string line = "{\"kind\":\"" + std::string(kind) + "\"";
  for (const Field& field : fields) {
    const double* const number = std::get_if<double>(&field.value);
    const bool finite = number == nullptr || std::isfinite(*number);  // JSON has no other numbers
    line += "," + boost::json::serialize(field.name) + ":" +
            (finite ? encode(field.value, "null") : "null");
  }
  return line + "}\n";
}

std::string csv_header(const std::vector<std::string>& columns) {
  std::string line = "kind";
  for (const std::string& column : columns)
    line += "," + column;
  return line + "\n";
}

std::string to_csv_line(std::string_view kind,
                        const Fields& fields,
                        const std::vector<std::string>& columns) {
  std::string line(kind);
  for (const std::string& column : columns) {
    line += ',';
    for (const Field& field : fields)
      if (field.name == column) line += encode(field.value, "");
  }
  return line + "\n";
}

struct LineHead {
  std::int64_t step = 0;
  bool is_epoch = false;
  bool is_evaluation = false;
};

std::optional<LineHead> read_json_head(std::string_view line) {
  boost::json::error_code error;
  const boost::json::value record = boost::json::parse(line, error);
  if (error || !record.is_object()) return {};
  const boost::json::value* const step = record.get_object().if_contains("step");
  if (step == nullptr || !step->is_int64()) return {};
  const boost::json::value* const kind = record.get_object().if_contains("kind");
  const auto is_kind = [kind](const char* name) { return kind != nullptr && *kind == name; };
  return LineHead{step->get_int64(), is_kind("epoch"), is_kind("evaluation")};
}

std::optional<LineHead> read_csv_head(std::string_view line) {
  const bool is_epoch = line.starts_with("epoch,");
  const bool is_evaluation = line.starts_with("evaluation,");
  for (std::size_t i = 0; i < kStepColumn; ++i) {
    const std::size_t comma = line.find(',');
    if (comma == std::string_view::npos) return {};
    line.remove_prefix(comma + 1);
  }
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), step);
  if (error != std::errc()) return {};
  return LineHead{step, is_epoch, is_evaluation};
}

using HeadReader = std::function<std::optional<LineHead>(std::string_view)>;

bool is_kept(const LineHead& head, const MetricsRequest& request) {
  if (head.step != request.resumed_step) return head.step < request.resumed_step;
  return !(head.is_epoch && request.epoch_is_open) && !(head.is_evaluation && request.step_is_open);
}

// Drops what the run will write again, and a line that a crash cut off. Returns whether the record
// of the resumed step is there.
bool drop_later(const std::string& name,
                const MetricsRequest& request,
                std::string_view header,
                const HeadReader& read_head) {
  constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
  const std::string old = read_file(request.directory, name, kAll).value_or("");
  std::string kept(header);
  bool has_step = false;
  std::string_view rest = old;
  if (rest.starts_with(header)) rest.remove_prefix(header.size());
  for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    const std::string_view line = rest.substr(0, end + 1);
    const std::optional<LineHead> head = read_head(line.substr(0, end));
    if (head && is_kept(*head, request)) kept += line;
    if (head && head->step == request.resumed_step && !head->is_epoch && !head->is_evaluation)
      has_step = true;
    rest.remove_prefix(end + 1);
  }
  if (kept != old) replace_file(request.directory, name, kept);
  return has_step;
}

// Runs `action`; when the disk refuses, says so once and gives the target up.
template <typename Target, typename Action>
void attempt(std::optional<Target>& target, const char* what, const Action& action) {
  try {
    action(target);
  } catch (const SystemError& error) {
    log::warning(std::string("cannot write ") + what + ": " + error.what() +
                 ". Training goes on without it.");
    target.reset();
  }
}

}  // namespace

// One record as names and values: both text formats are made from it, so that they cannot differ.
struct MetricsWriter::Record {
  std::string_view kind;
  std::int64_t step = 0;
  Fields fields;
  std::vector<Scalar> scalars;

  void add(const std::string& before, const NamedValues& values) {
    for (const auto& [name, value] : values)
      fields.push_back({before + name, value});
  }
  void show(const NamedValues& values, const std::string& after) {
    for (const auto& [name, value] : values)
      scalars.push_back({name + after, value});
  }
  /// With null for what was not evaluated.
  void add_test(const std::vector<std::string>& names, const NamedValues& test) {
    if (test.empty()) {
      for (const std::string& name : names)
        fields.push_back({"test_" + name, std::monostate()});
    }
    add("test_", test);
    show(test, "/test");
  }
};

MetricsWriter::MetricsWriter(const MetricsRequest& request)
    : columns_(columns_of(request)), test_names_(request.test_names) {
  const auto open = [&](const char* name, std::string_view header, const HeadReader& read_head) {
    if (drop_later(name, request, header, read_head)) has_resumed_step_ = true;
    return OutputFile(request.directory, name, OutputFile::Mode::append);
  };
  if (request.jsonl) {
    attempt(jsonl_, "metrics.jsonl", [&](auto& file) {
      file = open("metrics.jsonl", "", read_json_head);
    });
  }
  if (request.csv) {
    attempt(csv_, "metrics.csv", [&](auto& file) {
      file = open("metrics.csv", csv_header(columns_), read_csv_head);
    });
  }
  if (request.tensorboard) {
    attempt(events_, "the TensorBoard file", [&](auto& file) {
      file.emplace(request.directory, request.resumed_step);
    });
  }
}

void MetricsWriter::write(const StepRecord& record) {
  Record row{
      "step",
      record.step,
      {{"epoch", record.epoch},
       {"step", record.step},
       {"loss", record.loss},
       {"lr", record.lr},
       {"images_per_s", record.images_per_s}},
      {{"loss/step", record.loss}, {"lr", record.lr}, {"images_per_s/step", record.images_per_s}}};
  for (const auto& [name, value] : record.loss_parts) {
    row.fields.push_back({"loss/" + name, value});
    row.scalars.push_back({"loss/" + name, value});
  }
  row.add("", record.more);
  row.show(record.more, "");
  append(row);
}

void MetricsWriter::write(const EpochRecord& record) {
  Record row{"epoch", record.step, {{"epoch", record.epoch}, {"step", record.step}}, {}};
  row.add("train_", record.train);
  row.show(record.train, "/train");
  row.scalars.push_back({"images_per_s/epoch", record.images_per_s});
  row.add_test(test_names_, record.test);
  row.fields.push_back({"images_per_s", record.images_per_s});
  row.fields.push_back({"seconds", record.seconds});
  row.add("", record.figures);
  for (const Figure& figure : kFigures) {
    const std::optional<double> value = find_value(record.figures, figure.name);
    if (value) row.scalars.push_back({std::string(figure.tag), *value});
  }
  row.add("", record.more);
  row.show(record.more, "");
  append(row);
}

void MetricsWriter::write(const EvaluationRecord& record) {
  Record row{"evaluation", record.step, {{"epoch", record.epoch}, {"step", record.step}}, {}};
  row.add_test(test_names_, record.test);
  append(row);
}

void MetricsWriter::append(const Record& record) {
  if (jsonl_) {
    attempt(jsonl_, "metrics.jsonl", [&](auto& file) {
      file->write(to_json_line(record.kind, record.fields));
    });
  }
  if (csv_) {
    attempt(csv_, "metrics.csv", [&](auto& file) {
      file->write(to_csv_line(record.kind, record.fields, columns_));
    });
  }
  if (events_) {
    attempt(events_, "the TensorBoard file", [&](auto& file) {
      file->write(record.step, record.scalars);
    });
  }
}

}  // namespace ddp::worker
