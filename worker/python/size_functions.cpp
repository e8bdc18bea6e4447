#include "worker/python/size_functions.h"

#include <array>
#include <cmath>
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

double real(const IValue& number) {
  return number.isInt() ? static_cast<double>(number.toInt()) : number.toDouble();
}

/// Of integers an integer, by `whole`; else of reals, by `reals`.
template <typename Whole, typename Reals>
IValue compute(const std::vector<IValue>& numbers, const Whole& whole, const Reals& reals) {
  const IValue& a = numbers.at(0);
  const IValue& b = numbers.at(1);
  if (!a.isInt() || !b.isInt()) return reals(real(a), real(b));
  std::int64_t result = 0;
  const bool overflows = whole(a.toInt(), b.toInt(), &result);
  return require_whole(overflows, result);
}

/// Errors: std::runtime_error: not a number of 64 bits.
IValue to_whole(double number) {
  constexpr double kLimit = 9.2e18;
  if (!(std::abs(number) < kLimit)) throw std::runtime_error("a size is too large");
  return static_cast<std::int64_t>(number);
}

IValue power(const std::vector<IValue>& numbers) {
  const double result = std::pow(real(numbers.at(0)), real(numbers.at(1)));
  const bool is_whole = numbers[0].isInt() && numbers[1].isInt() && numbers[1].toInt() >= 0;
  return is_whole ? to_whole(result) : IValue(result);
}

constexpr std::array<std::pair<std::string_view, SizeFunction>, 21> kFunctions{{
    {"_operator.add",
     [](const std::vector<IValue>& n) {
       return compute(
           n,
           [](auto a, auto b, auto* r) { return __builtin_add_overflow(a, b, r); },
           [](double a, double b) { return a + b; });
     }},
    {"_operator.sub",
     [](const std::vector<IValue>& n) {
       return compute(
           n,
           [](auto a, auto b, auto* r) { return __builtin_sub_overflow(a, b, r); },
           [](double a, double b) { return a - b; });
     }},
    {"_operator.mul",
     [](const std::vector<IValue>& n) {
       return compute(
           n,
           [](auto a, auto b, auto* r) { return __builtin_mul_overflow(a, b, r); },
           [](double a, double b) { return a * b; });
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
    {"_operator.pow", power},
    {"torch.sym_float", [](const std::vector<IValue>& n) { return IValue(real(n.at(0))); }},
    {"torch.sym_int", [](const std::vector<IValue>& n) { return to_whole(real(n.at(0))); }},
    {"torch.sym_sqrt",
     [](const std::vector<IValue>& n) { return IValue(std::sqrt(real(n.at(0)))); }},
    {"torch.sym_not", [](const std::vector<IValue>& n) { return IValue(!n.at(0).toBool()); }},
    {"math.trunc", [](const std::vector<IValue>& n) { return to_whole(real(n.at(0))); }},
    {"torch.sym_max",
     [](const std::vector<IValue>& n) { return real(n.at(0)) < real(n.at(1)) ? n[1] : n[0]; }},
    {"torch.sym_min",
     [](const std::vector<IValue>& n) { return real(n.at(1)) < real(n.at(0)) ? n[1] : n[0]; }},
}};

}  // namespace

SizeFunction size_function(std::string_view name) {
  for (const auto& [known, function] : kFunctions)
    if (known == name) return function;
  return nullptr;
}

}  // namespace ddp::worker
