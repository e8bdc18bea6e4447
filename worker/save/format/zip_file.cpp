#include "worker/save/format/zip_file.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <optional>
#include <vector>

#include "common/error.h"

namespace ddp::worker {
namespace {

using ArchiveBytes = std::span<const std::byte>;

constexpr std::uint32_t kEndMark = 0x06054b50;
constexpr std::uint32_t kEnd64Mark = 0x06064b50;
constexpr std::uint32_t kEnd64LocatorMark = 0x07064b50;
constexpr std::uint32_t kEntryMark = 0x02014b50;
constexpr std::uint32_t kLocalMark = 0x04034b50;
constexpr std::size_t kEndSize = 22;
constexpr std::size_t kMaxComment = 0xFFFF;
constexpr std::uint16_t kDeflated = 8;  // the method
constexpr std::uint16_t kSizes64 = 1;   // id of the extra field with 64-bit sizes
constexpr std::uint32_t kIn64 = 0xFFFFFFFF;

// Reads fields one after another. A missing field is an error of the file.
class FieldReader {
 public:
  FieldReader(ArchiveBytes bytes, const std::string& file) : rest_(bytes), file_(file) {}

  template <typename T>
  T take() {
    T value{};
    const ArchiveBytes bytes = take(sizeof(T));
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }

  ArchiveBytes take(std::uint64_t size) {
    if (size > rest_.size()) refuse("its table of contents is cut off");
    const ArchiveBytes bytes = rest_.first(size);
    rest_ = rest_.subspan(size);
    return bytes;
  }

  [[nodiscard]] std::size_t size() const { return rest_.size(); }

  [[noreturn]] void refuse(const std::string& what) const { throw UsageError(file_ + ": " + what); }

 private:
  ArchiveBytes rest_;
  const std::string& file_;
};

ArchiveBytes from(ArchiveBytes archive, std::uint64_t offset, const std::string& file) {
  if (offset > archive.size())
    throw UsageError(file + ": a place in its table of contents lies outside the file");
  return archive.subspan(offset);
}

struct Directory {
  std::uint64_t entries = 0;
  std::uint64_t offset = 0;
};

Directory read_directory64(ArchiveBytes archive, std::size_t end, const std::string& file) {
  constexpr std::size_t kLocatorSize = 20;
  if (end < kLocatorSize) throw UsageError(file + ": its 64-bit table of contents is missing");
  FieldReader locator(archive.subspan(end - kLocatorSize), file);
  if (locator.take<std::uint32_t>() != kEnd64LocatorMark)
    locator.refuse("its 64-bit table of contents is missing");
  locator.take(4);  // disk
  FieldReader record(from(archive, locator.take<std::uint64_t>(), file), file);
  if (record.take<std::uint32_t>() != kEnd64Mark)
    record.refuse("its 64-bit table of contents is missing");
  record.take(8 + 2 + 2 + 4 + 4 + 8);  // size, versions, disks, entries on this disk
  Directory directory;
  directory.entries = record.take<std::uint64_t>();
  record.take(8);  // size
  directory.offset = record.take<std::uint64_t>();
  return directory;
}

// The end record is at the end, before a comment.
Directory read_directory(ArchiveBytes archive, const std::string& file) {
  const std::size_t lowest =
      archive.size() > kEndSize + kMaxComment ? archive.size() - kEndSize - kMaxComment : 0;
  for (std::size_t end = archive.size() - std::min(archive.size(), kEndSize) + 1; end-- > lowest;) {
    std::uint32_t mark = 0;
    if (archive.size() - end < kEndSize) break;
    std::memcpy(&mark, archive.data() + end, sizeof(mark));
    if (mark != kEndMark) continue;
    FieldReader record(archive.subspan(end), file);
    record.take(4 + 2 + 2 + 2);  // mark, disks, entries on this disk
    Directory directory;
    directory.entries = record.take<std::uint16_t>();
    const auto size = record.take<std::uint32_t>();
    directory.offset = record.take<std::uint32_t>();
    const bool is_64 = directory.entries == 0xFFFF || size == kIn64 || directory.offset == kIn64;
    return is_64 ? read_directory64(archive, end, file) : directory;
  }
  throw UsageError(file +
                   ": it is cut off, the table of contents at its end is missing. Get it again.");
}

struct Entry {
  std::string name;
  std::uint32_t checksum = 0;
  std::uint64_t size = 0;    // unpacked
  std::uint64_t packed = 0;  // as it lies in the archive
  std::uint64_t offset = 0;  // of the local header
  bool is_deflated = false;
};

Entry read_entry(FieldReader& directory) {
  if (directory.take<std::uint32_t>() != kEntryMark)
    directory.refuse("its table of contents is damaged");
  directory.take(4);  // versions
  const auto flags = directory.take<std::uint16_t>();
  const auto method = directory.take<std::uint16_t>();
  directory.take(4);  // time
  Entry entry;
  entry.checksum = directory.take<std::uint32_t>();
  const auto packed = directory.take<std::uint32_t>();
  const auto size = directory.take<std::uint32_t>();
  const auto name_size = directory.take<std::uint16_t>();
  const auto extra_size = directory.take<std::uint16_t>();
  const auto comment_size = directory.take<std::uint16_t>();
  directory.take(2 + 2 + 4);  // disk, attributes
  const auto offset = directory.take<std::uint32_t>();
  const ArchiveBytes name = directory.take(name_size);
  entry.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
  ArchiveBytes extra = directory.take(extra_size);
  directory.take(comment_size);

  entry.size = size;
  entry.packed = packed;
  entry.offset = offset;
  while (extra.size() >= 4) {
    std::uint16_t id = 0;
    std::uint16_t length = 0;
    std::memcpy(&id, extra.data(), 2);
    std::memcpy(&length, extra.data() + 2, 2);
    if (length > extra.size() - 4) directory.refuse("its table of contents is damaged");
    FieldReader field(extra.subspan(4, length), entry.name);
    extra = extra.subspan(4u + length);
    if (id != kSizes64) continue;
    if (size == kIn64) entry.size = field.take<std::uint64_t>();
    if (packed == kIn64) entry.packed = field.take<std::uint64_t>();
    if (offset == kIn64) entry.offset = field.take<std::uint64_t>();
  }
  if ((flags & 1) != 0) directory.refuse("record " + entry.name + " is encrypted");
  entry.is_deflated = method == kDeflated;
  if (method != 0 && !entry.is_deflated)
    directory.refuse("record " + entry.name + " is packed in a way that torch does not use");
  if (method == 0 && entry.packed != entry.size)
    directory.refuse("record " + entry.name + " has two sizes");
  return entry;
}

/// The bytes of a record in the archive, with its header.
struct Place {
  const Entry* entry = nullptr;
  std::uint64_t end = 0;
  ArchiveBytes bytes;
};

Place find_record(ArchiveBytes archive, const Entry& entry, const std::string& file) {
  FieldReader local(from(archive, entry.offset, file), file);
  if (local.take<std::uint32_t>() != kLocalMark)
    local.refuse("record " + entry.name + " is not where the table of contents says");
  local.take(22);
  const auto name_size = local.take<std::uint16_t>();
  const auto extra_size = local.take<std::uint16_t>();
  local.take(std::uint64_t{name_size} + extra_size);
  const ArchiveBytes bytes = local.take(entry.packed);
  return {&entry, archive.size() - local.size(), bytes};
}

void check_overlap(std::vector<Place> places, const std::string& file) {
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return a.entry->offset < b.entry->offset;
  });
  for (std::size_t i = 1; i < places.size(); ++i) {
    if (places[i].entry->offset >= places[i - 1].end) continue;
    throw UsageError(file + ": records " + places[i - 1].entry->name + " and " +
                     places[i].entry->name + " share bytes, which no writer does");
  }
}

