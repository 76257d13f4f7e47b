import BLECore
import BLEStack
import BLEWire
import TestKit
import Testing

/// Opening and closing, Core 5.4, Vol 3, Part A, 4.6, 4.7, 4.22 and 4.23; octets as google/bumble 0.0.236 encodes them.
@Suite struct CreditBasedConnectionTests {
  @Test func opensAChannel() throws {
    let bench = try CreditBasedBench.open()
    try bench.expectLinkAlive()
  }

  @Test(
    arguments: [
      (0x0002, .spsmNotSupported, "SPSM not supported"),
      (0x0004, .noResourcesAvailable, "no resources available"),
      (0x0005, .insufficientAuthentication, "insufficient authentication"),
      (0x0006, .insufficientAuthorization, "insufficient authorization"),
      (0x0007, .encryptionKeySizeTooShort, "encryption key size too short"),
      (0x0008, .insufficientEncryption, "insufficient encryption"),
      (0x0009, .invalidSourceCID, "invalid Source CID"),
      (0x000A, .sourceCIDAlreadyAllocated, "Source CID already allocated"),
      (0x000B, .unacceptableParameters, "unacceptable parameters"),
      (0x0001, CreditBasedConnectionResult(rawValue: 1), "other"),
      (0xFFFF, CreditBasedConnectionResult(rawValue: 0xFFFF), "other"),
    ] as [(UInt16, CreditBasedConnectionResult, String)])
  func tellsWhyThePeerRefused(_ code: UInt16, _ result: CreditBasedConnectionResult, _ name: String) throws {
    let bench = try CreditBasedBench()
    _ = try bench.sent()
    try bench.signal("15 01 0a00 0000 0000 0000 0000" + hexOf([UInt8(code & 0xFF), UInt8(code >> 8)]))
    #expect(bench.events() == [.refused(.refused(result))])
    #expect(result.name.description.hasSuffix(name))
    #expect(try bench.send("00") == nil)
    try bench.expectLinkAlive()
  }

  /// A channel number outside 0x0040 … 0x007F, an MTU or an MPS below 23, an MPS above 65,533, a wrong length.
  @Test(
    arguments: [
      "15 01 0a00 3f00 3c00 1900 0300 0000", "15 01 0a00 8000 3c00 1900 0300 0000",
      "15 01 0a00 5100 1600 1900 0300 0000", "15 01 0a00 5100 3c00 1600 0300 0000",
      "15 01 0a00 5100 3c00 feff 0300 0000", "15 01 0800 5100 3c00 1900 0300",
    ])
  func refusesAResponseThatIsNotAllowed(_ response: String) throws {
    let bench = try CreditBasedBench()
    _ = try bench.sent()
    try bench.signal(response)
    #expect(bench.events() == [.refused(.invalidResponse)])
    try bench.expectLinkAlive()
  }

  @Test func refusesANumberThatIsTaken() throws {
    let bench = try CreditBasedBench.open()
    let other = bench.host.host.openChannel(
      to: 0x80, CreditBasedBench.local, on: CreditBasedBench.handle, now: bench.host.now)
    let id = try #require(other)
    #expect(try bench.sent() == ["5:14020a00800041006400" + "1e000400"])
    try bench.signal("15 02 0a00 5100 3c00 1900 0300 0000")
    #expect(bench.host.events() == [.channel(id, .refused(.invalidResponse))])
  }

  /// Command not understood, from a peer without such channels.
  @Test func takesACommandReject() throws {
    let bench = try CreditBasedBench()
    _ = try bench.sent()
    try bench.signal("01 01 0200 0000")
    #expect(bench.events() == [.refused(.commandRejected(0))])
  }

  @Test func ignoresAnswersToOtherIdentifiers() throws {
    let bench = try CreditBasedBench()
    _ = try bench.sent()
    try bench.signal("15 02 0a00 5100 3c00 1900 0300 0000")
    try bench.signal("01 02 0200 0000")
    try bench.signal("07 01 0400 5100 4000")
    #expect(bench.events().isEmpty)
    #expect(bench.host.host.statistics.strayFrames == 3)
    try bench.signal(CreditBasedBench.response)
    #expect(bench.events() == [.opened(CreditBasedBench.remote)])
    // Once is enough.
    try bench.signal(CreditBasedBench.response)
    #expect(bench.events().isEmpty)
  }

  /// RTX: 30 s, of the 1 s to 60 s that Core 5.4, Vol 3, Part A, 6.2.1 allows.
  @Test func givesUpAPeerThatDoesNotAnswer() throws {
    let bench = try CreditBasedBench()
    _ = try bench.sent()
    let start = bench.host.now
    #expect(bench.host.host.deadline == start.advanced(by: .seconds(30)))
    bench.host.wait(.milliseconds(29_999))
    #expect(bench.events().isEmpty)
    bench.host.wait(.milliseconds(1))
    #expect(bench.events() == [.refused(.timedOut)])
    #expect(bench.host.host.deadline == nil)
    try bench.expectLinkAlive()
  }

