#include "worker/data/format/byte_source.h"

#include <lzma.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/files/input_file.h"

namespace ddp::worker {

/// A source of bytes. read() fills `buffer` as far as it can; fewer bytes than asked for mean the
/// end.
class ByteSource::Layer {
 public:
  Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  virtual ~Layer() = default;
  virtual std::size_t read(std::span<std::uint8_t> buffer) = 0;
};

namespace {

using Layer = ByteSource::Layer;

constexpr std::size_t kChunk = std::size_t{1} << 20;
// `xz -9` needs half of it. The size of the dictionary comes from the file's header.
constexpr std::uint64_t kXzMemory = std::uint64_t{128} << 20;
constexpr std::array<std::uint8_t, 2> kGzipMagic{0x1f, 0x8b};
constexpr std::array<std::uint8_t, 6> kXzMagic{0xfd, '7', 'z', 'X', 'Z', 0};

std::string head_of_messages(const std::string& name, const std::string& format) {
  return "cannot read " + name + " as " + format + ": ";
}

class MemoryLayer : public Layer {
 public:
  explicit MemoryLayer(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  std::size_t read(std::span<std::uint8_t> buffer) override {
    const std::size_t size = std::min(buffer.size(), bytes_.size());
    std::copy_n(bytes_.begin(), size, buffer.begin());
    bytes_ = bytes_.subspan(size);
    return size;
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

class FileLayer : public Layer {
 public:
  explicit FileLayer(InputFile file) : file_(std::move(file)) {}
  std::size_t read(std::span<std::uint8_t> buffer) override {
    return file_.read(std::as_writable_bytes(buffer));
  }

 private:
  InputFile file_;
};

/// A source whose first bytes were read to tell its kind; it gives these bytes again.
class PeekedLayer : public Layer {
 public:
  explicit PeekedLayer(std::unique_ptr<Layer> rest) : rest_(std::move(rest)) {
    size_ = rest_->read(head_);
  }

  template <std::size_t size>
  [[nodiscard]] bool starts_with(const std::array<std::uint8_t, size>& magic) const {
    return size_ >= size && std::equal(magic.begin(), magic.end(), head_.begin());
  }

  std::size_t read(std::span<std::uint8_t> buffer) override {
    const std::size_t size = std::min(buffer.size(), size_ - done_);
    std::copy_n(head_.begin() + static_cast<std::ptrdiff_t>(done_), size, buffer.begin());
    done_ += size;
    return size + rest_->read(buffer.subspan(size));
  }

 private:
  std::unique_ptr<Layer> rest_;
  std::array<std::uint8_t, kXzMagic.size()> head_{};
  std::size_t size_ = 0;
  std::size_t done_ = 0;
};

/// The common part of both decompressors: compressed bytes come in pieces, and every error says how
/// many bytes were decompressed before it.
class DecompressingLayer : public Layer {
 public:
  DecompressingLayer(std::unique_ptr<Layer> compressed, std::string head, std::string kind)
      : compressed_(std::move(compressed)), head_(std::move(head)), kind_(std::move(kind)) {}

  std::size_t read(std::span<std::uint8_t> buffer) override {
    std::size_t filled = 0;
    while (filled < buffer.size() && !ended_) {
      const std::size_t room = std::min(buffer.size() - filled, kChunk);
      const std::size_t size = unpack(buffer.subspan(filled, room));
      filled += size;
      done_ += size;
    }
    return filled;
  }

 protected:
  /// Puts some more bytes into `buffer`, from none to its size; sets ended_ at the end of all.
  virtual std::size_t unpack(std::span<std::uint8_t> buffer) = 0;

  std::span<std::uint8_t> next_input() {
    const std::size_t size = compressed_->read(input_);
    at_end_ = size < input_.size();
    return std::span(input_).first(size);
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw UsageError(head_ + "the " + kind_ + " stream " + what);
  }

  // `more`: bytes of this call, which are not counted yet.
  [[nodiscard]] std::string after(std::size_t more) const {
    return " after " + std::to_string(done_ + more) + " unpacked bytes";
  }

  [[nodiscard]] const std::string& head() const { return head_; }

  bool at_end_ = false;  // there are no more compressed bytes
  bool ended_ = false;   // there are no more decompressed bytes

 private:
  std::unique_ptr<Layer> compressed_;
  std::string head_;
  std::string kind_;
  std::array<std::uint8_t, 65536> input_{};
  std::uint64_t done_ = 0;
};

/// Several gzip members in a row are one stream, as for gzip(1); anything else after a member is
/// an error.
class GzipLayer : public DecompressingLayer {
 public:
  GzipLayer(std::unique_ptr<Layer> compressed, const std::string& head)
      : DecompressingLayer(std::move(compressed), head, "gzip") {
    if (::inflateInit2(&stream_, 16 + MAX_WBITS) != Z_OK)
      throw SystemError(head + "zlib does not start");
  }
  GzipLayer(const GzipLayer&) = delete;
  GzipLayer& operator=(const GzipLayer&) = delete;
  ~GzipLayer() override { ::inflateEnd(&stream_); }

 private:
  std::size_t unpack(std::span<std::uint8_t> buffer) override {
    if (stream_.avail_in == 0) refill();
    stream_.next_out = buffer.data();
    stream_.avail_out = static_cast<uInt>(buffer.size());
    const int result = ::inflate(&stream_, Z_NO_FLUSH);
    const std::size_t size = buffer.size() - stream_.avail_out;
    if (result == Z_STREAM_END) {
      next_member();
    } else if (result == Z_BUF_ERROR && stream_.avail_in == 0 && at_end_) {
      refuse("is cut off" + after(size));
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      refuse("is broken" + after(size) + " (" +
             (stream_.msg != nullptr ? stream_.msg : "inflate failed") + ")");
    }
    return size;
  }

  void refill() {
    const std::span<std::uint8_t> input = next_input();
    stream_.next_in = input.data();
    stream_.avail_in = static_cast<uInt>(input.size());
  }

  void next_member() {
    if (stream_.avail_in == 0 && !at_end_) refill();
    ended_ = stream_.avail_in == 0;
    if (ended_) return;
    if (*stream_.next_in != kGzipMagic[0])
      throw UsageError(head() + "there are bytes after the gzip stream");
    ::inflateReset(&stream_);
  }

  z_stream stream_{};
};

/// Several xz streams in a row, with padding of zeros between them, are one, as for xz(1).
class XzLayer : public DecompressingLayer {
 public:
  XzLayer(std::unique_ptr<Layer> compressed, const std::string& head)
      : DecompressingLayer(std::move(compressed), head, "xz") {
    if (::lzma_stream_decoder(&stream_, kXzMemory, LZMA_CONCATENATED) != LZMA_OK)
      throw SystemError(head + "liblzma does not start");
  }
  XzLayer(const XzLayer&) = delete;
  XzLayer& operator=(const XzLayer&) = delete;
  ~XzLayer() override { ::lzma_end(&stream_); }

 private:
  std::size_t unpack(std::span<std::uint8_t> buffer) override {
    if (stream_.avail_in == 0 && !at_end_) {
      const std::span<std::uint8_t> input = next_input();
      stream_.next_in = input.data();
      stream_.avail_in = input.size();
    }
    stream_.next_out = buffer.data();
    stream_.avail_out = buffer.size();
    const lzma_ret result = ::lzma_code(&stream_, at_end_ ? LZMA_FINISH : LZMA_RUN);
    const std::size_t size = buffer.size() - stream_.avail_out;
    switch (result) {
      case LZMA_OK:
        break;
      case LZMA_STREAM_END:
        ended_ = true;
        break;
      // There was room for output, so input is missing.
      case LZMA_BUF_ERROR:
        refuse("is cut off" + after(size));
      case LZMA_MEM_ERROR:
        throw SystemError(head() + "there is no memory to unpack it");
      case LZMA_MEMLIMIT_ERROR:
        refuse("needs more than " + std::to_string(kXzMemory >> 20) + " MiB to be unpacked");
      default:
        refuse("is broken, or something else follows it," + after(size));
    }
    return size;
  }

  lzma_stream stream_ = LZMA_STREAM_INIT;
};

std::unique_ptr<Layer> unpacked(std::unique_ptr<Layer> file, const std::string& head) {
  auto peeked = std::make_unique<PeekedLayer>(std::move(file));
  const bool is_gzip = peeked->starts_with(kGzipMagic);
  const bool is_xz = peeked->starts_with(kXzMagic);
  if (is_gzip) return std::make_unique<GzipLayer>(std::move(peeked), head);
  if (is_xz) return std::make_unique<XzLayer>(std::move(peeked), head);
  return peeked;
}

}  // namespace

ByteSource::ByteSource(std::unique_ptr<Layer> file, std::string head)
    : head_(std::move(head)), bytes_(unpacked(std::move(file), head_)) {}
ByteSource::ByteSource(ByteSource&& other) noexcept = default;
ByteSource& ByteSource::operator=(ByteSource&& other) noexcept = default;
ByteSource::~ByteSource() = default;

ByteSource ByteSource::open(const std::filesystem::path& path, const std::string& format) {
  const std::string head = head_of_messages(path.string(), format);
  std::string why_not;
  std::optional<InputFile> file = InputFile::open(path, why_not);
  if (!file) throw UsageError(head + why_not);
  return {std::make_unique<FileLayer>(std::move(*file)), head};
}

ByteSource ByteSource::of(std::span<const std::uint8_t> bytes,
                          const std::string& name,
                          const std::string& format) {
  return {std::make_unique<MemoryLayer>(bytes), head_of_messages(name, format)};
}

std::size_t ByteSource::read(std::span<std::uint8_t> buffer) {
  return bytes_->read(buffer);
}

void ByteSource::require_end(const std::string& expected) {
  std::vector<std::uint8_t> buffer(kChunk);
  std::uint64_t rest = 0;
  // Up to a bound, so that a decompression bomb is not unpacked just to count its bytes.
  for (int i = 0; i < 64; ++i) {
    const std::size_t size = read(buffer);
    rest += size;
    if (size < buffer.size()) break;
  }
  if (rest == 0) return;
  refuse("expected " + expected + ", found at least " + std::to_string(rest) +
         " bytes more. Get the file again");
}

void ByteSource::refuse_cut(const std::string& expected, std::uint64_t found) const {
  refuse("expected " + expected + ", found " + std::to_string(found) +
         ": it is cut off. Get the file again");
}

void ByteSource::refuse(const std::string& what) const {
  throw UsageError(head_ + what);
}

}  // namespace ddp::worker
