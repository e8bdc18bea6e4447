#include "worker/image/png.h"

#include <png.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include "worker/image/pixel_rows.h"

namespace ddp::worker {
namespace {

// As in libpng: a larger size is damage.
constexpr std::uint32_t kMaxPngSide = 0x7fffffff;

/// libpng's message when it gives up. It then leaves by longjmp, so every call of it is inside of a
/// guarded().
struct Complaint {
  std::string text;
};

void complain(png_structp png, png_const_charp text) {
  static_cast<Complaint*>(::png_get_error_ptr(png))->text = text;
  ::png_longjmp(png, 1);
}

void ignore(png_structp, png_const_charp) {}

/// Precondition: `step` has nothing to destroy, because longjmp skips its frames.
template <typename Step>
bool guarded(png_structp png, Step step) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  step();
  return true;
}

std::uint32_t read_word(std::span<const std::uint8_t> bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
         std::uint32_t{bytes[2]} << 8 | std::uint32_t{bytes[3]};
}

/// Reads one file.
class PngReader {
 public:
  explicit PngReader(std::span<const std::uint8_t> file) : rest_(file) {
    png_ = ::png_create_read_struct(PNG_LIBPNG_VER_STRING, &complaint_, complain, ignore);
    if (png_ == nullptr) throw std::bad_alloc();
    info_ = ::png_create_info_struct(png_);
    if (info_ == nullptr) {
      ::png_destroy_read_struct(&png_, nullptr, nullptr);
      throw std::bad_alloc();
    }
  }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  ~PngReader() { ::png_destroy_read_struct(&png_, &info_, nullptr); }

  void decode(ImageSize size, const DecodeRequest& request, Image& into) {
    background_ = request.background;
    if (!guarded(png_, [&] { read_header(); })) throw_reason();
    into.reshape(request.channels, size);
    if (is_interlaced_)
      decode_interlaced(into);
    else
      decode_plain(into);
  }

 private:
  void read_header() {
    ::png_set_read_fn(png_, this, take);
    ::png_set_user_limits(png_, kMaxPngSide, kMaxPngSide);  // the size was checked
    ::png_read_info(png_, info_);
    const auto color = ::png_get_color_type(png_, info_);
    is_grey_ = (color & PNG_COLOR_MASK_COLOR) == 0;
    // A color that is transparent, or the alphas of a palette.
    const bool has_transparency = ::png_get_valid(png_, info_, PNG_INFO_tRNS) != 0;
    if ((color & PNG_COLOR_MASK_ALPHA) == 0 && !has_transparency) background_.reset();
    if (color == PNG_COLOR_TYPE_PALETTE) ::png_set_palette_to_rgb(png_);
    if (is_grey_) ::png_set_expand_gray_1_2_4_to_8(png_);
    if (background_ && has_transparency) ::png_set_tRNS_to_alpha(png_);
    ::png_set_strip_16(png_);
    if (background_) {
      if (is_grey_) ::png_set_gray_to_rgb(png_);
      is_grey_ = false;
    } else {
      ::png_set_strip_alpha(png_);
      if (!is_grey_) ::png_set_filler(png_, 0, PNG_FILLER_AFTER);
    }
    is_interlaced_ = ::png_get_interlace_type(png_, info_) != PNG_INTERLACE_NONE;
    ::png_read_update_info(png_, info_);
    row_bytes_ = ::png_get_rowbytes(png_, info_);
  }

  void decode_plain(Image& into) {
    pixels_.resize(row_bytes_);
    const bool done = guarded(png_, [&] {
      for (int y = 0; y < into.height; ++y) {
        ::png_read_row(png_, pixels_.data(), nullptr);
        put(y, into);
      }
      ::png_read_end(png_, nullptr);
    });
    if (!done) throw_reason();
  }

  /// Each pass has the pixels of some rows and columns. They are put in their places one by one:
  /// libpng would keep all rows until the last pass.
  void decode_interlaced(Image& into) {
    pixels_.resize(row_bytes_);
    Image part;  // a row of a pass
    for (int pass = 0; pass < PNG_INTERLACE_ADAM7_PASSES; ++pass) {
      const int rows = PNG_PASS_ROWS(into.height, pass);
      const int columns = PNG_PASS_COLS(into.width, pass);
      if (rows <= 0 || columns <= 0) continue;
      part.reshape(into.channels, {1, columns});
      for (int y = 0; y < rows; ++y) {
        if (!guarded(png_, [&] { ::png_read_row(png_, pixels_.data(), nullptr); })) throw_reason();
        put(0, part);
        scatter(part, pass, PNG_ROW_FROM_PASS_ROW(y, pass), into);
      }
    }
    if (!guarded(png_, [&] { ::png_read_end(png_, nullptr); })) throw_reason();
  }

  static void scatter(const Image& part, int pass, int y, Image& into) {
    const int step = 1 << PNG_PASS_COL_SHIFT(pass);
    for (int channel = 0; channel < into.channels; ++channel) {
      const std::uint8_t* from = part.row(channel, 0);
      std::uint8_t* const row = into.row(channel, y);
      for (int x = PNG_PASS_START_COL(pass); x < into.width; x += step)
        row[x] = *from++;
    }
  }