  @Test func hasSixtyFourNumbers() throws {
    let bench = try CreditBasedBench()
    var numbers: Set<UInt16> = [try bench.channel.localCID]
    for _ in 1..<64 {
      let id = bench.host.host.openChannel(
        to: 0x80, CreditBasedBench.local, on: CreditBasedBench.handle, now: bench.host.now)
      numbers.insert(try #require(id).localCID)
    }
    #expect(numbers == Set(0x0040...0x007F))
    let none = bench.host.host.openChannel(
      to: 0x80, CreditBasedBench.local, on: CreditBasedBench.handle, now: bench.host.now)
    #expect(none == nil)
    let gone = bench.host.host.openChannel(
      to: 0x80, CreditBasedBench.local, on: ConnectionHandle(0x41), now: bench.host.now)
    #expect(gone == nil)
  }

  // MARK: Closing

  @Test func closes() throws {
    let bench = try CreditBasedBench.open()
    try bench.close()
    #expect(try bench.sent() == ["5:0602040051004000"])
    #expect(try bench.send("00") == nil)
    // What was on its way; a response with the wrong numbers; the right one.
    try bench.receive("0100 aa")
    try bench.signal("07 02 0400 5200 4000")
    #expect(bench.events().isEmpty)
    try bench.signal("07 02 0400 5100 4000")
    #expect(bench.events() == [.closed(.closedLocally)])
    #expect(bench.host.host.deadline == nil)
    try bench.expectLinkAlive()
  }

  @Test func closesWithoutAnAnswer() throws {
    let bench = try CreditBasedBench.open()
    try bench.close()
    _ = try bench.sent()
    bench.host.wait(.milliseconds(4999))
    #expect(bench.events().isEmpty)
    bench.host.wait(.milliseconds(1))
    #expect(bench.events() == [.closed(.closedLocally)])
  }

  @Test func closesWhereThePeerKnowsOfNoChannel() throws {
    let bench = try CreditBasedBench.open()
    try bench.close()
    _ = try bench.sent()
    try bench.signal("01 02 0600 0200 5100 4000")
    #expect(bench.events() == [.closed(.closedLocally)])
  }

  /// The peer agrees to a channel that nobody wants any more: it is told.
  @Test func closesBeforeThePeerHasAnswered() throws {
    let bench = try CreditBasedBench()
    _ = try bench.sent()
    try bench.close()
    #expect(try bench.sent().isEmpty)
    try bench.signal(CreditBasedBench.response)
    #expect(try bench.sent() == ["5:0602040051004000"])
    #expect(bench.events().isEmpty)
    try bench.signal("07 02 0400 5100 4000")
    #expect(bench.events() == [.closed(.closedLocally)])
  }

  @Test func isClosedByThePeer() throws {
    let bench = try CreditBasedBench.open()
    // Our number with one that is not the peer's: silently discarded.
    try bench.signal("06 09 0400 4000 5200")
    #expect(try bench.sent().isEmpty)
    #expect(bench.events().isEmpty)
    try bench.signal("06 0a 0400 4000 5100")
    #expect(try bench.sent() == ["5:070a040040005100"])
    #expect(bench.events() == [.closed(.closedByPeer)])
    // It is not there any more: invalid CID in request.
    try bench.signal("06 0b 0400 4000 5100")
    #expect(try bench.sent() == ["5:010b0600020040005100"])
    try bench.receive("0100 aa")
    #expect(bench.host.host.statistics.strayFrames == 2)
    try bench.expectLinkAlive()
  }

  /// Both at the same time: the peer's request ends it, its answer to ours comes too late.
  @Test func isClosedByBoth() throws {
    let bench = try CreditBasedBench.open()
    try bench.close()
    _ = try bench.sent()
    try bench.signal("06 0a 0400 4000 5100")
    #expect(try bench.sent() == ["5:070a040040005100"])
    #expect(bench.events() == [.closed(.closedLocally)])
    try bench.signal("07 02 0400 5100 4000")
    #expect(bench.events().isEmpty)
  }

  @Test func endsWithTheLink() throws {
    let open = try CreditBasedBench.open()
    try open.host.receive("040504 00 4000 08")
    #expect(
      open.host.events() == [
        .channel(try open.channel, .closed(.linkLost)),
        .disconnected(CreditBasedBench.handle, reason: .connectionTimeout),
      ])
    let asking = try CreditBasedBench()
    asking.host.host.lose()
    #expect(
      asking.host.events() == [
        .channel(try asking.channel, .refused(.linkLost)),
        .disconnected(CreditBasedBench.handle, reason: .unspecifiedError), .failed(.transportLost),
      ])
  }

  /// We have no services: SPSM not supported, with zeros. A request that is none is not understood.
  @Test func refusesAChannelToItself() throws {
    let bench = try CreditBasedBench.open()
    try bench.signal("14 09 0a00 8000 6000 6400 1e00 0400")
    #expect(try bench.sent() == ["5:15090a000000000000000000" + "0200"])
    try bench.signal("14 09 0800 8000 6000 6400 1e00")
    #expect(try bench.sent() == ["5:010902000000"])
  }
}

