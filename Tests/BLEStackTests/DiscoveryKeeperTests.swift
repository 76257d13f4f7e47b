import Testing

import BLEStack

/// The order of events is Linux 6.1's in `btmon`; `net/bluetooth/mgmt.c` allows the others.
@Suite struct DiscoveryKeeperTests {
  private var keeper = DiscoveryKeeper()

  @Test mutating func endsWhatItBegan() {
    #expect(keeper.begin() == .start)
    #expect(keeper.answered(.started) == .nothing)
    #expect(keeper.end() == .stop)
    #expect(keeper.ended() == .nothing, "the kernel's word for our own end")
    #expect(keeper.state == .off)
  }

  /// The kernel ends discovery after 10.24 s.
  @Test mutating func beginsAgainWhenTheKernelEndsIt() {
    _ = keeper.begin()
    _ = keeper.answered(.started)
    #expect(keeper.ended() == .start)
    #expect(keeper.answered(.started) == .nothing)
    #expect(keeper.end() == .stop)
  }

  @Test mutating func leavesAnothersAlone() {
    _ = keeper.begin()
    #expect(keeper.answered(.refused) == .nothing)
    #expect(keeper.end() == .nothing)
    #expect(keeper.state == .off)
  }

  @Test mutating func takesOverWhenAnothersEnds() {
    _ = keeper.begin()
    _ = keeper.answered(.refused)
    #expect(keeper.ended() == .start)
    #expect(keeper.answered(.started) == .nothing)
    #expect(keeper.end() == .stop)
  }

  /// Another program started discovery after ours had ended: from then on it owns the discovery.
  @Test mutating func leavesTheSuccessorAlone() {
    _ = keeper.begin()
    _ = keeper.answered(.started)
    #expect(keeper.ended() == .start)
    #expect(keeper.answered(.refused) == .nothing)
    #expect(keeper.end() == .nothing)
  }

  /// The end of another program's discovery was in the socket before the reply to our start.
  @Test mutating func waitsForTheAnswer() {
    _ = keeper.begin()
    #expect(keeper.ended() == .nothing)
    #expect(keeper.answered(.started) == .nothing)
    #expect(keeper.state == .ours)
  }

  @Test mutating func endsAsSoonAsAStartIsAnswered() {
    _ = keeper.begin()
    #expect(keeper.end() == .nothing)
    #expect(keeper.state == .starting)
    #expect(keeper.answered(.started) == .stop)
    #expect(keeper.state == .off)

    _ = keeper.begin()
    _ = keeper.end()
    #expect(keeper.answered(.refused) == .nothing)
    #expect(keeper.state == .off)
  }

  @Test mutating func triesAgain() {
    #expect(keeper.retry() == .nothing)
    _ = keeper.begin()
    #expect(keeper.retry() == .nothing)
    _ = keeper.answered(.refused)
    #expect(keeper.retry() == .start)
    _ = keeper.answered(.started)
    #expect(keeper.retry() == .nothing)
  }

  @Test mutating func doesNothingUnasked() {
    #expect(keeper.ended() == .nothing)
    #expect(keeper.end() == .nothing)
  }
}
