import Testing

/// All tests that need a kernel with Bluetooth; one at a time, because they share its adapters.
///
/// They run in the test kernel only: on a person's machine they would take the adapters over. `Tools/test` runs
/// them there, and there nothing is skipped: a missing program or device is a failure.
@Suite(
  .serialized,
  .enabled(if: Way.isInTestKernel, "they run in the test kernel: see Tools/test"))
enum InTestKernel {}

/// Tests of the program that hold on each way to the radio: in the test kernel on those that need it, on this machine
/// on the others.
@Suite(.serialized) enum OverEachWay {}

/// Tests of the program that need no kernel with Bluetooth: they run on this machine only.
@Suite(.serialized, .enabled(if: !Way.isInTestKernel, "they need no test kernel"))
enum WithoutKernel {}
