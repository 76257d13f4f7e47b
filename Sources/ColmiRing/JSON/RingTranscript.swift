import BLECore
package import JSONText

/// Some packets of one characteristic of a ring and one direction, which belong together: a frame, the frames
/// of a log, or the pieces of a big data message.
package struct RingTranscript: Hashable, Sendable {
  package enum Channel: String, Hashable, Sendable {
    /// Frames of 16 octets.
    case uart
    case bigData = "bigdata"
  }

  package enum Direction: String, Hashable, Sendable {
    case hostToRing = "host->ring"
    case ringToHost = "ring->host"
  }

  /// What cannot be answered by one object.
  package enum Failure: Error, Hashable, Sendable {
    case noPackets
    /// Answers that make no log stand alone.
    case severalFrames
  }

  /// What to say of a big data message in several pieces.
  package enum Detail: Hashable, Sendable {
    /// How it was put together.
    case reassembly
    /// What the messages in it say, each an object.
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

  /// Appends what the packets say, one object to a line.
  package func append(to line: inout JSONLine, _ detail: Detail = .reassembly) throws(Failure) {
    guard let first = packets.first else { throw .noPackets }
    switch (channel, direction) {
    case (.bigData, _) where packets.count > 1: appendPieces(to: &line, detail)
    case (.bigData, _): line.objectLine { append(message: first, to: &$0) }
    case (.uart, .hostToRing):
      guard packets.count == 1 else { throw .severalFrames }
      line.objectLine { append(sent: first, to: &$0) }
    case (.uart, .ringToHost): try appendReceived(to: &line)
    }
  }

  // MARK: Command channel

  private func append(sent packet: [UInt8], to line: inout JSONLine) {
    line.validating { (line) throws(WireError) in
      let frame = try RingFrame(validating: packet.span)
      line.members(of: try RingSentFrame(decoding: frame))
    }
  }

  private func appendReceived(to line: inout JSONLine) throws(Failure) {
    if let reason = firstFault() {
      line.objectLine { $0.invalid(reason) }
      return
    }
    if let kind = firstLog() {
      line.objectLine { append(log: kind, to: &$0) }
      return
    }
    let answers = packets.count == 1 ? packets : packets.filter { !isUnasked($0) }
    guard answers.count == 1 else { throw .severalFrames }
    let answer = answers[0]
    line.objectLine { line in
      line.validating { (line) throws(WireError) in
        line.members(of: try RingReply(decoding: RingFrame(validating: answer.span)))
      }
    }
  }

  /// What rings tell at any time, and so between a request and its answer.
  private func isUnasked(_ packet: [UInt8]) -> Bool {
    guard let frame = try? RingFrame(validating: packet.span) else { return false }
    return switch try? RingReply(decoding: frame) {
    case .packetSize, .notification: true
    default: false
    }
  }

  /// What is wrong with the first frame that is wrong.
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

  private func append(log kind: RingLogKind, to line: inout JSONLine) {
    if kind == .activity {
      guard let log = activityLog() else { return append(lone: kind, to: &line) }
      line.members(of: log)
    } else {
      guard let log = dayLog(kind) else { return append(lone: kind, to: &line) }
      line.members(of: log)
    }
  }

  /// Frames of a log without the header that says what they mean.
  private func append(lone kind: RingLogKind, to line: inout JSONLine) {
    line.member("kind", "logFrames")
    line.member("command", kind.rawValue)
    line.member(
      "frames",
      array: { line in
        for packet in packets where packet[0] == kind.rawValue { line.hex(packet.span.extracting(1..<15)) }
      })
  }

  private func activityLog() -> RingActivityLog? {
    var assembler = RingActivityLogAssembler()
    // The header first: the log may be complete without it, and then lacks its unit.
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

  private func append(message packet: [UInt8], to line: inout JSONLine) {
    if packet.first == RingCommand.rawStreamOpcode, direction == .ringToHost {
      line.validating { (line) throws(WireError) in
        line.members(of: try RingRawSample(decoding: packet.span))
      }
      return
    }
    do throws(RingBigDataError) {
      append(contents: try RingBigData(parsing: packet.span), to: &line)
    } catch {
      line.invalid(error)
    }
  }

  private func append(contents message: RingBigData, to line: inout JSONLine) {
    switch direction {
    case .hostToRing:
      guard message.isChecksumValid else { return line.invalid(.checksum(message)) }
      line.members(ofSent: message)
    case .ringToHost:
      line.validating { (line) throws(WireError) in
        line.members(of: try RingBigDataReply(decoding: message), message)
      }
    }
  }

  private func appendPieces(to line: inout JSONLine, _ detail: Detail) {
    var reassembler = RingBigDataReassembler()
    var events: [RingBigDataReassembler.Event] = []
    for packet in packets { reassembler.receive(packet.span) { events.append($0) } }
    reassembler.abandon { events.append($0) }
    guard detail == .contents else {
      return line.objectLine { $0.members(ofReassembly: events) }
    }
    for event in events {
      line.objectLine { line in
        switch event {
        case .message(let message), .failed(.checksum(let message)): append(contents: message, to: &line)
        case .raw(let sample): line.members(of: sample)
        case .failed(let error): line.invalid(error)
        }
      }
    }
  }
}

extension JSONLine {
  package mutating func objectLine(_ members: (inout JSONLine) -> Void) {
    object(members)
    endLine()
  }

  /// The members that `body` appends; where it throws, which it does before it appends, what is wrong.
  mutating func validating(_ body: (inout JSONLine) throws(WireError) -> Void) {
    do throws(WireError) { try body(&self) } catch { invalid(error) }
  }

  mutating func invalid(_ error: WireError) {
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
    member("kind", "invalid")
    member("reason", reason)
  }
}
