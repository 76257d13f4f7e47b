public import BLEHost
import BLELinux
public import BLESensors
import BLEStack
public import BLEWire

/// Frame of raw data, copied on the receive thread.
public struct PolarFrameSample: NotificationSample {
  public let time: ReceiveTime
  private let byteCount: Int
  private let storage: InlineArray<512, UInt8>
  /// Whether the frame has samples. `false` for a frame with other or unknown content.
  public let isValue: Bool
  package let type: PolarMeasurementType
  /// Number of the link that delivered the frame; later links have higher numbers.
  package let link: Int

  /// Decodes a frame.
  ///
  /// - Throws: `WireError` if the value is not a complete frame.
  public init(decoding value: Span<UInt8>, at time: ReceiveTime) throws(WireError) {
    try self.init(decoding: value, at: time, link: 0)
  }

  package init(decoding value: Span<UInt8>, at time: ReceiveTime, link: Int) throws(WireError) {
    let frame = try PolarFrame(validating: value)
    (isValue, type) = (frame.layout != nil, frame.type)
    self.link = link
    var storage = InlineArray<512, UInt8>(repeating: 0)
    byteCount = min(value.count, storage.count)
    for index in 0..<byteCount { storage[index] = value[index] }
    self.storage = storage
    self.time = time
  }

  /// Bytes of a `PolarFrame`.
  public var octets: [UInt8] { (0..<byteCount).map { storage[$0] } }

  /// Calls `body` with the sample as a frame, without a heap copy.
  package func withFrame(_ body: (borrowing PolarFrame) -> Void) {
    let octets = storage.span
    guard let frame = try? PolarFrame(validating: octets.extracting(first: byteCount)) else { return }
    body(frame)
  }
}

extension SampleSink<PolarFrameSample> {
  /// Decodes and queues one frame of raw data. Frames of streams that were not requested are not samples.
  /// Call on the receive thread only.
  ///
  /// - Parameters:
  ///   - value: received value.
  ///   - types: types of the requested streams.
  ///   - time: receive time.
  ///   - link: number of the link.
  package func take(
    _ value: Span<UInt8>, of types: [PolarMeasurementType], at time: ReceiveTime, link: Int = 0
  ) {
    take(at: time) { () throws(WireError) in
      let sample = try PolarFrameSample(decoding: value, at: time, link: link)
      return types.contains(PolarMeasurementType(rawValue: value[0])) ? .sample(sample) : .other
    }
  }
}

/// Indication of the control point.
private struct PolarAnswer: NotificationSample {
  let byteCount: Int
  let storage: InlineArray<512, UInt8>

  init(decoding value: Span<UInt8>, at time: ReceiveTime) {
    var storage = InlineArray<512, UInt8>(repeating: 0)
    byteCount = min(value.count, storage.count)
    for index in 0..<byteCount { storage[index] = value[index] }
    self.storage = storage
  }

  var octets: [UInt8] { (0..<byteCount).map { storage[$0] } }
}

/// Connected Polar sensor with one or more running raw streams.
///
/// Start sequence: exchange the MTU, enable the control point's indications and the data notifications, get
/// the settings, start. Online Measurement (2024).
public struct PolarSession: SensorSession {
  /// The requested streams, each at most once, and their sample rates.
  public struct Settings: Hashable, Sendable {
    public struct Stream: Hashable, Sendable {
      public var type: PolarMeasurementType
      /// Sample rate in hertz, which the sensor must offer; `nil` for the usual rate of the stream.
      public var sampleRate: UInt16?

      public init(_ type: PolarMeasurementType, sampleRate: UInt16? = nil) {
        self.type = type
        self.sampleRate = sampleRate
      }
    }

    public var streams: [Stream]

    /// Creates settings for several streams.
    ///
    /// - Precondition: `streams` is not empty.
    public init(_ streams: [Stream]) {
      precondition(!streams.isEmpty)
      self.streams = streams
    }

    public init(_ type: PolarMeasurementType, sampleRate: UInt16? = nil) {
      self.init([Stream(type, sampleRate: sampleRate)])
    }

    /// Streams by name, as used in commands.
    public static let named: [(name: String, type: PolarMeasurementType)] = [
      ("ecg", .ecg), ("acc", .accelerometer), ("ppg", .ppg),
    ]