/// Data and credits, Core 5.4, Vol 3, Part A, 3.4.3, 4.24 and 10.1.
@Suite struct CreditBasedDataTests {
  private func fault(_ bench: CreditBasedBench, _ fault: CreditBasedFault) throws {
    #expect(try bench.sent() == ["5:0602040051004000"])
    #expect(bench.events().isEmpty)
    try bench.signal("07 02 0400 5100 4000")
    #expect(bench.events() == [.closed(.fault(fault))])
    try bench.expectLinkAlive()
  }

  @Test(arguments: [0, 1, 23])
  func sendsAnSDUInOnePDU(_ count: Int) throws {
    let bench = try CreditBasedBench.open()
    let sdu = String(repeating: "a5", count: count)
    #expect(try bench.send(sdu) == .queued)
    #expect(try bench.sent() == ["51:" + hexOf([UInt8(count), 0]) + sdu])
  }

  /// PDUs of 25 octets, of which the first has the SDU's length; three credits.
  @Test func cutsAnSDU() throws {
    let bench = try CreditBasedBench.open()
    let octets = (0..<60).map { UInt8($0) }
    #expect(try bench.send(hexOf(octets)) == .queued)
    #expect(
      try bench.sent() == [
        "51:3c00" + hexOf(octets[..<23]), "51:" + hexOf(octets[23..<48]), "51:" + hexOf(octets[48...]),
      ])
    #expect(try bench.send("01") == .queued)
    #expect(try bench.sent().isEmpty)
    try bench.signal("16 02 0400 5100 0100")
    #expect(try bench.sent() == ["51:010001"])
    #expect(try bench.send(hexOf(octets + [0])) == .tooLong(mtu: 60))
  }

  /// Without credits nothing is sent, and no more than eight SDUs are kept.
  @Test func waitsForCredits() throws {
    let bench = try CreditBasedBench.open()
    for number in 0..<8 as Range<UInt8> { #expect(try bench.send(hexOf([number])) == .queued) }
    #expect(try bench.send("08") == .full)
    #expect(try bench.sent() == ["51:010000", "51:010001", "51:010002"])
    #expect(bench.events() == [.writable])
    #expect(try bench.send("08") == .queued)
    try bench.signal("16 02 0400 5100 ffff")
    #expect(try bench.sent().last == "51:010008")
    #expect(bench.events().isEmpty)
  }

  @Test func endsAtTooManyCredits() throws {
    let bench = try CreditBasedBench.open()
    // 3 and 65,532 are 65,535.
    try bench.signal("16 02 0400 5100 fcff")
    #expect(bench.events().isEmpty)
    #expect(try bench.sent().isEmpty)
    try bench.signal("16 03 0400 5100 0100")
    try fault(bench, .creditOverflow)
  }

  /// Zero credits, credits of no channel, and half a command change nothing.
  @Test func ignoresCreditsWithoutSense() throws {
    let bench = try CreditBasedBench.open()
    for command in [
      "16 02 0400 5100 0000", "16 02 0400 5200 0100", "16 02 0400 0000 0100", "16 02 0200 5100",
    ] {
      try bench.signal(command)
    }
    #expect(bench.host.host.statistics.strayFrames == 4)
    #expect(try bench.sent().isEmpty)
    #expect(bench.events().isEmpty)
  }

  @Test func putsAnSDUTogether() throws {
    let bench = try CreditBasedBench.open()
    let octets = (0..<60).map { UInt8($0) }
    try bench.receive("3c00" + hexOf(octets[..<28]))
    #expect(bench.events().isEmpty)
    try bench.receive(hexOf(octets[28..<58]))
    // An empty PDU in between is a PDU.
    try bench.receive("")
    // Half of the four credits were used for parts: they come back at once.
    #expect(try bench.sent() == ["5:160204004000" + "0300"])
    try bench.receive(hexOf(octets[58...]))
    #expect(bench.events() == [.received(octets)])
  }

  @Test func takesAnEmptySDU() throws {
    let bench = try CreditBasedBench.open()
    try bench.receive("0000")
    try bench.receive("0100 aa")
    #expect(bench.events() == [.received([]), .received([0xAA])])
  }

  /// Four credits: whoever does not take SDUs gets four of them, and no more.
  @Test func givesCreditsForWhatWasTaken() throws {
    let bench = try CreditBasedBench.open()
    for _ in 0..<4 { try bench.receive("0100 aa") }
    #expect(bench.events().count == 4)
    #expect(try bench.sent().isEmpty)
    // The peer waits: even one credit goes back.
    try bench.taken()
    #expect(try bench.sent() == ["5:160204004000" + "0100"])
    try bench.taken()
    #expect(try bench.sent().isEmpty)
    try bench.taken()
    #expect(try bench.sent() == ["5:160304004000" + "0200"])
    for _ in 0..<3 { try bench.receive("0100 aa") }
    #expect(bench.events().count == 3)
    try bench.receive("0100 aa")
    #expect(try bench.sent() == ["5:0604040051004000"])
    try bench.signal("07 04 0400 5100 4000")
    #expect(bench.events() == [.closed(.fault(.noCredit))])
  }

  /// With one credit, a PDU each: no stall.
  @Test func neverStallsAPeerWithOneCredit() throws {
    var machine = CreditBasedChannelMachine(
      local: CreditBasedParameters(mtu: 100, mps: 30, credits: 1), remote: CreditBasedBench.remote)
    let parts = ["0400 01", "02", "0304"].map { octetsOf($0) }
    for part in parts {
      let sdu = try machine.receive(part.span)
      if let sdu {
        #expect(sdu == [1, 2, 3, 4])
        let early = machine.creditsToReturn()
        #expect(early == nil)
        machine.taken()
      }
      let credits = machine.creditsToReturn()
      #expect(credits == 1)
    }
  }

  @Test(
    arguments: [
      ("", .noLength), ("00", .noLength), ("6500", .sduTooLong(101)), ("ffff", .sduTooLong(65_535)),
      ("0100 aabb", .sduOverrun), ("0000 aa", .sduOverrun),
      ("6400" + String(repeating: "aa", count: 29), .pduTooLong),
    ] as [(String, CreditBasedFault)])
  func endsAtAPDUThatBreaksTheRules(_ pdu: String, _ expected: CreditBasedFault) throws {
    let bench = try CreditBasedBench.open()
    try bench.receive(pdu)
    try fault(bench, expected)
  }

  @Test func endsAtAnOverrunLaterOn() throws {
    let bench = try CreditBasedBench.open()
    try bench.receive("0400 0102")
    try bench.receive("030405")
    try fault(bench, .sduOverrun)
  }

  /// A frame too long to be kept at all is too long for the channel.
  @Test func endsAtAFrameThatIsSkipped() throws {
    let bench = try CreditBasedBench.open()
    #expect(throws: WireError.self) { try bench.host.receive("0240200600 ffff 4000 0000") }
    try fault(bench, .pduTooLong)
  }

  /// 65,535 octets are an SDU where the MTU says so.
  @Test func takesTheLongestSDU() throws {
    var machine = CreditBasedChannelMachine(
      local: CreditBasedParameters(mtu: 65_535, mps: 2048, credits: 2), remote: CreditBasedBench.remote)
    let first = [0xFF, 0xFF] + [UInt8](repeating: 0x11, count: 2046)
    let part = [UInt8](repeating: 0x22, count: 2048)
    var left = 65_535 - 2046
    var whole = try machine.receive(first.span)
    while whole == nil, left > 0 {
      _ = machine.creditsToReturn()
      let count = min(left, 2048)
      let octets = Array(part[..<count])
      whole = try machine.receive(octets.span)
      left -= count
    }
    #expect(left == 0)
    #expect(whole?.count == 65_535)
    #expect(whole?.last == 0x22)
  }

  @Test func takesTurns() throws {
    let bench = try CreditBasedBench.open()
    let other = bench.host.host.openChannel(
      to: 0x80, CreditBasedBench.local, on: CreditBasedBench.handle, now: bench.host.now)
    let id = try #require(other)
    _ = try bench.sent()
    try bench.signal("15 02 0a00 5200 3c00 1900 0300 0000")
    _ = bench.host.events()
    let sdu = octetsOf("02")
    for _ in 0..<3 {
      #expect(try bench.send("01") == .queued)
      let submission = bench.host.host.send(sdu.span, on: id)
      #expect(submission == .queued)
    }
    #expect(
      try bench.sent() == ["52:010002", "51:010001", "52:010002", "51:010001", "52:010002", "51:010001"])
  }
}
