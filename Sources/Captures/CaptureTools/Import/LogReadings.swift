import BLEDissector
import BLEPacketLog
import BLESensors
package import BLEWire
import ColmiRing
package import JSONText
package import Recording
import SensorSessions

/// Receiver of the sensor readings in a log.
protocol LogReadingSink {
  mutating func take(_ sample: HeartRateSample)
  mutating func take(_ sample: TemperatureSample)
  mutating func take(_ sample: CyclingSample)
  mutating func take(_ sample: RingRawReading)
  /// Records that the log's clock was set or may have been set before the next reading. The elapsed time is
  /// unknown.
  mutating func noteClockStep()
  /// Receives a frame of raw data.
  ///
  /// - Parameters:
  ///   - frame: a whole `PolarFrame`.
  ///   - stream: stream of the frame.
  ///   - time: time of the frame.
  mutating func take(_ frame: Span<UInt8>, of stream: PolarLogStreams.Stream, at time: ReceiveTime)
  /// Records that a sensor's value is not used as a reading, with the reason.
  mutating func leaveOut(_ reason: LogReadings.Reason)
  /// Records a value that was truncated in the log. If the value contains a complete reading, the reading is
  /// also passed on, but not counted again.
  mutating func noteCut()
  /// Receives a reading from a truncated value.
  mutating func take(cut sample: HeartRateSample)
  mutating func take(cut sample: RingRawReading)
}

extension DecodedPacket {
  /// Whether the packet has a value, begins or ends a link, or lost a frame.
  var concernsReadings: Bool {
    att != nil || beginsLink || endsLink || losesFrame || problem != nil && type == .acl
  }

  fileprivate var endsLink: Bool { hci?.event == .disconnectionComplete }
}

/// Extracts readings from one device's notifications, for all kinds of sensors, in the order of the log.
struct LogReadings {
  /// Reason why a value is not used as a reading.
  enum Reason: Hashable {
    case malformed(WireError)
    /// A valid frame without a reading, such as a ring's reply.
    case other
    /// The reading was already received on another attribute or link.
    case repeated
    /// The reading belongs to another stream of the same kind at the same time.
    case unplaced
  }

  /// Link to the device. Several hosts can have a link at the same time.
  private struct Link {
    let adapter: UInt16
    let handle: ConnectionHandle?
    let number: Int
    var source = RawSource()
    var polar = PolarLogStreams()
  }

  /// Attribute and link that supply the readings of one kind.
  private struct Stream {
    var link: Int
    var handle: AttributeHandle
    var time: ReceiveTime
    var value: [UInt8]
  }

  /// Maximum number of remembered links, more than a controller has at once.
  private static let linkLimit = 32
  /// Silence after which another stream may replace this stream, in nanoseconds.
  private static let silence: UInt64 = 5_000_000_000

  private var links: [Link] = []
  private var linkCount = 0
  private var streams: [BluetoothUUID: Stream] = [:]

  /// Finds or creates the packet's link.
  ///
  /// - Returns: the index of the link.
  private mutating func place(of packet: borrowing DecodedPacket) -> Int {
    let (adapter, handle) = (packet.adapter, packet.connectionHandle)
    // A host has at most one link to a device at a time.
    if packet.beginsLink { links.removeAll { $0.adapter == adapter } }
    if let known = links.firstIndex(where: { $0.adapter == adapter && $0.handle == handle }) { return known }
    if links.count == Self.linkLimit { links.removeFirst() }
    linkCount += 1
    var link = Link(adapter: adapter, handle: handle, number: linkCount)
    link.polar.link = linkCount
    links.append(link)
    return links.count - 1
  }

