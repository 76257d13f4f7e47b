import BLECore
import BLEStack
import BLEWire
import Foundation
import Testing

/// A dialogue of BlueZ's `unit/test-gatt.c`, named by its SIG test.
struct GATTScript: Decodable, CustomTestStringConvertible, Sendable {
  struct Step: Decodable, Sendable {
    var from: String
    var pdu: String
    var match: String?
    var alternatives: [String]?
    /// One octet longer than ATT_MTU in the source: a server sends the first ATT_MTU octets.
    var cutToMTU: Bool?

    var choices: [String] { [pdu] + (alternatives ?? []) }
  }

  struct Arguments: Decodable, Sendable {
    var handle: UInt16?
    var value: String?
    var uuid: String?
    var start: UInt16?
    var end: UInt16?
    var clientMTU: Int?
  }

  struct Item: Decodable, Hashable, Sendable {
    var handle: UInt16?
    var start: UInt16?
    var end: UInt16?
    var properties: UInt8?
    var valueHandle: UInt16?
    var uuid: String?
  }

  struct Expectation: Decodable, Sendable {
    var services: [Item]?
    var includes: [Item]?
    var characteristics: [Item]?
    var descriptors: [Item]?
    var value: String?
    var attError: UInt8?
    var database: String?
  }

  var id: String
  var sigId: String
  var title: String
  var action: [String: Arguments]
  var mtu: Int
  var steps: [Step]
  var expect: Expectation

  var testDescription: String { "\(sigId) (\(id)): \(title)" }
  var verb: String { action.keys.first ?? "" }
  var arguments: Arguments { action.values.first ?? Arguments() }

  static let all: [GATTScript] = {
    let file = URL(filePath: #filePath).deletingLastPathComponent()
      .appending(path: "Fixtures/gatt-client-scripts.json")
    do {
      return try JSONDecoder().decode([GATTScript].self, from: Data(contentsOf: file))
    } catch {
      fatalError("\(file.path): \(error)")
    }
  }()

  static func of(_ verbs: String...) -> [GATTScript] { all.filter { verbs.contains($0.verb) } }
}

/// Plays the server of a script, by the matching rules of reference `att-gatt-conformance.md`, 1.
actor ScriptedRequester: ATTRequester {
  private(set) var mtu: Int
  private let database: ScriptedDatabase?
  private var steps: ArraySlice<GATTScript.Step>
  /// Request and reply pairs that may come late, in any order.
  private var deferred: [String: String] = [:]
  private var isWaiting = false

  init(_ script: GATTScript) {
    mtu = script.verb == "exchangeMTU" ? ATT.defaultMTU : script.mtu
    steps = script.steps[...]
    database = script.expect.database.flatMap { ScriptedDatabase.named[$0] }
  }

  /// Steps that had to come and did not.
  var missing: [String] {
    (steps.filter { $0.from == "client" && $0.match != "optional" && $0.match != "discovery" }.map(\.pdu)
      + deferred.keys)
  }

  func transact(_ request: [UInt8]) async throws(GATTError) -> [UInt8] {
    #expect(!isWaiting, "one request at a time")
    let sent = hexOf(request)
    if let database { return try answer(database.reply(to: request), request) }
    if let late = deferred.removeValue(forKey: sent) { return try answer(octetsOf(late), request) }
    while let step = steps.first, step.match == "deferrable", step.pdu != sent { putOff() }
    guard let step = steps.popFirst(), step.from == "client" else {
      Issue.record("a request after the end: \(sent)")
      throw .closed(.closedLocally)
    }
    if step.match == "mtuValue" {
      #expect(request.count == 3 && request[0] == 0x02)
      #expect(UInt16(request[1]) | UInt16(request[2]) << 8 >= 23)
      return try answer(octetsOf("030002"), request)
    }
    guard let choice = step.choices.firstIndex(of: sent) else {
      Issue.record("sent \(sent), the script has \(step.choices)")
      throw .closed(.closedLocally)
    }
    guard let reply = steps.popFirst(), reply.from == "server" else {
      Issue.record("the script has no reply to \(sent)")
      throw .closed(.closedLocally)
    }
    let pdu = octetsOf(reply.match == "follows" ? reply.choices[choice] : reply.pdu)
    return try answer(reply.cutToMTU == true ? Array(pdu.prefix(mtu)) : pdu, request)
  }

  func send(_ command: [UInt8]) async throws(GATTError) {
    let step = steps.popFirst()
    #expect(step?.from == "client")
    #expect(step?.pdu == hexOf(command))
  }

  private func putOff() {
    guard let request = steps.popFirst(), let reply = steps.popFirst() else { return }
    deferred[request.pdu] = reply.pdu
  }

  private func answer(_ pdu: [UInt8], _ request: [UInt8]) throws(GATTError) -> [UInt8] {
    guard pdu[0] == 0x01 else { return pdu }
    #expect(pdu.count == 5 && pdu[1] == request[0])
    throw .refused(
      ErrorResponse(
        request: ATTOpcode(rawValue: pdu[1]), handle: AttributeHandle(UInt16(pdu[2]) | UInt16(pdu[3]) << 8),
        code: ATTErrorCode(rawValue: pdu[4])))
  }
}

/// A server over one of the databases behind the scripts (reference `att-gatt-conformance.md`, 2), written apart
/// from the product's: one entry to a reply, which every client has to take.
struct ScriptedDatabase: Sendable {
  struct Attribute: Sendable {
    var handle: UInt16
    var type: UInt16
    var value: String
  }