    /// Parses names of streams. Returns `nil` for unknown or repeated names.
    ///
    /// - Parameter text: comma-separated names, each at most once: `ecg,acc`.
    public init?(named text: String) {
      let names = text.split(separator: ",", omittingEmptySubsequences: false)
      let types = names.compactMap { name in Self.named.first { $0.name == name }?.type }
      guard types.count == names.count, Set(types).count == types.count else { return nil }
      self.init(types.map { Stream($0) })
    }
  }

  /// Stream that the sensor has started.
  public struct Stream: Hashable, Sendable {
    public let type: PolarMeasurementType
    /// Sample rate in hertz.
    public let sampleRate: UInt16
    /// Factor from counts to units; see `PolarUnits`.
    public let factor: Double
  }

  /// Timeout for a response of the control point.
  static let patience = Duration.seconds(5)

  /// The started streams, in the order of the request.
  public let streams: [Stream]

  private let link: SensorLink
  private let point: GATTDatabase.Characteristic
  private let data: GATTDatabase.Characteristic
  private let answers: SampleChannel<PolarAnswer>

  /// Discovers the raw data service, subscribes, gets the settings and starts the streams.
  ///
  /// - Throws: `unsuitable` if the device has no raw data service, or does not offer a requested stream or
  ///   sample rate.
  public static func start(
    _ settings: Settings, on connection: Connection, into sink: SampleSink<PolarFrameSample>
  ) async throws(HostError) -> PolarSession {
    // Frames are as long as the MTU allows.
    do throws(GATTError) { try await connection.exchangeMTU() } catch { throw .gatt(error) }
    let link = try await SensorLink(
      connection, SensorNeed([PolarUUID.controlPoint, PolarUUID.data], of: PolarUUID.service))
    return try await PolarSession(link, settings, sink)
  }

  private init(
    _ link: SensorLink, _ settings: Settings, _ sink: SampleSink<PolarFrameSample>
  ) async throws(HostError) {
    let types = settings.streams.map(\.type)
    guard let point = link.characteristic(PolarUUID.controlPoint, in: PolarUUID.service),
      let data = link.characteristic(PolarUUID.data, in: PolarUUID.service)
    else { throw link.lacks("Polar raw data service (\(PolarUUID.service))") }
    (self.link, self.point, self.data) = (link, point, data)
    let number = sink.nextLink()
    do throws(GATTError) {
      answers = try await link.connection.samples(point, as: PolarAnswer.self, capacity: 16)
      // The sensor stops by itself on its charger, or when another central starts a stream. Reference
      // `sensor-services.md`, 5.2.
      _ = try await link.connection.subscribe(point) { notification, _ in
        let event = try? PolarStopEvent(decoding: notification.value)
        if event?.types.contains(where: types.contains) == true { sink.end() }
      }
      _ = try await link.connection.subscribe(data) { sink.take($0.value, of: types, at: $1, link: number) }
    } catch { throw .gatt(error) }
    let conversation = PolarConversation(link: link, point: point, answers: answers)
    var streams: [Stream] = []
    for stream in settings.streams { streams.append(try await Self.start(stream, conversation)) }
    self.streams = streams
  }

  private static func start(
    _ wanted: Settings.Stream, _ conversation: PolarConversation
  ) async throws(HostError) -> Stream {
    let type = wanted.type
    let offered: [PolarSetting]
    do throws(HostError) { offered = try await conversation.offered(type) } catch {
      guard case .unsuitable = error, await conversation.measures(type) == false else { throw error }
      throw .unsuitable("\(conversation.link.connection.peer) does not measure this; choose another --stream")
    }
    let chosen = try choose(from: offered, type, wanted.sampleRate)
    let started = try await conversation.settings(PolarRequest(.start, type, settings: chosen))
    return Stream(
      type: type,
      sampleRate: chosen.first { $0.kind == .sampleRate }.flatMap { $0.values.first }.map(UInt16.init) ?? 1,
      factor: started.compactMap(\.factor).first.map(Double.init) ?? 1)
  }

  /// Chooses one value for each setting: the requested or usual sample rate, and otherwise the largest value.
  ///
  /// Reference `sensor-services.md`, 5.3.
  private static func choose(
    from offered: [PolarSetting], _ type: PolarMeasurementType, _ wanted: UInt16?
  ) throws(HostError) -> [PolarSetting] {
    var chosen: [PolarSetting] = []
    for setting in offered {
      guard let largest = setting.values.max() else { continue }
      guard setting.kind == .sampleRate else {
        chosen.append(PolarSetting(setting.kind, [largest]))
        continue
      }
      if let wanted, !setting.values.contains(UInt32(wanted)) {
        let rates = setting.values.map { "\($0)" }.joined(separator: ", ")
        throw .unsuitable("the sensor does not offer \(wanted) Hz; it has \(rates)")
      }
      let usual: UInt32 = type == .accelerometer ? 50 : 55
      let rate = wanted.map { UInt32($0) } ?? (setting.values.contains(usual) ? usual : largest)
      chosen.append(PolarSetting(.sampleRate, [rate]))
    }
    return chosen
  }

