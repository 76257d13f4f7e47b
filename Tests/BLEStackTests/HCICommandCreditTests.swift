import BLEStack
import BLEWire
import TestKit
import Testing

/// A command of two bytes that differs from the previous one. Core 5.4, Vol 4, Part E, 7.8.47.
private struct LEReadPHY: HCICommand {
  static let opcode = HCIOpcode(group: 0x08, command: 0x030)
  let handle: ConnectionHandle

  init(_ handle: ConnectionHandle) { self.handle = handle }

  func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(UInt8(truncatingIfNeeded: handle.rawValue))
    output.append(UInt8(truncatingIfNeeded: handle.rawValue >> 8))
  }
}

/// Core 5.4, Vol 4, Part E, 4.4: number of commands that a controller accepts, and events that match none.
@Suite struct HCICommandCreditTests {
  private let handle = ConnectionHandle(0x40)

  private func ready() throws -> HCIHostBench {
    let bench = HCIHostBench()
    try bench.setUp()
    _ = bench.events()
    return bench
  }

  @Test func takesAnAnswerThatNobodyAskedFor() throws {
    let bench = try ready()
    let rssi = try bench.submit(ReadRSSI(handle))
    #expect(bench.sent() == ["010514024000"])
    // LE Read PHY, then a vendor command.
    try bench.receive("040e0601 3020 00 4000")
    try bench.receive("040f0400 01 12fc")
    #expect(bench.events().isEmpty)
    #expect(bench.host.statistics.strayAnswers == 2)
    try bench.receive("040e0701 0514 00 4000 d6")
    #expect(bench.events() == [.answered(rssi, .success, [0x40, 0x00, 0xD6])])
  }

  /// The event that arrived was for another command: the right one never arrives.
  @Test func givesUpAfterTheWrongAnswer() throws {
    let bench = try ready()
    _ = try bench.submit(ReadRSSI(handle))
    _ = bench.sent()
    try bench.receive("040e0601 3020 00 4000")
    bench.wait(.milliseconds(1999))
    #expect(bench.events().isEmpty)
    bench.wait(.milliseconds(1))
    #expect(bench.events() == [.failed(.commandTimedOut(.readRSSI))])
  }

  @Test func waitsForCredits() throws {
    let bench = try ready()
    _ = try bench.submit(ReadRSSI(handle))
    let phy = try bench.submit(LEReadPHY(handle))
    #expect(bench.sent() == ["010514024000"])
    // Completed, but the controller accepts no more commands for now.
    try bench.receive("040e0700 0514 00 4000 d6")
    #expect(bench.sent().isEmpty)
    _ = bench.events()
    bench.wait(.milliseconds(3999))
    #expect(bench.events().isEmpty)
    // Opcode 0x0000: only credits, in either event.
    try bench.receive("040e03 01 0000")
    #expect(bench.sent() == ["013020024000"])
    try bench.receive("040f0400 00 0000")
    try bench.receive("040e08 00 3020 00 4000 01 02")
    #expect(bench.events() == [.answered(phy, .success, [0x40, 0x00, 0x01, 0x02])])
    #expect(bench.host.statistics.strayAnswers == 0)
    // Nothing is awaited, not even credits.
    #expect(bench.host.deadline == nil)
  }

  /// The kernel also gives up on such a controller after HCI_NCMD_TIMEOUT, 4 s.
  @Test func givesUpAControllerThatTakesNoCommands() throws {
    let bench = try ready()
    try bench.receive("040f0400 00 0000")
    _ = try bench.submit(LEReadPHY(handle))
    #expect(bench.sent().isEmpty)
    bench.wait(.milliseconds(3999))
    #expect(bench.events().isEmpty)
    bench.wait(.milliseconds(1))
    #expect(bench.events() == [.failed(.commandTimedOut(LEReadPHY.opcode))])
  }

  @Test func boundsTheQueue() throws {
    let bench = try ready()
    var accepted = 0
    while bench.host.submit(ReadRSSI(handle)) != nil, accepted < 1000 { accepted += 1 }
    #expect(accepted == 64)
  }

  /// Events from before the reset are ignored.
  @Test func ignoresWhatComesBeforeTheResetIsAnswered() throws {
    let bench = HCIHostBench()
    bench.host.start()
    #expect(bench.sent() == ["01030c00"])
    try bench.receive("043e1301 00 4000 00 01 f5f4f3f2f1f0 2800 0000 2a00 00")
    try bench.receive("040504 00 4000 13")
    try bench.receive("041305 01 4000 0100")
    try bench.receive("043e0c02 01 00 01 f5f4f3f2f1f0 00 d0")
    try bench.receive(bench.frame("0400", "1b0300"))
    #expect(bench.host.statistics.strayEvents == 4)
    #expect(bench.host.strayData == 1)
    #expect(bench.events().isEmpty)
    #expect(bench.reports.isEmpty)
    #expect(bench.attributes.isEmpty)
    try bench.receive("040e0401030c00")
    #expect(bench.sent() == ["01011000"])
    #expect(bench.host.linkCount == 0)
  }

