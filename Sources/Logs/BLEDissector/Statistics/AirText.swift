import BLEPacketLog
import BLEWire
import JSONText

/// Prints the report about a sniffer's log as tables.
enum AirText {
  static func lines(_ report: AirReport, from start: ReceiveTime?) -> [String] {
    var lines = ["", "On the air: \(counted(report.packets, "packet"))"]
    for (pdu, count) in report.sortedKinds { lines.append("\(right(count, 10))  \(pdu.name)") }
    let counts: [(Int, String, String?)] = [
      (report.retransmissions, "sent again", nil), (report.decrypted, "decrypted", nil),
      (report.encrypted, "encrypted, and left so", nil), (report.badCRC, "with a bad CRC", nil),
      (
        report.unreadable, "record that is truncated, or not a packet",
        "records that are truncated, or not packets"
      ),
      (
        report.joinedAdvertisements, "extended advertisement of several packets, received completely",
        "extended advertisements of several packets, received completely"
      ),
      (
        report.incompleteAdvertisements, "extended advertisement with a missing packet",
        "extended advertisements with a missing packet"
      ),
      (
        report.keysForgotten, "key dropped, because there were too many",
        "keys dropped, because there were too many"
      ),
    ]
    for (count, one, several) in counts where count > 0 {
      lines.append("  \(counted(count, one, several ?? one))")
    }
    for (index, link) in report.links.enumerated() { lines += Self.lines(link, index + 1, from: start) }
    if report.omittedLinks > 0 {
      lines.append("\(counted(report.omittedLinks, "further link is", "further links are")) not listed")
    }
    return lines
  }

  private static func lines(_ link: AirLinkReport, _ number: Int, from start: ReceiveTime?) -> [String] {
    let peers =
      if let central = link.central, let peripheral = link.peripheral {
        "\(central) to \(peripheral)"
      } else {
        "between unknown devices"
      }
    let begin = (link.startTime - (start ?? link.startTime)).nanoseconds
    let duration = (link.endTime - link.startTime).nanoseconds
    var lines = [
      "",
      "Link \(number) on the air: 0x\(String(link.accessAddress, radix: 16)), \(peers), handle \(link.handle.rawValue)",
      "  at \(StatisticsText.seconds(max(0, begin))) s, for \(StatisticsText.seconds(max(0, duration))) s; "
        + words(link.encryption),
      "                    packets    again   missed  bad CRC  decrypted  encrypted",
    ]
    for (name, side) in [("central", link.fromCentral), ("peripheral", link.fromPeripheral)] {
      let head = name + String(repeating: " ", count: 16 - name.utf8.count)
      lines.append(
        "  \(head)\(right(side.packets, 9))\(right(side.retransmissions, 9))\(right(side.missed, 9))"
          + "\(right(side.badCRC, 9))\(right(side.decrypted, 11))\(right(side.encrypted, 11))")
    }
    if let rate = link.packetErrorRate {
      lines.append(
        "  packet error rate \(StatisticsText.fixed(rate * 100, 2)) %: share of packets sent again")
    }
    if let missed = link.missedEvents {
      lines.append("  \(counted(missed, "connection event")) without a received packet")
    }
    if let channels = link.channels {
      let off = link.packetsOffMap > 0 ? "; \(counted(link.packetsOffMap, "packet")) on others" : ""
      lines.append("  \(counted(channels, "channel")) in use at the end\(off)")
    }
    return lines
  }

  private static func words(_ encryption: AirLinkReport.Encryption) -> String {
    switch encryption {
    case .none: "not encrypted"
    case .decrypted: "encrypted, and decrypted"
    case .bySniffer: "encrypted, and decrypted before it was logged"
    case .noKey: "encrypted; no key is known"
    case .noKeyOfSecureConnections: "encrypted by Secure Connections; no key is known"
    case .startNotSeen: "encrypted; the start of encryption is not in the log"
    case .wrongKey: "encrypted; no key fits"
    }
  }

  private static func right(_ number: Int, _ width: Int) -> String {
    let text = "\(number)"
    return String(repeating: " ", count: max(0, width - text.utf8.count)) + text
  }
}

extension AirReport {
  /// PDU types, most frequent first.
  var sortedKinds: [(pdu: AirPDU, count: Int)] {
    kinds.map { ($0.key, $0.value) }.sorted {
      ($1.count, $0.pdu.kind.rawValue, $0.pdu.code) < ($0.count, $1.pdu.kind.rawValue, $1.pdu.code)
    }
  }
}

extension JSONLine {
  /// Writes the object `air` of `ringtap log stats --json`.
  mutating func value(_ report: AirReport) {
    object { line in
      line.member("packets", report.packets)
      line.member("retransmissions", report.retransmissions)
      line.member("badCrc", report.badCRC)
      line.member("unreadable", report.unreadable)
      line.member("decrypted", report.decrypted)
      line.member("encrypted", report.encrypted)
      line.member("keysLearnt", report.keysLearnt)
      line.member("keysForgotten", report.keysForgotten)
      line.member("joinedAdvertisements", report.joinedAdvertisements)
      line.member("incompleteAdvertisements", report.incompleteAdvertisements)
      line.key("kinds")
      line.array { line in
        for (pdu, count) in report.sortedKinds {
          line.object { line in
            line.member("pdu", pdu.name)
            line.member("count", count)
          }
        }
      }
      line.key("links")
      line.array { line in
        for link in report.links { line.value(link) }
      }
      line.member("omittedLinks", report.omittedLinks)
    }
  }

  private mutating func value(_ link: AirLinkReport) {
    object { line in
      line.member("connectionHandle", link.handle.rawValue)
      line.member("accessAddress", "0x" + String(link.accessAddress, radix: 16))
      if let central = link.central { line.member("central", central.description) }
      if let peripheral = link.peripheral { line.member("peripheral", peripheral.description) }
      line.member("startTimeNs", link.startTime)
      line.member("endTimeNs", link.endTime)
      line.key("fromCentral")
      line.value(link.fromCentral)
      line.key("fromPeripheral")
      line.value(link.fromPeripheral)
      if let rate = link.packetErrorRate { line.member("packetErrorRate", rate) }
      if let missed = link.missedEvents { line.member("missedEvents", missed) }
      if let channels = link.channels { line.member("channels", channels) }
      line.member("packetsOffMap", link.packetsOffMap)
      line.member("encryption", link.encryption.name)
    }
  }

  private mutating func value(_ side: AirSideCounts) {
    object { line in
      line.member("packets", side.packets)
      line.member("retransmissions", side.retransmissions)
      line.member("missed", side.missed)
      line.member("badCrc", side.badCRC)
      line.member("decrypted", side.decrypted)
      line.member("encrypted", side.encrypted)
    }
  }
}

extension AirLinkReport.Encryption {
  fileprivate var name: String {
    switch self {
    case .none: "none"
    case .decrypted: "decrypted"
    case .bySniffer: "decryptedBefore"
    case .noKey: "noKey"
    case .noKeyOfSecureConnections: "noKeyOfSecureConnections"
    case .startNotSeen: "startNotSeen"
    case .wrongKey: "wrongKey"
    }
  }
}
