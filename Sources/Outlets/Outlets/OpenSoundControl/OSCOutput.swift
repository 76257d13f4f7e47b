package import BLELinux
import BLEWire
import Recording
import Synchronization

/// Sends each row to a program for music, light or pictures, as a message of Open Sound Control over UDP.
///
/// The message of a row is `/KIND/ADDRESS/TABLE` with the values of the columns after the time: numbers as
/// 32-bit floats, words as strings, a missing value as nil. `/KIND/ADDRESS/link` has "lost" or "back", and
/// `/KIND/ADDRESS/end` the reason. Messages have no time, because receivers schedule by their own clock. UDP
/// reports only some refused messages, and no other lost messages.
///
/// OSC 1.0 specification, "OSC Messages"; nil is in OSC 1.1.
package final class OSCOutput: Sendable {
  private let socket: FileDescriptor
  /// Number of messages that are known to be lost.
  private let dropped = Atomic<Int>(0)

  /// Address and port of a receiver.
  package struct Place: Hashable, Sendable, CustomStringConvertible {
    let host: String
    let port: UInt16

    /// Parses `osc://HOST:PORT`.
    ///
    /// - Returns: `nil` without a host or a port.
    package init?(_ text: String) {
      guard text.hasPrefix("osc://"), let colon = text.lastIndex(of: ":"),
        let port = UInt16(text[text.index(after: colon)...]), port > 0
      else { return nil }
      var host = text[..<colon].dropFirst("osc://".count)
      if host.first == "[", host.last == "]" { host = host.dropFirst().dropLast() }
      guard !host.isEmpty, host.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }), !host.contains("/") else {
        return nil
      }
      (self.host, self.port) = (String(host), port)
    }

    package var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
  }

  package init(_ place: Place) throws(SystemError) {
    socket = try ControllerPort.udp(host: place.host, port: place.port)
  }

  /// Returns an output for the samples of a device.
  package func output(of device: SampleDevice) -> any SampleOutput { DeviceMessages(device, on: self) }

  /// Number of messages that were refused because no program listens at the port, or that this machine could
  /// not send. Further messages may be lost.
  package var missed: Int { dropped.load(ordering: .relaxed) }

  fileprivate func send(_ message: [UInt8]) {
    // The reported refusal belongs to an earlier message, so send this message again. udp(7).
    guard let error = failure(sending: message) else { return }
    dropped.add(1, ordering: .relaxed)
    if error.condition == .refused, failure(sending: message) != nil { dropped.add(1, ordering: .relaxed) }
  }

  private func failure(sending message: [UInt8]) -> SystemError? {
    do throws(SystemError) { _ = try socket.send(message.span) } catch { return error }
    return nil
  }
}

/// Sends the messages of one device.
private final class DeviceMessages: SampleOutput {
  private struct Table {
    let address: String
    let columns: [RecordedColumn]
  }

  private let prefix: String
  private let osc: OSCOutput
  private let tables = Mutex<[Int: Table]>([:])

  init(_ device: SampleDevice, on osc: OSCOutput) {
    prefix = "/\(device.kind)/" + String(device.address.description.map { $0 == ":" ? "-" : $0 })
    self.osc = osc
  }

  var gatherMilliseconds: Int? { 20 }

  func open(_ table: SampleTable) {
    tables.withLock { $0[table.number] = Table(address: "\(prefix)/\(table.name)", columns: table.columns) }
  }

  func take(_ cells: [UInt64], of table: Int) {
    guard let table = tables.withLock({ $0[table] }) else { return }
    var message = OSCMessage(table.address)
    for (column, cell) in zip(table.columns, cells).dropFirst() {
      if case .word(let words) = column.kind, cell < UInt64(words.count) {
        message.append(words[Int(cell)])
      } else {
        message.append(column.number(cell))
      }
    }
    osc.send(message.octets)
  }

  func take(_ event: SampleEvent) {
    var message: OSCMessage
    switch event {
    case .lost, .back:
      message = OSCMessage(prefix + "/link")
      if case .lost = event { message.append("lost") } else { message.append("back") }
    case .end(let reason, _, _):
      message = OSCMessage(prefix + "/end")
      message.append(reason)
    }
    osc.send(message.octets)
  }

  func endTurn() {}
}

/// A message: address, type tags and arguments, each padded with zeros to a multiple of four bytes. Numbers are
/// big-endian.
struct OSCMessage {
  private let address: String
  private var tags = ","
  private var arguments: [UInt8] = []

  init(_ address: String) { self.address = address }

  /// Appends a 32-bit float; `nil` for a missing value.
  mutating func append(_ number: Double?) {
    guard let number else { return tags.append("N") }
    tags.append("f")
    let bits = Float(number).bitPattern
    for shift in [24, 16, 8, 0] as [UInt32] { arguments.append(UInt8(truncatingIfNeeded: bits >> shift)) }
  }

  mutating func append(_ text: String) {
    tags.append("s")
    arguments += Self.padded(text)
  }

  var octets: [UInt8] { Self.padded(address) + Self.padded(tags) + arguments }

  private static func padded(_ text: String) -> [UInt8] {
    let octets = text.utf8.filter { $0 != 0 }
    return octets + [UInt8](repeating: 0, count: 4 - octets.count % 4)
  }
}
