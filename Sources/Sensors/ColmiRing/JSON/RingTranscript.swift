package import BLEWire
package import JSONText

/// Packets of one characteristic of a ring and one direction that belong together: a frame, the frames of a
/// log, or the pieces of a big data message.
package struct RingTranscript: Hashable, Sendable {
  package enum Channel: String, Hashable, Sendable {
    /// Frames of 16 bytes on the command channel.
    case uart
    case bigData = "bigdata"
  }

  package enum Direction: String, Hashable, Sendable {
    case hostToRing = "host->ring"
    case ringToHost = "ring->host"
  }

  /// Reason why the packets cannot be decoded to a single object.
  package enum Failure: Error, Hashable, Sendable, CustomStringConvertible {
    case noPackets
    /// Several frames that are not a log.
    case severalFrames

    package var description: String {
      switch self {
      case .noPackets: "'packets' is empty"
      case .severalFrames: "frames that are not a log must each be on a line of their own"
      }
    }
  }

  /// Level of detail for a big data message in several pieces.
  package enum Detail: Hashable, Sendable {
    /// Description of the reassembly.
    case reassembly
    /// Contents of the messages, one object each.
    case contents
  }

  package var channel: Channel
  package var direction: Direction
  package var packets: [[UInt8]]

  package init(channel: Channel, direction: Direction, packets: [[UInt8]]) {
    self.channel = channel
    self.direction = direction
    self.packets = packets
  }

  /// Creates a transcript of a single value in a packet log; `nil` if the value is not a ring's or is only a
  /// piece of a message.
  ///
  /// - Parameters:
  ///   - uuid: UUID of the characteristic. If `nil`, a ring's values are recognised by their checksum.
  ///   - direction: direction of the packets, used if the characteristic does not determine it.
  package init?(_ value: Span<UInt8>, of uuid: BluetoothUUID?, _ direction: Direction) {
    let packet = value.indices.map { value[$0] }
    let message = try? RingBigData(parsing: value)
    if let uuid {
      self.init([packet], of: uuid)
      let isRaw = packet.first == RingCommand.rawStreamOpcode && self.direction == .ringToHost
      if channel == .bigData, message == nil, !isRaw { return nil }
    } else if message?.isChecksumValid == true {
      self.init(channel: .bigData, direction: direction, packets: [packet])
    } else if (try? RingFrame(validating: value).opcode) != nil {
      self.init(channel: .uart, direction: direction, packets: [packet])
    } else {
      return nil
    }
  }

  /// Creates a transcript of packets of a characteristic; `nil` if the characteristic is not a ring's.
  package init?(_ packets: [[UInt8]], of uuid: BluetoothUUID) {
    switch uuid {
    case RingUUID.commandWrite: self.init(channel: .uart, direction: .hostToRing, packets: packets)
    case RingUUID.commandNotify: self.init(channel: .uart, direction: .ringToHost, packets: packets)
    case RingUUID.bigDataWrite: self.init(channel: .bigData, direction: .hostToRing, packets: packets)
    case RingUUID.bigDataNotify: self.init(channel: .bigData, direction: .ringToHost, packets: packets)
    default: return nil
    }
  }

  /// Decoded packets for display, on one line if they fit: `Ring battery: level 78 %, not charging`.
  package var field: Field? {
    guard var members = (try? objects())?.first?.fields, let title = members.first?.words else { return nil }
    guard direction == .ringToHost else {
      return Field("decoded", .sentence, .words("Ring command"), children: members)
    }
    members[0].label = .hidden
    return Field("decoded", .sentence, .words("Ring " + title), children: members)
  }

  /// Appends the decoded packets, one object per line.
  package func append(to line: inout JSONLine, _ detail: Detail = .reassembly) throws(Failure) {
    for object in try objects(detail) { line.objectLine { $0.members(object.fields) } }
  }

  /// Returns the decoded packets, with one object per frame, log or message.
  package func objects(_ detail: Detail = .reassembly) throws(Failure) -> [FieldList] {
    guard let first = packets.first else { throw .noPackets }
    switch (channel, direction) {
    case (.bigData, _) where packets.count > 1: return pieces(detail)
    case (.bigData, _): return [.validating { (fields) throws(WireError) in try message(first, &fields) }]
    case (.uart, .hostToRing):
      guard packets.count == 1 else { throw .severalFrames }
      return [
        .validating { (fields) throws(WireError) in
          fields.members(of: try RingSentFrame(decoding: RingFrame(validating: first.span)))
        }
      ]
    case (.uart, .ringToHost): return [try received()]
    }
  }

  // MARK: Command channel

  private func received() throws(Failure) -> FieldList {
    if let reason = firstFault() { return .validating { (_) throws(WireError) in throw reason } }
    if let kind = firstLog() { return log(kind) }
    let answers = packets.count == 1 ? packets : packets.filter { !isUnasked($0) }
    guard answers.count == 1 else { throw .severalFrames }
    let answer = answers[0]
    return .validating { (fields) throws(WireError) in
      fields.members(of: try RingReply(decoding: RingFrame(validating: answer.span)))
    }
  }

  /// Returns whether the packet is unsolicited and can therefore arrive between a request and its reply.
  private func isUnasked(_ packet: [UInt8]) -> Bool {
    guard let frame = try? RingFrame(validating: packet.span) else { return false }
    return switch try? RingReply(decoding: frame) {
    case .packetSize, .notification: true
    default: false
    }
  }

  /// Returns the error of the first invalid frame.
  private func firstFault() -> WireError? {
    for packet in packets {
      do throws(WireError) { _ = try RingFrame(validating: packet.span).opcode } catch { return error }
    }
    return nil
  }

  private func firstLog() -> RingLogKind? {
    for packet in packets {
      guard let frame = try? RingFrame(validating: packet.span), let reply = try? RingReply(decoding: frame),
        case .log(let kind) = reply
      else { continue }
      return kind
    }
    return nil
  }

  private func log(_ kind: RingLogKind) -> FieldList {
    var fields = FieldList()
    if kind == .activity, let log = activityLog() {
      fields.members(of: log)
    } else if kind != .activity, let log = dayLog(kind) {
      fields.members(of: log)
    } else {
      // The log's header, which defines the meaning of the frames, is missing.
      fields.members(of: RingReply.log(kind))
      fields.member("frames") { list in
        for packet in packets where packet[0] == kind.rawValue { list.hex(packet.span.extracting(1..<15)) }
      }
    }
    return fields
  }

  private func activityLog() -> RingActivityLog? {
    var assembler = RingActivityLogAssembler()
    // Process the header first. The log can complete without the header, but then lacks its unit.
    for packet in packets.filter({ $0[1] == 0xF0 }) + packets.filter({ $0[1] != 0xF0 }) {
      guard let frame = try? RingFrame(validating: packet.span) else { continue }
      if case .complete(let log) = assembler.receive(frame) { return log }
    }
    return assembler.finish()
  }

  private func dayLog(_ kind: RingLogKind) -> RingDayLog? {
    var assembler = RingDayLogAssembler(kind)
    for packet in packets {
      guard let frame = try? RingFrame(validating: packet.span) else { continue }
      if case .complete(let log) = assembler.receive(frame) { return log }
    }
    return assembler.finish()
  }

  // MARK: Big data

  private func message(_ packet: [UInt8], _ fields: inout FieldList) throws(WireError) {
    if packet.first == RingCommand.rawStreamOpcode, direction == .ringToHost {
      fields.members(of: try RingRawSample(decoding: packet.span))
      return
    }
    do throws(RingBigDataError) {
      try Self.contents(RingBigData(parsing: packet.span), direction, &fields)
    } catch {
      fields.invalid(error)
    }
  }

  private static func contents(
    _ message: RingBigData, _ direction: Direction, _ fields: inout FieldList
  ) throws(RingBigDataError) {
    switch direction {
    case .hostToRing:
      guard message.isChecksumValid else { throw .checksum(message) }
      fields.members(ofSent: message)
    case .ringToHost:
      do throws(WireError) {
        fields.members(of: try RingBigDataReply(decoding: message), message)
      } catch { fields.invalid(error) }
    }
  }

  private func pieces(_ detail: Detail) -> [FieldList] {
    var reassembler = RingBigDataReassembler()
    var events: [RingBigDataReassembler.Event] = []
    for packet in packets { reassembler.receive(packet.span) { events.append($0) } }
    reassembler.abandon { events.append($0) }
    guard detail == .contents else {
      var fields = FieldList()
      fields.members(ofReassembly: events)
      return [fields]
    }
    return events.map { Self.fields(of: $0, direction) }
  }

  /// Returns the decoded contents of a big data message, or a description of its error.
  package static func fields(of event: RingBigDataReassembler.Event, _ direction: Direction) -> FieldList {
    var fields = FieldList()
    do throws(RingBigDataError) {
      switch event {
      case .message(let message), .failed(.checksum(let message)):
        try contents(message, direction, &fields)
      case .raw(let sample): fields.members(of: sample)
      case .failed(let error): throw error
      }
    } catch { fields.invalid(error) }
    return fields
  }
}

extension JSONLine {
  package mutating func objectLine(_ members: (inout JSONLine) -> Void) {
    object(members)
    endLine()
  }
}

extension FieldList {
  /// Returns the fields that `body` appends, or the error that it throws.
  ///
  /// - Parameter body: must throw before it appends anything.
  static func validating(_ body: (inout FieldList) throws(WireError) -> Void) -> FieldList {
    var fields = FieldList()
    do throws(WireError) { try body(&fields) } catch { fields.invalid(error) }
    return fields
  }

  fileprivate mutating func invalid(_ error: WireError) {
    switch error.reason {
    case .checksum: invalid(reason: "checksum")
    case .lengthMismatch, .truncated: invalid(reason: "length")
    case .invalidValue: invalid(reason: "value")
    case .unexpectedOpcode: invalid(reason: "opcode")
    }
  }

  mutating func invalid(_ error: RingBigDataError) {
    switch error {
    case .checksum: invalid(reason: "checksum")
    case .tooLong, .interrupted, .length, .notBigData(nil): invalid(reason: "length")
    case .excess, .notBigData: invalid(reason: "opcode")
    }
  }

  private mutating func invalid(reason: String) {
    kind("invalid")
    member("reason", reason, .none)
  }
}
