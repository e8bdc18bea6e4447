// The fields of a message are named once, in fields(), for both directions: a Writer puts them into
// an object, a Reader takes them out of one.
#include "launcher/plan/message_codec.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <concepts>
#include <limits>
#include <numeric>
#include <type_traits>

#include "common/utf8.h"

namespace ddp::launcher {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxDepth = 16;
constexpr std::int64_t kMany = 1'000'000'000;
constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();

/// Of a number, both ends included.
struct Range {
  std::int64_t least = 0;
  std::int64_t most = kMany;
};
constexpr Range kAnything{std::numeric_limits<std::int64_t>::min(), kAny};
constexpr Range kNotNegative{0, kAny};
constexpr Range kCode{0, 255};
constexpr Range kFailure{1, 255};
constexpr Range kSignal{0, 64};
constexpr Range kAtLeast1{1, kMany};
// 31 years in nanoseconds: added to a steady time, it does not overflow.
constexpr Range kSpan{0, 1'000'000'000'000'000'000};

template <typename M, typename T>
concept A = std::same_as<std::remove_const_t<M>, T>;

// --- The fields of each message.

template <typename Io>
void fields(Io& io, A<Hello> auto& m) {
  io.field("protocol", m.protocol);
  io.field("version", m.version);
  if (m.protocol != kProtocolVersion) return;
  io.field("user_run_id", m.user_run_id);
  io.field("node_rank", m.node_rank);
  io.field("min_nodes", m.min_nodes, kAtLeast1);
  io.field("max_nodes", m.max_nodes, kAtLeast1);
  io.field("nproc", m.nproc, kAtLeast1);
  io.field("host", m.host);
  io.field("pid", m.pid, kNotNegative);
  io.field("entry", m.entry);
  io.field("asks", m.asks);
  io.field("problem", m.problem);
  io.field("job_keys", m.job_keys);
}

template <typename Io>
void fields(Io& io, A<Welcome> auto& m) {
  io.field("run_id", m.run_id);
  io.field("user_run_id", m.user_run_id);
  io.field("host", m.host);
}

template <typename Io>
void fields(Io& io, A<Refusal> auto& m) {
  io.field("code", m.code, kFailure);
  io.field("text", m.text);
}

template <typename Io>
void fields(Io& io, A<StartRound> auto& m) {
  io.field("round", m.round);
  io.field("node_rank", m.node_rank);
  io.field("workers_of_node", m.workers_of_node, kAtLeast1);
  io.field("master_port", m.master_port, Range{0, 65535});
  io.field("run_dir", m.run_dir);
}

template <typename Io>
void fields(Io& io, A<AnnounceStop> auto& m) {
  io.field("round", m.round);
  io.field("reason", m.reason, Range{0, static_cast<std::int64_t>(StopReason::teardown)});
  io.field("line", m.line);
}

template <typename Io>
void fields(Io& io, A<StopRound> auto& m) {
  io.field("round", m.round);
  io.field("reason", m.reason, Range{0, static_cast<std::int64_t>(StopReason::teardown)});
  io.field("signal", m.signal, kSignal);
  io.field("grace", m.grace, kSpan);
  io.field("wants_stacks", m.wants_stacks);
  io.field("line", m.line);
}

template <typename Io>
void fields(Io& io, A<JobEnd> auto& m) {
  io.field("exit_code", m.exit_code, kCode);
  io.field("state", m.state, Range{0, static_cast<std::int64_t>(RunState::failed)});
  io.whole_text("report", m.report);
  io.whole_text("members", m.members);
  io.whole_text("error_text", m.error_text);
}

template <typename Io>
void fields(Io& io, A<OrderBeat> auto& m) {
  io.field("sent", m.sent_ns, kAnything);
  io.field("line", m.line);
}

template <typename Io>
void fields(Io& io, A<Started> auto& m) {
  io.field("round", m.round);
  io.field("begin", m.begin_ns, kAnything);
  io.field("pids", m.pids, kNotNegative);
}

template <typename Io>
void fields(Io& io, A<ExitStatus> auto& m) {
  io.field("code", m.code, kCode);
  io.field("signal", m.signal, kSignal);
  io.field("core", m.core);
}

template <typename Io>
void fields(Io& io, A<Ending> auto& m) {
  io.field("rank", m.rank);
  io.field("status", m.status);
  io.field("at", m.at, kAnything);
  io.field("stop_sent", m.stop_sent);
  io.field("kill_sent", m.kill_sent);
  io.field("opened_page", m.opened_page);
  io.field("phase", m.phase, Range{0, static_cast<std::int64_t>(Phase::finished)});
  io.field("joined_store", m.joined_store);
  io.field("was_frozen", m.was_frozen);
}

template <typename Io>
void fields(Io& io, A<Exited> auto& m) {
  io.field("round", m.round);
  io.field("pid", m.pid, kNotNegative);
  io.field("local_rank", m.local_rank);
  io.field("ending", m.ending);
}

template <typename Io>
void fields(Io& io, A<WorkerReport> auto& m) {
  io.field("ending", m.ending);
  io.field("node_rank", m.node_rank);
  io.field("host", m.host);
  io.field("local_rank", m.local_rank);
  io.field("pid", m.pid, kNotNegative);
  io.field("lived", m.lived, kAnything);
  io.field("ended_at", m.ended_at, kAnything);
  io.field("step", m.step, kAnything);
  io.field("steps_total", m.steps_total, kAnything);
  io.field("checkpoint_step", m.checkpoint_step, kAnything);
  io.field("error_file", m.error_file);
  io.whole_text("error_text", m.error_text);
  io.field("last_lines", m.last_lines);
  io.field("hidden_lines", m.hidden_lines);
  io.field("findings", m.findings);
  io.field("rerun", m.rerun);
}

template <typename Io>
void fields(Io& io, A<GroupEnded> auto& m) {
  io.field("round", m.round);
  io.field("workers", m.workers);
  io.field("leftovers", m.leftovers);
}

template <typename Io>
void fields(Io& io, A<NodeFailed> auto& m) {
  io.field("round", m.round);
  io.field("code", m.code, kCode);
  io.field("text", m.text);
}

template <typename Io>
void fields(Io& io, A<StopAsked> auto& m) {
  io.field("signal", m.signal, Range{1, kSignal.most});
}

template <typename Io>
void fields(Io& io, A<WorkerSample> auto& m) {
  io.field("rank", m.rank);
  io.field("alive", m.alive);
  io.field("has_page", m.has_page);
  io.field("phase", m.phase, Range{0, static_cast<std::int64_t>(Phase::finished)});
  io.field("epoch", m.epoch, kAnything);
  io.field("step", m.step, kAnything);
  io.field("steps_total", m.steps_total, kAnything);
  io.field("samples", m.samples, kAnything);
  io.field("loss", m.loss);
  io.field("written", m.written_ns, kAnything);
  io.field("state", m.state, Range{0x20, 0x7e});
  io.field("cpu_ticks", m.cpu_ticks, kNotNegative);
  io.field("output_bytes", m.output_bytes, kNotNegative);
  io.field("ended_well", m.ended_well);
  io.field("ended_at", m.ended_at, kAnything);
  io.field("joined_store", m.joined_store);
  io.field("waits_since", m.waits_since, kAnything);
}

template <typename Io>
void fields(Io& io, A<NewsBeat> auto& m) {
  io.field("round", m.round);
  io.field("sent", m.sent_ns, kAnything);
  io.field("echo", m.echo_ns, kAnything);
  io.field("echo_age", m.echo_age_ns, kAnything);
  io.field("samples", m.samples);
}

template <typename M>
constexpr std::string_view kType = "";
template <>
constexpr std::string_view kType<Hello> = "hello";
template <>
constexpr std::string_view kType<Welcome> = "welcome";
template <>
constexpr std::string_view kType<Refusal> = "refusal";
template <>
constexpr std::string_view kType<StartRound> = "start";
template <>
constexpr std::string_view kType<AnnounceStop> = "announce-stop";
template <>
constexpr std::string_view kType<StopRound> = "stop";
template <>
constexpr std::string_view kType<JobEnd> = "verdict";
template <>
constexpr std::string_view kType<OrderBeat> = "order-beat";
template <>
constexpr std::string_view kType<Started> = "started";
template <>
constexpr std::string_view kType<Exited> = "exited";
template <>
constexpr std::string_view kType<GroupEnded> = "stopped";
template <>
constexpr std::string_view kType<NodeFailed> = "failed";
template <>
constexpr std::string_view kType<StopAsked> = "stop-asked";
template <>
constexpr std::string_view kType<NewsBeat> = "news-beat";

/// What no single field can say.
template <typename M>
bool is_sound(const M&) {
  return true;
}
bool is_sound(const Hello& m) {
  return m.min_nodes <= m.max_nodes;
}
bool is_sound(const StartRound& m) {
  const auto& counts = m.workers_of_node;
  return m.node_rank < static_cast<int>(counts.size()) &&
         std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) <= kMany;
}

