import BLEWire
import Testing

import BLEStack

/// The order of commands is Linux 6.1's in `btmon` when a program connects during a raw scan.
@Suite struct ScanInterruptionTests {
  private var interruption = ScanInterruption()

  private func second(_ seconds: Double) -> MonotonicTime {
    MonotonicTime(nanoseconds: Int64(seconds * 1e9))
  }

  private mutating func send(_ opcode: HCIOpcode, _ parameters: [UInt8] = [], at seconds: Double) {
    interruption.take(HCICommandPacket(opcode: opcode, parameters: parameters.span), at: second(seconds))
  }

  @Test(arguments: [HCIOpcode.leSetScanEnable, .leSetExtendedScanEnable])
  mutating func waitsUntilAConnectIsOver(_ enable: HCIOpcode) {
    #expect(interruption.resumption == nil)
    send(enable, [0, 0], at: 1)
    #expect(interruption.resumption == second(2))
    send(.leSetScanParameters, at: 1.01)
    send(enable, [1, 0], at: 1.02)
    #expect(interruption.resumption == nil, "the kernel scans for the device")
    send(enable, [0, 0], at: 5)
    send(enable == .leSetScanEnable ? .leCreateConnection : .leExtendedCreateConnection, at: 5.01)
    #expect(interruption.resumption == nil, "it connects")
    interruption.takeConnectionComplete(at: second(6))
    #expect(interruption.resumption == second(7))
    #expect(interruption.began == second(1))
  }

  /// The device never appears, and the kernel gives up.
  @Test mutating func waitsUntilAConnectIsGivenUp() {
    send(.leSetScanEnable, [0, 0], at: 1)
    send(.leSetScanEnable, [1, 0], at: 1.02)
    send(.leSetScanEnable, [0, 0], at: 21)
    #expect(interruption.resumption == second(22))
  }

  @Test mutating func doesNotWaitForWhatWasRefused() {
    send(.leSetScanEnable, [0, 0], at: 1)
    send(.leSetScanEnable, [1, 0], at: 1.02)
    interruption.takeFailure(of: .leSetScanEnable)
    send(.leCreateConnection, at: 2)
    interruption.takeFailure(of: .leCreateConnection)
    #expect(interruption.resumption == second(3))
    interruption.postpone(at: second(3))
    #expect(interruption.resumption == second(4))
  }

  /// A link that another program made before, and commands that do not affect scans.
  @Test mutating func isNoneWhereTheScanIsOn() {
    send(.leConnectionUpdate, at: 1)
    interruption.takeConnectionComplete(at: second(1))
    #expect(interruption.began == nil && interruption.resumption == nil)
  }
}
