import BLEPacketLog
import BLEWire
import Foundation
import TestKit
import Testing

private enum AirCaptures {
  static let folder = Place.shared("captures/air")

  /// Each capture file, and the key in its name or description.
  static let files: [(path: String, keys: [String])] = {
    guard let folder, let names = try? FileManager.default.contentsOfDirectory(atPath: folder) else {
      return []
    }
    var files = names.sorted().map { name in
      let key = name.split(separator: "-").last?.split(separator: ".").first.map(String.init) ?? ""
      return (folder + "/" + name, name.hasPrefix("ltk-") ? [key] : ["7f62c053f104a5bbe68b1d896a2ed49c"])
    }
    if let sniffer = Place.shared("captures/nrf-sniffer-justworks.pcapng") { files.append((sniffer, [])) }
    return files
  }()

  static let paths = files.map(\.path)
  static let pathsWithKeys = files.filter { !$0.keys.isEmpty }.map(\.path)
}

/// Captures of other people's sniffers, compared with Wireshark's decoder and crackle's results. The files
/// are not in the repository.
@Suite(.serialized, .enabled(if: AirCaptures.folder != nil, Place.noShared)) struct AirCaptureTests {
  /// Ubertooth's packets have a link type for private use.
  private static let preferences = ["-o", #"uat:user_dlts:"User 0 (DLT=147)","btle","0","","0","""#]

  private func tshark(_ path: String, _ fields: [String], filter: String? = nil) async throws -> [[String]] {
    let text = try await Program.output(
      of: "tshark",
      Self.preferences + ["-r", path, "-T", "fields", "-E", "separator=|", "-E", "occurrence=f"]
        + (filter.map { ["-Y", $0] } ?? []) + fields.flatMap { ["-e", $0] })
    return text.split(separator: "\n").map {
      $0.split(separator: "|", omittingEmptySubsequences: false).map(String.init)
    }
  }

  private func translation(_ path: String, _ keys: [String] = []) throws -> Translation {
    Translation([UInt8](try Data(contentsOf: URL(filePath: path))), keys: keys)
  }

  /// The same ATT packets wherever tshark sees them; it does not decrypt.
  @Test(arguments: AirCaptures.paths) func hasTheSameATTPackets(_ path: String) async throws {
    let theirs = try await tshark(
      path, ["frame.number", "btatt.opcode", "btatt.handle"], filter: "btatt && !btle.crc.incorrect"
    )
    .map { [$0[0], $0[1]] }
    let translation = try translation(path)
    let isDecryptedBefore = translation.report?.links.contains { $0.encryption == .bySniffer } == true
    let ours = translation.records.compactMap { record -> [String]? in
      guard record.header.type == .acl, record.packet.count > 8, record.packet[6...7] == [4, 0],
        record.header.air?.protection == .clear || isDecryptedBefore
      else { return nil }
      return ["\(record.header.index)", "0x" + hexadecimal(record.packet[8])]
    }
    #expect(ours == theirs)
  }

  /// Kinds of packets, by their current names.
  @Test(arguments: AirCaptures.paths) func countsTheSameKinds(_ path: String) async throws {
    let rows = try await tshark(
      path,
      [
        "btle.advertising_header.pdu_type", "btle.control_opcode", "btle.data_header.llid",
        "btle.data_header.length",
      ])
    var theirs: [String: Int] = [:]
    for row in rows {
      func number(_ text: String) -> UInt8? {
        text.hasPrefix("0x") ? UInt8(text.dropFirst(2), radix: 16) : UInt8(text)
      }
      let pdu: AirPDU
      if let type = number(row[0]) {
        pdu = AirPDU(.advertising, type)
      } else if let length = number(row[3]), let kind = number(row[2]) {
        pdu =
          kind == 3
          ? number(row[1]).map { AirPDU(.control, $0) } ?? .unknown : AirPDU(.data, length == 0 ? 0 : kind)
      } else {
        pdu = .unknown
      }
      theirs[pdu.name, default: 0] += 1
    }
    let report = try #require(try translation(path).report)
    var ours = Dictionary(report.kinds.map { ($0.key.name, $0.value) }) { $0 + $1 }
    // The opcode of an encrypted packet is meaningless, but tshark decodes it. Only tshark gives a kind to a
    // cut frame.
    let known = Set(ours.keys).subtracting(["LL control", "unknown PDU"])
    let control = theirs.filter { $0.key.hasPrefix("LL") || $0.key == "unknown PDU" }.values.reduce(0, +)
    let ourControl = ours.filter { $0.key.hasPrefix("LL") || $0.key == "unknown PDU" }.values.reduce(0, +)
    #expect(ourControl == control || report.unreadable > 0)
    for name in known where !name.hasPrefix("LL") {
      #expect(ours[name] == theirs[name] || report.unreadable > 0, "\(name)")
    }
    ours = ours.filter { $0.key.hasPrefix("LL_") }
    // tshark does not see decrypted packets.
    for (name, count) in ours where report.decrypted == 0 && !theirs.keys.contains(name) {
      Issue.record("\(count) \(name) are ours alone")
    }
    #expect(report.packets + report.unreadable == rows.count)
  }

  /// With its key nothing of a link stays encrypted except damaged packets.
  @Test(arguments: AirCaptures.pathsWithKeys) func decryptsWithTheKey(_ path: String)
    throws
  {
    let keys = AirCaptures.files.first { $0.path == path }?.keys ?? []
    let report = try #require(try translation(path, keys).report)
    guard !path.contains("sc-justworks") else {
      #expect(report.links.last?.encryption == .wrongKey)
      return
    }
    #expect(report.encrypted == 0)
  }

  /// crackle's published result for the same packets.
  @Test func hasTheTextThatCrackleHas() throws {
    let folder = try #require(AirCaptures.folder)
    let ours = try translation(folder + "/known-ltk.pcap", ["7f62c053f104a5bbe68b1d896a2ed49c"])
    let crackles = try translation(folder + "/known-ltk-decrypted.pcap")
    let decrypted = { (translation: Translation) in
      translation.records.filter { $0.header.air?.protection == .decrypted }.map {
        ($0.header.index, $0.packet)
      }
    }
    #expect(decrypted(ours).map(\.0) == decrypted(crackles).map(\.0))
    #expect(decrypted(ours).map(\.1) == decrypted(crackles).map(\.1))
    #expect(decrypted(ours).count >= 7)
  }

  /// The sender of a packet, guessed from sequence numbers, agrees with the sniffer's report.
  @Test func guessesAsTheSnifferTells() throws {
    let path = try #require(AirCaptures.folder) + "/connection-update.pcap"
    var file = [UInt8](try Data(contentsOf: URL(filePath: path)))
    let told = Translation(file)
    // The two upper bits of the packet type, in each header of ten bytes.
    var start = 24
    while start + 16 < file.count {
      let count = Int(file[start + 8]) | Int(file[start + 9]) << 8
      file[start + 16 + 8] &= 0x7F
      file[start + 16 + 9] &= 0xFC
      start += 16 + count
    }
    let guessed = Translation(file)
    #expect(guessed.records.map { $0.header.air?.direction } == told.records.map { $0.header.air?.direction })
  }

  /// Our retransmissions are a subset of tshark's, which also counts packets after missed events.
  @Test func findsNoMoreRetransmissionsThanTshark() async throws {
    let path = try #require(AirCaptures.files.last?.path)
    let theirs = Set(try await tshark(path, ["frame.number"], filter: "btle.retransmit").map { $0[0] })
    let ours = Set(
      try translation(path).records.filter { $0.header.air?.isRetransmission == true }.map {
        "\($0.header.index)"
      })
    #expect(ours.isSubset(of: theirs))
  }
}
