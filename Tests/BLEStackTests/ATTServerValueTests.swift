import BLEStack
import BLEWire
import TestKit
import Testing

/// Reads and writes; expected responses from reference `att-gatt-scripts.json` and `att-gatt-conformance.md`,
/// 4 and 6.
@Suite struct ATTServerValueTests {
  private func bench(mtu: Int = 512) -> ServerBench {
    var bench = ServerBench(ServerDatabases.service1)
    if mtu > 23 { _ = bench.send("020002") }
    return bench
  }

  @Test(
    "unknown and broken PDUs",
    arguments: [
      ("bf00", "01bf000006"), ("ff00", ""), ("d20700010203", ""), ("0100", ""), ("1b0300", ""),
      ("0a03", "010a000004"), ("0a030000", "010a000004"), ("0c030000", "010c000004"),
      ("02", "0102000004"), ("0401", "0104000004"), ("0e0300", "010e000004"),
      ("0e030004", "010e000004"), ("1203", "0112000004"), ("16070000", "0116000004"),
      ("1802", "0118000004"), ("18", "0118000004"), ("0801000800", "0108000004"), ("", ""),
    ])
  func broken(request: String, answer: String) {
    var bench = bench()
    #expect(bench.send(request) == answer)
  }

  @Test("GAC/BV-01-C: the answer is our own MTU, in force is the smaller, never under 23")
  func mtu() {
    var bench = ServerBench(ServerDatabases.service1, receiveMTU: 517)
    #expect(bench.send("021700") == "030502")
    #expect(bench.server.mtu == 23)
    #expect(bench.send("020500") == "030502")
    #expect(bench.server.mtu == 23)
    #expect(bench.send("02f700") == "030502")
    #expect(bench.server.mtu == 247)
    #expect(bench.send("02ffff") == "030502")
    #expect(bench.server.mtu == 517)
    bench.server.exchangedMTU(peerMTU: 100)
    #expect(bench.server.mtu == 100)
  }

  @Test("a PDU longer than ATT_MTU is dropped and counted")
  func tooLong() {
    var bench = bench(mtu: 23)
    #expect(bench.send("120700" + String(repeating: "01", count: 20)) == "13")
    #expect(bench.send("120700" + String(repeating: "01", count: 21)) == "")
    #expect(bench.server.faults == 1)
  }

  @Test("GAR/BV-01, BI-01: read")
  func read() {
    var bench = bench()
    #expect(bench.send("0a0300") == "0b426c75655a")
    #expect(bench.send("0a0700") == "0b")
    #expect(bench.send("0a0000") == "010a000001")
    #expect(bench.send("0a0900") == "010a090001")
  }

  @Test(
    "GAR/BI-03…05, BI-12…17, BI-18…22: refusals reach the client, with the handle",
    arguments: [
      ATTErrorCode.readNotPermitted, .insufficientAuthorization, .insufficientAuthentication,
      .encryptionKeySizeTooShort,
    ])
  func refused(code: ATTErrorCode) {
    var services = ServerDatabases.service1
    services[0].characteristics[0].readAccess = .refused(code)
    var bench = ServerBench(services)
    let digits = hexOf([code.rawValue])
    #expect(bench.send("0a0300") == "010a0300" + digits)
    #expect(bench.send("0c03000000") == "010c0300" + digits)
    #expect(bench.send("0e07000300") == "010e0300" + digits)
    #expect(bench.send("2007000300") == "01200300" + digits)
  }

  @Test("GAR/BV-04: long reads end with a short or empty part")
  func readBlob() {
    var bench = bench()
    bench.database.setValue([UInt8](0..<50).span, of: AttributeHandle(7))
    _ = bench.send("021700")
    #expect(bench.send("0a0700") == "0b" + hexOf([UInt8](0..<22)))
    #expect(bench.send("0c07001600") == "0d" + hexOf([UInt8](22..<44)))
    #expect(bench.send("0c07002c00") == "0d" + hexOf([UInt8](44..<50)))
    #expect(bench.send("0c07003200") == "0d")
    #expect(bench.send("0c07003300") == "010c070007")
  }

  @Test("GAR/BV-05, BV-08: read multiple, without and with lengths")
  func readMultiple() {
    var bench = bench()
    #expect(bench.send("0e03000700") == "0f426c75655a")
    #expect(bench.send("0e03000400") == "0f426c75655a446576696365204e616d65")
    #expect(bench.send("0e03000900") == "010e090001")
    #expect(bench.send("2003000700") == "210500426c75655a0000")
    _ = bench.send("021700")
    // 5 + 11 of the 17 bytes would be 28; the last length states the full length.
    #expect(bench.send("2004000800") == "210b00446576696365204e616d6511004d616e75666163")
    #expect(bench.send("0e04000800") == "0f446576696365204e616d654d616e7566616374757265")
  }

  @Test("GAW/BV-03, BI-02…05: write")
  func write() {
    var bench = bench()
    #expect(bench.send("120700010203") == "13")
    #expect(bench.send("0a0700") == "0b010203")
    #expect(bench.send("120700") == "13")
    #expect(bench.send("0a0700") == "0b")
    #expect(bench.send("120000010203") == "0112000001")
    #expect(bench.send("120300010203") == "0112030003")
    #expect(bench.send("120200010203") == "0112020003")
    #expect(bench.writes.map(\.handle) == [7, 7])
    bench.refusal = .valueNotAllowed
    #expect(bench.send("12070009") == "0112070013")
    #expect(bench.send("0a0700") == "0b")
  }

