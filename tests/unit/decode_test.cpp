#include "worker/image/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <webp/encode.h>

#include <algorithm>
#include <array>
#include <cstdio>  // jpeglib.h wants it before itself
#include <cstdlib>
#include <cstring>
#include <string>

#include <jpeglib.h>
#include <png.h>

#include "tests/unit/memory_limit.h"
#include "worker/image/geometry.h"
#include "worker/image/png.h"
#include "worker/image/resize.h"

namespace ddp::worker {
namespace {

using Bytes = std::vector<std::uint8_t>;
using testing::HasSubstr;

Image colors(int height, int width) {
  Image image;
  image.reshape(3, {height, width});
  for (int channel = 0; channel < 3; ++channel) {
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x)
        image.row(channel, y)[x] =
            static_cast<std::uint8_t>(channel == 0 ? x * 7 : y * 5 + channel);
    }
  }
  return image;
}

Bytes interleaved(const Image& image) {
  Bytes bytes;
  for (std::size_t i = 0; i < image.plane_size(); ++i) {
    for (int channel = 0; channel < 3; ++channel)
      bytes.push_back(image.plane(channel)[i]);
  }
  return bytes;
}

enum class Scans { one, progressive, one_per_channel, grey };

Bytes jpeg_file(const Image& image, Scans scans = Scans::one) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = ::jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* file = nullptr;
  unsigned long size = 0;
  ::jpeg_mem_dest(&info, &file, &size);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  ::jpeg_set_defaults(&info);
  if (scans == Scans::grey) ::jpeg_set_colorspace(&info, JCS_GRAYSCALE);
  if (scans == Scans::progressive) ::jpeg_simple_progression(&info);
  const jpeg_scan_info first{1, {0}, 0, 63, 0, 0};
  std::array<jpeg_scan_info, 3> channels{first, first, first};
  for (int i = 0; i < 3; ++i)
    channels[static_cast<std::size_t>(i)].component_index[0] = i;
  if (scans == Scans::one_per_channel) {
    info.scan_info = channels.data();
    info.num_scans = 3;
  }
  ::jpeg_start_compress(&info, TRUE);
  Bytes pixels = interleaved(image);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = pixels.data() + std::size_t{info.next_scanline} * info.image_width * 3;
    ::jpeg_write_scanlines(&info, &row, 1);
  }
  ::jpeg_finish_compress(&info);
  Bytes bytes(file, file + size);
  std::free(file);
  ::jpeg_destroy_compress(&info);
  return bytes;
}

Bytes webp_file(const Image& image) {
  std::uint8_t* file = nullptr;
  const std::size_t size = ::WebPEncodeLosslessRGB(
      interleaved(image).data(), image.width, image.height, image.width * 3, &file);
  Bytes bytes(file, file + size);
  ::WebPFree(file);
  return bytes;
}

