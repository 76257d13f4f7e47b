import BLEWire
import Physiology

/// Converts the sample times of frames from the sensor's clock to the kernel's clock.
///
/// The kernel timestamps a frame on arrival; the frame contains the time of its last sample. A `ClockFit`, as
/// for a ring's ticks, relates the two clocks. It uses only the frames so far, so later frames do not change
/// earlier rows. If the fit moves, the interval between samples changes by at most a tenth, which keeps times
/// in order from frame to frame.
///
/// All times include the constant delay from the sensor to the kernel, which cannot be measured here. The
/// samples of a frame without a sensor time are placed before its timestamp at the nominal rate.
struct FrameTimes: Sendable {
  /// Unit of the fit's indices, in nanoseconds on the sensor's clock. Frames may arrive at any interval.
  private static let step: UInt64 = 1_000_000
  /// Maximum deviation from the fit, in nanoseconds. A larger deviation means that a clock was set.
  private static let tolerance = 2e9
  /// Maximum relative change of the interval between samples.
  private static let stretch = 0.1
  /// Limit of timestamps and intervals: 146 years in nanoseconds. Larger values are ignored, so that no
  /// difference overflows.
  private static let limit: UInt64 = 1 << 62

  private var fit: ClockFit?
  /// Time on the sensor's clock at the start of the fit.
  private var origin: UInt64 = 0
  /// Latest sample: its time on the sensor's clock and its converted time.
  private var last: (device: UInt64, time: Int64)?

  /// Latest time of a row so far, in nanoseconds since the Unix epoch.
  private var latest: Int64?

  /// Converts the sample times of one frame.
  struct Placed: Sendable {
    fileprivate let end: Int64
    fileprivate let device: UInt64
    /// Nanoseconds on the kernel's clock per nanosecond on the sensor's clock.
    fileprivate let pace: Double

    /// Returns the measurement time of a sample, in nanoseconds since the Unix epoch.
    ///
    /// - Parameter device: time of the sample on the sensor's clock.
    func time(_ device: UInt64) -> Int64 {
      let before = min(self.device - min(device, self.device), FrameTimes.limit)
      return end &- Int64((Double(before) * pace).rounded())
    }
  }

  /// Starts a new fit with the next frame. Call this after a restart of the sensor's clock.
  mutating func restart() { (fit, last) = (nil, nil) }

  /// Places the next frame.
  ///
  /// - Parameters:
  ///   - stamp: kernel timestamp of the frame.
  ///   - device: time of the frame's last sample on the sensor's clock, in nanoseconds.
  ///   - duration: duration of the samples on the sensor's clock, in nanoseconds.
  mutating func place(_ stamp: ReceiveTime, device: UInt64, duration: UInt64 = 0) -> Placed {
    let ideal = fitted(stamp.nanoseconds, device)
    defer { latest = last?.time }
    guard let last, device > last.device, device - last.device < Self.limit else {
      self.last = (device, ideal)
      // If the frame is on another clock, compress it to fit after the earlier rows, unless the kernel's
      // clock was set back.
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

  /// Converts a sample's time by the fit of all frames so far.
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

  /// Starts a new fit, and returns the time of the first frame.
  private mutating func begin(_ stamp: Int64, _ device: UInt64) -> Int64 {
    origin = device
    // Quartz clocks are accurate to 100 ppm or better, so the nominal rate is a good initial value.
    fit = ClockFit(index: 0, time: stamp, period: Double(Self.step), isKnown: true)
    last = nil
    return stamp
  }
}
