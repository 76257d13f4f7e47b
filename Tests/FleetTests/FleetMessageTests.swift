import BLEWire
import Foundation
import Testing

@testable import Fleet

/// Addresses, names, topics and messages of a fleet, valid ones and hostile ones.
@Suite struct FleetMessageTests {
  // MARK: Addresses

  @Test func addresses() throws {
    let plain = try BrokerAddress("mqtt://broker.local")
    #expect((plain.host, plain.port, plain.isEncrypted) == ("broker.local", 1883, false))
    #expect((plain.user, plain.password, plain.prefix) == (nil, nil, "ringtap"))
    let full = try BrokerAddress("mqtts://ward%2D3:s%3Acret%40@[2001:db8::1]:8884/clinic/ward-3")
    #expect((full.host, full.port, full.isEncrypted) == ("2001:db8::1", 8884, true))
    #expect((full.user, full.password, full.prefix) == ("ward-3", "s:cret@", "clinic/ward-3"))
    // Printed addresses never contain the password.
    #expect(full.description == "mqtts://[2001:db8::1]:8884/clinic/ward-3")
    #expect(try BrokerAddress("mqtts://h").port == 8883)
    #expect(try BrokerAddress("mqtt://h/").prefix == "ringtap")
  }

  @Test(arguments: [
    ("http://h", "mqtt:// or mqtts://"), ("broker", "mqtt:// or mqtts://"), ("mqtt://", "host"),
    ("mqtt://:1883", "host"),
    ("mqtt://h:0", "port"), ("mqtt://h:65536", "port"), ("mqtt://h:x", "port"), ("mqtt://[::1", "]"),
    ("mqtt://[::1]x", "follows the host"), ("mqtt://@h", "user"), ("mqtt://a%zz@h", "user"),
    ("mqtt://a:b%1@h", "password"),
    ("mqtt://h/a//b", "prefix"), ("mqtt://h/+", "prefix"), ("mqtt://h/a/#", "prefix"),
    ("mqtt://h/$SYS", "prefix"),
    ("mqtt://h/..", "prefix"), ("mqtt://h?x", "host"),
  ])
  func wrongAddressesNameTheirPart(_ text: String, _ part: String) {
    #expect { try BrokerAddress(text) } throws: { "\($0)".contains(part) }
  }

  // MARK: Names and topics

  @Test func names() {
    for name in ["ward-3", "70-CB-0D-00-A1-B2", "a", "A.b_c", String(repeating: "x", count: 64)] {
      #expect(FleetName.isValid(name))
    }
    for name in [
      "", ".", "..", ".hidden", "a/b", "a\\b", "a b", "ä", "a\n", "a\0", "+", "#", "%2e",
      String(repeating: "x", count: 65),
    ] {
      #expect(!FleetName.isValid(name))
      #expect(FleetName.isValid(FleetName.made(of: name)))
    }
    #expect(FleetName.made(of: "70:CB:0D:00:A1:B2") == "70-CB-0D-00-A1-B2")
  }

  @Test func topics() {
    let topics: [(String, FleetTopic)] = [
      ("ringtap/p/s/ppg", .table(publisher: "p", session: "s", table: "ppg")),
      ("ringtap/p/s/end", .end(publisher: "p", session: "s")), ("ringtap/p/status", .status(publisher: "p")),
      ("ringtap/p/receipt", .receipt(publisher: "p")),
    ]
    for (text, topic) in topics {
      #expect(FleetTopic(text, below: "ringtap") == topic)
      #expect(topic.text(below: "ringtap") == text)
    }
    for text in [
      "ringtap", "ringtap/", "ringtap/p", "ringtap/p/other", "ringtap/p/s/t/u", "ringtap/../s/t",
      "ringtap/p/../t",
      "ringtap/p/s/..", "ringtap//s/t", "ringtap/p/s/", "other/p/s/t", "ringtapx/p/s/t",
      "ringtap/p/s/a.csv\0",
    ] { #expect(FleetTopic(text, below: "ringtap") == nil, "\(text)") }
  }

  // MARK: Messages

  private static let batch = Batch(
    publisher: "p", session: "s", table: "ppg", header: "time_ns,value", row: 7, count: 2, from: 3,
    rows: Array("1,2\n3,4\n".utf8))

  @Test func batches() throws {
    let octets = Self.batch.octets
    #expect(
      String(decoding: octets, as: UTF8.self) == """
        {"version":1,"publisher":"p","session":"s","table":"ppg","header":"time_ns,value","row":7,"count":2,"from":3}
        1,2
        3,4

        """)
    #expect(try Batch(parsing: octets.span, publisher: "p", session: "s", table: "ppg") == Self.batch)
    #expect(Array(Self.batch.rows(after: 1)) == Array("3,4\n".utf8))
    #expect(Self.batch.rows(after: 2).isEmpty)
  }

