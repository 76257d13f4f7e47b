import BLEStack
import BLEWire
import TestKit
import Testing

/// Database Hash, Client Supported Features and robust caching at the server. Core 5.4, Vol 3, Part G, 2.5.2.1 and 7.
struct ATTServerCachingTests {
  private typealias Service = GATTServiceDescription
  private typealias Characteristic = GATTCharacteristicDescription

  private static func handle(_ value: UInt16) -> AttributeHandle { AttributeHandle(value) }

  /// The sample in Core 5.4, Vol 3, Part G, Appendix B.
  private static let sample: [Service] = [
    Service(
      .genericAccess,
      characteristics: [
        Characteristic(.deviceName, [.read, .write]), Characteristic(.appearance, .read, value: [0, 0]),
      ]),
    Service(
      .genericAttribute, handle: handle(6),
      characteristics: [
        Characteristic(.serviceChanged, .indicate),
        Characteristic(.clientSupportedFeatures, [.read, .write], value: [0]),
        Characteristic(.databaseHash, .read),
      ]),
    Service(
      BluetoothUUID(0x1808), handle: handle(0x0E), includes: [3],
      characteristics: [
        Characteristic(
          BluetoothUUID(0x2A18), [.read, .indicate, .extendedProperties],
          descriptors: [GATTDescriptorDescription(.characteristicExtendedProperties, value: [0, 0])])
      ]),
    Service(
      .battery, kind: .secondary, handle: handle(0x14),
      characteristics: [Characteristic(.batteryLevel, .read, value: [50])]),
  ]

  /// The message in the same appendix, whose AES-CMAC is f1ca2d48 ecf58bac 8a8830bb b9fba990.
  @Test func hashesWhatTheSpecificationHashes() {
    let message =
      "010000280018020003280a0300002a04000328020500012a06000028011807000328200800052a090002290a0003280a0b00292b0c"
      + "000328020d002a2b0e00002808180f000228140016000f1810000328a21100182a12000229130000290000140001280f1815000328"
      + "021600192a"
    let database = GATTServerDatabase(Self.sample)
    #expect(hexOf(database.hashedOctets) == message)
    #expect(hexOf(database.databaseHash) == "f1ca2d48ecf58bac8a8830bbb9fba990")
    #expect(database.value(of: Self.handle(0x0D)).map(hexOf) == "f1ca2d48ecf58bac8a8830bbb9fba990")
  }

  private static let moved = [sample[0], sample[1], sample[3]]

  /// A server after a change; its client uses robust caching and has subscribed to Service Changed.
  private static func unaware() -> ServerBench {
    var bench = ServerBench(sample)
    #expect(bench.send("120b0001") == "13")
    #expect(bench.send("1209000200") == "13")
    bench.change(to: moved)
    return bench
  }

  /// Bits can be set but not cleared; reserved bits are not stored.
  @Test func clientFeaturesAreTheClients() {
    var bench = ServerBench(Self.sample)
    #expect(bench.send("0a0b00") == "0b00")
    #expect(bench.send("120b0005") == "13")
    #expect(bench.send("0a0b00") == "0b05")
    #expect(bench.send("120b0001") == "01120b0013")
    #expect(bench.send("120b00ff") == "13")
    #expect(bench.send("0a0b00") == "0b07")
    #expect(bench.send("120b00") == "01120b000d")
  }

  @Test func isOutOfSyncOnce() {
    var bench = Self.unaware()
    #expect(bench.send("0a0300") == "010a030012")
    #expect(bench.send("0a0500") == "0b0000")
    #expect(bench.send("0a0500") == "0b0000")
  }

  @Test(arguments: [
    "0a0500", "0c05000000", "0e05000d00", "120300ff", "1603000000", "080100ffff002a", "2005000d00",
  ])
  func isOutOfSyncForWhatNamesAHandle(_ request: String) {
    var bench = Self.unaware()
    let answer = bench.send(request)
    #expect(answer.hasPrefix("01" + request.prefix(2)) && answer.hasSuffix("12"))
  }

