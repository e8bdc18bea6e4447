// Failpoints: places in the program where a test can make it fail:
// DDP_FAILPOINTS="save.rename=kill@2". They are always compiled in; without that variable each only
// checks an empty list.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace ddp::worker {

/// All failpoints, in the order in which a save passes them: before each of its nine steps, and
/// before the manifest changes for an evaluation.
inline constexpr std::array<std::string_view, 10> kFailpoints{"save.snapshot",
                                                              "save.tensors",
                                                              "save.manifest",
                                                              "save.sync-file",
                                                              "save.sync-directory",
                                                              "save.rename",
                                                              "save.sync-parent",
                                                              "save.latest",
                                                              "save.remove-old",
                                                              "save.amend"};

/// NAME=ACTION[@N], separated by commas: at the Nth call (default: the first) do ACTION: kill
/// (SIGKILL), stop (SIGSTOP), abort, exit:CODE, error:ERRNO (throws SystemError),
/// sleep:MILLISECONDS. Call it before other threads start. Errors: UsageError with the known names.
void arm_failpoints(const std::string& text);

/// `name` is one of kFailpoints. Errors: SystemError, if that is its action.
void failpoint(std::string_view name);

}  // namespace ddp::worker
