import BLEStack
import BLEWire
import TestKit
import Testing

/// Security that a server requires of the link. Core 5.4, Vol 3, Part C, 10.3.1 and Part F, 3.4.1.1.
@Suite struct ATTServerSecurityTests {
  /// Value 3: a key of at least 7 bytes; value 5: MITM protection and 16 bytes; value 7: its CCCD is 8.
  private func bench() -> ServerBench {
    var encrypted = GATTCharacteristicDescription(.batteryLevel, [.read, .write], value: [1])
    encrypted.readAccess = .needs(.encrypted)
    encrypted.writeAccess = .needs(.encrypted)
    var authenticated = GATTCharacteristicDescription(.serialNumber, [.read], value: [2])
    authenticated.readAccess = .needs(.authenticated, keyByteCount: 16)
    var notified = GATTCharacteristicDescription(.temperatureMeasurement, [.notify])
    notified.configurationAccess = .needs(.encrypted)
    notified.descriptors = [
      GATTDescriptorDescription(
        .characteristicUserDescription, value: [0x41], readAccess: .needs(.encrypted))
    ]
    return ServerBench([
      GATTServiceDescription(.battery, characteristics: [encrypted, authenticated, notified])
    ])
  }

  @Test(arguments: [
    (ATTSecurity(), "010a030005", "010a050005"),
    (ATTSecurity(storedKey: .present), "010a03000f", "010a05000f"),
    (ATTSecurity(.encrypted, storedKey: .present), "0b01", "010a050005"),
    (ATTSecurity(.encrypted, keyByteCount: 6), "010a03000c", "010a050005"),
    (ATTSecurity(.authenticated, keyByteCount: 7), "0b01", "010a05000c"),
    (ATTSecurity(.authenticated), "0b01", "0b02"),
  ])
  func reads(_ security: ATTSecurity, _ first: String, _ second: String) {
    var bench = bench()
    bench.server.security = security
    #expect(bench.send("0a0300") == first)
    #expect(bench.send("0a0500") == second)
  }

  /// Each request that can read or write a value, on a link without security.
  @Test(arguments: [
    ("0c03000000", "010c030005"), ("0e03000500", "010e030005"), ("2003000500", "0120030005"),
    ("080100ffff192a", "0108030005"), ("06030003 00192a01", "010603000a"), ("12030007", "0112030005"),
    ("160300000007", "0116030005"), ("52030007", ""), ("120800 0100", "0112080005"), ("0a0900", "010a090005"),
  ])
  func refusesWithoutSecurity(_ request: String, _ answer: String) {
    var bench = bench()
    #expect(bench.send(request) == answer)
    bench.server.security = ATTSecurity(.encrypted)
    #expect(bench.send("0a0300") == "0b01", "nothing was written")
  }

  @Test func writesOnAnEncryptedLink() {
    var bench = bench()
    bench.server.security = ATTSecurity(.encrypted)
    #expect(bench.send("12030007") == "13")
    #expect(bench.send("160300010008") == "17" + "0300010008")
    #expect(bench.send("1801") == "19")
    #expect(bench.send("0a0300") == "0b0708")
    #expect(bench.send("12080001 00") == "13")
    #expect(bench.push(.notification, 7, "aa").1 == "1b0700aa")
  }

  /// A link whose encryption has ended gets nothing in plain text. Core 5.4, Vol 3, Part C, 10.3.1.1.
  @Test func pushesNothingWithoutSecurity() {
    var bench = bench()
    bench.server.security = ATTSecurity(.encrypted)
    #expect(bench.send("12080001 00") == "13")
    bench.server.security = ATTSecurity()
    #expect(bench.push(.notification, 7, "aa").0 == .notSubscribed)
    bench.server.security = ATTSecurity(.encrypted, keyByteCount: 6)
    #expect(bench.push(.notification, 7, "aa").0 == .notSubscribed)
    bench.server.security = ATTSecurity(.encrypted)
    #expect(bench.push(.notification, 7, "aa").1 == "1b0700aa")
  }

  /// A value that may be read only on a secure link is notified only on such a link, whatever the security of
  /// its CCCD.
  @Test func subscribesAsItReads() {
    var value = GATTCharacteristicDescription(.batteryLevel, [.read, .notify, .indicate], value: [1])
    value.readAccess = .needs(.authenticated)
    var bench = ServerBench([GATTServiceDescription(.battery, characteristics: [value])])
    bench.server.security = ATTSecurity(.encrypted)
    #expect(bench.send("12040001 00") == "0112040005")
    #expect(bench.send("12040002 00") == "0112040005")
    bench.server.security = ATTSecurity(.authenticated)
    #expect(bench.send("12040003 00") == "13")
    bench.server.security = ATTSecurity(.encrypted)
    #expect(bench.push(.indication, 3, "aa").0 == .notSubscribed)
  }

