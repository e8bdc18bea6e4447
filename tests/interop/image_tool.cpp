// Shows what worker/image does to the Python program beside it: one verb, then its arguments.
// Images are written as a line "CHANNELS HEIGHT WIDTH" and their planes.
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

#include "tests/interop/verbs.h"
#include "worker/image/decode.h"
#include "worker/image/png.h"

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

// decode CHANNELS HEIGHT WIDTH FILE...: each as an image. A height above 0 is the smallest that is
// of use. What is no good is an image of no channel and as many bytes as the reason has letters.
void decode(const Arguments& arguments) {
  DecodeWish wish{.channels = std::stoi(arguments.at(0)), .at_least = std::nullopt};
  const ImageSize at_least{std::stoi(arguments.at(1)), std::stoi(arguments.at(2))};
  if (at_least.height > 0) wish.at_least = at_least;
  Image image;  // one for all: what is left of a larger one must not be seen
  for (std::size_t i = 3; i < arguments.size(); ++i) {
    try {
      decode_image(read_file(arguments[i]), wish, {}, image);
      put(image);
    } catch (const BadImage& error) {
      std::cout << "0 1 " << std::string(error.what()).size() << "\n" << error.what();
    }
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
  return test::run_verb("image_tool", {{"decode", decode}, {"encode-png", encode}}, argc, argv);
}

}  // namespace ddp::worker

int main(int argc, char** argv) {
  return ddp::worker::run(argc, argv);
}
