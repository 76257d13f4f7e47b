import BLEHost
import BLELinux
import BLEStack
import BLEWire
import Foundation
import TestKit
import Testing

/// Every error code that can occur has guidance. The lists of codes come from outside: the C headers,
/// Wireshark, BlueZ, the specification.
@Suite struct ErrorGuideTests {
  /// Lines that a shell command prints.
  private func lines(_ command: String) async throws -> [[String]] {
    try await withFolder { folder in
      let run = try await Program.run("/bin/sh", ["-c", "cd '\(folder)' && " + command])
      return run.outputLines.map {
        $0.split(whereSeparator: { " \t".contains($0) }).map(String.init)
      }
    }
  }

  /// Codes that Wireshark names for a field.
  private func wireshark(_ field: String) async throws -> Set<UInt8> {
    _ = try Place.tool("tshark")
    let command = "LC_ALL=C.UTF-8 tshark -G values | grep -P '^V\\t\(field)\\t'"
    let codes = try await lines(command).compactMap { words -> UInt8? in
      guard words.count > 2 else { return nil }
      return words[2].hasPrefix("0x") ? UInt8(words[2].dropFirst(2), radix: 16) : UInt8(words[2])
    }
    try #require(codes.count > 10)
    return Set(codes)
  }

  /// All codes with guidance. Each must have a cause and a remedy.
  private func guided(_ guide: (UInt8) -> ErrorGuide?) -> Set<UInt8> {
    let codes = (UInt8.min...UInt8.max).filter { guide($0) != nil }
    #expect(codes.allSatisfy { guide($0).map { !$0.cause.isEmpty && !$0.remedy.isEmpty } == true })
    return Set(codes)
  }

  /// A system call can set `errno` only to one of these numbers, so this list covers every call.
  @Test func knowsEveryErrorNumberOfLinux() async throws {
    _ = try Place.tool("gcc")
    let definitions = try await lines(
      "printf '#include <errno.h>\\n' | gcc -dM -E - | grep -E '^#define E[A-Z0-9]+ '")
    let numbers = definitions.compactMap { words in
      words.count == 3 ? CInt(words[2]).map { (name: words[1], number: $0) } : nil
    }
    try #require(numbers.count > 130)
    for (name, number) in numbers {
      let error = SystemError(call: "call", number: number)
      #expect(error.name == name)
      let guide = try #require(error.guide, "\(name)")
      #expect(!guide.cause.isEmpty && !guide.remedy.isEmpty, "\(name)")
    }
    let names = Set(numbers.map(\.name))
    let known = ErrorGuide.system.keys.map { String($0.prefix { $0 != "@" }) }
    #expect(Set(known) == names, "a row for an unknown number")
    #expect(SystemError(call: "call", number: 9999).guide == nil)
  }

  /// Core 5.4, Vol 1, Part F, 2: 0x01 … 0x45, of which three are reserved.
  @Test func knowsEveryStatusOfAController() async throws {
    let guided = guided { HCIStatus(rawValue: $0).guide }
    #expect(guided == Set(0x01...0x45).subtracting([0x2B, 0x31, 0x33]))
    let known = try await wireshark("bthci_evt.status")
    #expect(known.subtracting(guided).filter { (1...0x45).contains($0) } == [])
    #expect(guided.allSatisfy { HCIStatus(rawValue: $0).name.description != "other" })
    #expect([0x2B, 0x31, 0x33, 0x46].allSatisfy { HCIStatus(rawValue: $0).name.description == "other" })
  }

  /// Core 5.4, Vol 3, Part F, 3.4.1.1, and CSS, Part B, 1.2. The codes from 0xA0 on that profiles define are
  /// reserved there.
  @Test func knowsEveryErrorOfAnAttributeServer() async throws {
    let guided = guided { ATTErrorCode(rawValue: $0).guide }
    #expect(guided == Set(0x01...0x13).union(0x80...0x9F).union(0xFC...0xFF))
    let known = try await wireshark("btatt.error_code")
    #expect(known.subtracting(guided).filter { !(0xA0...0xDF).contains($0) } == [])
  }

  /// Core 5.4, Vol 3, Part H, 3.5.5.
  @Test func knowsEveryReasonOfAFailedPairing() async throws {
    let guided = guided { PairingFailure(rawValue: $0).guide }
    #expect(guided == Set(0x01...0x0F))
    #expect(try await wireshark("btsmp.reason").subtracting(guided).filter { $0 != 0 } == [])
  }

  /// All statuses that BlueZ's monitor can name, found with a log that contains every possible status.
  @Test func knowsEveryStatusOfTheManagementInterface() async throws {
    let script = """
      python3 -c '
      import struct
      out, time = open("log", "wb"), 0x00E03AB44A676000
      out.write(b"btsnoop\\0" + struct.pack(">II", 1, 2001))
      records = [(14, struct.pack("<IHBHIB", 1, 2, 1, 22, 1, 4) + b"test")]
      records += [(17, struct.pack("<IHHB", 1, 2, 4, status)) for status in range(256)]
      for opcode, data in records:
          out.write(struct.pack(">IIIIQ", len(data), len(data), opcode, 0, time) + data)
      ' && btmon -r log | grep -o 'Status: .* (0x..)' | grep -v 'Unknown (0x'
      """
    _ = (try Place.tool("python3"), try Place.tool("btmon"))
    let named = try await lines(script).compactMap { words in
      words.last.flatMap { UInt8($0.dropFirst(3).dropLast(), radix: 16) }
    }
    try #require(named.count > 10)
    #expect(guided { ManagementStatus(rawValue: $0).guide } == Set(named).subtracting([0]))
  }

  /// The same number has another meaning for a connect than for a file.
  @Test func tellsOneCallFromAnother() {
    let refused = ECONNREFUSED
    #expect(SystemError(call: "connect(L2CAP)", number: refused).guide?.cause == "LE is switched off")
    #expect(
      SystemError(call: "connect 127.0.0.1:1", number: refused).guide?.cause
        == "nothing listens at that address")
  }

  /// One line: the problem, then the remedy.
  @Test func endsALineWithTheRemedy() throws {
    let refusal = GATTError.refused(
      ErrorResponse(request: .readRequest, handle: AttributeHandle(0x12), code: .insufficientEncryption))
    #expect(
      ErrorGuide.text(of: refusal).hasSuffix(
        "Insufficient Encryption (0xf); pair with it (`ringtap pair ADDRESS`)"))
    #expect(ErrorGuide.text(of: HostError.gatt(refusal)) == ErrorGuide.text(of: refusal))
    #expect("\(HostError.gatt(refusal))" == "\(refusal)", "what session.json has as its end")
    let disallowed = HostError.commandRefused(HCIOpcode(rawValue: 0x200C), .commandDisallowed)
    #expect(
      "\(disallowed)".hasPrefix("the controller refused command 0x200c: Command Disallowed (0xc); stop other")
    )
    #expect(ErrorGuide.text(of: GATTError.cancelled) == "cancelled")
  }
}
