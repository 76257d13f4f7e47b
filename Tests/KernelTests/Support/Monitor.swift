import Foundation
import TestKit
import Testing

/// BlueZ's `btmon`: packets between the kernel and its controllers, and on the management interface.
struct Monitor {
  /// One packet or event: its first line and its details.
  struct Packet {
    var head: String
    var details: [String]

    /// Whether the first line contains the title, and the details contain the words in order.
    func says(_ title: String, _ words: String...) -> Bool {
      let isNamed = head.contains(title) || details.first?.contains(title) == true
      var rest = details[...]
      return isNamed
        && words.allSatisfy { word in
          guard let index = rest.firstIndex(where: { $0.contains(word) }) else { return false }
          rest = rest[(index + 1)...]
          return true
        }
    }
  }

  private let program: Program

  init(_ scene: Scene) throws {
    program = try scene.btmon()
  }

  /// Waits until the packets meet the condition, and returns all packets so far.
  @discardableResult
  func packets(untilThey what: String, _ isMet: ([Packet]) -> Bool) throws -> [Packet] {
    Self.packets(in: try program.lines(untilThey: what) { isMet(Self.packets(in: $0)) })
  }

  private static func packets(in lines: [String]) -> [Packet] {
    var packets: [Packet] = []
    for line in lines {
      if line.hasPrefix(" ") {
        packets[packets.count - 1].details.append(line.trimmingCharacters(in: .whitespaces))
      } else {
        packets.append(Packet(head: line, details: []))
      }
    }
    return packets
  }
}

extension [Monitor.Packet] {
  /// Timing of links as the controller reported it, in order: interval in ms, latency, supervision timeout in
  /// ms.
  ///
  /// - Parameter adapter: name of the adapter.
  func timings(on adapter: String = "hci0") -> [[Double]] {
    compactMap { packet in
      guard packet.head.hasPrefix("> HCI Event: LE Meta"), packet.head.contains("[\(adapter)]"),
        packet.details.first?.hasPrefix("LE Connection ") == true
          || packet.details.first?.hasPrefix("LE Enhanced Connection ") == true
      else { return nil }
      let values = ["Connection interval: ", "Connection latency: ", "Supervision timeout: "].compactMap {
        name in
        packet.details.first { $0.hasPrefix(name) }
          .flatMap { $0.dropFirst(name.count).split(separator: " ").first }.flatMap { Double($0) }
      }
      return values.count == 3 ? values : nil
    }
  }

  /// Whether the link of an adapter has ended.
  func isOver(on adapter: String = "hci0") -> Bool {
    contains {
      $0.head.contains("Disconnect Complete") && $0.head.contains("[\(adapter)]") && $0.details.count >= 3
    }
  }
}

extension Scene {
  /// Starts btmon, ready to record. btmon uses a socket's default buffer, which holds about 300 packets, and
  /// does not report losses. Therefore the default is raised for it. The buffers of the programs under test
  /// do not change.
  func btmon(_ options: String...) throws -> Program {
    let queue = URL(filePath: "/proc/sys/net/core/rmem_default")
    let usual = try Data(contentsOf: queue)
    try Data("8388608".utf8).write(to: queue)
    defer { try? usual.write(to: queue) }
    let program = try start("stdbuf", ["-oL", "btmon"] + options)
    try program.line(containing: "= Note: Bluetooth subsystem")
    return program
  }
}