  @Test(
    arguments: [
      "", "\n", "{}\n", "no JSON\n1,2\n", head, head + "1,2", head + "1,2\n3,4\n", head + "1,\u{1B}[2J\n",
      head + "1,\0\n",
      head + "ä\n", String(head.dropLast(1)), String(repeating: "x", count: 70_000),
      head.replacingOccurrences(of: #""version":1"#, with: #""version":2"#) + "1,2\n",
      head.replacingOccurrences(of: #""table":"t""#, with: #""table":"u""#) + "1,2\n",
      head.replacingOccurrences(of: #""publisher":"p""#, with: #""publisher":"q""#) + "1,2\n",
      head.replacingOccurrences(of: #""header":"a,b""#, with: #""header":"a\nb""#) + "1,2\n",
      head.replacingOccurrences(of: #""header":"a,b""#, with: #""header":"""#) + "1,2\n",
      head.replacingOccurrences(of: #""row":0"#, with: #""row":-1"#) + "1,2\n",
      head.replacingOccurrences(of: #""row":0"#, with: #""row":9223372036854775807"#) + "1,2\n",
      head.replacingOccurrences(of: #""row":0"#, with: #""row":1e3"#) + "1,2\n",
      head.replacingOccurrences(of: #""from":0"#, with: #""from":1"#) + "1,2\n",
      head.replacingOccurrences(of: #""count":1"#, with: #""count":0"#),
      head + String(repeating: "1", count: 1 << 16) + "\n",
    ] as [String])
  func strangeBatchesAreRefused(_ text: String) {
    let octets = Array(text.utf8)
    #expect(throws: Batch.Refusal.self) {
      try Batch(parsing: octets.span, publisher: "p", session: "s", table: "t")
    }
  }

  /// Every truncation of a message is refused.
  @Test func cutMessagesAreRefused() {
    let end = SessionEnd(
      session: "s", tables: ["t": SessionEnd.Table(header: "a", rows: 3, from: 1)],
      document: Array("{\"a\":1}".utf8))
    for octets in [Self.batch.octets, end.octets] {
      for count in 0..<octets.count {
        let cut = Array(octets[..<count])
        if (try? SessionEnd(parsing: cut.span, session: "s")) != nil {
          // Only the document was cut off, which is optional.
          #expect(cut.last == UInt8(ascii: "\n") && octets == end.octets)
        }
        #expect(throws: Batch.Refusal.self) {
          try Batch(parsing: cut.span, publisher: "p", session: "s", table: "ppg")
        }
      }
    }
  }

  @Test func otherMessages() throws {
    let end = SessionEnd(
      session: "s", tables: ["t": SessionEnd.Table(header: "a", rows: 3, from: 1)], document: Array("{}".utf8)
    )
    let octets = end.octets
    #expect(try SessionEnd(parsing: octets.span, session: "s") == end)
    #expect(throws: Batch.Refusal.self) { try SessionEnd(parsing: octets.span, session: "other") }
    let status = PublisherStatus(state: .offline, session: "s", device: "70:CB:0D:00:A1:B2")
    let statusOctets = status.octets
    #expect(try PublisherStatus(parsing: statusOctets.span) == status)
    let receipt = Receipt(session: "s", collector: "c", tables: ["t": 3], resend: ["t"], isComplete: false)
    let receiptOctets = receipt.octets
    #expect(try Receipt(parsing: receiptOctets.span) == receipt)
    for text in [
      #"{"version":1,"session":"s","tables":{"../t":{"header":"a","rows":1,"from":0}}}"#,
      #"{"version":1,"session":"s","tables":{"t":{"header":"a","rows":1,"from":2}}}"#,
      #"{"version":1,"session":"s","tables":{"end":{"header":"a","rows":1,"from":0}}}"#,
    ] {
      let octets = Array((text + "\n").utf8)
      #expect(throws: Batch.Refusal.self) { try SessionEnd(parsing: octets.span, session: "s") }
    }
    for text in [
      #"{"version":1,"state":"online","session":"../s"}"#, #"{"version":1,"state":"x","session":"s"}"#,
    ] {
      let octets = Array((text + "\n").utf8)
      #expect(throws: Batch.Refusal.self) { try PublisherStatus(parsing: octets.span) }
    }
  }
}

private let head =
  #"{"version":1,"publisher":"p","session":"s","table":"t","header":"a,b","row":0,"count":1,"from":0}"# + "\n"