  /// Checks whether another stream of the same kind is active on another link or attribute.
  ///
  /// - Returns: the reason to reject a reading; `nil` to accept it.
  private mutating func refusal(
    _ value: Span<UInt8>, of uuid: BluetoothUUID, _ handle: AttributeHandle, _ link: Int, at time: ReceiveTime
  ) -> Reason? {
    if let stream = streams[uuid], stream.link != link || stream.handle != handle,
      links.contains(where: { $0.number == stream.link }),
      (time - stream.time).nanoseconds.magnitude < Self.silence
    {
      let isSame =
        stream.value.count == value.count && value.indices.allSatisfy { stream.value[$0] == value[$0] }
      return isSame ? .repeated : .unplaced
    }
    var copy = streams.removeValue(forKey: uuid)?.value ?? []
    copy.removeAll(keepingCapacity: true)
    for index in value.indices { copy.append(value[index]) }
    streams[uuid] = Stream(link: link, handle: handle, time: time, value: copy)
    return nil
  }
  /// Attributes of unknown type with values that are samples of a ring.
  private(set) var ringAttributes: Set<AttributeHandle> = []

  mutating func take(_ packet: borrowing DecodedPacket, into sink: inout some LogReadingSink) {
    if packet.endsLink {
      return links.removeAll { $0.adapter == packet.adapter && $0.handle == packet.connectionHandle }
    }
    let place = place(of: packet)
    if packet.losesFrame { return takeCut(packet, place, into: &sink) }
    guard let att = packet.att, let value = att.value, let handle = att.handle else {
      if let problem = packet.problem, packet.type == .acl, packet.direction == .controllerToHost {
        sink.leaveOut(.malformed(problem))
      }
      return
    }
    if att.opcode == .writeRequest, att.uuid == PolarUUID.controlPoint {
      links[place].polar.takeRequest(value)
    }
    guard att.opcode == .handleValueNotification || att.opcode == .handleValueIndication else { return }
    let link = links[place].number
    do throws(WireError) {
      if let uuid = att.uuid, Self.singular.contains(uuid),
        let refusal = refusal(value, of: uuid, handle, link, at: packet.time)
      {
        return sink.leaveOut(refusal)
      }
      switch att.uuid {
      case .some(.heartRateMeasurement): sink.take(try HeartRateSample(decoding: value, at: packet.time))
      case .some(.temperatureMeasurement):
        sink.take(
          TemperatureSample(.result(try TemperatureMeasurement(decoding: value)), at: packet.time))
      case .some(.intermediateTemperature):
        sink.take(
          TemperatureSample(.intermediate(try TemperatureMeasurement(decoding: value)), at: packet.time))
      case .some(CoreUUID.bodyTemperature):
        sink.take(TemperatureSample(.core(try CoreBodyTemperature(decoding: value)), at: packet.time))
      case .some(.cscMeasurement): sink.take(try CyclingSample(decoding: value, at: packet.time))
      case .some(PolarUUID.controlPoint): links[place].polar.takeAnswer(value)
      case .some(PolarUUID.data): try links[place].polar.takeFrame(value, at: packet.time, into: &sink)
      case .some(RingUUID.commandNotify): try takeRing(value, handle, place, at: packet.time, into: &sink)
      case .some(RingUUID.bigDataNotify):
        // Some rings send the raw stream on this characteristic. Messages and their pieces are not frames.
        guard (try? RingFrame(validating: value)) != nil else { return sink.leaveOut(.other) }
        try takeRing(value, handle, place, at: packet.time, into: &sink)
      case nil:
        // The checksum identifies a ring's frame even if the type of its attribute is unknown. Other frames
        // may belong to another device.
        guard let frame = try? RingFrame(validating: value), RingRawSample(raw: frame) != nil else { return }
        ringAttributes.insert(handle)
        try takeRing(value, handle, place, at: packet.time, into: &sink)
      default: break
      }
    } catch { sink.leaveOut(.malformed(error)) }
  }

  /// Attributes that report the current state of the sensor. The values of two streams must not be mixed.
  private static let singular: Set<BluetoothUUID> = [
    .heartRateMeasurement, .temperatureMeasurement, CoreUUID.bodyTemperature, .cscMeasurement,
  ]

