/// Times between successive heart beats in one measurement, oldest first, in 1/1024 s.
///
/// Stored inline, so that a measurement can be queued without an allocation.
public struct RRIntervals: Sendable, BitwiseCopyable {
  /// Maximum number in the longest attribute value: 512 bytes (Core 5.4, Vol 3, Part F, 3.2.9) minus the
  /// flags and the shortest rate.
  public static let capacity = 255
  public static let ticksPerSecond = 1024.0

  private var storage = InlineArray<255, UInt16>(repeating: 0)
  public private(set) var count = 0

  public init() {}

  /// - Parameter ticks: in 1/1024 s, at most `capacity`.
  public init(_ ticks: some Sequence<UInt16>) {
    for tick in ticks { append(tick) }
  }

  /// - Precondition: `count` is less than `capacity`.
  public mutating func append(_ ticks: UInt16) {
    precondition(count < Self.capacity, "too many intervals for one value")
    storage[count] = ticks
    count += 1
  }

  public var indices: Range<Int> { 0..<count }

  /// An interval in 1/1024 s, as sent. It can be 0.
  public subscript(index: Int) -> UInt16 {
    precondition(index < count, "no such interval")
    return storage[index]
  }

  public func seconds(_ index: Int) -> Double { Double(self[index]) / Self.ticksPerSecond }
}

extension RRIntervals: Hashable {
  public static func == (a: RRIntervals, b: RRIntervals) -> Bool {
    a.count == b.count && a.indices.allSatisfy { a[$0] == b[$0] }
  }

  public func hash(into hasher: inout Hasher) {
    for index in indices { hasher.combine(self[index]) }
  }
}