/// Precondition: libpng does not complain.
Bytes interlaced_png_file(const Image& image, bool is_grey) {
  png_structp png = ::png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = ::png_create_info_struct(png);
  Bytes file;
  ::png_set_write_fn(
      png,
      &file,
      [](png_structp writer, png_bytep bytes, std::size_t size) {
        Bytes& all = *static_cast<Bytes*>(::png_get_io_ptr(writer));
        all.insert(all.end(), bytes, bytes + size);
      },
      nullptr);
  ::png_set_IHDR(png,
                 info,
                 static_cast<png_uint_32>(image.width),
                 static_cast<png_uint_32>(image.height),
                 8,
                 is_grey ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB,
                 PNG_INTERLACE_ADAM7,
                 PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
  ::png_write_info(png, info);
  Bytes pixels = is_grey ? image.bytes : interleaved(image);
  const std::size_t row = pixels.size() / static_cast<std::size_t>(image.height);
  for (int pass = ::png_set_interlace_handling(png); pass > 0; --pass) {
    for (std::size_t y = 0; y < static_cast<std::size_t>(image.height); ++y)
      ::png_write_row(png, pixels.data() + y * row);
  }
  ::png_write_end(png, nullptr);
  ::png_destroy_write_struct(&png, &info);
  return file;
}

std::vector<Bytes> one_of_each(const Image& image) {
  return {
      jpeg_file(image), jpeg_file(image, Scans::progressive), encode_png(image), webp_file(image)};
}

Image decoded(const Bytes& file, const DecodeRequest& request = {}) {
  Image image;
  decode_image(file, request, {}, image);
  return image;
}

std::string reason(const Bytes& file, const DecodeLimits& limits = {}) {
  Image image;
  try {
    decode_image(file, {}, limits, image);
  } catch (const BadImage& error) {
    return error.what();
  }
  return "none";
}

/// Puts a 16-bit number, high byte first.
void put(Bytes& file, std::size_t place, unsigned number) {
  file.at(place) = static_cast<std::uint8_t>(number >> 8);
  file.at(place + 1) = static_cast<std::uint8_t>(number);
}

std::size_t find(const Bytes& file, std::initializer_list<std::uint8_t> wanted) {
  const auto place = std::search(file.begin(), file.end(), wanted.begin(), wanted.end());
  EXPECT_NE(place, file.end());
  return static_cast<std::size_t>(place - file.begin());
}

TEST(DecodeTest, LosslessImagesRoundTrip) {
  for (const ImageSize size : {ImageSize{1, 1}, ImageSize{3, 70}, ImageSize{33, 5}}) {
    const Image image = colors(size.height, size.width);
    EXPECT_EQ(decoded(encode_png(image)), image);
    EXPECT_EQ(decoded(webp_file(image)), image);
  }
}

TEST(DecodeTest, AnInterlacedPngOfAnySizeIsRead) {
  for (int height = 1; height < 18; ++height) {
    for (const int width : {1, 2, 3, 4, 5, 8, 9, 33}) {
      const Image image = colors(height, width);
      EXPECT_EQ(decoded(interlaced_png_file(image, false)), image) << height << " x " << width;
      Image grey = image;
      grey.channels = 1;
      grey.bytes.resize(grey.plane_size());
      EXPECT_EQ(decoded(interlaced_png_file(grey, true), {.channels = 1, .at_least = {}}), grey);
    }
  }
}

TEST(DecodeTest, D3AnInterlacedPngTakesTheMemoryOfItsPixelsAlone) {
  const Bytes file = interlaced_png_file(colors(3000, 3000), false);
  Image image;
  const MemoryLimit limit(std::size_t{40} << 20);  // 3 bytes a pixel are 26 MiB
  EXPECT_NO_THROW(decode_image(file, {}, {}, image));
}

TEST(DecodeTest, GreyIsWrittenAndSpreadOverThreeChannels) {
  const Image grey = decoded(encode_png(colors(4, 6)), {.channels = 1, .at_least = {}});
  EXPECT_EQ(grey.channels, 1);
  const Image again = decoded(encode_png(grey));
  for (int channel = 0; channel < 3; ++channel)
    EXPECT_TRUE(std::equal(grey.bytes.begin(), grey.bytes.end(), again.plane(channel).begin()));
}

TEST(DecodeTest, TheHeaderIsReadAlone) {
  const std::vector<Bytes> files = one_of_each(colors(30, 20));
  const std::vector<ImageFormat> formats{
      ImageFormat::jpeg, ImageFormat::jpeg, ImageFormat::png, ImageFormat::webp};
  for (std::size_t i = 0; i < files.size(); ++i) {
    const ImageHeader wanted{formats[i], {30, 20}};
    EXPECT_EQ(read_image_header(files[i]), wanted) << i;
  }
}

TEST(DecodeTest, AnImageThatIsUsedAgainKeepsItsMemoryAndNothingElse) {
  Image image;
  decode_image(encode_png(colors(50, 50)), {}, {}, image);
  const std::uint8_t* memory = image.bytes.data();
  for (const Bytes& file : one_of_each(colors(40, 30))) {
    decode_image(file, {}, {}, image);
    EXPECT_EQ(image, decoded(file));
    EXPECT_EQ(image.bytes.data(), memory);
  }
}

TEST(DecodeTest, AJpegIsDecodedSmallerAsFarAsItIsOfUse) {
  const Bytes file = jpeg_file(colors(64, 96));
  const auto size = [&](ImageSize at_least) {
    Image image;
    EXPECT_EQ(decode_image(file, {.channels = 3, .at_least = at_least}, {}, image),
              (ImageSize{64, 96}));
    return image.size();
  };
  EXPECT_EQ(size({8, 12}), (ImageSize{8, 12}));
  EXPECT_EQ(size({9, 12}), (ImageSize{16, 24}));
  EXPECT_EQ(size({8, 25}), (ImageSize{32, 48}));
  EXPECT_EQ(size({33, 1}), (ImageSize{64, 96}));
  EXPECT_EQ(size({500, 500}), (ImageSize{64, 96}));
}

TEST(DecodeTest, APartHasThePixelsThatItHasInTheWholeImage) {
  // Parts that begin and end inside, at and beside blocks of 8 and 16 pixels.
  for (const Bytes& file : one_of_each(colors(50, 70))) {
    for (const Region& part : {Region{0, 0, 50, 70},
                               Region{0, 0, 1, 1},
                               Region{49, 69, 1, 1},
                               Region{16, 16, 16, 32},
                               Region{15, 17, 20, 30},
                               Region{33, 31, 17, 39}}) {
      Image image;
      const DecodeRequest request{.channels = 3, .at_least = {}, .part = [&](ImageSize size) {
                                    EXPECT_EQ(size, (ImageSize{50, 70}));
                                    return part;
                                  }};
      EXPECT_EQ(decode_image(file, request, {}, image), (ImageSize{50, 70}));
      Image wanted;
      crop(decoded(file), part, {}, wanted);
      EXPECT_EQ(image, wanted) << part.top << " " << part.left;
    }
  }
}

TEST(DecodeTest, APartOfAJpegWithoutItsLaterScansIsThatOfTheWholeImage) {
  // libjpeg smooths over what the other scans would have told.
  Bytes file = jpeg_file(colors(50, 70), Scans::progressive);
  constexpr std::array<std::uint8_t, 2> kScan{0xff, 0xda};
  constexpr std::array<std::uint8_t, 2> kTable{0xff, 0xc4};
  const auto scan = std::search(file.begin(), file.end(), kScan.begin(), kScan.end());
  file.erase(std::search(scan, file.end(), kTable.begin(), kTable.end()), file.end());
  file.insert(file.end(), {0xff, 0xd9});
  const Region part{20, 27, 17, 30};
  Image wanted;
  crop(decoded(file), part, {}, wanted);
  EXPECT_EQ(decoded(file, {.channels = 3, .at_least = {}, .part = [&](ImageSize) { return part; }}),
            wanted);
}

TEST(DecodeTest, APartIsDecodedSmallerAsFarAsItIsOfUse) {
  const Bytes file = jpeg_file(colors(64, 96));
  const auto size = [&](const Region& part, ImageSize at_least) {
    Image image;
    decode_image(file,
                 {.channels = 3, .at_least = at_least, .part = [&](ImageSize) { return part; }},
                 {},
                 image);
    // Its pixels are those of the whole image of that size.
    Image small;
    const int divisor = (part.height + image.height - 1) / image.height;
    decode_image(
        file, {.channels = 3, .at_least = ImageSize{64 / divisor, 96 / divisor}}, {}, small);
    Image wanted;
    crop(small, {part.top / divisor, part.left / divisor, image.height, image.width}, {}, wanted);
    EXPECT_EQ(image, wanted) << divisor;
    return image.size();
  };
  EXPECT_EQ(size({16, 32, 32, 64}, {16, 32}), (ImageSize{16, 32}));
  EXPECT_EQ(size({16, 32, 32, 64}, {16, 33}), (ImageSize{32, 64}));
  EXPECT_EQ(size({16, 32, 32, 64}, {4, 8}), (ImageSize{4, 8}));
  EXPECT_EQ(size({0, 0, 64, 96}, {17, 1}), (ImageSize{32, 48}));
  EXPECT_EQ(size({1, 1, 63, 95}, {31, 47}), (ImageSize{32, 48})) << "half pixels belong to it";
}

TEST(DecodeTest, AnImageThatGetsASizeIsAsIfItWereResizedAfterwards) {
  const auto part = [](ImageSize size) {
    return Region{size.height / 3, size.width / 5, size.height / 2, size.width / 3};
  };
  std::vector<Bytes> files = one_of_each(colors(97, 131));
  files.push_back(jpeg_file(colors(97, 131), Scans::grey));
  for (const Bytes& file : files) {
    for (const ImageSize size : {ImageSize{40, 21}, {48, 43}, {64, 64}}) {
      for (const int channels : {3, 1}) {
        DecodeRequest request{.channels = channels, .at_least = ImageSize{20, 20}, .part = part};
        Image wanted;
        Resizer().resize(decoded(file, request), size, wanted);
        request.size = size;
        EXPECT_EQ(decoded(file, request), wanted) << size.height << ", channels: " << channels;
      }
    }
    EXPECT_THROW(decoded(file, {.at_least = {}, .part = {}, .size = ImageSize{0, 4}}),
                 std::logic_error);
  }
}

TEST(DecodeTest, DamageOutsideOfAPartIsDamage) {
  const Bytes file = jpeg_file(colors(64, 96));
  const DecodeRequest top{.channels = 3, .at_least = {}, .part = [](ImageSize) {
                            return Region{0, 0, 8, 8};
                          }};
  EXPECT_EQ(decoded(file, top).size(), (ImageSize{8, 8}));
  const Bytes cut(file.begin(), file.end() - 20);
  EXPECT_THROW(decoded(cut, top), BadImage);
}

TEST(DecodeTest, APartOutsideOfTheImageIsAMistakeOfTheCaller) {
  for (const Bytes& file : one_of_each(colors(8, 8))) {
    for (const Region& part : {Region{0, 0, 9, 8}, Region{-1, 0, 8, 8}, Region{0, 0, 0, 8}}) {
      const DecodeRequest request{
          .channels = 3, .at_least = {}, .part = [&](ImageSize) { return part; }};
      EXPECT_THROW(decoded(file, request), std::logic_error);
    }
  }
}

TEST(DecodeTest, AFileThatEndsTooSoonIsRefusedWhereverItEnds) {
  // All of each file is needed, but for the marker of the end in a plain JPEG and WebP's padding.
  for (const Bytes& file : one_of_each(colors(40, 30))) {
    for (std::size_t size = 0; size + 12 < file.size(); size += 1 + size / 40) {
      const Bytes cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_NE(reason(cut), "none") << size << " of " << file.size();
    }
    const Bytes half(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(file.size() / 2));
    EXPECT_EQ(reason(half), "it is cut off");
  }
  EXPECT_EQ(reason({}), "it is empty");
}

TEST(DecodeTest, DamagedFilesAreRefused) {
  Bytes png = encode_png(colors(40, 30));
  png.at(png.size() / 2) ^= 1;  // its checksum says so
  EXPECT_THAT(reason(png), HasSubstr("it is a damaged PNG (libpng: "));

  Bytes jpeg = jpeg_file(colors(40, 30));
  const std::size_t scan = find(jpeg, {0xff, 0xda});
  Bytes ends_early(jpeg.begin(), jpeg.begin() + static_cast<std::ptrdiff_t>(scan + 40));
  ends_early.insert(ends_early.end(), {0xff, 0xd9});
  EXPECT_THAT(reason(ends_early), HasSubstr("premature end of data segment"));

  Bytes lossless = jpeg;
  lossless.at(find(lossless, {0xff, 0xc0}) + 1) = 0xc3;
  EXPECT_EQ(
      reason(lossless),
      "it is damaged, or not a JPEG that is read (libjpeg: Unsupported JPEG process: SOF type "
      "0xc3)");

  Bytes webp = webp_file(colors(40, 30));
  webp.at(24) ^= 0xff;
  EXPECT_NE(reason(webp), "none");
}

TEST(DecodeTest, AHugeHeaderIsRefusedBeforeAnythingIsAllocated) {
  Bytes jpeg = jpeg_file(colors(8, 8));
  const std::size_t frame = find(jpeg, {0xff, 0xc0});
  put(jpeg, frame + 5, 60'000);
  put(jpeg, frame + 7, 60'000);
  EXPECT_EQ(reason(jpeg), "its header says 60000 x 60000 pixels, more than the 178956970 allowed");

  Bytes png = encode_png(colors(8, 8));
  put(png, 16, 0x7fff);
  put(png, 20, 0x7fff);
  EXPECT_EQ(reason(png),
            "its header says 2147418120 x 2147418120 pixels, more than the 178956970 allowed");
  put(png, 16, 0xffff);
  EXPECT_THAT(reason(png), HasSubstr("it is a damaged PNG (its header says 4294901768 x "));

  EXPECT_EQ(reason(webp_file(colors(40, 30)), {.pixels = 1199, .bytes = 10'000}),
            "its header says 30 x 40 pixels, more than the 1199 allowed");
  EXPECT_EQ(reason(webp_file(colors(40, 30)), {.pixels = 1200, .bytes = 10'000}), "none");
}

// Of a few bytes a progressive JPEG of that size takes a gigabyte before its end is missed.
TEST(DecodeTest, D3ASmallFileDoesNotClaimAnImageOfGigabytes) {
  std::vector<Bytes> files = one_of_each(colors(8, 8));
  files.push_back(interlaced_png_file(colors(8, 8), false));
  for (std::size_t i : {0U, 1U}) {
    const auto frame = find(files[i], {0xff, i == 0 ? std::uint8_t{0xc0} : std::uint8_t{0xc2}});
    put(files[i], frame + 5, 13'000);
    put(files[i], frame + 7, 13'000);
  }
  for (std::size_t i : {2U, 4U}) {
    put(files[i], 18, 13'000);
    put(files[i], 22, 13'000);
  }
  // Fourteen bits of width and height, less 1, behind the byte that begins such a file.
  const std::uint32_t bits = 12'999U | 12'999U << 14;
  std::memcpy(files[3].data() + 21, &bits, sizeof bits);
  const MemoryLimit limit(std::size_t{64} << 20);
  for (const Bytes& file : files)
    EXPECT_EQ(reason(file),
              "its header says 13000 x 13000 pixels, more than the 36000000 that a file of " +
                  std::to_string(file.size()) + " bytes may have");
}

TEST(DecodeTest, PixelLimitGrowsWithTheFileSize) {
  const Bytes file = webp_file(colors(40, 30));  // 1200 pixels
  const auto bytes = static_cast<std::int64_t>(file.size());
  const auto judge = [&](std::int64_t free_pixels, std::int64_t pixels_per_byte) {
    return reason(file, {.free_pixels = free_pixels, .pixels_per_byte = pixels_per_byte});
  };
  EXPECT_EQ(judge(1200, 0), "none");
  EXPECT_THAT(judge(1199, 0), HasSubstr("more than the 1199 that a file of"));
  EXPECT_EQ(judge(0, 1200 / bytes + 1), "none");
  EXPECT_THAT(judge(0, 1200 / bytes - 1), HasSubstr(" that a file of"));
  // Any camera's: 4 bits and more for a pixel, and a page at 600 dpi with next to nothing on it.
  EXPECT_NO_THROW(require_within({}, {12'000, 14'000}, 12'000 * 14'000 / 16));
  EXPECT_NO_THROW(require_within({}, {7016, 4961}, 4'000));
}

TEST(DecodeTest, AFileOfTooManyBytesIsRefused) {
  EXPECT_EQ(reason(Bytes(1001), {.pixels = 100, .bytes = 1000}),
            "it has 1001 bytes, more than the 1000 allowed");
}

TEST(DecodeTest, AnImageWithoutPixelsIsRefused) {
  Bytes png = encode_png(colors(8, 8));
  png.at(19) = 0;
  EXPECT_EQ(reason(png), "its header says 0 x 8 pixels, which is not an image");
}

TEST(DecodeTest, AJpegOfEndlessScansIsRefused) {
  Bytes file = jpeg_file(colors(64, 64), Scans::one_per_channel);
  EXPECT_EQ(reason(file), "none");
  // Its last scan over and over: a pass over the image for a few bytes each.
  constexpr std::array<std::uint8_t, 2> kScan{0xff, 0xda};
  const Bytes scan(std::find_end(file.begin(), file.end(), kScan.begin(), kScan.end()),
                   file.end() - 2);
  for (const auto& [more, wanted] :
       {std::pair{197, "none"}, std::pair{198, "it is a JPEG of more than 200 scans"}}) {
    Bytes longer(file.begin(), file.end() - 2);
    for (int i = 0; i < more; ++i)
      longer.insert(longer.end(), scan.begin(), scan.end());
    longer.insert(longer.end(), file.end() - 2, file.end());
    EXPECT_EQ(reason(longer), wanted);
  }
}

TEST(DecodeTest, OtherFormatsAreNamed) {
  const auto of = [](const std::string& text) { return reason(Bytes(text.begin(), text.end())); };
  EXPECT_EQ(of("GIF89a....."), "it is a GIF, and not a JPEG, PNG or WebP");
  EXPECT_EQ(of("<!DOCTYPE html>"), "it is a text (HTML or SVG?), and not a JPEG, PNG or WebP");
  EXPECT_EQ(of("RIFF"), "it is not a JPEG, PNG or WebP");
  EXPECT_EQ(of(std::string("II*\0....", 8)), "it is a TIFF, and not a JPEG, PNG or WebP");
}

TEST(DecodeTest, OtherChannelsAreAMistakeOfTheCaller) {
  Image image;
  EXPECT_THROW(decode_image(encode_png(colors(2, 2)), {.channels = 2, .at_least = {}}, {}, image),
               std::logic_error);
  EXPECT_THROW(encode_png(Image{}), std::logic_error);
}

}  // namespace
}  // namespace ddp::worker
