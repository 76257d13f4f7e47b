import BLEWire
import ColmiRing
import Testing

@Suite struct RingBigDataReassemblerTests {
  private static let messages = RingRequestVector.of("ring->host", "bigdata")
    .filter { $0.packets.count == 1 && $0.name != "sleep-ringcli-sample" }

  private func night() throws -> [UInt8] { try RingRequestVector.named("sleep-rt11cr-2-records").frames[0] }
  private func nap() throws -> [UInt8] { try RingRequestVector.named("nap-rt11cr").frames[0] }

  private func feed(
    _ notifications: [[UInt8]], _ reassembler: inout RingBigDataReassembler
  ) -> [RingBigDataReassembler.Event] {
    var events: [RingBigDataReassembler.Event] = []
    for octets in notifications { reassembler.receive(octets.span) { events.append($0) } }
    return events
  }

  private func message(_ octets: [UInt8]) throws -> RingBigDataReassembler.Event {
    .message(try RingBigData(parsing: octets.span))
  }

  private func pieces(_ octets: [UInt8], of byteCount: Int) -> [[UInt8]] {
    stride(from: 0, to: octets.count, by: byteCount).map {
      Array(octets[$0..<min($0 + byteCount, octets.count)])
    }
  }

  /// Notifications of each size, from one byte to the whole message; the default MTU of 23 leaves 20 bytes.
  @Test(arguments: messages)
  func takesPiecesOfAnySize(_ vector: RingRequestVector) throws {
    let octets = vector.frames[0]
    let expected = try message(octets)
    var reassembler = RingBigDataReassembler()
    for byteCount in 1...octets.count {
      #expect(feed(pieces(octets, of: byteCount), &reassembler) == [expected])
      #expect(!reassembler.isOpen)
    }
    #expect(reassembler.counters.messages == octets.count)
  }

  @Test func takesThePublishedPieces() throws {
    var reassembler = RingBigDataReassembler()
    let split = try RingRequestVector.named("reassembly-split-3").frames
    #expect(feed(split, &reassembler) == [try message(try night())])
  }

  /// A continuation that begins with 0xBC does not start a message.
  @Test func goesOnWithAContinuationThatLooksLikeAStart() throws {
    let octets = ColmiRingTests.octets(
      of: RingBigData(id: 0x2A, payload: [UInt8](repeating: 7, count: 14) + [0xBC, 0x27, 1, 0, 0, 0, 9, 9]))
    var reassembler = RingBigDataReassembler()
    #expect(feed(pieces(octets, of: 20), &reassembler) == [try message(octets)])
  }

