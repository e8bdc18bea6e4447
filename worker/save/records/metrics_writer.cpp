#include "worker/save/records/metrics_writer.h"

#include <array>
#include <boost/json.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/files/files.h"
#include "common/text/parse_whole.h"
#include "common/text/split.h"
#include "common/text/units.h"
#include "worker/plan/epoch_number.h"
#include "worker/save/records/metrics_command.h"

namespace ddp::worker {
namespace {

using Value = std::variant<std::monostate, std::int64_t, double>;
struct Field {
  std::string name;
  Value value;
};
using Fields = std::vector<Field>;

// A value that only some runs have; other runs' records lack it.
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

// The columns of the CSV after `kind`, in order. A record fills some of them.
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

// Numbers in a form that reads back equal; `missing` stands for a missing value.
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
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  bool is_epoch = false;
  bool is_evaluation = false;
};

std::optional<LineHead> read_json_head(std::string_view line) {
  boost::json::error_code error;
  const boost::json::value record = boost::json::parse(line, error);
  if (error || !record.is_object()) return {};
  const boost::json::value* const step = record.get_object().if_contains("step");
  const boost::json::value* const epoch = record.get_object().if_contains("epoch");
  if (step == nullptr || !step->is_int64() || epoch == nullptr || !epoch->is_int64()) return {};
  const boost::json::value* const kind = record.get_object().if_contains("kind");
  const auto is_kind = [kind](const char* name) { return kind != nullptr && *kind == name; };
  return LineHead{epoch->get_int64(), step->get_int64(), is_kind("epoch"), is_kind("evaluation")};
}

std::optional<LineHead> read_csv_head(std::string_view line) {
  std::vector<std::string_view> parts = split(line, ',');  // kind, epoch, step, ...
  if (parts.size() < 3) return {};
  // Only the front of each: a spreadsheet may have saved the file with "12.0" and CRLF.
  const auto epoch = take_number<std::int64_t>(parts[1]);
  const auto step = take_number<std::int64_t>(parts[2]);
  if (!epoch || !step) return {};
  return LineHead{*epoch, *step, parts[0] == "epoch", parts[0] == "evaluation"};
}

// What drop_later must know about a file.
struct Format {
  const char* name;
  std::string header;
  std::string_view before_epoch;  // the text before the epoch's number in a line
  std::optional<LineHead> (*read_head)(std::string_view line);
};

// The line with its epoch counted from 1 instead of 0.
std::string count_from_one(std::string_view line, const Format& format, std::int64_t epoch) {
  const std::size_t from = line.find(format.before_epoch) + format.before_epoch.size();
  const std::size_t to = line.find(',', from);
  return std::string(line.substr(0, from)) + std::to_string(epoch_number(epoch)) +
         std::string(line.substr(to));
}

bool is_kept(const LineHead& head, const MetricsRequest& request) {
  if (head.step != request.resumed_step) return head.step < request.resumed_step;
  return !(head.is_epoch && request.epoch_is_open) && !(head.is_evaluation && request.step_is_open);
}

// Drops records that the run will write again, and a line that a crash cut off. A file with an
// epoch 0 counts epochs from 0, and is rewritten. Returns whether the resumed step has a record.
bool drop_later(const Format& format, const MetricsRequest& request) {
  constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
  const std::string old = read_file(request.directory, format.name, kAll).value_or("");
  std::string kept = format.header;
  bool has_step = false;
  bool is_from_zero = false;
  std::string_view rest = old;
  if (rest.starts_with(format.header)) rest.remove_prefix(format.header.size());
  for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    const std::string_view line = rest.substr(0, end + 1);
    const std::optional<LineHead> head = format.read_head(line.substr(0, end));
    if (head && head->epoch == 0) is_from_zero = true;
    if (head && is_kept(*head, request))
      kept += is_from_zero ? count_from_one(line, format, head->epoch) : std::string(line);
    if (head && head->step == request.resumed_step && !head->is_epoch && !head->is_evaluation)
      has_step = true;
    rest.remove_prefix(end + 1);
  }
  if (kept != old) replace_file(request.directory, format.name, kept);
  return has_step;
}

}  // namespace

// One record as names and values. Both text formats are made from it, so they cannot differ.
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
  /// With nulls if nothing was evaluated.
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
    : directory_(request.directory),
      waits_for_picture_(request.resumed_step == 0),
      columns_(columns_of(request)),
      test_names_(request.test_names),
      programs_(request.programs) {
  const auto open = [&](const Format& format) {
    if (drop_later(format, request)) has_resumed_step_ = true;
    return OutputFile(request.directory, format.name, OutputFile::Mode::append);
  };
  if (request.jsonl) {
    attempt(jsonl_, "metrics.jsonl", [&](auto& file) {
      file = open({"metrics.jsonl", "", "\"epoch\":", read_json_head});
    });
  }
  if (request.csv) {
    attempt(csv_, "metrics.csv", [&](auto& file) {
      file = open({"metrics.csv", csv_header(columns_), ",", read_csv_head});
    });
  }
  if (request.tensorboard) {
    attempt(events_, "the TensorBoard file", [&](auto& file) {
      file.emplace(request.directory, request.resumed_step);
      if (!request.hyperparameters.empty())
        file->write_hyperparameters(request.resumed_step, request.hyperparameters);
      if (request.job_text.empty()) return;
      file->write_text(
          request.resumed_step, "job/text_summary", "```yaml\n" + request.job_text + "```\n");
    });
  }
}

void MetricsWriter::write(const StepRecord& record) {
  Record row{
      "step",
      record.step,
      {{"epoch", epoch_number(record.epoch)},
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
  Record row{
      "epoch", record.step, {{"epoch", epoch_number(record.epoch)}, {"step", record.step}}, {}};
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
  Record row{"evaluation",
             record.step,
             {{"epoch", epoch_number(record.epoch)}, {"step", record.step}},
             {}};
  row.add_test(test_names_, record.test);
  append(row);
}

void MetricsWriter::append(const Record& record) {
  if (programs_ != nullptr) programs_->feed(to_json_line(record.kind, record.fields));
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
  if (waits_for_picture_) show_first_batch();
}

void MetricsWriter::show(std::int64_t step, const NamedValues& values) {
  if (!events_) return;
  std::vector<Scalar> scalars;
  for (const auto& [tag, value] : values)
    scalars.push_back({tag, value});
  attempt(events_, "the TensorBoard file", [&](auto& file) { file->write(step, scalars); });
}

/// Shows the images of the run's first step in TensorBoard, once they are drawn.
void MetricsWriter::show_first_batch() {
  if (!events_) return;
  attempt(events_, "the TensorBoard file", [&](auto& file) {
    const std::optional<std::string> png = read_file(directory_, "train_batch0.png");
    if (!png) return;
    file->write_image(0, "first_batch", *png);
    waits_for_picture_ = false;
  });
}

}  // namespace ddp::worker
