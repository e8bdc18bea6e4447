// ProcessGroupGloo.hpp includes this header of gloo, which no wheel ships, and needs nothing from
// it.
#pragma once
