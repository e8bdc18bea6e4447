// Shows what worker/image does to the Python program beside it: one verb, then its arguments.
// Images are written as a line "CHANNELS HEIGHT WIDTH" and their planes.
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <optional>
#include <sstream>

#include "tests/interop/verbs.h"
#include "worker/data/sets/read_image.h"
#include "worker/image/affine.h"
#include "worker/image/box.h"
#include "worker/image/color.h"
#include "worker/image/decode.h"
#include "worker/image/geometry.h"
#include "worker/image/hsv.h"
#include "worker/image/levels.h"
#include "worker/image/perspective.h"
#include "worker/image/png.h"
#include "worker/image/resize.h"

namespace ddp::worker {
namespace {

using test::Arguments;

void put(const Image& image) {
  std::cout << image.channels << " " << image.height << " " << image.width << "\n";
  std::cout.write(reinterpret_cast<const char*>(image.bytes.data()), std::ssize(image.bytes));
}

std::vector<std::uint8_t> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// What cannot be used is an image of no channel and as many bytes as the reason has letters.
void decode(const DecodeRequest& wish, std::span<const std::string> files) {
  Image image;  // one for all: what is left of a larger one must not be seen
  for (const std::string& file : files) {
    try {
      decode_image(read_file(file), wish, {}, image);
      put(image);
    } catch (const BadImage& error) {
      std::cout << "0 1 " << std::string(error.what()).size() << "\n" << error.what();
    }
  }
}

// decode CHANNELS HEIGHT WIDTH FILE...: each as an image. A height above 0 is the smallest that is
// of use.
void decode_whole(const Arguments& arguments) {
  DecodeRequest wish{.channels = std::stoi(arguments.at(0)), .at_least = std::nullopt};
  const ImageSize at_least{std::stoi(arguments.at(1)), std::stoi(arguments.at(2))};
  if (at_least.height > 0) wish.at_least = at_least;
  decode(wish, std::span(arguments).subspan(3));
}

// decode-on RED GREEN BLUE CHANNELS FILE...: each, on that background.
void decode_on(const Arguments& arguments) {
  Color background{};
  for (std::size_t i = 0; i < background.size(); ++i)
    background[i] = static_cast<std::uint8_t>(std::stoi(arguments.at(i)));
  const int channels = std::stoi(arguments.at(3));
  decode({.channels = channels, .background = background, .at_least = {}},
         std::span(arguments).subspan(4));
}

// decode-part CHANNELS TOP LEFT HEIGHT WIDTH FILE...: that part of each.
void decode_part(const Arguments& arguments) {
  std::array<int, 5> given{};
  std::ranges::transform(std::span(arguments).first(given.size()),
                         given.begin(),
                         [](const auto& word) { return std::stoi(word); });
  const Region part{given[1], given[2], given[3], given[4]};
  decode({.channels = given[0], .at_least = {}, .part = [&](ImageSize) { return part; }},
         std::span(arguments).subspan(given.size()));
}

// decode-oriented TOP LEFT HEIGHT WIDTH FILE...: that part of each, in color, turned as its EXIF
// data say; HEIGHT 0: the whole.
void decode_oriented(const Arguments& arguments) {
  const auto number = [&](std::size_t i) { return std::stoi(arguments.at(i)); };
  const Region part{number(0), number(1), number(2), number(3)};
  DecodeRequest request;
  if (part.height > 0) request.part = [&](ImageSize) { return part; };
  Image image;
  for (const std::string& file : std::span(arguments).subspan(4)) {
    read_image(std::filesystem::path(file), request, {}, image);
    put(image);
  }
}

Image take_image() {
  int channels = 0;
  ImageSize size;
  std::cin >> channels >> size.height >> size.width;
  std::cin.ignore();
  Image image;
  image.reshape(channels, size);
  std::cin.read(reinterpret_cast<char*>(image.bytes.data()), std::ssize(image.bytes));
  return image;
}

/// Numbers of one request, in order.
class Numbers {
 public:
  explicit Numbers(std::istream& from) : from_(from) {}
  double next() {
    double number = 0;
    if (!(from_ >> number)) throw UsageError("a request of too few numbers");
    return number;
  }
  operator double() { return next(); }
  operator int() { return static_cast<int>(next()); }

