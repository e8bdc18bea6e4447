// Constants of an exported graph as LibTorch's values, by what the argument of their operator
// takes.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <string>

#include "worker/save/format/exported_program.h"

namespace ddp::worker {

/// Errors: UsageError that names the node by its place in the Python code.
[[noreturn]] void refuse_node(const ExportedNode& node, const std::string& what);

/// LibTorch's type; none: it is not supported.
std::optional<at::ScalarType> scalar_type(FileDtype dtype);

/// What the schema wants: the type below Optional.
c10::TypePtr plain_type(const c10::TypePtr& type);

bool is_list_of(const c10::TypePtr& type, c10::TypeKind element);

/// None for a value that is no constant. Errors: as refuse_node(), for a type, a format or a layout
/// that is not supported.
c10::IValue constant_value(const ExportedNode& node,
                           const ExportedValue& value,
                           const c10::Argument& argument);

/// As Python gives a number to an operator of tensors: it takes on the type of the others.
c10::IValue tensor_from(const c10::IValue& number);

}  // namespace ddp::worker
