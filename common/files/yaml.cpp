#include "common/files/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <sstream>
#include <string_view>

#include "common/error.h"
#include "common/files/input_file.h"
#include "common/files/similar_file.h"
#include "common/files/unclosed_sign.h"
#include "common/text/utf8.h"

namespace ddp {
namespace {

constexpr std::size_t kMaxBytes = 1 << 20;
// While text may still be a key, yaml-cpp keeps all of it, in up to 200 times its size: to the end
// of the line, and all that brackets enclose.
constexpr std::size_t kMaxLine = 16 << 10;
constexpr std::size_t kMaxDepth = 32;
constexpr std::size_t kMaxNodes = 10000;

Mark to_mark(const YAML::Mark& mark) {
  return {mark.line + 1, mark.column + 1};
}

// Thrown out of yaml-cpp's parser to stop its work early; never leaves this file.
struct TooMuch {
  Mark mark;
  std::string what;
};

// Builds our nodes from yaml-cpp's events. A frame is a collection that is still open.
class Builder : public YAML::EventHandler {
 public:
  explicit Builder(YamlDocument& document) : document_(document) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    YamlNode node;
    node.mark = to_mark(mark);
    add(std::move(node));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    complain(to_mark(mark), "aliases (*name) are not allowed; write the value out");
    YamlNode node;
    node.mark = to_mark(mark);
    add(std::move(node));
  }

  void OnScalar(const YAML::Mark& mark,
                const std::string& tag,
                YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    if (tag != "?" && tag != "!") complain(to_mark(mark), "tags (" + tag + ") are not allowed");
    YamlNode node;
    node.mark = to_mark(mark);
    node.quoted = tag == "!";
    if (node.quoted) last_quoted_ = node.mark;
    node.text = value;
    const bool plain_null = !node.quoted && (value == "null" || value == "~" || value.empty());
    node.kind = plain_null ? YamlNode::Kind::null : YamlNode::Kind::scalar;
    add(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark,
                       const std::string&,
                       YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    refuse_anchor(mark, anchor);
    open(YamlNode::Kind::sequence, mark);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark,
                  const std::string&,
                  YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    refuse_anchor(mark, anchor);
    open(YamlNode::Kind::map, mark);
  }
  void OnMapEnd() override { close(); }

  /// Where the last text in quotes begins.
  [[nodiscard]] std::optional<Mark> last_quoted() const { return last_quoted_; }

 private:
  struct Frame {
    YamlNode node;
    std::optional<YamlNode::Entry> pending;  // a map's key that waits for its value
    std::map<std::string, Mark> seen;
  };

  void complain(Mark mark, const std::string& what) {
    if (document_.problems.size() >= kShownProblems) {
      document_.problems.emplace_back();  // only counted
      return;
    }
    document_.problems.push_back(locate(document_.name, mark) + ": " + what);
  }

  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) {
      complain(to_mark(mark), "anchors (&name) are not allowed; write the value out");
    }
  }

  void count(Mark mark) {
    if (++nodes_ > kMaxNodes) {
      throw TooMuch{
          mark, "more than " + std::to_string(kMaxNodes) + " values; a job file has a few dozen"};
    }
  }

  void open(YamlNode::Kind kind, const YAML::Mark& mark) {
    count(to_mark(mark));
    if (frames_.size() >= kMaxDepth) {
      throw TooMuch{to_mark(mark), "nested deeper than " + std::to_string(kMaxDepth) + " levels"};
    }
    Frame frame;
    frame.node.kind = kind;
    frame.node.mark = to_mark(mark);
    frames_.push_back(std::move(frame));
  }

  void close() {
    YamlNode node = std::move(frames_.back().node);
    frames_.pop_back();
    place(std::move(node));
  }

  void add(YamlNode node) {
    count(node.mark);
    place(std::move(node));
  }

  void place(YamlNode node) {
    if (frames_.empty()) {
      document_.root = std::move(node);
      return;
    }
    Frame& frame = frames_.back();
    if (frame.node.kind == YamlNode::Kind::sequence) {
      frame.node.items.push_back(std::move(node));
      return;
    }
    if (!frame.pending) {
      frame.pending = take_key(frame, node);
      return;
    }
    frame.pending->value = std::move(node);
    frame.node.entries.push_back(std::move(*frame.pending));
    frame.pending.reset();
  }

  YamlNode::Entry take_key(Frame& frame, const YamlNode& key) {
    if (key.kind != YamlNode::Kind::scalar) complain(key.mark, "a key must be a plain word");
    if (!key.quoted && key.text == "<<") {
      complain(key.mark, "merge keys (<<) are not allowed; write the values out");
    }
    const auto [first, is_new] = frame.seen.emplace(key.text, key.mark);
    if (!is_new && key.kind == YamlNode::Kind::scalar) {
      complain(key.mark,
               "\"" + key.text + "\" is given twice; the first is on line " +
                   std::to_string(first->second.line));
    }
    YamlNode::Entry entry;
    entry.key = key.text;
    entry.mark = key.mark;
    return entry;
  }

