import BLESensors
import BLEWire

/// The raw streams of a Polar sensor on one link, by what its control point was told and answered.
struct PolarLogStreams {
  /// What is known of a stream.
  struct Stream: Hashable {
    var type: PolarMeasurementType
    /// In hertz; `nil` where nobody heard the start.
    var sampleRate: UInt16?
    /// From counts to units; `nil` likewise.
    var factor: Double?
    /// Number of the link, and of the start on it, in ascending order.
    var link = 0
  }

  /// Number of the link, in ascending order.
  var link = 0
  /// Starts on this link that a link can have before its numbers are those of the next one.
  private static let startLimit = 1 << 16
  private var starts = 0

  /// Of starts whose answer has not come.
  private var wanted: [PolarMeasurementType: UInt16] = [:]
  private var streams: [PolarMeasurementType: Stream] = [:]
  /// An answer that goes on in the next one.
  private var answer: PolarResponse?

  /// A value that was written to the control point.
  mutating func takeRequest(_ value: Span<UInt8>) {
    answer = nil
    guard let request = try? PolarRequest(decoding: value), request.opcode == .start else { return }
    let rate = request.settings.first { $0.kind == .sampleRate }?.values.first
    wanted[request.type] = rate.flatMap { $0 == 0 ? nil : UInt16(exactly: $0) }
  }

  /// A value that the control point indicated.
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

  /// - Throws: for what is no frame.
  func takeFrame(
    _ value: Span<UInt8>, at time: ReceiveTime, into sink: inout some LogReadingSink
  ) throws(WireError) {
    let type = try PolarFrame(validating: value).type
    sink.take(value, of: streams[type] ?? Stream(type: type, link: number), at: time)
  }
}
