#include "worker/python/size_functions.h"

#include <array>
#include <cstdint>
#include <stdexcept>
#include <utility>

namespace ddp::worker {
namespace {

using c10::IValue;

std::int64_t require_whole(bool overflows, std::int64_t number) {
  if (overflows) throw std::runtime_error("a size is too large");
  return number;
}

std::int64_t divide_down(std::int64_t a, std::int64_t b) {
  if (b == 0) throw std::runtime_error("a size is divided by 0");
  if (b == -1) {
    const bool overflows = __builtin_sub_overflow(0, a, &a);
    return require_whole(overflows, a);
  }
  const std::int64_t quotient = a / b;
  return quotient - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

template <typename Compute>
IValue whole(const std::vector<IValue>& numbers, const Compute& compute) {
  std::int64_t result = 0;
  const bool overflows = compute(numbers.at(0).toInt(), numbers.at(1).toInt(), &result);
  return require_whole(overflows, result);
}

double real(const IValue& number) {
  return number.isInt() ? static_cast<double>(number.toInt()) : number.toDouble();
}

constexpr std::array<std::pair<std::string_view, SizeFunction>, 14> kFunctions{{
    {"_operator.add",
     [](const std::vector<IValue>& n) {
       return whole(n, [](auto a, auto b, auto* r) { return __builtin_add_overflow(a, b, r); });
     }},
    {"_operator.sub",
     [](const std::vector<IValue>& n) {
       return whole(n, [](auto a, auto b, auto* r) { return __builtin_sub_overflow(a, b, r); });
     }},
    {"_operator.mul",
     [](const std::vector<IValue>& n) {
       return whole(n, [](auto a, auto b, auto* r) { return __builtin_mul_overflow(a, b, r); });
     }},
    {"_operator.floordiv",
     [](const std::vector<IValue>& n) {
       return IValue(divide_down(n.at(0).toInt(), n.at(1).toInt()));
     }},
    {"_operator.mod",
     [](const std::vector<IValue>& n) {
       const std::int64_t a = n.at(0).toInt();
       const std::int64_t b = n.at(1).toInt();
       return IValue(b == -1 ? 0 : a - divide_down(a, b) * b);
     }},
    {"_operator.truediv",
     [](const std::vector<IValue>& n) { return IValue(real(n.at(0)) / real(n.at(1))); }},
    {"_operator.neg",
     [](const std::vector<IValue>& n) {
       std::int64_t result = 0;
       const bool overflows = __builtin_sub_overflow(0, n.at(0).toInt(), &result);
       return IValue(require_whole(overflows, result));
     }},
    {"_operator.eq",
     [](const std::vector<IValue>& n) { return IValue(real(n.at(0)) == real(n.at(1))); }},
    {"_operator.ne",
     [](const std::vector<IValue>& n) { return IValue(real(n.at(0)) != real(n.at(1))); }},
    {"_operator.le",
     [](const std::vector<IValue>& n) { return IValue(real(n.at(0)) <= real(n.at(1))); }},
    {"_operator.lt",
     [](const std::vector<IValue>& n) { return IValue(real(n.at(0)) < real(n.at(1))); }},
    {"_operator.ge",
     [](const std::vector<IValue>& n) { return IValue(real(n.at(0)) >= real(n.at(1))); }},
    {"_operator.gt",
     [](const std::vector<IValue>& n) { return IValue(real(n.at(0)) > real(n.at(1))); }},
    {"torch.sym_float", [](const std::vector<IValue>& n) { return IValue(real(n.at(0))); }},
}};

}  // namespace

SizeFunction size_function(std::string_view name) {
  for (const auto& [known, function] : kFunctions)
    if (known == name) return function;
  return nullptr;
}

}  // namespace ddp::worker
