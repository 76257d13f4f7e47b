import ArgumentParser
import BLEDissector
import BLEWire
import CommandKit

/// The options of `log show` that select packets. A packet must match every given option.
struct LogSelection: ParsableArguments {
  @Option(help: "Start: seconds from the log's start, or a date such as 2026-11-21T06:50:00Z (UTC).")
  var since: String?

  @Option(help: "End, in the same format.")
  var until: String?

  @Option(help: "Only packets of this adapter, such as hci0.")
  var adapter: String?

  @Option(help: "Only packets of this connection handle, decimal or with 0x.")
  var handle: String?

  @Option(help: "Only this device: its links, and commands and events with its address.")
  var address: String?

  @Option(help: "Only this direction: tx (to the controller) or rx (from it).")
  var direction: Direction?

  @Option(help: "Only this layer: hci, l2cap, att, smp, or ll in air logs; may be repeated.")
  var layer: [PacketFilter.Layer] = []

  @Option(help: "Only this ATT opcode by number or name (0x1b, 'Write Request', notification); repeatable.")
  var attOpcode: [String] = []

  @Option(help: "Only this attribute: handle (0x0012) or UUID (2a37, or in full); may be repeated.")
  var attribute: [String] = []

  @Option(help: "Only packets that contain these bytes, such as 'a1 04'.")
  var contains: String?

  @Option(help: "Number of packets to show around each match.", in: NumberRange(0...1_000_000))
  var context = 0

  enum Direction: String, ExpressibleByArgument, CaseIterable {
    case tx, rx
    case hostToController, controllerToHost

    var value: HCIDirection {
      switch self {
      case .tx, .hostToController: .hostToController
      case .rx, .controllerToHost: .controllerToHost
      }
    }
  }

  func validate() throws { _ = try filter() }

  func filter() throws -> PacketFilter {
    var filter = PacketFilter()
    filter.since = try since.map { try Self.instant($0, "--since") }
    filter.until = try until.map { try Self.instant($0, "--until") }
    filter.adapter = try adapter.map { text in
      let digits = text.hasPrefix("hci") ? text.dropFirst(3) : text[...]
      return try Self.required(UInt16(digits), "--adapter: '\(text)' is not like hci0")
    }
    filter.handle = try handle.map { text in
      let number = try Self.required(Self.number(text), "--handle: '\(text)' is not a number")
      guard number <= 0x0FFF else { throw ValidationError("--handle: a connection handle has 12 bits") }
      return ConnectionHandle(number)
    }
    filter.address = try address.map { text in
      try Self.required(DeviceAddress(text), "--address: '\(text)' is not like 70:CB:0D:00:A1:B2")
    }
    filter.direction = direction?.value
    filter.layers = layer
    filter.attOpcodes = try attOpcode.map { text in
      try Self.required(PacketFilter.attOpcode(text), "--att-opcode: no opcode '\(text)'")
    }
    filter.attributes = try attribute.map { text in
      try Self.required(
        PacketFilter.Attribute(text), "--attribute: '\(text)' is neither 0x and a handle nor a UUID")
    }
    filter.pattern =
      try contains.map { text in
        try Self.required([UInt8](hex: text), "--contains: '\(text)' is not pairs of hexadecimal digits")
      } ?? []
    return filter
  }

  private static func required<Value>(_ value: Value?, _ message: String) throws -> Value {
    guard let value else { throw ValidationError(message) }
    return value
  }

  private static func number(_ text: String) -> UInt16? {
    text.hasPrefix("0x") ? UInt16(text.dropFirst(2), radix: 16) : UInt16(text)
  }

  private static func instant(_ text: String, _ option: String) throws -> PacketFilter.Instant {
    try required(
      PacketFilter.Instant(text),
      "\(option): '\(text)' is neither seconds nor a date such as 2026-11-21T06:50:00Z")
  }
}

extension PacketFilter.Layer: ExpressibleByArgument {}
