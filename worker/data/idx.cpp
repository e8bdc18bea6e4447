#include "worker/data/idx.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include "common/error.h"
#include "common/input_file.h"

namespace ddp::worker {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{4} << 30;  // of one array
constexpr std::size_t kChunk = std::size_t{1} << 20;         // what memory grows by

[[noreturn]] void refuse(const std::string& name, const std::string& what) {
  throw UsageError("cannot read " + name + " as IDX: " + what);
}

std::string join_shape(std::span<const std::int64_t> shape) {
  std::string text;
  for (const std::int64_t size : shape)
    text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text;
}

/// Bytes from somewhere, in order. read() fills as much as there is; less than asked means the end.
class ByteSource {
 public:
  ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  virtual ~ByteSource() = default;
  virtual std::size_t read(std::span<std::uint8_t> buffer) = 0;
};

class MemorySource : public ByteSource {
 public:
  explicit MemorySource(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  std::size_t read(std::span<std::uint8_t> buffer) override {
    const std::size_t size = std::min(buffer.size(), bytes_.size());
    std::copy_n(bytes_.begin(), size, buffer.begin());
    bytes_ = bytes_.subspan(size);
    return size;
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

class FileSource : public ByteSource {
 public:
  explicit FileSource(const std::filesystem::path& path) {
    std::string why_not;
    file_ = InputFile::open(path, why_not);
    if (!file_) refuse(path.string(), why_not);
  }

  std::size_t read(std::span<std::uint8_t> buffer) override {
    return file_->read(std::as_writable_bytes(buffer));
  }

 private:
  std::optional<InputFile> file_;
};

/// Inflates another source. Several gzip members in a row are one stream, as for gzip(1); anything
/// else behind a member is an error, which gzread(3) would pass over in silence.
class GzipSource : public ByteSource {
 public:
  GzipSource(ByteSource& packed, std::string name) : packed_(packed), name_(std::move(name)) {
    if (::inflateInit2(&stream_, 16 + MAX_WBITS) != Z_OK) refuse(name_, "zlib does not start");
  }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;
  ~GzipSource() override { ::inflateEnd(&stream_); }

  std::size_t read(std::span<std::uint8_t> buffer) override {
    std::size_t filled = 0;
    while (filled < buffer.size() && !ended_) {
      if (stream_.avail_in == 0) refill();
      const std::size_t room = std::min(buffer.size() - filled, kChunk);
      stream_.next_out = buffer.data() + filled;
      stream_.avail_out = static_cast<uInt>(room);
      const int result = ::inflate(&stream_, Z_NO_FLUSH);
      filled += room - stream_.avail_out;
      if (result == Z_STREAM_END)
        next_member();
      else if (result == Z_BUF_ERROR && stream_.avail_in == 0 && at_end_)
        refuse(name_,
               "the gzip stream is cut off after " + std::to_string(done_ + filled) +
                   " unpacked bytes");
      else if (result != Z_OK && result != Z_BUF_ERROR)
        refuse(name_,
               "the gzip stream is broken after " + std::to_string(done_ + filled) +
                   " unpacked bytes (" + (stream_.msg != nullptr ? stream_.msg : "inflate failed") +
                   ")");
    }
    done_ += filled;
    return filled;
  }

 private:
  void refill() {
    const std::size_t size = packed_.read(input_);
    at_end_ = size < input_.size();
    stream_.next_in = input_.data();
    stream_.avail_in = static_cast<uInt>(size);
  }

  void next_member() {
    if (stream_.avail_in == 0 && !at_end_) refill();
    ended_ = stream_.avail_in == 0;
    if (ended_) return;
    if (*stream_.next_in != 0x1f) refuse(name_, "there are bytes after the gzip stream");
    ::inflateReset(&stream_);
  }

  ByteSource& packed_;
  std::string name_;
  z_stream stream_{};
  std::array<std::uint8_t, 65536> input_{};
  bool at_end_ = false;
  bool ended_ = false;
  std::uint64_t done_ = 0;
};

std::uint32_t read_word(ByteSource& source, const std::string& name) {
  std::array<std::uint8_t, 4> bytes{};
  if (source.read(bytes) < bytes.size()) refuse(name, "it ends within its header");
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
         std::uint32_t{bytes[2]} << 8 | std::uint32_t{bytes[3]};
}

std::string hexadecimal(std::uint32_t word) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "0x";
  for (int shift = 28; shift >= 0; shift -= 4)
    text += kDigits[word >> shift & 15U];
  return text;
}

// The sizes that a header claims. Nothing is allocated from them.
std::vector<std::int64_t> read_shape(ByteSource& source, const std::string& name, int rank) {
  const std::uint32_t magic = read_word(source, name);
  const std::uint32_t expected = 0x0800U + static_cast<std::uint32_t>(rank);
  if (magic != expected) {
    refuse(name,
           "its magic number is " + hexadecimal(magic) + ", expected " + hexadecimal(expected) +
               " (unsigned bytes in " + std::to_string(rank) + " dimension" +
               (rank == 1 ? ")" : "s)"));
  }
  std::vector<std::int64_t> shape;
  for (int i = 0; i < rank; ++i)
    shape.push_back(read_word(source, name));
  return shape;
}

std::uint64_t payload_size(const std::vector<std::int64_t>& shape, const std::string& name) {
  std::uint64_t product = 1;
  for (const std::int64_t size : shape) {
    if (size == 0) refuse(name, "its header says " + join_shape(shape) + ", which holds nothing");
    // The product is at most 2^32 and the size below it, so this cannot overflow.
    product *= static_cast<std::uint64_t>(size);
    if (product > kMaxBytes)
      refuse(name, "its header says " + join_shape(shape) + " bytes, more than the 4 GiB allowed");
  }
  return product;
}

// How many bytes a source still has, up to a bound: a gzip bomb is not unpacked to be counted.
std::uint64_t count_rest(ByteSource& source) {
  std::vector<std::uint8_t> buffer(kChunk);
  std::uint64_t count = 0;
  for (int i = 0; i < 64; ++i) {
    const std::size_t size = source.read(buffer);
    count += size;
    if (size < buffer.size()) break;
  }
  return count;
}

IdxArray parse(ByteSource& source, const std::string& name, int rank) {
  IdxArray array;
  array.shape = read_shape(source, name, rank);
  const std::uint64_t expected = payload_size(array.shape, name);
  const std::uint64_t header = 4 + 4 * static_cast<std::uint64_t>(rank);
  const std::string claim = std::to_string(header + expected) + " bytes (header " +
                            std::to_string(header) + " + " + join_shape(array.shape) + ")";
  while (array.bytes.size() < expected) {
    const std::size_t done = array.bytes.size();
    const std::size_t room = std::min<std::uint64_t>(expected - done, kChunk);
    array.bytes.resize(done + room);
    const std::size_t size = source.read(std::span(array.bytes).subspan(done, room));
    if (size < room) {
      refuse(name,
             "expected " + claim + ", found " + std::to_string(header + done + size) +
                 ": it is cut off. Get the file again");
    }
  }
  const std::uint64_t rest = count_rest(source);
  if (rest != 0) {
    refuse(name,
           "expected " + claim + ", found at least " + std::to_string(rest) +
               " bytes more. Get the file again");
  }
  return array;
}

IdxArray parse_packed_or_plain(ByteSource& source,
                               std::span<const std::uint8_t> head,
                               const std::string& name,
                               int rank) {
  if (head.size() < 2 || head[0] != 0x1f || head[1] != 0x8b) return parse(source, name, rank);
  GzipSource unpacked(source, name);
  return parse(unpacked, name, rank);
}

}  // namespace

IdxArray read_idx(const std::filesystem::path& path, int rank) {
  std::array<std::uint8_t, 2> head{};
  const std::size_t size = FileSource(path).read(head);
  FileSource source(path);
  return parse_packed_or_plain(source, std::span(head).first(size), path.string(), rank);
}

IdxArray parse_idx(std::span<const std::uint8_t> bytes, const std::string& name, int rank) {
  MemorySource source(bytes);
  return parse_packed_or_plain(source, bytes, name, rank);
}

void check_idx_pair(const IdxArray& images,
                    const IdxArray& labels,
                    int classes,
                    const std::string& images_name,
                    const std::string& labels_name) {
  if (images.shape.size() != 3 || labels.shape.size() != 1)
    throw UsageError(images_name + " and " + labels_name +
                     " are no images [N, H, W] and labels [N]");
  if (images.shape[0] != labels.shape[0]) {
    throw UsageError(images_name + " holds " + std::to_string(images.shape[0]) + " images, " +
                     labels_name + " holds " + std::to_string(labels.shape[0]) +
                     " labels. Take both files from the same set.");
  }
  const auto wrong = std::find_if(labels.bytes.begin(),
                                  labels.bytes.end(),
                                  [&](std::uint8_t label) { return label >= classes; });
  if (wrong != labels.bytes.end()) {
    throw UsageError(labels_name + ": label " + std::to_string(*wrong) + " at index " +
                     std::to_string(wrong - labels.bytes.begin()) + ", expected 0 to " +
                     std::to_string(classes - 1) + ".");
  }
}

}  // namespace ddp::worker
