import Testing

/// All tests that need a kernel with Bluetooth. They run one at a time, because they share its adapters.
///
/// They run only in the test kernel, because they would take over the adapters of a user's machine.
/// `Tools/test` runs them there without skipping any: a missing program or device is a failure.
@Suite(
  .serialized,
  .enabled(if: Way.isInTestKernel, "they run in the test kernel: see Tools/test"))
enum InTestKernel {}

/// Tests that apply to each path to the radio. Paths that require the test kernel are tested there, the
/// others on this machine.
@Suite(.serialized) enum OverEachWay {}

/// Tests that do not need a kernel with Bluetooth. They run on this machine only.
@Suite(.serialized, .enabled(if: !Way.isInTestKernel, "they need no test kernel"))
enum WithoutKernel {}
