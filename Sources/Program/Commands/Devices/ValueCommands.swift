import ArgumentParser
import BLEDissector
import BLEHost
import BLELinux
import BLESensors
import BLEStack
import BLEWire
import CaptureTools
import CommandKit
import JSONText

/// The command `ringtap read ADDRESS CHARACTERISTIC`.
struct ReadCommand: AsyncParsableCommand, ReachesDevice {
  static let configuration = CommandConfiguration(
    commandName: "read",
    abstract: "Read a value of any length.",
    discussion: """
      Prints the handle, the bytes, the characteristic's name and the decoded value. If the device has a presentation \
      format for the value, uses it. A handle is read without discovery, so its value has no name.

      EXAMPLES
        ringtap read 70:CB:0D:00:A1:B2 2a26
        ringtap read 70:CB:0D:00:A1:B2 0x0012 --json
            timeNs, handle, uuid, name, value (hexadecimal), decoded, texts
      """)

  @OptionGroup var radio: AdapterOptions
  @OptionGroup(visibility: .hidden) var link: LinkOptions
  @OptionGroup var choice: DeviceOptions
  @Argument(help: "The device, such as 70:CB:0D:00:A1:B2.") var address: String
  @Argument(help: CharacteristicArgument.help) var characteristic: CharacteristicArgument
  @Flag(help: "Print one JSON object.") var json = false

  func run() async throws {
    let address = try device.parse(address)
    let characteristic = characteristic
    let line = try await device.withConnection(to: address) { connection in
      try await characteristic.use(connection, to: .read) { handle, found throws(GATTError) in
        if let found { return try await Self.read(found, connection) }
        let value = try await connection.read(handle)
        return ValueLine(time: SystemClock.now(), handle: handle, value: value)
      }
    }
    try line.show(json: json)
  }

  private static func read(
    _ characteristic: GATTDatabase.Characteristic, _ connection: Connection
  ) async throws(GATTError) -> ValueLine {
    let value = try await connection.read(characteristic.valueHandle)
    var line = ValueLine(
      time: SystemClock.now(), handle: characteristic.valueHandle, uuid: characteristic.uuid, value: value)
    let isPresented = characteristic.descriptors.contains {
      $0.uuid == .characteristicPresentationFormat || $0.uuid == .characteristicAggregateFormat
    }
    guard isPresented else { return line }
    let formats = try await connection.readDetails(of: characteristic).formats
    // Prints no text if a value does not match its presentation format.
    line.texts = (try? formats.texts(of: value.span)) ?? []
    return line
  }
}

/// The command `ringtap write ADDRESS CHARACTERISTIC VALUE`.
struct WriteCommand: AsyncParsableCommand, ReachesDevice {
  static let configuration = CommandConfiguration(
    commandName: "write",
    abstract: "Write a value.",
    discussion: """
      A value longer than the MTU allows is sent in prepared writes, and each echo is verified.

      EXAMPLES
        ringtap write 70:CB:0D:00:A1:B2 6e400002-b5a3-f393-e0a9-e50e24dcca9e \\
          03000000000000000000000000000003
        ringtap write 70:CB:0D:00:A1:B2 0x0010 'A1 02' --without-response
      """)

  @OptionGroup var radio: AdapterOptions
  @OptionGroup(visibility: .hidden) var link: LinkOptions
  @OptionGroup var choice: DeviceOptions
  @Argument(help: "The device, such as 70:CB:0D:00:A1:B2.") var address: String
  @Argument(help: CharacteristicArgument.help) var characteristic: CharacteristicArgument
  @Argument(help: "The value in hexadecimal; spaces and colons are allowed, '' is an empty value.")
  var value: String
  @Flag(help: "Do not request a response; the write may be lost.") var withoutResponse = false
  @Flag(help: "Print one JSON object.") var json = false

  func run() async throws {
    let address = try device.parse(address)
    guard let octets = [UInt8](hex: value) else {
      throw ValidationError("'\(value)' is not hexadecimal; it needs pairs of digits, such as 'A1 04'")
    }
    let (characteristic, withoutResponse) = (characteristic, withoutResponse)
    let (handle, uuid) = try await device.withConnection(to: address) { connection in
      try await characteristic.use(connection, to: .write) { handle, found throws(GATTError) in
        if octets.count > ATT.defaultMTU - 3 { try await connection.exchangeMTU() }
        if withoutResponse {
          try await connection.writeWithoutResponse(octets, to: handle)
        } else {
          try await connection.write(octets, to: handle)
        }
        return (handle, found?.uuid)
      }
    }
    var line = ValueLine(time: SystemClock.now(), handle: handle, uuid: uuid, value: octets)
    line.operation = .write
    try line.show(json: json)
  }
}

/// The command `ringtap notify ADDRESS CHARACTERISTIC`.
struct NotifyCommand: AsyncParsableCommand, ReachesDevice {
  static let configuration = CommandConfiguration(
    commandName: "notify",
    abstract: "Print notifications or indications.",
    discussion: """
      Subscribes to notifications, or to indications if the characteristic has no notifications, and unsubscribes at the \
      end. Each line has the kernel's receive time, the handle, the bytes, and the decoded value if its format is known.

      EXAMPLES
        ringtap notify C4:12:34:56:78:9A 2a37 --address-type random
        ringtap notify 70:CB:0D:00:A1:B2 6e400003-b5a3-f393-e0a9-e50e24dcca9e \\
          --json --count 100
            one object per line: timeNs, handle, uuid, name, value, decoded
      """)