  /// Processes a frame that was truncated in the log. The remaining part may contain a complete heart rate or
  /// raw sample of a ring.
  private func takeCut(
    _ packet: borrowing DecodedPacket, _ place: Int, into sink: inout some LogReadingSink
  ) {
    guard packet.direction == .controllerToHost, packet.channelID.map({ $0 == ATT.channelID }) ?? true else {
      return
    }
    sink.noteCut()
    guard let att = packet.cutATT, let value = att.value,
      att.opcode == .handleValueNotification || att.opcode == .handleValueIndication
    else { return }
    switch att.uuid {
    case .some(.heartRateMeasurement):
      if let measurement = HeartRateMeasurement(cut: value) {
        sink.take(cut: HeartRateSample(measurement, at: packet.time))
      }
    case .some(RingUUID.commandNotify), .some(RingUUID.bigDataNotify):
      // Four bytes of ACL header, four bytes of L2CAP header, three bytes of ATT header.
      guard packet.originalByteCount == 11 + RingFrame.byteCount, let handle = att.handle,
        let sample = RingRawSample(cut: value), links[place].source.isFirst(handle)
      else { return }
      sink.take(cut: RingRawReading(time: packet.time, sample: sample, link: links[place].number))
    default: break
    }
  }

  /// Processes a ring's frame as a recording does.
  private mutating func takeRing(
    _ value: Span<UInt8>, _ handle: AttributeHandle, _ place: Int, at time: ReceiveTime,
    into sink: inout some LogReadingSink
  ) throws(WireError) {
    let frame = try RingFrame(validating: value)
    guard let sample = RingRawSample(raw: frame) else { return sink.leaveOut(.other) }
    guard links[place].source.isFirst(handle) else { return sink.leaveOut(.repeated) }
    if let refusal = refusal(value, of: RingUUID.commandNotify, handle, links[place].number, at: time) {
      return sink.leaveOut(refusal)
    }
    sink.take(RingRawReading(time: time, sample: sample, link: links[place].number))
  }
}

/// Reads a packet log of any format from its first record to its last.
enum LogFile {
  /// Calls `body` with each record, in the order and with the times of `LogTimeline`. The records of a
  /// sniffer's capture are converted to the packets that a host would have received.
  ///
  /// - Parameter keys: keys of encrypted links in a sniffer's capture.
  /// - Returns: the reason if the records end before the end of the file, otherwise `nil`; and the timeline
  ///   with the steps of the log's clock.
  /// - Throws: an error if the file cannot be opened or is not a packet log.
  static func read(
    _ path: String, keys: [AirKey] = [], progress: (String) -> Void, _ body: (borrowing PacketRecord) -> Void
  ) throws(ReportError) -> (problem: String?, timeline: LogTimeline) {
    let log: LogReader
    do throws(LogReader.Problem) { log = try LogReader(path: path, keys: keys, times: .corrected) } catch {
      throw .unreadable("\(error)")
    }
    while !Task.isCancelled, log.read(body) { progress(counted(log.recordCount, "packet")) }
    if let problem = log.problem, problem.isTotal { throw .unreadable("\(problem)") }
    if Task.isCancelled { throw .interrupted }
    return (log.problem.map { "\($0)" }, log.timeline)
  }
}

extension LogDevice {
  init(_ connection: ConnectionReport) { self.init(connection.adapter, connection.handle, connection.peer) }
}