 private:
  std::istream& from_;
};

ImageSize read_size(Numbers& numbers) {
  const int height = numbers;
  return {height, numbers};
}

Region read_region(Numbers& numbers) {
  const int top = numbers;
  const int left = numbers;
  const ImageSize size = read_size(numbers);
  return {top, left, size.height, size.width};
}

Color read_color(Numbers& numbers) {
  Color color;
  for (std::uint8_t& value : color)
    value = static_cast<std::uint8_t>(numbers.next());
  return color;
}

// ANGLE RIGHT DOWN SCALE SHEAR_X SHEAR_Y HAS_CENTER X Y
Affine read_affine(Numbers& numbers) {
  Affine affine;
  affine.angle = numbers;
  for (double& pixels : affine.translate)
    pixels = numbers;
  affine.scale = numbers;
  for (double& degrees : affine.shear)
    degrees = numbers;
  const bool has_center = numbers.next() != 0;
  std::array<double, 2> center{};
  for (double& coordinate : center)
    coordinate = numbers;
  if (has_center) affine.center = center;
  return affine;
}

Matrix3 read_matrix(Numbers& numbers) {
  Matrix3 matrix{};
  for (double& number : matrix)
    number = numbers;
  return matrix;
}

using Operation = std::function<void(Numbers&, Image&, Image&)>;

Operation in_place(void (*change)(Image&)) {
  return [=](Numbers&, Image& image, Image& into) {
    change(image);
    std::swap(image, into);
  };
}

template <typename Number>
Operation in_place(void (*change)(Image&, Number)) {
  return [=](Numbers& numbers, Image& image, Image& into) {
    change(image, numbers);
    std::swap(image, into);
  };
}

const std::map<std::string, Operation>& operations() {
  static Resizer resizer;
  static const std::map<std::string, Operation> all{
      {"flip", in_place([](Image& image) { flip_horizontal(image); })},
      {"autocontrast", in_place(autocontrast)},
      {"equalize", in_place(equalize)},
      {"posterize", in_place<int>(posterize)},
      {"solarize", in_place<double>(solarize)},
      {"brightness", in_place<double>(adjust_brightness)},
      {"contrast", in_place<double>(adjust_contrast)},
      {"saturation", in_place<double>(adjust_saturation)},
      {"hue", in_place<double>(adjust_hue)},
      {"sharpness",
       [](Numbers& numbers, Image& image, Image& into) { adjust_sharpness(image, numbers, into); }},
      {"flip-vertical", in_place([](Image& image) { flip_vertical(image); })},
      {"hsv",  // SHIFT SATURATION VALUE
       [](Numbers& numbers, Image& image, Image& into) {
         const double shift = numbers;
         const double saturation = numbers;
         adjust_hsv(image, shift, saturation, numbers);
         std::swap(image, into);
       }},
      {"perspective",  // HEIGHT WIDTH RED GREEN BLUE and the nine numbers of the matrix
       [](Numbers& numbers, Image& image, Image& into) {
         const ImageSize size = read_size(numbers);
         const Color color = read_color(numbers);
         move_perspective(image, read_matrix(numbers), size, color, into);
       }},
      {"erase",
       [](Numbers& numbers, Image& image, Image& into) {
         const Region region = read_region(numbers);
         erase(image, region, read_color(numbers));
         std::swap(image, into);
       }},
      {"crop",  // KIND RED GREEN BLUE TOP LEFT HEIGHT WIDTH
       [](Numbers& numbers, Image& image, Image& into) {
         const auto kind = static_cast<Border::Kind>(static_cast<int>(numbers));
         const Border border{kind, read_color(numbers)};
         crop(image, read_region(numbers), border, into);
       }},
      {"pad",  // KIND RED GREEN BLUE LEFT TOP RIGHT BOTTOM
       [](Numbers& numbers, Image& image, Image& into) {
         const auto kind = static_cast<Border::Kind>(static_cast<int>(numbers));
         const Border border{kind, read_color(numbers)};
         std::array<int, 4> sides{};
         for (int& side : sides)
           side = numbers;
         const auto [left, top, right, bottom] = sides;
         const Region padded{-top, -left, image.height + top + bottom, image.width + left + right};
         crop(image, padded, border, into);
       }},
      {"center-crop",
       [](Numbers& numbers, Image& image, Image& into) {
         crop(image, center_region(image.size(), read_size(numbers)), {}, into);
       }},
      {"resize",
       [](Numbers& numbers, Image& image, Image& into) {
         resizer.resize(image, read_size(numbers), into);
       }},
      {"resize-smaller-side",
       [](Numbers& numbers, Image& image, Image& into) {
         resizer.resize(image, resized_smaller_side(image.size(), numbers), into);
       }},
      {"resized-crop",
       [](Numbers& numbers, Image& image, Image& into) {
         const Region region = read_region(numbers);
         resizer.resize(image, region, read_size(numbers), into);
       }},
      {"affine",  // IS_BILINEAR HAS_FILL RED GREEN BLUE and the move
       [](Numbers& numbers, Image& image, Image& into) {
         const bool is_bilinear = numbers.next() != 0;
         const bool has_fill = numbers.next() != 0;
         const Color color = read_color(numbers);
         move_affine(image,
                     read_affine(numbers),
                     is_bilinear ? Interpolation::bilinear : Interpolation::nearest,
                     has_fill ? std::optional(color) : std::nullopt,
                     into);
       }},
      {"rotate", [](Numbers& numbers, Image& image, Image& into) {
         const bool is_bilinear = numbers.next() != 0;
         move_affine(image,
                     rotation(numbers),
                     is_bilinear ? Interpolation::bilinear : Interpolation::nearest,
                     std::nullopt,
                     into);
       }}};
  return all;
}

// operate: from stdin, requests of a line "NAME NUMBER..." and an image; writes the images.
void operate(const Arguments&) {
  Image into;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream request(line);
    std::string name;
    request >> name;
    Numbers numbers(request);
    Image image = take_image();
    operations().at(name)(numbers, image, into);
    put(into);
  }
}

std::optional<Box> move_box(const std::string& name,
                            const Box& box,
                            ImageSize image,
                            Numbers& numbers) {
  if (name == "flip") return flip_horizontal(box, image);
  if (name == "resize") return resize(box, image, read_size(numbers));
  if (name == "affine") return clip(move_affine(box, read_affine(numbers), image), image);
  if (name == "hull") return move_affine(box, read_affine(numbers), image);
  if (name != "crop") throw UsageError(name + " is not a way to move a box");
  const Region region = read_region(numbers);
  return crop(box, region, static_cast<float>(numbers.next()));
}

// boxes: from stdin, lines "NAME LEFT TOP RIGHT BOTTOM HEIGHT WIDTH NUMBER..."; writes where the
// box is then, or "dropped".
void move_boxes(const Arguments&) {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream request(line);
    std::string name;
    Box box;
    request >> name >> box.left >> box.top >> box.right >> box.bottom;
    Numbers numbers(request);
    const ImageSize image = read_size(numbers);
    if (const std::optional<Box> moved = move_box(name, box, image, numbers))
      std::cout << std::setprecision(9) << moved->left << " " << moved->top << " " << moved->right
                << " " << moved->bottom << "\n";
    else
      std::cout << "dropped\n";
  }
}

// encode-png CHANNELS FILE: that file, decoded, as a PNG.
void encode(const Arguments& arguments) {
  Image image;
  decode_image(read_file(arguments.at(1)),
               {.channels = std::stoi(arguments.at(0)), .at_least = std::nullopt},
               {},
               image);
  const std::vector<std::uint8_t> file = encode_png(image);
  std::cout.write(reinterpret_cast<const char*>(file.data()), std::ssize(file));
}

}  // namespace

int run(int argc, char** argv) {
  return test::run_verb("image_tool",
                        {{"decode", decode_whole},
                         {"decode-part", decode_part},
                         {"decode-on", decode_on},
                         {"decode-oriented", decode_oriented},
                         {"encode-png", encode},
                         {"operate", operate},
                         {"boxes", move_boxes}},
                        argc,
                        argv);
}

}  // namespace ddp::worker

int main(int argc, char** argv) {
  return ddp::worker::run(argc, argv);
}