  var groupEnds: [UInt16: UInt16]
  var attributes: [Attribute]

  init(_ groupEnds: [UInt16: UInt16], _ attributes: [(UInt16, UInt16, String)]) {
    self.groupEnds = groupEnds
    self.attributes = attributes.map { Attribute(handle: $0.0, type: $0.1, value: $0.2) }
  }

  func reply(to request: [UInt8]) -> [UInt8] {
    func word(_ offset: Int) -> UInt16 { UInt16(request[offset]) | UInt16(request[offset + 1]) << 8 }
    func hex(_ word: UInt16) -> String { hexOf([UInt8(word & 0xFF), UInt8(word >> 8)]) }
    let notFound = [0x01, request[0], request[1], request[2], 0x0A]
    let range = word(1)...max(word(1), request.count >= 5 ? word(3) : word(1))
    let found = attributes.first {
      range.contains($0.handle) && (request[0] == 0x04 || request[0] == 0x0A || $0.type == word(5))
    }
    guard let found else { return notFound }
    let value = octetsOf(found.value)
    switch request[0] {
    case 0x04: return octetsOf("0501" + hex(found.handle) + hex(found.type))
    case 0x08: return octetsOf("09") + [UInt8(value.count + 2)] + octetsOf(hex(found.handle)) + value
    case 0x10:
      let end = groupEnds[found.handle] ?? found.handle
      return octetsOf("11") + [UInt8(value.count + 4)] + octetsOf(hex(found.handle) + hex(end)) + value
    case 0x0A: return octetsOf("0b") + value
    default: return [0x01, request[0], 0, 0, 0x06]
    }
  }

  static let named: [String: ScriptedDatabase] = [
    "service-1": ScriptedDatabase(
      [1: 4, 5: 8],
      [
        (1, 0x2800, "0118"), (2, 0x2803, "020300002a"), (3, 0x2A00, "426c75655a"),
        (4, 0x2901, "446576696365204e616d65"), (5, 0x2800, "0d18"), (6, 0x2803, "0a0700292a"),
        (7, 0x2A29, ""), (8, 0x2901, "4d616e756661637475726572204e616d65"),
      ]),
    "service-3": ScriptedDatabase(
      [256: 289, 512: 512, 768: 800],
      [
        (256, 0x2800, "0018"), (272, 0x2803, "021101002a"), (273, 0x2A00, "426c75655a"),
        (288, 0x2803, "022101012a"), (289, 0x2A01, "0000"), (512, 0x2800, "0118"), (768, 0x2800, "0d18"),
        (784, 0x2803, "0a1103292a"), (785, 0x2A29, ""), (800, 0x2902, "0000"),
      ]),
  ]
}