/// Attributes of an imported capture with types that were inferred only from the format of their values.
package struct PayloadKnowledge: Sendable {
  /// Attributes, in order of their handles.
  package let attributes: [(handle: AttributeHandle, uuid: BluetoothUUID)]

  package init(_ attributes: some Sequence<(handle: AttributeHandle, uuid: BluetoothUUID)>) {
    self.attributes = attributes.sorted { $0.handle < $1.handle }
  }

  package init(_ origin: ImportOrigin?) {
    let known = (origin?.attributes ?? []).filter { $0.knownBy == AttributeSource.payload.rawValue }
    self.init(known.map { ($0.handle, $0.uuid) })
  }

  /// Reads the attributes of a capture.
  ///
  /// - Parameter session: `session.json` of the capture.
  package init(_ session: JSONDocument?) {
    let known = (session?["importedFrom"]?["attributes"]?.array ?? []).filter {
      $0["knownBy"]?.text == AttributeSource.payload.rawValue
    }
    self.init(
      known.compactMap { attribute in
        guard let handle = attribute["handle"]?.integer(UInt16.self),
          let uuid = attribute["uuid"]?.text.flatMap({ BluetoothUUID($0) })
        else { return nil }
        return (AttributeHandle(handle), uuid)
      })
  }

  /// Description for the user; `nil` if there are no such attributes.
  package var text: String? {
    guard !attributes.isEmpty else { return nil }
    let each = attributes.map { handle, uuid in
      "0x\(hexadecimal(UInt8(handle.rawValue >> 8)))\(hexadecimal(UInt8(handle.rawValue & 0xFF))) as "
        + (UUIDNames.name(of: uuid).map { "\($0) (\(uuid.short.map(Self.digits) ?? "\(uuid)"))" } ?? "\(uuid)")
    }
    return "known by payload only: " + each.joined(separator: ", ")
      + "; to name the attributes instead, use `ringtap import --attributes FILE`"
  }

  private static func digits(_ uuid: UInt16) -> String {
    hexadecimal(UInt8(uuid >> 8)) + hexadecimal(UInt8(uuid & 0xFF))
  }

  func encode(into line: inout JSONLine) {
    guard !attributes.isEmpty else { return }
    line.member(
      "knownByPayload",
      array: { line in
        for (handle, uuid) in attributes {
          line.object { line in
            line.member("handle", handle.rawValue)
            line.member("uuid", uuid.description)
          }
        }
      })
  }
}

/// Raw streams of a Polar sensor on one link, derived from the requests and responses of its control point.
struct PolarLogStreams {
  /// Properties of a stream.
  struct Stream: Hashable {
    var type: PolarMeasurementType
    /// Sample rate in hertz; `nil` if the log lacks the start request.
    var sampleRate: UInt16?
    /// Factor from counts to units; `nil` if the log lacks the response to the start request.
    var factor: Double?
    /// Number of the stream, from the number of the link and of the start on the link; ascending.
    var link = 0
  }

  /// Number of the link, ascending.
  var link = 0
  /// Maximum number of starts on a link. A higher number would reach the stream numbers of the next link.
  private static let startLimit = 1 << 16
  private var starts = 0

  /// Sample rates of start requests without a response yet.
  private var wanted: [PolarMeasurementType: UInt16] = [:]
  private var streams: [PolarMeasurementType: Stream] = [:]
  /// Response that the next value continues.
  private var answer: PolarResponse?

  /// Processes a value written to the control point.
  mutating func takeRequest(_ value: Span<UInt8>) {
    answer = nil
    guard let request = try? PolarRequest(decoding: value), request.opcode == .start else { return }
    let rate = request.settings.first { $0.kind == .sampleRate }?.values.first
    wanted[request.type] = rate.flatMap { $0 == 0 ? nil : UInt16(exactly: $0) }
  }

  /// Processes an indication of the control point.
  mutating func takeAnswer(_ value: Span<UInt8>) {
    guard let part = try? PolarResponse(decoding: value), part.opcode == .start, part.status == 0 else {
      return
    }
    if answer == nil { answer = part } else { try? answer?.append(part) }
    guard !part.hasMore, let answer else { return }
    self.answer = nil
    let settings = (try? answer.settings()) ?? []
    let factor = settings.lazy.compactMap(\.factor).first.map(Double.init) ?? 1
    starts = min(starts + 1, Self.startLimit - 1)
    streams[answer.type] = Stream(
      type: answer.type, sampleRate: wanted[answer.type], factor: factor, link: number + starts)
  }

  private var number: Int { link * Self.startLimit }

  /// Processes a frame of raw data.
  ///
  /// - Throws: an error if the value is not a valid frame.
  func takeFrame(
    _ value: Span<UInt8>, at time: ReceiveTime, into sink: inout some LogReadingSink
  ) throws(WireError) {
    let type = try PolarFrame(validating: value).type
    sink.take(value, of: streams[type] ?? Stream(type: type, link: number), at: time)
  }
}