// --- Out.

/// Valid UTF-8, at most `most` bytes of `text` and a mark where it was cut.
std::string cleaned(std::string_view text, std::size_t most) {
  const bool is_cut = text.size() > most;
  text = text.substr(0, most);
  std::string result;
  while (true) {
    const std::size_t good = valid_utf8(text);
    result.append(text.substr(0, good));
    if (good == text.size()) break;
    const bool is_half = is_cut && text.size() - good < 4;  // of a character, by the cut
    if (!is_half) result.append(kReplacement);
    text.remove_prefix(good + 1);
  }
  return is_cut ? result + "..." : result;
}

class Writer {
 public:
  template <typename T>
  void field(std::string_view name, const T& value, Range = {}) {
    object_[name] = to_json(value);
  }
  void whole_text(std::string_view name, const std::string& text) {
    object_[name] = cleaned(text, std::string::npos);
  }
  template <typename M>
  static json::object write(const M& message) {
    Writer writer;
    fields(writer, message);
    return std::move(writer.object_);
  }

 private:
  template <typename T>
  requires std::integral<T> || std::is_enum_v<T>
  static json::value to_json(T value) {
    if constexpr (std::same_as<T, bool>)
      return value;
    else
      return static_cast<std::int64_t>(value);
  }
  static json::value to_json(double value) {
    return std::isfinite(value) ? json::value(value) : json::value(nullptr);  // JSON knows no NaN
  }
  static json::value to_json(const std::string& text) {
    return json::value(cleaned(text, kLongestText));
  }
  template <typename Period>
  static json::value to_json(std::chrono::duration<std::int64_t, Period> time) {
    return std::chrono::nanoseconds(time).count();
  }
  static json::value to_json(std::chrono::system_clock::time_point time) {
    return to_json(time.time_since_epoch());
  }
  template <typename T>
  static json::value to_json(const std::optional<T>& value) {
    return value ? to_json(*value) : json::value(nullptr);
  }
  template <typename T>
  static json::value to_json(const std::vector<T>& values) {
    json::array array;
    array.reserve(values.size());
    for (const T& value : values)
      array.push_back(to_json(value));
    return array;
  }
  static json::value to_json(const std::map<std::string, std::string>& texts) {
    json::object object;
    for (const auto& [name, text] : texts)
      object[cleaned(name, kLongestText)] = to_json(text);
    return object;
  }
  template <typename M>
  requires std::is_class_v<M>
  static json::value to_json(const M& message) { return write(message); }

