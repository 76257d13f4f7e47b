import BLEStack
import BLEWire
import Testing

/// Dialogues from BlueZ's `unit/test-gatt.c` (reference `att-gatt-scripts.json`), with our server as the
/// server.
@Suite struct ATTServerDiscoveryTests {
  typealias Dialogue = [(request: String, answer: String)]

  private func check(_ dialogue: Dialogue, on services: [GATTServiceDescription]) {
    var bench = ServerBench(services)
    #expect(bench.send("020002") == "030002")
    for (request, answer) in dialogue { #expect(bench.send(request) == answer, "to \(request)") }
  }

  @Test("GAD/BV-06-C client-1: the whole of database service-1")
  func service1() {
    check(
      [
        ("080100ffff3a2b", "010801000a"),
        ("100100ffff0028", "1106010004000118050008000d18"),
        ("100500ffff0028", "1106050008000d18"),
        ("100900ffff0028", "011009000a"),
        ("100100ffff0128", "011001000a"),
        ("08010008000228", "010801000a"),
        ("08010008000328", "09070200020300002a06000a0700292a"),
        ("08030008000328", "090706000a0700292a"),
        ("08070008000328", "010807000a"),
        ("0404000400", "050104000129"),
        ("0408000800", "050108000129"),
      ], on: ServerDatabases.service1)
  }

  @Test("GAD/BV-06-C client-3: handles with gaps")
  func service3() {
    check(
      [
        ("100100ffff0028", "1106000121010018000200020118000320030d18"),
        ("100102ffff0028", "1106000320030d18"),
        ("102103ffff0028", "011021030a"),
        ("08000120030228", "010800010a"),
        ("08000120030328", "09071001021101002a2001022101012a10030a1103292a"),
        ("08210120030328", "090710030a1103292a"),
        ("08110320030328", "010811030a"),
        ("0412011f01", "010412010a"),
        ("0412032003", "050120030229"),
      ], on: ServerDatabases.service3)
  }

  @Test("GAN/BV-01-C set-up: secondary service, include, 128-bit characteristic, last handle")
  func small() {
    check(
      [
        ("100100ffff0028", "110610f018f00018ffffffff0a18"),
        ("100100ffff0128", "1106010010000a18"),
        ("101100ffff0128", "011011000a"),
        // The client script has 000f as the end; the same file's script for the server role has 0010.
        ("080100ffff0228", "090811f0010010000a18"),
        ("0812f0ffff0228", "010812f00a"),
        ("080100ffff0328", "09070200b20300292a0700220800282a12f00213f0002a"),
        ("0813f0ffff0328", "091514f08215f0efcdab89674523010000000009b00000"),
        ("0815f0ffff0328", "090717f00218f0012a"),
        ("0818f0ffff0328", "010818f00a"),
        ("0404000600", "0501040002290500012906000029"),
        ("0a0600", "0b0100"),
        ("0409001000", "050109000229"),
        ("040a001000", "01040a000a"),
        ("0416f016f0", "050116f00029"),
        ("0415f015f0", "050215f0efcdab89674523010000000009b00000"),
        ("0a16f0", "0b0100"),
      ], on: ServerDatabases.small)
  }

  @Test("GAD/BV-02-C: services by UUID")
  func byUUID() {
    check(
      [
        ("060100ffff00280d18", "0705000800"),
        ("060900ffff00280d18", "010609000a"),
        ("060100ffff00280018", "010601000a"),
        // Any type may be searched for; the group is the attribute itself.
        ("060100ffff002a426c75655a", "0703000300"),
      ], on: ServerDatabases.service1)
  }

  @Test(
    "F 3.4.3.1: start 0 and start beyond end are Invalid Handle, told with the start",
    arguments: [
      ("0400000500", "0104000001"), ("0405000400", "0104050001"),
      ("060000ffff00280d18", "0106000001"), ("080000ffff0328", "0108000001"),
      ("0808000700002a", "0108080001"), ("100000ffff0028", "0110000001"),
      ("10ffff01000028", "0110ffff01"),
    ])
  func invalidRanges(request: String, answer: String) {
    check([(request, answer)], on: ServerDatabases.service1)
  }

  @Test("F 3.4.4.9: only services are groups")
  func groupTypes() {
    check(
      [
        ("100100ffff0328", "0110010010"), ("100300ffff0228", "0110030010"),
        ("100100ffffefcdab89674523010000000009b00000", "0110010010"),
        // 2800 in its 128-bit form is the same type.
        ("100500fffffb349b5f800000800010000000280000", "1106050008000d18"),
      ], on: ServerDatabases.service1)
  }

  @Test("a list ends where the next entry has another length or does not fit")
  func lists() {
    var bench = ServerBench(ServerDatabases.service1)  // MTU 23
    // Three entries of 7 bytes fit into 21 bytes, and so do three of 6.
    #expect(bench.send("0401000800") == "050101000028020003280300002a0400012905000028")
    // 2901 values of 11 and 17 bytes: the first sets the length.
    #expect(bench.send("080100ffff0129") == "090d0400446576696365204e616d65")
    #expect(bench.send("080500ffff0129") == "091308004d616e756661637475726572204e616d65")
  }

  @Test("F 3.4.4.2: an entry's value is cut to MTU − 4, and later to 253")
  func cutEntries() {
    let long = [
      GATTServiceDescription(
        .heartRate,
        characteristics: [
          GATTCharacteristicDescription(.deviceName, .read, value: [UInt8](repeating: 7, count: 300))
        ])
    ]
    var bench = ServerBench(long)
    #expect(bench.send("080100ffff002a") == "09150300" + String(repeating: "07", count: 19))
    _ = bench.send("020002")
    #expect(bench.send("080100ffff002a") == "09ff0300" + String(repeating: "07", count: 253))
  }

  @Test("GAR/BI-06…11: the first match's refusal is told, later ones end the list")
  func refusedByType() {
    var characteristics = (0..<2).map { _ in
      GATTCharacteristicDescription(BluetoothUUID(0x2A0D), .read, value: [1])
    }
    characteristics[1].readAccess = .refused(.insufficientAuthentication)
    let services = [GATTServiceDescription(.heartRate, characteristics: characteristics)]
    check([("080100ffff0d2a", "0903030001"), ("080400ffff0d2a", "0108050005")], on: services)
  }
}
