import BLEWire
import Physiology

/// Puts the samples of frames that bear the sensor's own time on the clock of the kernel's stamps.
///
/// A frame is stamped when it has come, and bears the time of its last sample. Through the two goes the same fit that a
/// ring's ticks have (`ClockFit`), so far as frames have come: what comes later no longer changes a row. From frame to frame
/// the times keep their order, since a frame's samples are stretched or pressed by a tenth at most where the line moves.
///
/// A constant delay from the sensor to the kernel is in all times, as nobody here can see it; and a frame of which the sensor
/// tells no time lies before its stamp at the nominal rate.
struct FrameTimes: Sendable {
  /// The fit's ticks, as frames come at any distance: in nanoseconds of the sensor.
  private static let step: UInt64 = 1_000_000
  /// How far off the line a frame may be before one of the clocks is taken for set anew.
  private static let tolerance = 2e9
  /// By how much samples may lie closer together or further apart than the sensor says.
  private static let stretch = 0.1
  /// Stamps and distances beyond this, 146 years, are none: no difference of what is below overflows.
  private static let limit: UInt64 = 1 << 62

  private var fit: ClockFit?
  /// The sensor's time at which the fit began.
  private var origin: UInt64 = 0
  /// Of the last sample so far: by the sensor, and as it was told.
  private var last: (device: UInt64, time: Int64)?

  /// The latest time that a row has.
  private var latest: Int64?

  /// Where the samples of one frame lie.
  struct Placed: Sendable {
    fileprivate let end: Int64
    fileprivate let device: UInt64
    /// Nanoseconds for one of the sensor's.
    fileprivate let pace: Double

    /// When a sample was measured: nanoseconds since the Unix epoch.
    ///
    /// - Parameter device: its time by the sensor.
    func time(_ device: UInt64) -> Int64 {
      let before = min(self.device - min(device, self.device), FrameTimes.limit)
      return end &- Int64((Double(before) * pace).rounded())
    }
  }

  /// Begins a new line with the next frame: the sensor's clock began anew.
  mutating func restart() { (fit, last) = (nil, nil) }

  /// Takes the next frame.
  ///
  /// - Parameters:
  ///   - stamp: of the frame, by the kernel.
  ///   - device: its last sample's time by the sensor, in nanoseconds.
  ///   - duration: time that its samples take by the sensor, in nanoseconds.
  mutating func place(_ stamp: ReceiveTime, device: UInt64, duration: UInt64 = 0) -> Placed {
    let ideal = fitted(stamp.nanoseconds, device)
    defer { latest = last?.time }
    guard let last, device > last.device, device - last.device < Self.limit else {
      self.last = (device, ideal)
      // A frame by another clock is pressed behind the rows before it, unless the kernel's clock was set back.
      var pace = 1.0
      if let latest, ideal > latest, duration > 0 {
        pace = min(1, Double(ideal &- latest) / Double(duration))
      }
      return Placed(end: ideal, device: device, pace: pace)
    }
    let elapsed = Double(device - last.device)
    let wanted = Double(ideal &- last.time) / elapsed
    let pace = min(max(wanted, 1 - Self.stretch), 1 + Self.stretch)
    let end = last.time &+ Int64((elapsed * pace).rounded())
    self.last = (device, end)
    return Placed(end: end, device: device, pace: pace)
  }

  /// When the sample was measured, by the line through all frames so far.
  private mutating func fitted(_ stamp: Int64, _ device: UInt64) -> Int64 {
    guard stamp.magnitude < Self.limit else {
      (fit, last) = (nil, nil)
      return stamp
    }
    guard let period = fit?.period, device >= origin, (device - origin) / Self.step < UInt64(Int32.max) else {
      return begin(stamp, device)
    }
    let index = Int((device - origin) / Self.step)
    let rest = Double((device - origin) % Self.step) / Double(Self.step)
    let stampOfTick = stamp &- Int64((rest * period).rounded())
    guard let late = fit?.lateness(of: stampOfTick, at: index), abs(late) < Self.tolerance else {
      return begin(stamp, device)
    }
    fit?.take(stampOfTick, at: index)
    return (fit?.time(of: index) ?? stampOfTick) &+ Int64((rest * (fit?.period ?? period)).rounded())
  }

  /// A new line from here on.
  private mutating func begin(_ stamp: Int64, _ device: UInt64) -> Int64 {
    origin = device
    // Quartz is right to a hundred parts in a million or better: its nominal second is a good guess.
    fit = ClockFit(index: 0, time: stamp, period: Double(Self.step), isKnown: true)
    last = nil
    return stamp
  }
}