  @OptionGroup var radio: AdapterOptions
  @OptionGroup(visibility: .hidden) var link: LinkOptions
  @OptionGroup var choice: DeviceOptions
  @Argument(help: "The device, such as 70:CB:0D:00:A1:B2.") var address: String
  @Argument(help: CharacteristicArgument.help) var characteristic: CharacteristicArgument
  @Option(help: "End after this many values.", in: .count) var count: Int?
  @Option(
    help: ArgumentHelp("End after this time.", valueName: "seconds"), in: .duration)
  var duration: Double?
  @Flag(help: "Print one JSON object per line.") var json = false

  /// Maximum number of values queued for a slow reader of the output.
  private static let queueLimit = 4096

  func validate() throws {
    if let count, count < 1 { throw ValidationError("--count must be at least 1") }
    if let duration, duration <= 0 { throw ValidationError("--duration must be above 0") }
  }

  func run() async throws {
    let address = try device.parse(address)
    let (argument, count, duration, json) = (characteristic, count, duration, json)
    let lost = try await device.withConnection(to: address) { connection in
      let characteristic = try await argument.characteristic(connection, to: .listen)
      let values = try await failing { () async throws(GATTError) in
        // Exchange the MTU to avoid truncated values.
        try await connection.exchangeMTU()
        return try await connection.samples(characteristic, as: ValueCopy.self, capacity: Self.queueLimit)
      }
      let loop = connection.loop
      let timer = duration.map { loop.after(.seconds($0)) { values.finish() } }
      defer { timer?.cancel() }
      var shown = 0
      for await value in values {
        try value.line(of: characteristic).show(json: json, isTimed: true)
        shown += 1
        if shown == count { break }
      }
      let statistics = await connection.statistics
      if let end = await connection.end { throw Failure("\(end) after \(counted(shown, "value"))") }
      // Unsubscribe even if Ctrl-C has cancelled the task.
      await loop.uninterrupted { try? await connection.unsubscribe(all: characteristic) }
      if shown == 0, values.dropped == 0, statistics.kernelQueueDrops == 0 {
        throw Failure("no value received: the device may send only changes, or send to another host")
      }
      return values.dropped + statistics.kernelQueueDrops
    }
    if lost > 0 {
      Console.note("\(counted(lost, "value was", "values were")) lost: the reader of the output is too slow")
      throw ExitCode(3)
    }
  }
}

/// A value as printed by the read, write and notify commands.
private struct ValueLine: Sendable {
  let time: ReceiveTime
  let handle: AttributeHandle
  /// The characteristic's type, if it was discovered.
  var uuid: BluetoothUUID?
  let value: [UInt8]
  var operation = SensorDecoder.Operation.read
  /// The value as text, in each of its presentation formats.
  var texts: [String] = []

  /// Prints the value.
  ///
  /// - Parameter isTimed: whether a line of text begins with the time of day.
  func show(json: Bool, isTimed: Bool = false) throws(Console.WriteError) {
    let name = uuid.flatMap { UUIDNames.name(of: $0) }
    let decoded = uuid.flatMap { DecodedValue(value.span, of: $0, by: operation) }
    if json {
      try Console.json { line in
        line.member("timeNs", time)
        line.member("handle", handle.rawValue)
        if let uuid { line.member("uuid", uuid.shortText) }
        if let name { line.member("name", name) }
        line.member("value", hex: value.span)
        if let decoded { line.member("decoded", object: { $0.members(decoded.fields) }) }
        guard !texts.isEmpty else { return }
        line.member(
          "texts",
          array: { line in
            for text in texts { line.value(text) }
          })
      }
      return
    }
    let isText = !value.isEmpty && value.allSatisfy { 0x20...0x7E ~= $0 }
    let meaning =
      !texts.isEmpty
      ? texts.joined(separator: ", ")
      : decoded?.text ?? (isText ? "\"\(String(decoding: value, as: UTF8.self))\"" : nil)
    let parts = [
      isTimed ? LocalTime(time).text(microseconds: time) : nil, handle.rawValue.handleText, value.hexText,
      [name, meaning].compactMap(\.self).joined(separator: ": "),
    ]
    try Console.print(parts.compactMap(\.self).filter { !$0.isEmpty }.joined(separator: "  "))
  }
}

/// A notification's value, copied on the receive thread without allocation.
private struct ValueCopy: NotificationSample {
  private let time: ReceiveTime
  private let byteCount: Int
  private let octets: InlineArray<512, UInt8>

  init(decoding value: Span<UInt8>, at time: ReceiveTime) {
    self.time = time
    byteCount = min(value.count, 512)
    var octets = InlineArray<512, UInt8>(repeating: 0)
    for index in 0..<byteCount { octets[index] = value[index] }
    self.octets = octets
  }

  func line(of characteristic: GATTDatabase.Characteristic) -> ValueLine {
    var line = ValueLine(
      time: time, handle: characteristic.valueHandle, uuid: characteristic.uuid,
      value: (0..<byteCount).map { octets[$0] })
    line.operation = characteristic.properties.contains(.notify) ? .notify : .indicate
    return line
  }
}
