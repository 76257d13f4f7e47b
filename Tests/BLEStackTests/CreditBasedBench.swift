import BLECore
import BLEStack
import BLEWire
import TestKit
import Testing

/// A link with one credit-based channel, and its peer by hand.
final class CreditBasedBench {
  static let handle = ConnectionHandle(0x40)
  /// What we take: SDUs of 100 octets in PDUs of 30, four at once.
  static let local = CreditBasedParameters(mtu: 100, mps: 30, credits: 4)
  /// What the peer takes.
  static let remote = CreditBasedParameters(mtu: 60, mps: 25, credits: 3)
  static let request = "14 01 0a00 8000 4000 6400 1e00 0400"
  static let response = "15 01 0a00 5100 3c00 1900 0300 0000"

  let host: HCIHostBench
  private(set) var id: ChannelID?

  /// Asks for a channel to SPSM 0x0080, which the peer has not answered yet.
  init() throws {
    host = HCIHostBench()
    var answers = HCIHostBench.answers
    // 16 buffers of 251 octets.
    answers["0220"] = "00 fb00 10"
    try host.setUp(answers)
    try host.connect()
    _ = host.events()
    id = host.host.openChannel(to: 0x80, Self.local, on: Self.handle, now: host.now)
  }

  /// With a channel that is open.
  static func open() throws -> CreditBasedBench {
    let bench = try CreditBasedBench()
    #expect(try bench.sent() == ["5:" + hexOf(octetsOf(request))])
    try bench.signal(response)
    #expect(bench.events() == [.opened(remote)])
    return bench
  }

  var channel: ChannelID {
    get throws { try #require(id) }
  }

  func signal(_ payload: String) throws { try host.receive(host.frame("0500", payload)) }

  /// A PDU for our end.
  func receive(_ pdu: String, on cid: String = "4000") throws { try host.receive(host.frame(cid, pdu)) }

  /// What the host sends now: channel and payload of L2CAP frames, which all fit one packet; all are completed.
  func sent() throws -> [String] {
    let frames = host.sent().map { octetsOf($0) }
    if !frames.isEmpty { try host.receive("041305 01 4000" + hexOf([UInt8(frames.count), 0])) }
    return frames.map { String($0[7], radix: 16) + ":" + hexOf($0[9...]) }
  }

  /// Of the channel; nothing else may have happened.
  func events() -> [ChannelEvent] {
    host.events().compactMap { event in
      guard case .channel(let id, let what) = event, id == self.id else {
        Issue.record("\(event)")
        return nil
      }
      return what
    }
  }

  func send(_ hex: String) throws -> CreditBasedChannelMachine.Submission? {
    let octets = octetsOf(hex)
    return host.host.send(octets.span, on: try channel)
  }

  func taken() throws { host.host.taken(on: try channel) }
  func close() throws { host.host.close(try channel, now: host.now) }

  /// Nothing but the channel has ended.
  func expectLinkAlive() throws {
    host.attributes = []
    try host.receive(host.frame("0400", "1b0300aa"))
    #expect(host.attributes == ["40:1b0300aa"])
    #expect(host.host.linkCount == 1)
  }
}
