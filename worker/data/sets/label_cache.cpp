#include "worker/data/sets/label_cache.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include "common/text/one_line.h"
#include "worker/data/format/yolo_labels.h"
#include "worker/plan/digest.h"

namespace ddp::worker {
namespace {

constexpr std::string_view kKind = "ddp-labels ";
constexpr std::string_view kCacheVersion = "1 ";
constexpr std::size_t kDigest = 32;  // digits
constexpr std::size_t kLongestProblem = 1000;

/// A box as it is stored in the file.
struct Row {
  std::int32_t label = 0;
  Box box{};
};
static_assert(sizeof(Row) == 20 && std::is_trivially_copyable_v<Row>);
static_assert(sizeof(FileStamp) == 32 && std::is_trivially_copyable_v<FileStamp>);

std::int64_t nanoseconds(const timespec& time) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  return std::int64_t{time.tv_sec} * kSecond + time.tv_nsec;
}

std::string digest_of(std::string_view text) {
  return digest(std::as_bytes(std::span(text)));
}

template <typename Value>
void put(std::string& bytes, const Value& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_text(std::string& bytes, std::string_view text) {
  put(bytes, static_cast<std::uint32_t>(text.size()));
  bytes += text;
}

/// Takes values off the front, as long as enough bytes are left.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : bytes_(bytes) {}

  template <typename Value>
  bool take(Value& into) {
    if (bytes_.size() < sizeof into) return false;
    std::memcpy(&into, bytes_.data(), sizeof into);
    bytes_.remove_prefix(sizeof into);
    return true;
  }
  bool take_text(std::string& into) {
    std::uint32_t size = 0;
    if (!take(size) || size > bytes_.size()) return false;
    into = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return true;
  }
  [[nodiscard]] std::size_t left() const { return bytes_.size(); }

 private:
  std::string_view bytes_;
};

/// False for a NaN, too.
bool is_box(const Box& box) {
  return box.left >= 0 && box.top >= 0 && box.right <= 1 && box.bottom <= 1 && area(box) > 0;
}

bool is_problem(const std::string& text) {
  return text.empty() || (text.starts_with("line ") && text.size() <= kLongestProblem &&
                          one_line(text, kLongestProblem) == text);
}

bool take_boxes(Bytes& bytes, std::vector<AnnotatedBox>& into) {
  std::uint32_t count = 0;
  // A wrong count must not make this take memory.
  if (!bytes.take(count) || count > bytes.left() / sizeof(Row)) return false;
  into.reserve(count);
  for (Row row; count > 0; --count) {
    if (!bytes.take(row) || !is_box(row.box) || row.label < 0 || row.label >= kMaxClasses)
      return false;
    into.push_back({.label = row.label, .box = row.box});
  }
  return true;
}

bool take_folder(Bytes bytes, CachedFolder& into) {
  constexpr std::size_t kLeast = sizeof(FileStamp) + 3 * sizeof(std::uint32_t);  // of a file
  std::uint64_t count = 0;
  if (!bytes.take(count) || count > bytes.left() / kLeast) return false;
  into.resize(count);
  const CachedLabels* before = nullptr;
  for (CachedLabels& labels : into) {
    const bool is_whole = bytes.take_text(labels.name) && bytes.take(labels.stamp) &&
                          bytes.take_text(labels.problem) && take_boxes(bytes, labels.boxes);
    if (!is_whole || labels.name.empty() || !is_problem(labels.problem)) return false;
    if (before != nullptr && before->name >= labels.name) return false;
    before = &labels;
  }
  return bytes.left() == 0;
}

}  // namespace

std::optional<FileStamp> stamp_of(int directory, const std::string& name) {
  struct stat status {};
  if (::fstatat(directory, name.c_str(), &status, 0) != 0 || !S_ISREG(status.st_mode)) return {};
  return FileStamp{.size = static_cast<std::uint64_t>(status.st_size),
                   .modified = nanoseconds(status.st_mtim),
                   .changed = nanoseconds(status.st_ctim),
                   .inode = status.st_ino};
}

std::string encode_label_cache(const CachedFolder& folder) {
  std::string bytes;
  put(bytes, std::uint64_t{folder.size()});
  for (const CachedLabels& labels : folder) {
    put_text(bytes, labels.name);
    put(bytes, labels.stamp);
    put_text(bytes, labels.problem);
    put(bytes, static_cast<std::uint32_t>(labels.boxes.size()));
    for (const AnnotatedBox& one : labels.boxes)
      put(bytes, Row{one.label, one.box});
  }
  return std::string(kKind) + std::string(kCacheVersion) + digest_of(bytes) + "\n" + bytes;
}

std::string decode_label_cache(std::string_view bytes, CachedFolder& into) {
  into.clear();
  if (!bytes.starts_with(kKind)) return "it is not a cache of labels";
  bytes.remove_prefix(kKind.size());
  if (!bytes.starts_with(kCacheVersion)) return "it is of another version";
  bytes.remove_prefix(kCacheVersion.size());
  const std::string_view digits = bytes.substr(0, kDigest);
  bytes.remove_prefix(digits.size());
  if (!bytes.starts_with('\n') || digest_of(bytes.substr(1)) != digits)
    return "it is damaged: its checksum is another one";
  if (take_folder(Bytes(bytes.substr(1)), into)) return "";
  into.clear();
  return "it holds what no label file says";
}

}  // namespace ddp::worker