  YamlDocument& document_;
  std::vector<Frame> frames_;
  std::optional<Mark> last_quoted_;
  std::size_t nodes_ = 0;
};

/// The number of the first line that is too long, from 1.
std::optional<int> find_long_line(std::string_view text) {
  int number = 1;
  for (std::size_t begin = 0; begin < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (end - begin > kMaxLine) return number;
    begin = end + 1;
  }
  return {};
}

// The line of the file with a caret below the column, as compilers show it.
std::string show_source(std::string_view text, Mark mark) {
  std::size_t begin = 0;
  for (int line = 1; line < mark.line; ++line) {
    const std::size_t newline = text.find('\n', begin);
    if (newline == std::string_view::npos) return "";
    begin = newline + 1;
  }
  std::string line(text.substr(begin, std::min(text.find('\n', begin), text.size()) - begin));
  if (!line.empty() && line.back() == '\r') line.pop_back();
  if (line.size() > 160) line.resize(160);
  std::replace(line.begin(), line.end(), '\t', ' ');
  const std::size_t column = std::min(static_cast<std::size_t>(mark.column - 1), line.size());
  return "\n    " + line + "\n    " + std::string(column, ' ') + "^";
}

std::string_view line_of(std::string_view text, int number) {
  for (int line = 1; line < number; ++line)
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  return text.substr(0, text.find('\n'));
}

/// The place of a tab in the indentation of the line, or of the line before it. The parser's own
/// messages about tabs are unclear.
std::optional<Mark> find_tab(std::string_view text, int line) {
  for (int number = line; number > std::max(line - 2, 0); --number) {
    const std::string_view one = line_of(text, number);
    const std::size_t tab = one.substr(0, one.find_first_not_of(" \t")).find('\t');
    if (tab != std::string_view::npos) return Mark{number, static_cast<int>(tab) + 1};
  }
  return {};
}

/// "job.yaml:1:7: this "{" is not closed: there is no "}" before line 2, column 6".
std::string describe_unclosed(std::string_view text,
                              const std::string& name,
                              const Unclosed& open,
                              std::optional<Mark> noticed) {
  const bool is_quote = open.sign == '"' || open.sign == '\'';
  const std::string close = open.sign == '{' ? "}" : "]";
  const std::string end = noticed ? "line " + std::to_string(noticed->line) + ", column " +
                                        std::to_string(noticed->column)
                                  : "the end of the file";
  return locate(name, open.mark) +
         (is_quote ? ": the text in quotes that begins here is not closed before " + end
                   : std::string(": this ") + open.sign + " is not closed: there is no " + close +
                         " before " + end) +
         show_source(text, open.mark);
}

void add_utf8_problem(YamlDocument& document, std::string_view text, std::size_t offset) {
  Mark mark;
  mark.line = 1 + static_cast<int>(
                      std::count(text.begin(), text.begin() + static_cast<long>(offset), '\n'));
  const std::size_t newline = text.rfind('\n', offset);
  mark.column =
      static_cast<int>(newline == std::string_view::npos ? offset : offset - newline - 1) + 1;
  document.problems.push_back(locate(document.name, mark) + ": invalid UTF-8 at byte " +
                              std::to_string(offset) + "; save the file as UTF-8");
}

/// Whether the text is a word or number that is a scalar in any YAML, and an indicator nowhere. A
/// possible spelling of null is not.
bool is_plain_word(std::string_view text) {
  const auto is_alnum = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  const bool may_be_null =
      text.size() == 4 && (text[0] == 'n' || text[0] == 'N') && (text[3] == 'l' || text[3] == 'L');
  return !text.empty() && text.size() <= kMaxLine && is_alnum(text.front()) && !may_be_null &&
         std::all_of(text.begin(), text.end(), [&](char c) {
           return is_alnum(c) || std::string_view("_-.,/").find(c) != std::string_view::npos;
         });
}

/// Nothing: only a parser can tell.
std::optional<YamlNode::Kind> kind_at_a_glance(std::string_view text) {
  if (text == "null") return YamlNode::Kind::null;
  if (text == "[]") return YamlNode::Kind::sequence;
  if (text == "{}") return YamlNode::Kind::map;
  if (is_plain_word(text)) return YamlNode::Kind::scalar;
  return {};
}

}  // namespace