/// The checksum of what deflated bytes unpack to; no value if they do not, or to another size.
std::optional<std::uint32_t> inflated_sum(ArchiveBytes bytes, std::uint64_t size) {
  std::array<Bytef, 64 << 10> unpacked;
  z_stream stream{};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  if (bytes.size() > std::numeric_limits<uInt>::max() ||
      ::inflateInit2(&stream, -MAX_WBITS) != Z_OK)
    return {};
  std::uint64_t done = 0;
  std::uint32_t sum = 0;
  int state = Z_OK;
  while (state == Z_OK && done <= size) {
    stream.next_out = unpacked.data();
    stream.avail_out = unpacked.size();
    state = ::inflate(&stream, Z_NO_FLUSH);
    const std::size_t count = unpacked.size() - stream.avail_out;
    sum = static_cast<std::uint32_t>(::crc32_z(sum, unpacked.data(), count));
    done += count;
  }
  ::inflateEnd(&stream);
  return state == Z_STREAM_END && done == size ? std::optional(sum) : std::nullopt;
}

void check_sum(const Place& place, const std::string& file) {
  const auto* const data = reinterpret_cast<const Bytef*>(place.bytes.data());
  const auto sum =
      place.entry->is_deflated
          ? inflated_sum(place.bytes, place.entry->size)
          : std::optional(static_cast<std::uint32_t>(::crc32_z(0, data, place.bytes.size())));
  if (sum == place.entry->checksum) return;
  throw UsageError(file + ": record " + place.entry->name + " is damaged: its checksum differs");
}

