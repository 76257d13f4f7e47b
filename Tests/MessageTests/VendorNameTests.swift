import BLEWire
import CommandKit
import Foundation
import TestKit
import Testing

/// Names of vendors from udev's hardware database.
@Suite struct VendorNameTests {
  private func address(_ text: String, _ type: AddressType = .public) throws -> DeviceAddress {
    try #require(DeviceAddress(text, type: type))
  }

  /// Records of systemd's `20-OUI.hwdb`, among others that have made-up names.
  private func file(_ path: String) throws {
    var records = [
      "00005E*": "ICANN, IANA Department", "001122*": "CIMSYS Inc", "001BC5*": "IEEE Registration Authority",
      "001BC5000*": "Converging Systems Inc.", "0055DA*": "IEEE Registration Authority",
      "0055DA0*": "Shinko Technos co.,ltd.",
    ]
    for number in 0..<2000 where records[String(format: "%06X*", 0x100000 + number * 257)] == nil {
      records[String(format: "%06X*", 0x100000 + number * 257)] =
        "Vendor \(number) " + String(repeating: "x", count: number % 90)
    }
    let text = records.sorted { Array($0.key.utf8).lexicographicallyPrecedes(Array($1.key.utf8)) }
      .map { "OUI:\($0.key)\n ID_OUI_FROM_DATABASE=\($0.value)\n\n" }.joined()
    try Data(("# This file is part of systemd.\n\n" + text).utf8).write(to: URL(filePath: path))
  }

  @Test func findsBlocksOfEachSize() throws {
    try withFolder { folder in
      try file(folder + "/oui")
      let names = VendorNames(in: [folder + "/none", folder + "/oui"])
      #expect(try names.name(of: address("00:00:5E:00:53:01")) == "ICANN, IANA Department")
      #expect(try names.name(of: address("00:11:22:33:44:55")) == "CIMSYS Inc")
      #expect(try names.name(of: address("00:1B:C5:00:01:02")) == "Converging Systems Inc.")
      #expect(try names.name(of: address("00:55:DA:0F:FF:FF")) == "Shinko Technos co.,ltd.")
      for number in 0..<2000 {
        let bits = UInt64(0x100000 + number * 257) << 24
        let name = names.name(of: DeviceAddress(bits: bits, type: .public))
        #expect(name?.hasPrefix("Vendor \(number) ") == true)
      }
      // A divided block, blocks of nobody, and a random address.
      #expect(try names.name(of: address("00:1B:C5:FF:01:02")) == nil)
      #expect(try names.name(of: address("00:00:00:00:00:00")) == nil)
      #expect(try names.name(of: address("FF:FF:FF:00:00:00")) == nil)
      #expect(try names.name(of: address("00:11:22:33:44:55", .random)) == nil)
      #expect(try VendorNames(in: [folder + "/none"]).name(of: address("00:11:22:33:44:55")) == nil)
    }
  }

  /// A file that is empty or of something else has no names.
  @Test(arguments: [
    "", "\n", "OUI:001122*", "OUI:001122*\n", String(repeating: "no list of names\n", count: 999),
  ])
  func damagedFiles(_ text: String) throws {
    try withFolder { folder in
      try Data(text.utf8).write(to: URL(filePath: folder + "/oui"))
      #expect(try VendorNames(in: [folder + "/oui"]).name(of: address("00:11:22:33:44:55")) == nil)
    }
  }

  /// The installed list, read from start to end by another reader.
  @Test(.enabled(if: VendorNames.places.contains { FileManager.default.fileExists(atPath: $0) }))
  func readsTheInstalledList() throws {
    let path = try #require(VendorNames.places.first { FileManager.default.fileExists(atPath: $0) })
    let records = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n")
    let names = VendorNames()
    var count = 0
    for (index, line) in records.enumerated() where line.hasPrefix("OUI:") && index % 300 < 2 {
      let digits = line.dropFirst(4).dropLast()
      let bits = try #require(UInt64(digits, radix: 16)) << (4 * (12 - UInt64(digits.count)))
      let name = records[index + 1].split(separator: "=", maxSplits: 1)[1]
      // The first address of a block can belong to a smaller block as well.
      guard digits.count > 6 || name != "IEEE Registration Authority" else { continue }
      #expect(names.name(of: DeviceAddress(bits: bits, type: .public)) == String(name), "\(line)")
      count += 1
    }
    #expect(count > 100)
  }
}
