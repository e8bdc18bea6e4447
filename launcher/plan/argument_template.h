// Program arguments are templates, as under torchrun: ${local_rank} and $local_rank become the
// number, $$ becomes $, any other $NAME stays as it is (Python's string.Template.safe_substitute).
#pragma once

#include <string>
#include <string_view>

namespace ddp::launcher {

std::string fill_template(std::string_view text, int local_rank);

}  // namespace ddp::launcher
