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

namespace ddp::worker {
namespace {

// One record as names and values: both text formats are made from it, so that they cannot differ.
using Value = std::variant<std::monostate, std::int64_t, double>;
struct Field {
  std::string name;
  Value value;
};
using Fields = std::vector<Field>;

// The columns of the CSV, in order. A record has some of them; the parts of a loss, whose names are
// the job's, have none.
constexpr std::array<std::string_view, 16> kColumns{"epoch",
                                                    "step",
                                                    "loss",
                                                    "lr",
                                                    "train_loss",
                                                    "train_accuracy",
                                                    "test_loss",
                                                    "test_accuracy",
                                                    "images_per_s",
                                                    "seconds",
                                                    "forward_ms",
                                                    "backward_ms",
                                                    "communication_ms",
                                                    "overlap_ms",
                                                    "loss_scale",
                                                    "skipped_steps"};
constexpr std::size_t kStepColumn = 2;  // behind kind and epoch

Value maybe(const std::optional<double>& value) {
  return value ? Value(*value) : Value(std::monostate());
}

Fields to_fields(const StepRecord& record) {
  Fields fields{{"epoch", record.epoch},
                {"step", record.step},
                {"loss", record.loss},
                {"lr", record.lr},
                {"images_per_s", record.images_per_s}};
  for (const auto& [name, value] : record.loss_parts)
    fields.push_back({"loss/" + name, value});
  return fields;
}

// What only some runs have: left out of a record without it.
struct Figure {
  const char* name;
  const char* tag;  // in TensorBoard
  std::optional<double> value;
};

std::array<Figure, 6> figures_of(const EpochRecord& record) {
  return {{{"forward_ms", "ddp/forward_ms", record.forward_ms},
           {"backward_ms", "ddp/backward_ms", record.backward_ms},
           {"communication_ms", "ddp/communication_ms", record.communication_ms},
           {"overlap_ms", "ddp/overlap_ms", record.overlap_ms},
           {"loss_scale", "amp/loss_scale", record.loss_scale},
           {"skipped_steps", "amp/skipped_steps", record.skipped_steps}}};
}

Fields to_fields(const EpochRecord& record) {
  Fields fields{{"epoch", record.epoch},
                {"step", record.step},
                {"train_loss", record.train_loss},
                {"train_accuracy", record.train_accuracy},
                {"test_loss", maybe(record.test_loss)},
                {"test_accuracy", maybe(record.test_accuracy)},
                {"images_per_s", record.images_per_s},
                {"seconds", record.seconds}};
  for (const auto& [name, tag, value] : figures_of(record)) {
    if (value) fields.push_back({name, *value});
  }
  return fields;
}

// The shortest text that reads back as the same number; `missing` for what is not there.
std::string encode(const Value& value, std::string_view missing) {
  std::array<char, 32> buffer{};
  const auto text = [&](auto number) {
    const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
    return std::string(buffer.data(), end);
  };
  if (const auto* const number = std::get_if<std::int64_t>(&value)) return text(*number);
  if (const auto* const number = std::get_if<double>(&value)) return text(*number);
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

std::string csv_header() {
  std::string line = "kind";
  for (const std::string_view column : kColumns)
    line += "," + std::string(column);
  return line + "\n";
}

std::string to_csv_line(std::string_view kind, const Fields& fields) {
  std::string line(kind);
  for (const std::string_view column : kColumns) {
    line += ',';
    for (const Field& field : fields)
      if (field.name == column) line += encode(field.value, "");
  }
  return line + "\n";
}

struct LineHead {
  std::int64_t step = 0;
  bool is_epoch = false;
};

std::optional<LineHead> read_json_head(std::string_view line) {
  boost::json::error_code error;
  const boost::json::value record = boost::json::parse(line, error);
  if (error || !record.is_object()) return {};
  const boost::json::value* const step = record.get_object().if_contains("step");
  if (step == nullptr || !step->is_int64()) return {};
  const boost::json::value* const kind = record.get_object().if_contains("kind");
  return LineHead{step->get_int64(), kind != nullptr && *kind == "epoch"};
}

std::optional<LineHead> read_csv_head(std::string_view line) {
  const bool is_epoch = line.starts_with("epoch,");
  for (std::size_t i = 0; i < kStepColumn; ++i) {
    const std::size_t comma = line.find(',');
    if (comma == std::string_view::npos) return {};
    line.remove_prefix(comma + 1);
  }
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), step);
  if (error != std::errc()) return {};
  return LineHead{step, is_epoch};
}

using HeadReader = std::function<std::optional<LineHead>(std::string_view)>;

bool is_kept(const LineHead& head, const MetricsRequest& request) {
  if (head.step != request.resumed_step) return head.step < request.resumed_step;
  return !(head.is_epoch && request.epoch_is_open);
}

// Drops what the run will write again, and a line that a crash cut off.
void drop_later(const std::string& name,
                const MetricsRequest& request,
                std::string_view header,
                const HeadReader& read_head) {
  constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
  const std::string old = read_file(request.directory, name, kAll).value_or("");
  std::string kept(header);
  std::string_view rest = old;
  if (rest.starts_with(header)) rest.remove_prefix(header.size());
  for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    const std::string_view line = rest.substr(0, end + 1);
    const std::optional<LineHead> head = read_head(line.substr(0, end));
    if (head && is_kept(*head, request)) kept += line;
    rest.remove_prefix(end + 1);
  }
  if (kept != old) replace_file(request.directory, name, kept);
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

MetricsWriter::MetricsWriter(const MetricsRequest& request) {
  const auto open = [&](const char* name, std::string_view header, const HeadReader& read_head) {
    drop_later(name, request, header, read_head);
    return OutputFile(request.directory, name, OutputFile::Mode::append);
  };
  if (request.jsonl) {
    attempt(jsonl_, "metrics.jsonl", [&](auto& file) {
      file = open("metrics.jsonl", "", read_json_head);
    });
  }
  if (request.csv) {
    attempt(csv_, "metrics.csv", [&](auto& file) {
      file = open("metrics.csv", csv_header(), read_csv_head);
    });
  }
  if (request.tensorboard) {
    attempt(events_, "the TensorBoard file", [&](auto& file) {
      file.emplace(request.directory, request.resumed_step);
    });
  }
}

void MetricsWriter::write(const StepRecord& record) {
  const Fields fields = to_fields(record);
  std::vector<Scalar> scalars{
      {"loss/step", record.loss}, {"lr", record.lr}, {"images_per_s/step", record.images_per_s}};
  for (const auto& [name, value] : record.loss_parts)
    scalars.push_back({"loss/" + name, value});
  append(to_json_line("step", fields), to_csv_line("step", fields), record.step, scalars);
}

void MetricsWriter::write(const EpochRecord& record) {
  const Fields fields = to_fields(record);
  std::vector<Scalar> scalars{{"loss/train", record.train_loss},
                              {"accuracy/train", record.train_accuracy},
                              {"images_per_s/epoch", record.images_per_s}};
  if (record.test_loss) scalars.push_back({"loss/test", *record.test_loss});
  if (record.test_accuracy) scalars.push_back({"accuracy/test", *record.test_accuracy});
  for (const auto& [name, tag, value] : figures_of(record)) {
    if (value) scalars.push_back({tag, *value});
  }
  append(to_json_line("epoch", fields), to_csv_line("epoch", fields), record.step, scalars);
}

void MetricsWriter::append(const std::string& json_line,
                           const std::string& csv_line,
                           std::int64_t step,
                           std::span<const Scalar> scalars) {
  if (jsonl_) attempt(jsonl_, "metrics.jsonl", [&](auto& file) { file->write(json_line); });
  if (csv_) attempt(csv_, "metrics.csv", [&](auto& file) { file->write(csv_line); });
  if (events_)
    attempt(events_, "the TensorBoard file", [&](auto& file) { file->write(step, scalars); });
}

}  // namespace ddp::worker
