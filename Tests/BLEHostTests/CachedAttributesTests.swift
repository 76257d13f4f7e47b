import BLELinux
import BLEStack
import BLEWire
import Synchronization
import TestKit
import TestPeer
import Testing

import BLEHost

/// Use of attributes from an earlier link: which are used, after how many requests, and what ends their use.
/// Core 5.4, Vol 3, Part G, 2.5.2.
@Suite(.timeLimit(.minutes(1))) struct CachedAttributesTests {
  private static let hash = "000102030405060708090a0b0c0d0e0f"
  private static let hashAnswer = "09120d00" + hash
  private static let otherHashAnswer = "09120d00" + String(hash.reversed())
  private static let readHash = "080100ffff2a2b"

  private static func service(
    _ uuid: BluetoothUUID, _ start: UInt16, _ end: UInt16, _ characteristics: [GATTDatabase.Characteristic]
  ) -> GATTDatabase.Service {
    var service = GATTDatabase.Service(
      kind: .primary, range: HandleRange(start: AttributeHandle(start), end: AttributeHandle(end)), uuid: uuid
    )
    service.characteristics = characteristics
    return service
  }

  private static func known(
    hash: [UInt8]?, serviceChanged: Bool, extent: GATTDiscoveryResult.Extent = .part
  ) -> GATTDiscoveryResult {
    var changed = Link.characteristic(3, .indicate)
    changed.uuid = .serviceChanged
    return GATTDiscoveryResult(
      GATTDatabase(
        services: [
          service(.genericAttribute, 1, 8, serviceChanged ? [changed] : []),
          service(.heartRate, 0x20, 0x23, [Link.characteristic(0x22)]),
        ]), extent, databaseHash: hash, absent: [.battery])
  }

  /// A peer that only responds to a request for the hash.
  private static func peer(_ hashAnswer: String) -> @Sendable (String) -> [String] {
    { pdu in
      switch pdu.prefix(2) {
      case "02": ["031700"]
      case "12": ["13"]
      case "08" where pdu == Self.readHash: [hashAnswer]
      case "04", "06", "08", "10": ["01" + pdu.prefix(2) + pdu.dropFirst(2).prefix(4) + "0a"]
      case "0a": ["0b05"]
      default: []
      }
    }
  }

  struct Case: Sendable, CustomStringConvertible {
    let description: String
    let known: GATTDiscoveryResult
    var hashAnswer = CachedAttributesTests.hashAnswer
    let requests: [String]
    let isUsed: Bool
  }

  private static let discovery = ["020502", "060100ffff00280118", "060100ffff00280d18"]

  static let cases = [
    Case(
      description: "the hash is equal", known: known(hash: octetsOf(hash), serviceChanged: true),
      requests: [readHash], isUsed: true),
    Case(
      description: "the hash is another", known: known(hash: octetsOf(hash), serviceChanged: true),
      hashAnswer: otherHashAnswer, requests: [readHash] + discovery, isUsed: false),
    Case(
      description: "the hash is gone", known: known(hash: octetsOf(hash), serviceChanged: true),
      hashAnswer: "010801000a", requests: [readHash] + discovery, isUsed: false),
    Case(
      description: "the hash has another length", known: known(hash: octetsOf(hash), serviceChanged: true),
      hashAnswer: "09040d00" + "0001", requests: [readHash] + discovery, isUsed: false),
    Case(
      description: "without Service Changed", known: known(hash: nil, serviceChanged: false), requests: [],
      isUsed: true),
    Case(
      description: "Service Changed without a bond", known: known(hash: nil, serviceChanged: true),
      requests: ["0a2100"] + discovery, isUsed: false),
    Case(
      description: "Service Changed was not discovered",
      known: GATTDiscoveryResult(
        GATTDatabase(services: [service(.heartRate, 0x20, 0x23, [Link.characteristic(0x22)])]), .part),
      requests: ["0a2100"] + discovery, isUsed: false),
    Case(
      description: "the service was not asked for",
      known: GATTDiscoveryResult(GATTDatabase(), .part, absent: [.genericAttribute]),
      requests: discovery, isUsed: false),
    Case(
      description: "changed since", known: known(hash: octetsOf(hash), serviceChanged: true, extent: .none),
      requests: discovery, isUsed: false),
  ]

  @Test(arguments: cases) func usesWhatIsProven(_ item: Case) async throws {
    let link = try await Link.open(Self.peer(item.hashAnswer))
    await link.connection.restore(item.known)
    let found = try await link.connection.attributes(of: [.heartRate])
    #expect(link.peer.received.map { hexOf($0) } == item.requests)
    #expect(found.services.isEmpty == !item.isUsed)
    #expect(await link.connection.usesEarlierDiscovery == item.isUsed)
    await link.close()
  }

  /// The absence of a service is cached, too.
  @Test func knowsWhatIsNotThere() async throws {
    let link = try await Link.open(Self.peer(Self.hashAnswer))
    await link.connection.restore(Self.known(hash: nil, serviceChanged: false))
    let found = try await link.connection.attributes(of: [.battery, .heartRate])
    #expect(found.services.map(\.uuid) == [.heartRate])
    #expect(link.peer.received.isEmpty)
    await link.close()
  }

  /// Nothing proves that the attributes are unchanged, so those in use are verified. The declaration is at
  /// 0x21, the CCCD at 0x23.
  @Test(arguments: [
    (["0b10" + "2200" + "0d18", "0501" + "2300" + "0229"], true), (["0b12" + "2200" + "0d18"], false),
    (["0b10" + "2200" + "0d18", "0501" + "2300" + "0129"], false), (["010a210001"], false),
    (["0b10" + "2200" + "0d18", "010423000a"], false),
  ])
  func asksForWhatItUses(_ answers: [String], _ isUsed: Bool) async throws {
    let usual = Self.peer(Self.hashAnswer)
    let link = try await Link.open { pdu in
      switch pdu {
      case "0a2100": [answers[0]]
      case "0423002300": [answers[1]]
      default: usual(pdu)
      }
    }
    await link.connection.restore(Self.known(hash: nil, serviceChanged: true))
    let found = try await link.connection.attributes(of: [.heartRate])
    #expect(await link.connection.usesEarlierDiscovery == isUsed)
    #expect(found.services.isEmpty == !isUsed)
    let asked = ["0a2100", "0423002300"].prefix(answers.count) + (isUsed ? [] : Self.discovery)
    #expect(link.peer.received.map { hexOf($0) } == Array(asked))
    await link.close()
  }

  /// MTU, Service Changed, and the hash once more.
  @Test func catchesUp() async throws {
    let heard = Heard()
    let link = try await Link.open(Self.peer(Self.hashAnswer))
    await link.connection.whenDiscovered { heard.add($0.extent) }
    await link.connection.restore(Self.known(hash: octetsOf(Self.hash), serviceChanged: true))
    _ = try await link.connection.attributes(of: [.heartRate])
    try await link.connection.validate()
    #expect(
      link.peer.received.map { hexOf($0) } == [Self.readHash, "020502", "1204000200", Self.readHash])
    #expect(await link.connection.attributeChangeCount == 0)
    // The whole range, while two handles have subscribers.
    let values = Values()
    _ = try await link.connection.subscribe(Link.characteristic(0x22)) { values.take($0, $1) }
    link.send("1b2200aa")
    link.send("1d03000100ffff")
    await link.connection.attributesChanged(since: 0)
    #expect(await link.connection.attributeChangeCount == 1)
    #expect(await link.connection.discovery == nil)
    let confirmed = await link.peer.received(atLeast: 6).map { hexOf($0) }
    #expect(confirmed.suffix(2) == ["1223000100", "1e"])
    link.send("1b2200bb")
    #expect(try await link.connection.read(AttributeHandle(9)) == [5])
    #expect(values.all == ["22:aa"], "values of a removed handle are not delivered")
    #expect(heard.all == [.part, .none])
    await link.close()
  }

  /// The device changed between the first read of the hash and the subscription.
  @Test func catchesAChangeThatWasNotTold() async throws {
    let answers = Counter()
    let usual = Self.peer(Self.hashAnswer)
    let link = try await Link.open { pdu in
      guard pdu == Self.readHash else { return usual(pdu) }
      answers.add()
      return [answers.value == 1 ? Self.hashAnswer : Self.otherHashAnswer]
    }
    await link.connection.restore(Self.known(hash: octetsOf(Self.hash), serviceChanged: true))
    _ = try await link.connection.attributes(of: [.heartRate])
    try await link.connection.validate()
    #expect(await link.connection.attributeChangeCount == 1)
    await link.close()
  }

  /// The attributes in use are outside the changed range: they stay, but no later link may use them.
  @Test func aChangeElsewhereLeavesWhatIsUsed() async throws {
    let heard = Heard()
    let link = try await Link.open(Self.peer(Self.hashAnswer))
    await link.connection.whenDiscovered { heard.add($0.extent) }
    await link.connection.restore(Self.known(hash: octetsOf(Self.hash), serviceChanged: true))
    _ = try await link.connection.attributes(of: [.heartRate])
    try await link.connection.validate()
    link.send("1d030030004000")
    _ = await link.peer.received(atLeast: 5)
    // The confirmation is sent before the change is processed, so wait for the observer.
    await heard.count.reaches(2)
    #expect(heard.all == [.part, .none])
    #expect(await link.connection.attributeChangeCount == 0)
    #expect(await link.connection.discovery?.proof == GATTDiscoveryResult.Proof.none)
    #expect(await link.connection.discovery?.database(of: [.heartRate])?.services.count == 1)
    await link.close()
  }

  /// Core 5.4, Vol 3, Part G, 2.5.2.1: the hash is read, and the request is repeated if the hash is
  /// unchanged.
  @Test func repeatsWhatWasOutOfSync() async throws {
    let usual = Self.peer(Self.hashAnswer)
    let refusals = Counter()
    let link = try await Link.open { pdu in
      guard pdu == "0a2200" else { return usual(pdu) }
      refusals.add()
      return [refusals.value == 1 ? "010a220012" : "0b07"]
    }
    await link.connection.restore(Self.known(hash: octetsOf(Self.hash), serviceChanged: true))
    _ = try await link.connection.attributes(of: [.heartRate])
    #expect(try await link.connection.read(AttributeHandle(0x22)) == [7])
    #expect(
      link.peer.received.map { hexOf($0) } == [Self.readHash, "0a2200", Self.readHash, "0a2200"])
    #expect(await link.connection.attributeChangeCount == 0)
    await link.close()
  }

  /// Another hash, and a server that remains out of sync.
  @Test(arguments: [otherHashAnswer, "010801000a", "0108010012"])
  func dropsWhatIsOutOfSync(_ answer: String) async throws {
    let usual = Self.peer(Self.hashAnswer)
    let hashes = Counter()
    let link = try await Link.open { pdu in
      switch pdu {
      case "0a2200": return ["010a220012"]
      case Self.readHash:
        hashes.add()
        return [hashes.value == 1 ? Self.hashAnswer : answer]
      default: return usual(pdu)
      }
    }
    await link.connection.restore(Self.known(hash: octetsOf(Self.hash), serviceChanged: true))
    _ = try await link.connection.attributes(of: [.heartRate])
    let error = await failure { () async throws(GATTError) in
      try await link.connection.read(AttributeHandle(0x22))
    }
    #expect(
      error
        == .refused(
          ErrorResponse(
            request: .readRequest, handle: AttributeHandle(0x22), code: .databaseOutOfSync)))
    #expect(link.peer.received.count == 3)
    #expect(await link.connection.attributeChangeCount == 1)
    #expect(await link.connection.discovery == nil)
    await link.close()
  }

  /// GATT/CL/GAS/BV-02 and BV-03: the hash is requested over all handles, and only bit 0 of Client Supported
  /// Features is set.
  @Test func asksTheDeviceToTell() async throws {
    // Service Changed at 3, Client Supported Features at 6, hash at 8.
    let link = try await Link.open { pdu in
      switch pdu {
      case "020502": ["030502"]
      case "060100ffff00280118": ["0701000800"]
      case "08010008000328": ["0907" + "0200200300052a" + "05000a0600292b" + "07000208002a2b"]
      case "08080008000328": ["010808000a"]
      case "0404000400": ["0501" + "04000229"]
      case "1204000200", "12060001": ["13"]
      case Self.readHash: [Self.hashAnswer]
      case "060100ffff00280d18": ["010601000a"]
      default: []
      }
    }
    _ = try await link.connection.attributes(of: [.heartRate])
    #expect(
      link.peer.received.map { hexOf($0) } == [
        "020502", "060100ffff00280118", "08010008000328", "08080008000328", "0404000400", "1204000200",
        "12060001", Self.readHash, "060100ffff00280d18",
      ])
    let found = try #require(await link.connection.discovery)
    #expect(found.proof == .hash(octetsOf(Self.hash)))
    #expect(found.absent == [.heartRate])
    await link.close()
  }
}

/// Results that an observer received.
private final class Heard: Sendable {
  private let extents = Mutex<[GATTDiscoveryResult.Extent]>([])
  var all: [GATTDiscoveryResult.Extent] { extents.withLock { $0 } }
  let count = Counter()

  func add(_ extent: GATTDiscoveryResult.Extent) {
    extents.withLock { $0.append(extent) }
    count.add()
  }
}