  json::object object_;
};

template <typename M>
std::string write_message(const M& message) {
  json::object object = Writer::write(message);
  object["type"] = kType<M>;
  return json::serialize(object);
}

// --- In.

class Reader {
 public:
  explicit Reader(const json::object& object) : object_(object) {}

  template <typename T>
  void field(std::string_view name, T& value, Range range = {}) {
    const json::value* const found = is_good_ ? object_.if_contains(name) : nullptr;
    is_good_ = found != nullptr && take(*found, value, range);
  }
  void whole_text(std::string_view name, std::string& text) { field(name, text); }

  template <typename M>
  static bool read(const json::value& from, M& message) {
    const json::object* const object = from.if_object();
    if (object == nullptr) return false;
    Reader reader(*object);
    fields(reader, message);
    return reader.is_good_ && is_sound(message);
  }

 private:
  template <typename T>
  requires std::integral<T> || std::is_enum_v<T>
  static bool take(const json::value& from, T& value, Range range) {
    if constexpr (std::same_as<T, bool>) {
      if (from.is_bool()) value = from.get_bool();
      return from.is_bool();
    } else {
      const std::int64_t* const number = from.if_int64();
      if (number == nullptr || *number < range.least || *number > range.most) return false;
      value = static_cast<T>(*number);
      return true;
    }
  }
  static bool take(const json::value& from, double& value, Range) {
    boost::system::error_code error;
    value = from.is_null() ? std::nan("") : from.to_number<double>(error);
    return !error;
  }
  static bool take(const json::value& from, std::string& text, Range) {
    const json::string* const string = from.if_string();
    if (string != nullptr) text.assign(string->data(), string->size());
    return string != nullptr;
  }
  template <typename Period>
  static bool take(const json::value& from,
                   std::chrono::duration<std::int64_t, Period>& time,
                   Range range) {
    std::int64_t count = 0;
    if (!take(from, count, range)) return false;
    time = std::chrono::duration_cast<std::chrono::duration<std::int64_t, Period>>(
        std::chrono::nanoseconds(count));
    return true;
  }
  static bool take(const json::value& from,
                   std::chrono::system_clock::time_point& time,
                   Range range) {
    std::chrono::nanoseconds since{0};
    if (!take(from, since, range)) return false;
    time = std::chrono::system_clock::time_point(since);
    return true;
  }
  template <typename T>
  static bool take(const json::value& from, std::optional<T>& value, Range range) {
    value.reset();
    return from.is_null() || take(from, value.emplace(), range);
  }
  template <typename T>
  static bool take(const json::value& from, std::vector<T>& values, Range range) {
    const json::array* const array = from.if_array();
    if (array == nullptr) return false;
    values.clear();
    return std::all_of(array->begin(), array->end(), [&](const json::value& value) {
      return take(value, values.emplace_back(), range);
    });
  }
  static bool take(const json::value& from, std::map<std::string, std::string>& texts, Range) {
    const json::object* const object = from.if_object();
    if (object == nullptr) return false;
    texts.clear();
    return std::all_of(object->begin(), object->end(), [&](const auto& entry) {
      return take(entry.value(), texts[std::string(entry.key())], Range{});
    });
  }
  template <typename M>
  requires std::is_class_v<M>
  static bool take(const json::value& from, M& message, Range) { return read(from, message); }

