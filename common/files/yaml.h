// The only wrapper of yaml-cpp: strict YAML into plain nodes that keep their place in the file.
// Promises: bounded work on any input (size, depth, nodes). Nothing is guessed: anchors, aliases,
// merge keys, second documents, repeated keys and invalid UTF-8 are errors. Trap: yaml-cpp's own
// Node accepts all of those (the first of repeated keys wins, `yes` is true), so we use its events.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

/// A place in a file; both count from 1.
struct Mark {
  int line = 1;
  int column = 1;
  bool operator==(const Mark&) const = default;
};

struct YamlNode {
  enum class Kind { null, scalar, sequence, map };
  struct Entry;

  Kind kind = Kind::null;
  std::string text;             // of a scalar
  bool quoted = false;          // a quoted scalar is always text
  std::vector<YamlNode> items;  // of a sequence
  std::vector<Entry> entries;   // of a map, in file order
  Mark mark;
};

struct YamlNode::Entry {
  std::string key;
  Mark mark;
  YamlNode value;
};

struct YamlDocument {
  std::string name;  // as shown in messages: the path as typed
  YamlNode root;     // null for an empty document
  std::vector<std::string>
      problems;  // "name:line:column: what"; the root is usable only when this is empty
};

/// Parses one document. Errors: none thrown, all in `problems`.
YamlDocument parse_yaml(std::string_view text, const std::string& name);

/// Reads and parses a regular file of at most 1 MiB.
/// Errors: UsageError when it cannot be read, is not a regular file or is too large; mistakes in
/// the text are in `problems`.
YamlDocument read_yaml_file(const std::filesystem::path& path);

/// "name:line:column", as editors jump to.
std::string locate(const std::string& name, Mark mark);

/// `text` as a YAML scalar that reads back as the same text. It is quoted only if it must be.
std::string quote_yaml(const std::string& text);

}  // namespace ddp
