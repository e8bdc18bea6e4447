#include "worker/image/jpeg.h"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>  // jpeglib.h wants it before itself
#include <new>
#include <string>
#include <vector>

#include <jpeglib.h>

#include <jerror.h>

#include "worker/image/pixel_rows.h"
#include "worker/image/resize.h"

namespace ddp::worker {
namespace {

// Real progressive files have about ten. A scan costs a pass over the whole image, but only a few
// bytes of the file.
constexpr int kMaxScans = 200;

// Rows begin off a multiple of 16 bytes: libjpeg-turbo writes aligned rows past the cache
// (movntdq), but each row is read at once.
constexpr std::size_t kAside = 8;

/// libjpeg warns when pixels are missing or wrong, and continues with grey. Such warnings are
/// errors here; harmless ones, as for bytes between two segments, are not.
bool is_damage(int message) {
  constexpr std::array<int, 5> kDamage{
      JWRN_JPEG_EOF, JWRN_HIT_MARKER, JWRN_HUFF_BAD_CODE, JWRN_ARITH_BAD_CODE, JWRN_MUST_RESYNC};
  return std::find(kDamage.begin(), kDamage.end(), message) != kDamage.end();
}

struct JumpingErrors : jpeg_error_mgr {
  std::jmp_buf back{};
  bool too_many_scans = false;
};

[[noreturn]] void jump_back(j_common_ptr info) {
  std::longjmp(static_cast<JumpingErrors*>(info->err)->back, 1);
}

/// a * b / 255, rounded, for a and b up to 255.
int times(int a, int b) {
  const int product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

/// Converts Adobe's CMYK, which is inverted, as Pillow does: ink is taken away from the light that
/// black leaves. In place, into red, green, blue and an unused byte.
void cmyk_to_rgb(std::uint8_t* row, int width) {
  for (int x = 0; x < width; ++x, row += 4) {
    const int light = row[3];
    for (int i = 0; i < 3; ++i)
      row[i] = static_cast<std::uint8_t>(light - times(255 - row[i], light));
  }
}

/// The place of a part in the image at 1/`divisor` of its size: all scaled pixels that show a pixel
/// of the part.
Region scale_down(const Region& part, int divisor) {
  const auto end = [divisor](int size) { return (size + divisor - 1) / divisor; };
  const int top = part.top / divisor;
  const int left = part.left / divisor;
  return {top, left, end(part.top + part.height) - top, end(part.left + part.width) - left};
}

/// Reads one file. libjpeg leaves by longjmp on errors, so every call of it is inside of guarded().
class JpegReader {
 public:
  JpegReader() {
    info_.err = ::jpeg_std_error(&errors_);
    errors_.error_exit = jump_back;
    errors_.output_message = [](j_common_ptr) {};
    errors_.emit_message = [](j_common_ptr info, int level) {
      if (level < 0 && is_damage(info->err->msg_code)) jump_back(info);
    };
    progress_.progress_monitor = [](j_common_ptr info) {
      auto& errors = *static_cast<JumpingErrors*>(info->err);
      errors.too_many_scans =
          reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMaxScans;
      if (errors.too_many_scans) jump_back(info);
    };
    guarded([&] { jpeg_create_decompress(&info_); });
    info_.progress = &progress_;
  }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;
  ~JpegReader() { ::jpeg_destroy_decompress(&info_); }

  ImageSize read_size(std::span<const std::uint8_t> file) {
    guarded([&] {
      ::jpeg_mem_src(&info_, file.data(), file.size());
      ::jpeg_read_header(&info_, TRUE);
    });
    return {static_cast<int>(info_.image_height), static_cast<int>(info_.image_width)};
  }

  /// Call it after read_size().
  void decode(const DecodeRequest& request, Resizer* resizer, Image& into) {
    choose_color(resizer != nullptr);
    Region part = wanted_part(
        request, {static_cast<int>(info_.image_height), static_cast<int>(info_.image_width)});
    if (request.at_least) part = choose_scale(part, *request.at_least);
    guarded([&] { ::jpeg_start_decompress(&info_); });
    if (resizer == nullptr)
      into.reshape(request.channels, part.size());
    else
      resizer->begin(part.size(), request.size.value());
    const int first = leave_out_columns(part);
    const std::size_t room = resizer == nullptr ? 0 : resizer->room();
    row_.resize(kAside +
                (info_.output_width + room) * static_cast<std::size_t>(info_.output_components));
    guarded([&] { read_rows(part, first, resizer, into); });
    if (resizer != nullptr) resizer->finish(into);
    // jpeg_finish_decompress() would look for the end marker, which some writers leave out.
  }

 private:
  /// `is_in_color`: pixels of four bytes, even for a grey file.
  void choose_color(bool is_in_color) {
    switch (info_.num_components) {
      case 1:
        info_.out_color_space = is_in_color ? JCS_EXT_RGBX : JCS_GRAYSCALE;
        return;
      case 3:
        info_.out_color_space = JCS_EXT_RGBX;
        return;
      case 4:
        info_.out_color_space = JCS_CMYK;
        return;
      default:
        throw BadImage("it is a JPEG of " + std::to_string(info_.num_components) +
                       " components; 1 (grey), 3 (colour) and 4 (CMYK) are read");
    }
  }

  /// Uses powers of two alone: 5/8 to 7/8 take longer than the whole image, and 3/8 as long as 1/2
  /// (there is no SIMD code for them).
  Region choose_scale(const Region& part, ImageSize at_least) {
    for (const int divisor : {8, 4, 2}) {
      const Region scaled = scale_down(part, divisor);
      if (scaled.height < at_least.height || scaled.width < at_least.width) continue;
      info_.scale_num = 1;
      info_.scale_denom = static_cast<unsigned>(divisor);
      return scaled;
    }
    return part;
  }

  /// If some scans are missing, libjpeg smooths each block by its neighbours, so these are needed.
  bool has_scans() { return ::jpeg_has_multiple_scans(&info_) != FALSE; }

  /// Makes rows hold the columns of `part`, and some beside them, because libjpeg leaves out whole
  /// blocks. Returns the place of the part's first column in such a row.
  int leave_out_columns(const Region& part) {
    const int width = static_cast<int>(info_.output_width);
    if (part.width == width || has_scans()) return part.left;
    // If colors are stored at half the width, a pixel also takes from its neighbours' colors.
    const int begin = std::max(part.left - 1, 0);
    const int end = std::min(part.left + part.width + 2, width);
    auto left = static_cast<JDIMENSION>(begin);
    auto count = static_cast<JDIMENSION>(end - begin);
    guarded([&] { ::jpeg_crop_scanline(&info_, &left, &count); });
    return part.left - static_cast<int>(left);
  }

  /// Reads the rows of `part`, with their columns from `first` on.
  void read_rows(const Region& part, int first, Resizer* resizer, Image& into) {
    JSAMPROW row = row_.data() + kAside;
    const std::uint8_t* const row_part = row + std::ptrdiff_t{first} * info_.output_components;
    const auto top = static_cast<JDIMENSION>(part.top);
    if (top > 0 && !has_scans()) ::jpeg_skip_scanlines(&info_, top);
    while (info_.output_scanline < top)
      ::jpeg_read_scanlines(&info_, &row, 1);
    for (int y = 0; y < part.height; ++y) {
      ::jpeg_read_scanlines(&info_, &row, 1);
      if (info_.out_color_space == JCS_CMYK) cmyk_to_rgb(row, static_cast<int>(info_.output_width));
      if (resizer != nullptr)
        resizer->put_row(row_part);
      else if (info_.out_color_space == JCS_GRAYSCALE)
        write_grey_row(row_part, y, into);
      else
        split_row(row_part, y, into);
    }
    // Reads the last row, because libjpeg checks no rows that are skipped up to the image's end.
    const JDIMENSION below = info_.output_height - info_.output_scanline;
    if (below > 1) ::jpeg_skip_scanlines(&info_, below - 1);
    if (below > 0) ::jpeg_read_scanlines(&info_, &row, 1);
  }

  /// Precondition: `step` has nothing to destroy, because longjmp skips its frames.
  template <typename Step>
  void guarded(Step step) {
    if (setjmp(errors_.back) != 0) throw_reason();
    step();
  }

  [[noreturn]] void throw_reason() {
    if (errors_.too_many_scans)
      throw BadImage("it is a JPEG of more than " + std::to_string(kMaxScans) + " scans");
    if (errors_.msg_code == JWRN_JPEG_EOF || errors_.msg_code == JERR_INPUT_EOF)
      throw BadImage("it is cut off");
    if (errors_.msg_code == JERR_OUT_OF_MEMORY) throw std::bad_alloc();
    std::array<char, JMSG_LENGTH_MAX> text{};
    errors_.format_message(reinterpret_cast<j_common_ptr>(&info_), text.data());
    throw BadImage(std::string("it is damaged, or not a JPEG that is read (libjpeg: ") +
                   text.data() + ")");
  }

  JumpingErrors errors_{};
  jpeg_progress_mgr progress_{};
  jpeg_decompress_struct info_{};
  std::vector<std::uint8_t> row_;
};

}  // namespace

ImageSize read_jpeg_size(std::span<const std::uint8_t> file) {
  return JpegReader().read_size(file);
}

ImageSize decode_jpeg(std::span<const std::uint8_t> file,
                      const DecodeRequest& request,
                      const DecodeLimits& limits,
                      Resizer* resizer,
                      Image& into) {
  JpegReader reader;
  const ImageSize size = reader.read_size(file);
  require_within(limits, size, file.size());
  reader.decode(request, resizer, into);
  return size;
}

}  // namespace ddp::worker