  @Test func takesSeveralMessagesOutOfOneNotification() throws {
    var reassembler = RingBigDataReassembler()
    let (night, nap) = (try night(), try nap())
    #expect(
      feed([nap + night + nap], &reassembler) == [try message(nap), try message(night), try message(nap)])
  }

  @Test func handsOverWhatComesInBetween() throws {
    let (night, nap) = (try night(), try nap())
    let raw = try RingRequestVector.named("raw-ppg-ei-1").frames[0]
    let sample = try RingRawSample(decoding: raw.span)
    let split = pieces(night, of: 20)
    var reassembler = RingBigDataReassembler()
    #expect(
      feed([split[0], nap, raw] + split[1...], &reassembler) == [
        try message(nap), .raw(sample), try message(night),
      ])
    #expect(feed([raw], &reassembler) == [.raw(sample)])
    #expect(reassembler.counters.rawFrames == 2)
    #expect(reassembler.counters.messages == 2)
  }

  @Test func tellsAWrongChecksumAndGoesOn() throws {
    let (night, nap) = (try night(), try nap())
    for index in 4..<night.count where index != 20 && index != 40 {
      var damaged = night
      damaged[index] ^= 0x10
      let wrong = try RingBigData(parsing: damaged.span)
      var reassembler = RingBigDataReassembler()
      let events = feed(pieces(damaged, of: 20) + [nap], &reassembler)
      #expect(events == [.failed(.checksum(wrong)), try message(nap)])
      #expect(reassembler.counters.wrongChecksums == 1)
    }
  }

  /// Each notification of a message is lost in turn: the next message is complete, however it is split.
  @Test(arguments: [7, 20, 33])
  func goesOnAfterALoss(byteCount: Int) throws {
    let (night, spO2) = (try night(), try RingRequestVector.named("spo2-rt11cr-3-days").frames[0])
    let split = pieces(night, of: byteCount)
    for lost in split.indices.dropFirst() {
      var rest = split
      rest.remove(at: lost)
      var reassembler = RingBigDataReassembler()
      let events = feed(rest + pieces(spO2, of: byteCount), &reassembler)
      let received = rest.joined().count
      #expect(
        events == [
          .failed(.interrupted(id: 0x27, received: received, expected: night.count)), try message(spO2),
        ])
      #expect(reassembler.counters.interrupted == 1)
    }
    var headless = RingBigDataReassembler()
    let events = feed(split.dropFirst() + pieces(spO2, of: byteCount), &headless)
    #expect(events.last == (try message(spO2)))
    #expect(headless.counters.strays == split.count - 1)
  }

  @Test func givesUpWhenAsked() throws {
    let (night, nap) = (try night(), try nap())
    var reassembler = RingBigDataReassembler()
    #expect(feed([Array(night.prefix(20))], &reassembler).isEmpty)
    #expect(reassembler.isOpen)
    var events: [RingBigDataReassembler.Event] = []
    reassembler.abandon { events.append($0) }
    reassembler.abandon { events.append($0) }
    #expect(events == [.failed(.interrupted(id: 0x27, received: 20, expected: 65))])
    #expect(feed(pieces(nap, of: 5), &reassembler) == [try message(nap)])
  }

  @Test func refusesTheOverlong() throws {
    let nap = try nap()
    var reassembler = RingBigDataReassembler(maximumPayloadByteCount: 100)
    let long = octets(of: RingBigData(id: 0x2A, payload: [UInt8](repeating: 1, count: 101)))
    let events = feed(pieces(long, of: 20) + [nap], &reassembler)
    #expect(events.first == .failed(.tooLong(id: 0x2A, byteCount: 101)))
    // The six pieces of its 107 bytes, the first of which has the length.
    #expect(
      events.dropFirst().dropLast()
        == [RingBigDataReassembler.Event](repeating: .failed(.notBigData(octet: 1)), count: 5)[...])
    #expect(events.last == (try message(nap)))
    let full = octets(of: RingBigData(id: 0x2A, payload: [UInt8](repeating: 1, count: 100)))
    #expect(feed(pieces(full, of: 20), &reassembler) == [try message(full)])
  }

  @Test func tellsStraysAndExcess() throws {
    let nap = try nap()
    var reassembler = RingBigDataReassembler()
    #expect(
      feed([[1, 2, 3], []], &reassembler) == [
        .failed(.notBigData(octet: 1)), .failed(.notBigData(octet: nil)),
      ])
    #expect(feed([nap + [1, 2, 3]], &reassembler) == [try message(nap), .failed(.excess(byteCount: 3))])
    #expect(!reassembler.isOpen)
    #expect(reassembler.counters.strays == 3)
  }

  /// An endless stream of random bytes: the buffer stays within its limit, and a message is received after
  /// `abandon`.
  @Test(arguments: [1, 2, 3] as [UInt64])
  func survivesNoise(seed: UInt64) throws {
    let nap = try nap()
    var generator = SplitMix(state: seed)
    var reassembler = RingBigDataReassembler()
    for _ in 0..<2000 {
      var octets = (0..<Int.random(in: 0...244, using: &generator)).map { _ in
        UInt8.random(in: .min ... .max, using: &generator)
      }
      if !octets.isEmpty, Bool.random(using: &generator) { octets[0] = 0xBC }
      reassembler.receive(octets.span) { _ in }
    }
    reassembler.abandon { _ in }
    #expect(feed([nap], &reassembler) == [try message(nap)])
    let counters = reassembler.counters
    #expect(counters.tooLong > 0 && counters.interrupted > 0 && counters.strays > 0)
  }
}