  const json::object& object_;
  bool is_good_ = true;
};

/// The message of that type, if it is one of the variant's.
template <typename Variant, std::size_t I = 0>
std::optional<Variant> read_as(std::string_view type, const json::value& from) {
  if constexpr (I < std::variant_size_v<Variant>) {
    using M = std::variant_alternative_t<I, Variant>;
    if (type != kType<M>) return read_as<Variant, I + 1>(type, from);
    M message;
    if (Reader::read(from, message)) return message;
  }
  return std::nullopt;
}

template <typename Variant>
std::optional<Variant> decode(std::string_view text) {
  json::parse_options options;
  options.max_depth = kMaxDepth;
  boost::system::error_code error;
  const json::value root = json::parse(text, error, {}, options);
  const json::object* const object = error ? nullptr : root.if_object();
  const json::value* const type = object == nullptr ? nullptr : object->if_contains("type");
  const json::string* const name = type == nullptr ? nullptr : type->if_string();
  if (name == nullptr) return std::nullopt;
  return read_as<Variant>(std::string_view(name->data(), name->size()), root);
}

// --- What may be long, made to fit.

/// The newest lines that fill at most `most` bytes, each cut to kLongestLine.
void keep_newest(std::vector<std::string>& lines, std::size_t most) {
  std::size_t bytes = 0;
  std::size_t kept = 0;
  while (kept < lines.size()) {
    std::string& line = lines[lines.size() - 1 - kept];
    if (line.size() > kLongestLine) line = cleaned(line, kLongestLine);
    bytes += line.size() + 1;
    if (bytes > most) break;
    ++kept;
  }
  lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(kept));
}

void cut(WorkerReport& worker, std::size_t most) {
  keep_newest(worker.last_lines, most);
  keep_newest(worker.hidden_lines, most);
  if (worker.error_text.size() > most) worker.error_text.clear();  // half of a JSON text is none
  constexpr std::size_t kRoomForRest = 4096;                       // findings say why it died
  if (most >= kRoomForRest) return;
  keep_newest(worker.findings, most);
  if (worker.rerun.size() > most) worker.rerun.clear();
}

void cut(GroupEnded& ended, std::size_t most) {
  for (WorkerReport& worker : ended.workers)
    cut(worker, most);
  keep_newest(ended.leftovers, 16 * most);
}

void cut(JobEnd& end, std::size_t most) {
  if (end.error_text.size() > most) end.error_text.clear();
  if (end.report.size() > most) end.report = cleaned(end.report, most) + " (cut)\n";
  if (end.members.size() > most) end.members.clear();
}

template <typename M>
std::string write_shortened(M message) {
  std::size_t most = kLongestFrame;
  while (true) {
    cut(message, most);
    const std::string text = write_message(message);
    if (text.size() <= kLongestFrame || most == 0) return text;
    most /= 2;
  }
}

std::string write_any(const GroupEnded& message) {
  return write_shortened(message);
}
std::string write_any(const JobEnd& message) {
  return write_shortened(message);
}
template <typename M>
std::string write_any(const M& message) {
  return write_message(message);
}

}  // namespace

std::string encode(const Hello& hello) {
  return write_message(hello);
}
std::string encode(const Welcome& welcome) {
  return write_message(welcome);
}
std::string encode(const Refusal& refusal) {
  return write_message(refusal);
}
std::string encode(const Order& order) {
  return std::visit([](const auto& message) { return write_any(message); }, order);
}
std::string encode(const News& news) {
  return std::visit([](const auto& message) { return write_any(message); }, news);
}

std::optional<Hello> decode_hello(std::string_view text) {
  std::optional<std::variant<Hello>> message = decode<std::variant<Hello>>(text);
  if (!message) return std::nullopt;
  return std::get<Hello>(std::move(*message));
}
std::optional<Answer> decode_answer(std::string_view text) {
  return decode<Answer>(text);
}
std::optional<Order> decode_order(std::string_view text) {
  return decode<Order>(text);
}
std::optional<News> decode_news(std::string_view text) {
  return decode<News>(text);
}

}  // namespace ddp::launcher