YamlDocument parse_yaml(std::string_view text, const std::string& name) {
  YamlDocument document;
  document.name = name;
  // Most defaults of keys are one word, or empty: to parse each would take most of the launcher's
  // start.
  if (const std::optional<YamlNode::Kind> kind = kind_at_a_glance(text)) {
    document.root.kind = *kind;
    if (kind == YamlNode::Kind::scalar) document.root.text = text;
    return document;
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // a byte order mark is harmless
  if (const std::size_t offset = valid_utf8(text); offset < text.size()) {
    add_utf8_problem(document, text, offset);
    return document;
  }
  const std::size_t zero = text.find('\0');
  if (zero != std::string_view::npos) {
    document.problems.push_back(name + ": a zero byte at offset " + std::to_string(zero) +
                                "; this is not text");
    return document;
  }
  if (const std::optional<int> line = find_long_line(text)) {
    document.problems.push_back(locate(name, Mark{*line, 1}) + ": this line has more than " +
                                std::to_string(kMaxLine) + " bytes");
    return document;
  }
  // Each of these marks opens or ends a value that the parser keeps. In texts they are never so
  // many.
  const auto is_mark = [](char c) { return c == '[' || c == '{' || c == ','; };
  if (std::count_if(text.begin(), text.end(), is_mark) > static_cast<std::ptrdiff_t>(kMaxNodes)) {
    document.problems.push_back(name + ": more than " + std::to_string(kMaxNodes) +
                                " brackets and commas; a job file has a few dozen");
    return document;
  }
  Builder builder(document);
  std::istringstream stream{std::string(text)};
  try {
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    if (const auto quote = builder.last_quoted(); quote && is_open_quote(text, *quote)) {
      document.root = {};
      document.problems.push_back(describe_unclosed(text, name, {*quote, '"'}, {}));
    } else if (parser) {
      // A second document, even an empty one after "---".
      YamlDocument ignored;
      Builder second(ignored);
      if (parser.HandleNextDocument(second)) {
        document.problems.push_back(
            name + ": more than one document (a second \"---\"); a job file has one");
      }
    }
  } catch (const YAML::Exception& error) {
    const Mark mark = error.mark.is_null() ? Mark{} : to_mark(error.mark);
    const std::optional<Mark> tab = find_tab(text, mark.line);
    const std::optional<Unclosed> open = tab ? std::nullopt : find_unclosed(text, mark);
    const Mark place = tab.value_or(mark);
    document.problems.push_back(
        open ? describe_unclosed(text, name, *open, mark)
             : locate(name, place) + ": " +
                   (tab ? "a tab in the indentation, which is spaces in YAML. Replace it by spaces"
                        : error.msg) +
                   show_source(text, place));
  } catch (const TooMuch& limit) {
    document.problems.push_back(locate(name, limit.mark) + ": " + limit.what);
  }
  return document;
}

YamlDocument read_yaml_file(const std::filesystem::path& path) {
  const std::string what = "cannot read job file, " + path.string() + ": ";
  std::string why_not;
  const std::optional<InputFile> file = InputFile::open(path, why_not);
  if (!file)
    throw UsageError(what + why_not + suggest_file(path) + " Give the path of a YAML file.");
  if (file->size() > kMaxBytes) {
    throw UsageError(what + std::to_string(file->size()) + " bytes; a job file has at most " +
                     std::to_string(kMaxBytes) + ".");
  }
  std::string text(file->size(), ' ');
  text.resize(file->read(std::as_writable_bytes(std::span(text))));
  return parse_yaml(text, path.string());
}

std::string locate(const std::string& name, Mark mark) {
  return name + ":" + std::to_string(mark.line) + ":" + std::to_string(mark.column);
}

std::string quote_yaml(const std::string& text) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.' || c == '/' || c == ':' ||
           c == '=' || c == '+';
  };
  const bool has_letter =
      std::any_of(text.begin(), text.end(), [](unsigned char c) { return std::isalpha(c) != 0; });
  const bool is_word = text == "null" || text == "true" || text == "false";
  const bool colon_matters = text.find(": ") != std::string::npos || text.ends_with(':');
  const bool starts_well =
      !text.empty() &&
      (std::isalnum(static_cast<unsigned char>(text[0])) != 0 || text[0] == '/' || text[0] == '.');
  if (has_letter && starts_well && !is_word && !colon_matters &&
      std::all_of(text.begin(), text.end(), is_plain)) {
    return text;
  }
  std::ostringstream quoted;
  quoted << '"';
  constexpr std::string_view kHex = "0123456789abcdef";
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view character = rest.substr(0, std::max<std::size_t>(utf8_length(rest), 1));
    if (character == "\"" || character == "\\") {
      quoted << '\\' << character;
    } else if (character == "\n") {
      quoted << "\\n";
    } else if (is_control(character)) {
      const std::uint32_t point = code_point(character);
      quoted << (point > 0xff ? "\\u" : "\\x");
      for (int shift = point > 0xff ? 12 : 4; shift >= 0; shift -= 4)
        quoted << kHex[point >> shift & 15];
    } else {
      quoted << character;
    }
    rest.remove_prefix(character.size());
  }
  quoted << '"';
  return quoted.str();
}

}  // namespace ddp