/// With `takes_packed` there may be compressed records; their bytes stay packed.
ZipRecords read_records(ArchiveBytes archive, const std::string& name, bool takes_packed) {
  const Directory directory = read_directory(archive, name);
  FieldReader reader(from(archive, directory.offset, name), name);
  std::deque<Entry> entries;  // a deque: entries do not move
  std::vector<Place> places;
  ZipRecords records;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {  // each entry takes bytes, so this ends
    const Entry& entry = entries.emplace_back(read_entry(reader));
    if (entry.is_deflated && !takes_packed) {
      reader.refuse("record " + entry.name +
                    " is compressed, as in a TorchScript archive, which is code: give it as "
                    "model.script, or save a state_dict() with torch.save.");
    }
    places.push_back(find_record(archive, entry, name));
    if (!records.emplace(entry.name, places.back().bytes).second)
      reader.refuse("two records are called " + entry.name);
  }
  check_overlap(places, name);
  for (const Place& place : places)
    check_sum(place, name);
  return records;
}

// ---- write

constexpr std::uint16_t kVersion64 = 45;    // of the format: the first with 64-bit sizes
constexpr std::uint16_t kPadding = 0x4246;  // id of the extra field that torch pads with
constexpr std::uint64_t kAlignment = 64;

template <typename T>
void put(std::string& text, T value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

/// The part that both headers of a record share: from the needed version to the length of its name.
std::string facts_of(const std::string& name, std::uint32_t checksum) {
  std::string facts;
  put(facts, kVersion64);
  put<std::uint16_t>(facts, 0);  // flags
  put<std::uint16_t>(facts, 0);  // stored
  put<std::uint32_t>(facts, 0);  // time
  put(facts, checksum);
  put(facts, kIn64);  // packed size
  put(facts, kIn64);  // unpacked size
  put(facts, static_cast<std::uint16_t>(name.size()));
  return facts;
}

void put_sizes(std::string& text, std::uint64_t size, std::uint16_t more) {
  put(text, kSizes64);
  put<std::uint16_t>(text, static_cast<std::uint16_t>(2 * sizeof(size) + more));
  put(text, size);
  put(text, size);
}

}  // namespace

void ZipWriter::add(const std::string& name, std::span<const std::byte> bytes) {
  const auto* const data = reinterpret_cast<const Bytef*>(bytes.data());
  const auto checksum = static_cast<std::uint32_t>(::crc32_z(0, data, bytes.size()));
  const std::string facts = facts_of(name, checksum);
  const std::uint64_t size = bytes.size();
  std::string extra;
  put_sizes(extra, size, 0);
  put(extra, kPadding);
  const std::uint64_t start =
      place_ + sizeof(kLocalMark) + facts.size() + 2 + name.size() + extra.size() + 2;
  const std::uint64_t padding = (kAlignment - start % kAlignment) % kAlignment;
  put(extra, static_cast<std::uint16_t>(padding));
  extra.append(padding, '\0');

  std::string header;
  put(header, kLocalMark);
  header += facts;
  put(header, static_cast<std::uint16_t>(extra.size()));
  header += name + extra;

  put(directory_, kEntryMark);
  put(directory_, kVersion64);  // version that wrote it
  directory_ += facts;
  put<std::uint16_t>(directory_, 2 + 2 + 3 * 8);  // extra field
  put<std::uint16_t>(directory_, 0);              // comment
  put<std::uint16_t>(directory_, 0);              // disk
  put<std::uint16_t>(directory_, 0);              // attributes
  put<std::uint32_t>(directory_, 0);
  put(directory_, kIn64);  // place
  directory_ += name;
  put_sizes(directory_, size, sizeof(place_));
  put(directory_, place_);
  ++entries_;

  file_.write(header);
  file_.write(bytes);
  place_ += header.size() + size;
}

void ZipWriter::finish() {
  std::string end;
  put(end, kEnd64Mark);
  put<std::uint64_t>(end, 2 + 2 + 4 + 4 + 4 * 8);  // bytes that follow
  put(end, kVersion64);
  put(end, kVersion64);
  put<std::uint64_t>(end, 0);  // disks
  put(end, entries_);          // on this disk
  put(end, entries_);
  put<std::uint64_t>(end, directory_.size());
  put(end, place_);
  put(end, kEnd64LocatorMark);
  put<std::uint32_t>(end, 0);  // disk
  put<std::uint64_t>(end, place_ + directory_.size());
  put<std::uint32_t>(end, 1);  // disks
  put(end, kEndMark);
  put<std::uint32_t>(end, 0);       // disks
  put<std::uint16_t>(end, 0xFFFF);  // entries: see above
  put<std::uint16_t>(end, 0xFFFF);
  put(end, kIn64);
  put(end, kIn64);
  put<std::uint16_t>(end, 0);  // comment
  file_.write(directory_);
  file_.write(end);
}

void require_whole_zip(std::span<const std::byte> archive, const std::string& name) {
  (void)read_records(archive, name, /*takes_packed=*/true);
}

ZipRecords read_zip(std::span<const std::byte> archive, const std::string& name) {
  return read_records(archive, name, /*takes_packed=*/false);
}

}  // namespace ddp::worker
