#include "worker/image/drawing.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <string>

#include "worker/image/geometry.h"

namespace ddp::worker {
namespace {

/// Five rows of three pixels, from the top; '#' is ink.
struct Letter {
  char code;
  std::array<const char*, kLetterHeight> rows;
};

// clang-format off: a picture of the letters.
constexpr Letter kLetters[] = {
    {'0', {"###", "#.#", "#.#", "#.#", "###"}}, {'1', {".#.", "##.", ".#.", ".#.", "###"}},
    {'2', {"##.", "..#", ".#.", "#..", "###"}}, {'3', {"##.", "..#", ".#.", "..#", "##."}},
    {'4', {"#.#", "#.#", "###", "..#", "..#"}}, {'5', {"###", "#..", "##.", "..#", "##."}},
    {'6', {".##", "#..", "###", "#.#", "###"}}, {'7', {"###", "..#", ".#.", ".#.", ".#."}},
    {'8', {"###", "#.#", "###", "#.#", "###"}}, {'9', {"###", "#.#", "###", "..#", "##."}},
    {'A', {".#.", "#.#", "###", "#.#", "#.#"}}, {'B', {"##.", "#.#", "##.", "#.#", "##."}},
    {'C', {".##", "#..", "#..", "#..", ".##"}}, {'D', {"##.", "#.#", "#.#", "#.#", "##."}},
    {'E', {"###", "#..", "##.", "#..", "###"}}, {'F', {"###", "#..", "##.", "#..", "#.."}},
    {'G', {".##", "#..", "#.#", "#.#", ".##"}}, {'H', {"#.#", "#.#", "###", "#.#", "#.#"}},
    {'I', {"###", ".#.", ".#.", ".#.", "###"}}, {'J', {"..#", "..#", "..#", "#.#", ".#."}},
    {'K', {"#.#", "#.#", "##.", "#.#", "#.#"}}, {'L', {"#..", "#..", "#..", "#..", "###"}},
    {'M', {"#.#", "###", "###", "#.#", "#.#"}}, {'N', {"##.", "#.#", "#.#", "#.#", "#.#"}},
    {'O', {".#.", "#.#", "#.#", "#.#", ".#."}}, {'P', {"##.", "#.#", "##.", "#..", "#.."}},
    {'Q', {".#.", "#.#", "#.#", "###", ".##"}}, {'R', {"##.", "#.#", "##.", "#.#", "#.#"}},
    {'S', {".##", "#..", ".#.", "..#", "##."}}, {'T', {"###", ".#.", ".#.", ".#.", ".#."}},
    {'U', {"#.#", "#.#", "#.#", "#.#", "###"}}, {'V', {"#.#", "#.#", "#.#", "#.#", ".#."}},
    {'W', {"#.#", "#.#", "###", "###", "#.#"}}, {'X', {"#.#", "#.#", ".#.", "#.#", "#.#"}},
    {'Y', {"#.#", "#.#", ".#.", ".#.", ".#."}}, {'Z', {"###", "..#", ".#.", "#..", "###"}},
    {',', {"...", "...", "...", ".#.", "#.."}}, {'+', {"...", ".#.", "###", ".#.", "..."}},
    {'-', {"...", "...", "###", "...", "..."}}, {'.', {"...", "...", "...", "...", ".#."}},
    {'_', {"...", "...", "...", "...", "###"}}, {':', {"...", ".#.", "...", ".#.", "..."}},
    {'%', {"#.#", "..#", ".#.", "#..", "#.#"}}, {'/', {"..#", "..#", ".#.", "#..", "#.."}}};
// clang-format on

/// Calls `paint` with row and column of each pixel of ink, in pixels of the letters.
template <typename Paint>
void set_text(std::string_view text, const Paint& paint) {
  int left = 0;
  for (const char code : text) {
    const char capital = static_cast<char>(std::toupper(static_cast<unsigned char>(code)));
    const Letter* const letter = std::ranges::find(kLetters, capital, &Letter::code);
    for (int y = 0; letter != std::end(kLetters) && y < kLetterHeight; ++y) {
      for (int x = 0; x < 3; ++x) {
        if (letter->rows[static_cast<std::size_t>(y)][x] == '#') paint(y, left + x);
      }
    }
    left += kLetterWidth;
  }
}

}  // namespace

void draw_rectangle(Image& image, const Region& region, int thickness, Color color) {
  const int inner = std::max(region.height - 2 * thickness, 0);
  const int bottom = region.top + region.height - thickness;
  const int right = region.left + region.width - thickness;
  erase(image, {region.top, region.left, thickness, region.width}, color);
  erase(image, {bottom, region.left, thickness, region.width}, color);
  erase(image, {region.top + thickness, region.left, inner, thickness}, color);
  erase(image, {region.top + thickness, right, inner, thickness}, color);
}

void draw_line(
    Image& image, int top, int left, int to_top, int to_left, int thickness, Color color) {
  const int steps = std::max({std::abs(to_top - top), std::abs(to_left - left), 1});
  const int half = thickness / 2;
  for (int i = 0; i <= steps; ++i) {
    const double share = static_cast<double>(i) / steps;
    const int y = top + static_cast<int>(std::lround(share * (to_top - top)));
    const int x = left + static_cast<int>(std::lround(share * (to_left - left)));
    erase(image, {y - half, x - half, thickness, thickness}, color);
  }
}

void draw_text(Image& image, int top, int left, int scale, Color color, std::string_view text) {
  set_text(text, [&](int y, int x) {
    erase(image, {top + y * scale, left + x * scale, scale, scale}, color);
  });
}

void draw_text_up(
    Image& image, int bottom, int left, int scale, Color color, std::string_view text) {
  set_text(text, [&](int y, int x) {
    erase(image, {bottom - (x + 1) * scale, left + y * scale, scale, scale}, color);
  });
}

}  // namespace ddp::worker