  public func complete() async throws(HostError) -> SensorFacts? { try await link.facts() }

  /// Raw data streams run whether or not the sensor is worn.
  public var silenceRule: SilenceRule? { SilenceRule(floor: SilenceRule.shortestFloor, beginsAtOnce: true) }

  /// Stops the streams and unsubscribes. If the sensor does not respond, the streams stop when the link ends.
  public func stop() async {
    let conversation = PolarConversation(link: link, point: point, answers: answers)
    for stream in streams { _ = try? await conversation.settings(PolarRequest(.stop, stream.type)) }
    for characteristic in [data, point] { try? await link.connection.unsubscribe(all: characteristic) }
  }
}

/// Sends requests to the control point one at a time, and waits for the responses.
private struct PolarConversation: Sendable {
  let link: SensorLink
  let point: GATTDatabase.Characteristic
  let answers: SampleChannel<PolarAnswer>

  /// Returns the settings that the sensor offers. Returns the usual settings of such sensors if the sensor
  /// does not report its settings, for example in a replayed log whose program did not request them.
  func offered(_ type: PolarMeasurementType) async throws(HostError) -> [PolarSetting] {
    do { return try await settings(PolarRequest(.getSettings, type)) } catch {
      guard case .gatt(.refused(let refusal)) = error, refusal.code == .unlikelyError else { throw error }
      return PolarSetting.usual(of: type)
    }
  }

  /// Returns whether the sensor supports a measurement; `nil` if the sensor does not report this.
  func measures(_ type: PolarMeasurementType) async -> Bool? {
    guard let octets = try? await link.connection.read(point.valueHandle),
      let features = try? PolarFeatures(decoding: octets.span)
    else { return nil }
    return features.contains(type)
  }

  /// Sends a request and waits for the response.
  ///
  /// - Returns: the settings in the response.
  /// - Throws: `unsuitable` if the status is not success or there is no response; `gatt` if the write fails.
  func settings(_ request: PolarRequest) async throws(HostError) -> [PolarSetting] {
    let connection = link.connection
    let timer = connection.loop.after(PolarSession.patience) { await connection.close() }
    defer { timer.cancel() }
    do throws(GATTError) {
      try await link.connection.write(request.octets, to: point.valueHandle)
    } catch { throw .gatt(error) }
    var response: PolarResponse?
    for await answer in answers {
      let octets = answer.octets
      guard let next = try? PolarResponse(decoding: octets.span), next.opcode == request.opcode,
        next.type == request.type
      else { continue }
      if response == nil { response = next } else { try? response?.append(next) }
      guard !next.hasMore else { continue }
      break
    }
    guard let response else {
      throw .unsuitable("\(connection.peer) does not answer its control point; switch it off and on")
    }
    guard response.status == 0 else {
      throw .unsuitable(
        "the sensor refuses to \(request.opcode == .start ? "start" : "continue"): status \(response.status)")
    }
    return (try? response.settings()) ?? []
  }
}

extension PolarSetting {
  /// Returns the usual settings: of an H10 for ECG, of a Verity Sense for other streams. Reference
  /// `sensor-services.md`, 5.3.
  fileprivate static func usual(of type: PolarMeasurementType) -> [PolarSetting] {
    switch type {
    case .ecg: [PolarSetting(.sampleRate, [130]), PolarSetting(.resolution, [14])]
    case .ppg:
      [PolarSetting(.sampleRate, [55]), PolarSetting(.resolution, [22]), PolarSetting(.channels, [4])]
    case .accelerometer:
      [PolarSetting(.sampleRate, [50]), PolarSetting(.resolution, [16]), PolarSetting(.range, [8])]
    case .gyroscope:
      [PolarSetting(.sampleRate, [52]), PolarSetting(.resolution, [16]), PolarSetting(.range, [2_000])]
    case .magnetometer:
      [PolarSetting(.sampleRate, [50]), PolarSetting(.resolution, [16]), PolarSetting(.range, [50])]
    default: []
    }
  }
}
