# Read by ctest: tests whose bounds of time hold on an idle machine alone.
set_tests_properties(
  NodeFaults.W10_AProcessThatCannotBeKilledIsNamed
  OutputFaults.O4_ANodeWhoseDiskIsSlowIsWaitedForOnceItsWorkersAreGone
  Scale.S1_TenThousandWorkersOfAThousandNodesStartAndEndInTime
  PROPERTIES RUN_SERIAL ON)