  /// Discovery is served, and does not make the client change-aware.
  @Test(arguments: [
    "020002", "040100ffff", "060100ffff00280018", "100100ffff0028", "080100ffff0328", "080100ffff0228",
  ])
  func discoveryIsServed(_ request: String) {
    var bench = Self.unaware()
    #expect(!bench.send(request).hasSuffix("12"))
    #expect(bench.send("0a0500") == "010a050012")
  }

  /// Computed with Python's `cryptography` over the appendix's message without service 0x1808.
  @Test func theHashIsReadAndThenAllIsServed() {
    var bench = Self.unaware()
    #expect(bench.send("080100ffff2a2b") == "09120d002b3208354b0c8e881111808aebd85274")
    #expect(bench.send("0a0500") == "0b0000")
  }

  @Test func theConfirmationOfServiceChangedIsKnowledge() {
    var bench = Self.unaware()
    let (result, indication) = bench.push(.indication, 0x0008, "0100ffff")
    #expect(result == .encoded)
    #expect(indication == "1d08000100ffff")
    #expect(bench.send("1e") == "")
    #expect(bench.send("0a0500") == "0b0000")
  }

  @Test func commandsAreIgnoredAndValuesHeldBack() {
    var services = Self.sample
    services[0].characteristics.append(
      Characteristic(.batteryLevel, [.writeWithoutResponse, .notify, .read], value: [1]))
    services[1].handle = nil
    services.removeLast(2)
    var bench = ServerBench(services)
    // 0x0006 declares it; 0x0007 is the value, 0x0008 its CCCD; Client Supported Features is at 0x000E.
    #expect(bench.send("1208000100") == "13")
    #expect(bench.send("120e0001") == "13")
    bench.change(to: services)
    #expect(bench.send("52070005") == "")
    #expect(bench.push(.notification, 0x0007, "05").0 == .notSubscribed)
    #expect(bench.send("0a0700") == "010a070012")
    #expect(bench.send("0a0700") == "0b01")
    #expect(bench.push(.notification, 0x0007, "05").1 == "1b070005")
    #expect(bench.send("52070005") == "")
    #expect(bench.send("0a0700") == "0b05")
  }

  /// Clients without robust caching are served.
  @Test func othersAreServed() {
    var bench = ServerBench(Self.sample)
    bench.change(to: Self.moved)
    #expect(bench.send("0a0500") == "0b0000")
  }

  /// Service Changed has kept its place and its subscription; the other characteristic was removed.
  @Test func cccdsStayWithTheirCharacteristics() {
    var bench = ServerBench(Self.sample)
    #expect(bench.send("1209000200") == "13")
    #expect(bench.send("1212000200") == "13")
    bench.change(to: Self.moved)
    #expect(bench.send("0a0900") == "0b0200")
    #expect(bench.send("0a1200") == "010a120001")
  }

  /// GATT/SR/GAS/BV-07-C, steps 8 and 9: on a new link the client is not change-aware because of an exchange
  /// that the last link did not complete.
  @Test func proofGoesWithTheLink() {
    var bench = Self.unaware()
    #expect(bench.send("0a0300") == "010a030012")
    bench.server.linkEnded()
    #expect(bench.send("0a0300") == "010a030012")
    #expect(bench.send("0a0300") == "0b")
  }

  /// A client reconnects, and is identified only after it has exchanged MTUs, written a CCCD and begun a long
  /// write.
  @Test func resumesOnTheLinkThatIsThere() {
    var kept = ServerBench(Self.sample)
    #expect(kept.send("1209000200") == "13")
    kept.server.linkEnded()
    var bench = ServerBench(Self.sample)
    bench.server.security = ATTSecurity(.encrypted)
    #expect(bench.send("026400") == "030002")
    #expect(bench.send("1212000200") == "13")
    #expect(bench.send("1603000000aa") == "1703000000aa")
    kept.server.resume(bench.server)
    bench.server = kept.server
    #expect(bench.server.mtu == 100)
    #expect(bench.server.security == ATTSecurity(.encrypted))
    #expect(bench.send("0a0900") == "0b0200")
    #expect(bench.send("0a1200") == "0b0200")
    #expect(bench.send("1801") == "19")
    #expect(bench.send("0a0300") == "0baa")
  }
}