  /// Writes the row that was read last.
  void put(int y, Image& into) {
    if (background_) paste_onto(*background_, static_cast<std::size_t>(into.width), pixels_.data());
    if (is_grey_)
      write_grey_row(pixels_.data(), y, into);
    else
      split_row(pixels_.data(), y, into);
  }

  static void take(png_structp png, png_bytep into, std::size_t size) {
    PngReader& self = *static_cast<PngReader*>(::png_get_io_ptr(png));
    if (size > self.rest_.size()) {
      self.is_cut_off_ = true;
      ::png_error(png, "cut off");
    }
    std::memcpy(into, self.rest_.data(), size);
    self.rest_ = self.rest_.subspan(size);
  }

  [[noreturn]] void throw_reason() const {
    if (is_cut_off_) throw BadImage("it is cut off");
    throw BadImage("it is a damaged PNG (libpng: " + complaint_.text + ")");
  }

  std::span<const std::uint8_t> rest_;
  bool is_cut_off_ = false;
  Complaint complaint_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::optional<Color> background_;  // no value: the image has no alpha, or it is dropped
  bool is_grey_ = false;
  bool is_interlaced_ = false;
  std::size_t row_bytes_ = 0;
  std::vector<std::uint8_t> pixels_;  // a row
};

/// Writes one file.
class PngWriter {
 public:
  PngWriter() {
    png_ = ::png_create_write_struct(PNG_LIBPNG_VER_STRING, &complaint_, complain, ignore);
    if (png_ == nullptr) throw std::bad_alloc();
    info_ = ::png_create_info_struct(png_);
    if (info_ == nullptr) {
      ::png_destroy_write_struct(&png_, nullptr);
      throw std::bad_alloc();
    }
  }
  PngWriter(const PngWriter&) = delete;
  PngWriter& operator=(const PngWriter&) = delete;
  ~PngWriter() { ::png_destroy_write_struct(&png_, &info_); }

  std::vector<std::uint8_t> encode(const Image& image) {
    std::vector<std::uint8_t> row(image.bytes.size() / static_cast<std::size_t>(image.height));
    if (!guarded(png_, [&] { write(image, row.data()); }))
      throw std::runtime_error("cannot write an image as PNG: libpng says " + complaint_.text);
    return std::move(file_);
  }

 private:
  void write(const Image& image, std::uint8_t* row) {
    ::png_set_write_fn(png_, this, append, nullptr);
    ::png_set_IHDR(png_,
                   info_,
                   static_cast<png_uint_32>(image.width),
                   static_cast<png_uint_32>(image.height),
                   8,
                   image.channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB,
                   PNG_INTERLACE_NONE,
                   PNG_COMPRESSION_TYPE_DEFAULT,
                   PNG_FILTER_TYPE_DEFAULT);
    ::png_write_info(png_, info_);
    for (int y = 0; y < image.height; ++y) {
      std::uint8_t* out = row;
      for (int x = 0; x < image.width; ++x) {
        for (int channel = 0; channel < image.channels; ++channel)
          *out++ = image.row(channel, y)[x];
      }
      ::png_write_row(png_, row);
    }
    ::png_write_end(png_, nullptr);
  }

  static void append(png_structp png, png_bytep bytes, std::size_t size) {
    std::vector<std::uint8_t>& file = static_cast<PngWriter*>(::png_get_io_ptr(png))->file_;
    bool has_room = true;
    try {
      file.insert(file.end(), bytes, bytes + size);
    } catch (const std::bad_alloc&) {
      has_room = false;  // no exception may pass through libpng
    }
    if (!has_room) ::png_error(png, "out of memory");
  }

  Complaint complaint_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::vector<std::uint8_t> file_;
};

}  // namespace

std::vector<std::uint8_t> encode_png(const Image& image) {
  if (image.bytes.empty()) throw std::logic_error("an image without pixels as PNG");
  return PngWriter().encode(image);
}

ImageSize read_png_size(std::span<const std::uint8_t> file) {
  // 8 bytes of signature, then the chunk that must be first: length, name, width, height.
  if (file.size() < 24) throw BadImage("it is cut off");
  const std::span<const std::uint8_t> name = file.subspan(12, 4);
  if (!std::equal(name.begin(), name.end(), std::string_view("IHDR").begin()))
    throw BadImage("it is a damaged PNG (it does not begin with an IHDR)");
  const std::uint32_t width = read_word(file.subspan(16));
  const std::uint32_t height = read_word(file.subspan(20));
  if (std::max(width, height) > kMaxPngSide)
    throw BadImage("it is a damaged PNG (its header says " + std::to_string(width) + " x " +
                   std::to_string(height) + " pixels)");
  return {static_cast<int>(height), static_cast<int>(width)};
}

ImageSize decode_png(std::span<const std::uint8_t> file,
                     const DecodeRequest& request,
                     const DecodeLimits& limits,
                     Image& into) {
  const ImageSize size = read_png_size(file);
  require_within(limits, size, file.size());
  PngReader(file).decode(size, request, into);
  return size;
}

}  // namespace ddp::worker