  @Test("0D for a value longer than the attribute")
  func longWrite() {
    var services = ServerDatabases.service1
    services[1].characteristics[0].maximumByteCount = 2
    var bench = ServerBench(services)
    #expect(bench.send("1207000102") == "13")
    #expect(bench.send("120700010203") == "011207000d")
    #expect(bench.send("1607000000010203") == "1707000000010203")
    #expect(bench.send("1801") == "011807000d")
    #expect(bench.send("1801") == "19")
    #expect(bench.send("0a0700") == "0b0102")
  }

  @Test("GAW/BV-01: write without response; what cannot be done is dropped")
  func writeCommand() {
    var bench = bench()
    for pdu in ["520700010203", "520300010203", "520000010203", "5207"] { #expect(bench.send(pdu) == "") }
    #expect(bench.send("0a0700") == "0b010203")
    #expect(bench.send("0a0300") == "0b426c75655a")
  }

  @Test("GAW/BV-05, BV-06, BI-07, BI-11: prepared writes")
  func prepared() {
    var bench = bench()
    #expect(bench.send("1607000000010203") == "1707000000010203")
    #expect(bench.send("0a0700") == "0b")
    #expect(bench.send("16070003000405") == "17070003000405")
    #expect(bench.send("1608000000aa") == "1708000000aa")
    #expect(bench.send("1801") == "19")
    #expect(bench.send("0a0700") == "0b0102030405")
    #expect(bench.send("0a0800") == "0baa")
    #expect(bench.writes.map(\.value) == ["0102030405", "aa"])
    #expect(bench.send("1607000000ff") == "1707000000ff")
    #expect(bench.send("1800") == "19")
    #expect(bench.send("1801") == "19")
    #expect(bench.send("0a0700") == "0b0102030405")
    #expect(bench.send("1600000000010203") == "0116000001")
    #expect(bench.send("1603000000010203") == "0116030003")
  }

  @Test("GAW/BI-09: an offset past the end fails at Execute, and nothing of the queue is written")
  func preparedOffset() {
    var bench = bench()
    #expect(bench.send("1608000000aa") == "1708000000aa")
    #expect(bench.send("1607000100bb") == "1707000100bb")
    #expect(bench.send("1801") == "0118070007")
    #expect(bench.send("1801") == "19")
    #expect(bench.send("0a0800") == "0b" + hexOf([UInt8]("Manufacturer Name".utf8)))
  }

  @Test("09 when the queue is full, which leaves it as it was")
  func preparedLimit() {
    var bench = bench()
    for index in 0..<ATTServer.preparedWriteLimit {
      let request = "160700" + hexOf([UInt8(index), 0]) + "01"
      #expect(bench.send(request) == "17" + request.dropFirst(2))
    }
    #expect(bench.send("160700400001") == "0116070009")
    #expect(bench.send("1801") == "19")
    #expect(bench.send("0a0700") == "0b" + String(repeating: "01", count: ATTServer.preparedWriteLimit))
  }

  @Test("GAN/BV-01-C: subscribe, then notify; and what a CCCD does not offer")
  func subscribe() {
    var bench = ServerBench(ServerDatabases.small)
    #expect(bench.push(.notification, 3, "010203") == (.notSubscribed, ""))
    #expect(bench.send("1204000100") == "13")
    #expect(bench.push(.notification, 3, "010203") == (.encoded, "1b0300010203"))
    #expect(bench.push(.indication, 3, "01") == (.notSubscribed, ""))
    #expect(
      bench.push(.notification, 3, hexOf([UInt8](0..<30))) == (.encoded, "1b0300" + hexOf([UInt8](0..<20))))
    #expect(bench.send("0a0400") == "0b0100")
    #expect(bench.send("1209000100") == "01120900fd")
    #expect(bench.send("1204000101") == "01120400fd")
    #expect(bench.send("12040001") == "011204000d")
    #expect(bench.send("16040000000000") == "17040000000000")
    #expect(bench.send("1801") == "19")
    #expect(bench.push(.notification, 3, "01") == (.notSubscribed, ""))
  }

  @Test("GAI/BV-01-C: one indication at a time, until it is confirmed")
  func indicate() {
    var bench = ServerBench(ServerDatabases.small)
    #expect(bench.send("1204000200") == "13")
    #expect(bench.push(.indication, 3, "010203") == (.encoded, "1d0300010203"))
    #expect(bench.push(.indication, 3, "04") == (.awaitsConfirmation, ""))
    #expect(bench.send("0a0400") == "0b0200")
    #expect(bench.send("1e") == "")
    #expect(bench.push(.indication, 3, "04") == (.encoded, "1d030004"))
    #expect(bench.send("1e") == "")
    #expect(bench.server.faults == 0)
    #expect(bench.send("1e") == "")
    #expect(bench.server.faults == 1)
  }

  @Test("every peer finds GAP and GATT")
  func genericServices() {
    var bench = ServerBench(.genericServices(name: "ringtap"))
    #expect(bench.send("100100ffff0028") == "1106010005000018060006000118")
    #expect(bench.send("080100ffff002a") == "0909030072696e67746170")
    #expect(bench.send("080500ffff012a") == "090405000000")
    #expect(bench.send("080100ffff2a2b") == "010801000a")
  }
}
