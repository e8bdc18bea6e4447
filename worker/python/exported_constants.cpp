#include "worker/python/exported_constants.h"

#include <ATen/ops/scalar_tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "common/error.h"

namespace ddp::worker {
namespace {

using c10::IValue;

std::optional<at::MemoryFormat> memory_format(FileMemoryFormat format) {
  switch (static_cast<std::int64_t>(format)) {
    case 1:
      return at::MemoryFormat::Contiguous;
    case 2:
      return at::MemoryFormat::ChannelsLast;
    case 4:
      return at::MemoryFormat::Preserve;
    default:
      return {};
  }
}

constexpr std::int64_t kStrided = 7;  // of FileLayout

/// Turns constants of one node into LibTorch's values.
class ConstantReader {
 public:
  ConstantReader(const ExportedNode& node, const c10::Argument& argument)
      : node_(node), argument_(argument) {}

  IValue operator()(std::monostate) const { return {}; }
  IValue operator()(bool flag) const { return flag; }
  IValue operator()(std::int64_t number) const {
    const c10::TypeKind kind = plain_type(argument_.type())->kind();
    if (kind == c10::TypeKind::FloatType) return static_cast<double>(number);
    if (!is_list_of(argument_.type(), c10::TypeKind::IntType)) return number;
    return std::vector<std::int64_t>(static_cast<std::size_t>(argument_.N().value_or(1)), number);
  }
  IValue operator()(double number) const { return number; }
  IValue operator()(const std::string& text) const { return text; }
  IValue operator()(const std::vector<bool>& flags) const {
    c10::List<bool> list;
    for (const bool flag : flags)
      list.push_back(flag);
    return list;
  }
  IValue operator()(const std::vector<std::int64_t>& numbers) const {
    if (is_list_of(argument_.type(), c10::TypeKind::FloatType))
      return std::vector<double>(numbers.begin(), numbers.end());
    return numbers;
  }
  IValue operator()(const std::vector<double>& numbers) const { return numbers; }
  IValue operator()(FileDtype dtype) const {
    const std::optional<at::ScalarType> type = scalar_type(dtype);
    if (!type)
      refuse_node(node_,
                  "tensors of torch's type " + std::to_string(static_cast<std::int64_t>(dtype)) +
                      " are not supported");
    return *type;
  }
  IValue operator()(FileMemoryFormat format) const {
    const std::optional<at::MemoryFormat> known = memory_format(format);
    if (!known) refuse_node(node_, "its memory format is not supported");
    return *known;
  }
  IValue operator()(FileLayout layout) const {
    if (static_cast<std::int64_t>(layout) != kStrided)
      refuse_node(node_, "its layout is not supported");
    return at::kStrided;
  }
  IValue operator()(FileDevice) const { return at::Device(at::kCPU); }
  IValue operator()(ValueId) const { return {}; }
  IValue operator()(const std::vector<ListItem>&) const { return {}; }

 private:
  const ExportedNode& node_;
  const c10::Argument& argument_;
};

}  // namespace

std::optional<at::ScalarType> scalar_type(FileDtype dtype) {
  switch (static_cast<std::int64_t>(dtype)) {
    case 1:
      return at::kByte;
    case 2:
      return at::kChar;
    case 3:
      return at::kShort;
    case 4:
      return at::kInt;
    case 5:
      return at::kLong;
    case 6:
      return at::kHalf;
    case 7:
      return at::kFloat;
    case 8:
      return at::kDouble;
    case 12:
      return at::kBool;
    case 13:
      return at::kBFloat16;
    default:
      return {};
  }
}

void refuse_node(const ExportedNode& node, const std::string& what) {
  throw UsageError("node " + node.place + ": " + what);
}

c10::TypePtr plain_type(const c10::TypePtr& type) {
  const auto optional = type->cast<c10::OptionalType>();
  return optional ? optional->getElementType() : type;
}

bool is_list_of(const c10::TypePtr& type, c10::TypeKind element) {
  const auto list = plain_type(type)->cast<c10::ListType>();
  return list && plain_type(list->getElementType())->kind() == element;
}

IValue constant_value(const ExportedNode& node,
                      const ExportedValue& value,
                      const c10::Argument& argument) {
  return std::visit(ConstantReader(node, argument), value);
}

IValue tensor_from(const IValue& number) {
  if (!number.isScalar()) return number;
  const at::ScalarType type = number.isInt()    ? at::kLong
                              : number.isBool() ? at::kBool
                                                : at::kDouble;
  const at::Tensor tensor = at::scalar_tensor(number.toScalar(), type);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

}  // namespace ddp::worker