  @Test func refusesAControllerWithoutDataBuffers() throws {
    let bench = HCIHostBench()
    var answers = HCIHostBench.answers
    answers["0220"] = "00 0000 00"
    answers["0510"] = "00 0000 00 0000 0000"
    try bench.setUp(answers)
    #expect(bench.events() == [.failed(.noDataBuffers)])
  }

  /// Every controller accepts 27 bytes. Core 5.4, Vol 4, Part E, 7.8.2.
  @Test(arguments: [1, 2, 4, 20, 26] as [UInt8])
  func refusesAControllerWithTooSmallBuffers(_ byteCount: UInt8) throws {
    let (own, shared) = (HCIHostBench(), HCIHostBench())
    var answers = HCIHostBench.answers
    let digits = (byteCount < 16 ? "0" : "") + String(byteCount, radix: 16)
    answers["0220"] = "00 \(digits)00 08"
    try own.setUp(answers)
    #expect(own.events() == [.failed(.dataBuffersTooSmall(byteCount: Int(byteCount)))])
    answers["0220"] = "00 0000 00"
    answers["0510"] = "00 \(digits)00 00 0800 0000"
    try shared.setUp(answers)
    #expect(shared.events() == [.failed(.dataBuffersTooSmall(byteCount: Int(byteCount)))])
  }

  /// A length without packets does not make a dedicated buffer either. Core 5.4, Vol 4, Part E, 7.8.2.
  @Test func takesSharedBuffersForALengthWithoutPackets() throws {
    let bench = HCIHostBench()
    var answers = HCIHostBench.answers
    answers["0220"] = "00 1b00 00"
    answers["0510"] = "00 fb00 00 0300 0000"
    try bench.setUp(answers)
    #expect(bench.host.controller.aclByteCount == 251)
    #expect(bench.host.controller.aclPacketCount == 3)
  }

  /// Zero for LE: the buffers are shared with BR/EDR. Core 5.4, Vol 4, Part E, 7.8.2.
  @Test func takesSharedBuffers() throws {
    let bench = HCIHostBench()
    var answers = HCIHostBench.answers
    answers["0220"] = "00 0000 00"
    answers["0510"] = "00 fd03 40 0800 0100"
    try bench.setUp(answers)
    #expect(bench.host.controller.aclByteCount == 1021)
    #expect(bench.host.controller.aclPacketCount == 8)
  }

  @Test func refusesAControllerWithoutLE() throws {
    let bench = HCIHostBench()
    var answers = HCIHostBench.answers
    answers["0310"] = "00 ffffffff00000000"
    try bench.setUp(answers)
    #expect(bench.events() == [.failed(.notLowEnergy)])
  }

  /// As in Linux (`hci_error_reset`): a Reset, followed by the whole start-up. Earlier links are gone.
  @Test(
    arguments: [("041001 07", .hardwareError(7)), ("040e04 01 030c 00", .unaskedReset)]
      as [(String, HCIHostFailure)])
  func resetsAControllerThatFailed(_ event: String, _ cause: HCIHostFailure) throws {
    let bench = try HCIHostBench.linked()
    try bench.receive(event)
    #expect(bench.events() == [.disconnected(handle, reason: .hardwareFailure), .restarting(cause)])
    #expect(bench.sent() == ["01030c00"])
    #expect(bench.host.linkCount == 0)
    let controller = bench.host.controller
    #expect(controller.address.bits != 0, "it is known what the controller is")
    #expect(bench.host.submit(ReadRSSI(handle)) == nil, "it takes no commands before it is up")
  }

  /// Five times in a minute, but not without end.
  @Test func givesAControllerUpThatFailsAgainAndAgain() throws {
    let bench = try HCIHostBench.linked()
    for _ in 1...5 { try bench.receive("041001 07") }
    #expect(bench.events().last == .restarting(.hardwareError(7)))
    try bench.receive("041001 07")
    #expect(bench.events().last == .failed(.hardwareError(7)))
  }

  @Test func staysDownAfterAFailure() throws {
    let bench = try HCIHostBench.linked()
    bench.host.lose()
    #expect(
      bench.events() == [.disconnected(handle, reason: .unspecifiedError), .failed(.transportLost)])
    try bench.receive("043e1301 00 4100 00 01 f5f4f3f2f1f0 2800 0000 2a00 00")
    try bench.receive(bench.frame("0400", "1b0300"))
    #expect(bench.host.submit(ReadRSSI(handle)) == nil)
    let pdu = octetsOf("020502")
    let isSent = bench.host.send(pdu.span, on: handle)
    #expect(!isSent)
    #expect(bench.sent().isEmpty)
    #expect(bench.events().isEmpty)
    #expect(bench.host.linkCount == 0)
  }
}
