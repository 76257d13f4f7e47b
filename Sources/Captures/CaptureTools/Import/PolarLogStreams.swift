import BLESensors
import BLEWire

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