  /// A write that was prepared on an encrypted link is not executed on an unencrypted one.
  @Test func asksAgainAtExecute() {
    var bench = bench()
    bench.server.security = ATTSecurity(.encrypted)
    #expect(bench.send("160300000009") == "170300000009")
    bench.server.security = ATTSecurity()
    #expect(bench.send("1801") == "0118030005")
    bench.server.security = ATTSecurity(.encrypted)
    #expect(bench.send("0a0300") == "0b01")
  }
}

/// Signed writes and updates of several values. Core 5.4, Vol 3, Part F, 3.4.5.4 and 3.4.7.4.
@Suite struct ATTServerCommandTests {
  private func bench() -> ServerBench {
    ServerBench([
      GATTServiceDescription(
        .battery,
        characteristics: [
          GATTCharacteristicDescription(.serialNumber, [.read, .authenticatedSignedWrites], value: [9]),
          GATTCharacteristicDescription(.batteryLevel, [.read, .write, .notify], value: [1]),
          GATTCharacteristicDescription(.temperatureMeasurement, [.notify]),
        ])
    ])
  }

  private static let signed = "d2 0300 01 00000000 311f0acd1c3a5b0a"

  @Test func storesWhatIsSignedRightly() {
    var bench = bench()
    bench.server.signatureCheck = { $0.signature[4] == 0x31 }
    #expect(bench.send(Self.signed) == "")
    #expect(bench.send("0a0300") == "0b01")
    #expect(bench.send("120300 02") == "0112030003", "nothing else writes it")
  }

  @Test(arguments: [
    "d2 0300 01 00000000 321f0acd1c3a5b0a", "d2 0500 01 00000000 311f0acd1c3a5b0a",
    "d2 0300 01 00000000 311f",
    "d2 6300 01 00000000 311f0acd1c3a5b0a",
  ])
  func dropsOtherSignedWrites(_ pdu: String) {
    var bench = bench()
    bench.server.signatureCheck = { $0.signature[4] == 0x31 }
    #expect(bench.send(pdu) == "")
    #expect(bench.send("0a0300") == "0b09")
    #expect(bench.send("0a0500") == "0b01")
  }

  /// The key of an unauthenticated pairing signs as well as any other.
  @Test(arguments: [
    (ATTAccess.needs(.encrypted), "0b01"), (.needs(.authenticated), "0b09"),
    (.needs(.encrypted, keyByteCount: 16), "0b09"),
  ])
  func takesASignatureForEncryptionOnly(_ access: ATTAccess, _ value: String) {
    var characteristic = GATTCharacteristicDescription(
      .serialNumber, [.read, .authenticatedSignedWrites], value: [9])
    characteristic.demand(access)
    characteristic.readAccess = .allowed
    var bench = ServerBench([GATTServiceDescription(.battery, characteristics: [characteristic])])
    bench.server.signatureCheck = { _ in true }
    #expect(bench.send(Self.signed) == "")
    #expect(bench.send("0a0300") == value)
  }

  @Test func dropsSignedWritesWithoutACheck() {
    var bench = bench()
    #expect(bench.send(Self.signed) == "")
    #expect(bench.send("0a0300") == "0b09")
  }

  private func together(_ bench: ServerBench, _ values: [(UInt16, String)]) -> (Int, String) {
    var settled = 0
    let pdu = [UInt8](encoding: ATT.maximumMTU) {
      settled = bench.server.pushTogether(
        values.map { (AttributeHandle($0.0), octetsOf($0.1)) }, database: bench.database, into: &$0)
    }
    return (settled, hexOf(pdu))
  }

  @Test func notifiesSeveralValuesAtOnce() {
    var bench = bench()
    #expect(together(bench, [(5, "aa"), (8, "bb")]) == (2, ""), "nobody asked")
    _ = bench.send("120600 0100")
    #expect(together(bench, [(8, "bb"), (5, "aa")]) == (1, ""), "one is no several")
    _ = bench.send("120900 0100")
    #expect(
      together(bench, [(5, "aa"), (8, ""), (5, "ccdd")]) == (
        3, "23 0500 0100 aa 0800 0000 0500 0200 ccdd".filter { $0 != " " }
      ))
  }

  /// 22 bytes of tuples at the smallest MTU.
  @Test func keepsToTheMTU() {
    var bench = bench()
    _ = bench.send("120600 0100")
    _ = bench.send("120900 0100")
    let ten = String(repeating: "11", count: 10)
    #expect(
      together(bench, [(5, ten), (8, "2222222222"), (5, "33")]).0 == 0,
      "the second does not fit, and one is no several")
    #expect(
      together(bench, [(5, ten), (8, "22222222"), (5, "33")])
        == (2, "2305000a00" + ten + "0800040022222222"))
  }
}
