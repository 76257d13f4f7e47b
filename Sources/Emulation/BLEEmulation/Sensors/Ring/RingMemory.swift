import BLEWire
public import ColmiRing

/// State of an emulated ring with a history: clock and settings. Answers the host's requests.
struct RingMemory {
  let history: RingHistory
  let features: EmulatedRing.Configuration.Features
  /// Number of stored days; 0 after a factory reset.
  private let storedDayCount: Int
  /// Time to which the clock was last set.
  private var clockStart: RingDateTime
  private var clockSet: MonotonicTime?
  private var preferences: [UInt8] = [0, 0, 2, 30, 175, 70, 120, 90, 0]
  /// Heart rate measurement: switched on, every 5 minutes.
  private var heartRateSettings: [UInt8] = [1, 5]
  private var automatic: Set<UInt8> = [RingAutomaticSensor.stress.rawValue]

  init(
    _ history: RingHistory, _ features: EmulatedRing.Configuration.Features, clock: RingDateTime,
    storedDayCount: Int? = nil
  ) {
    self.history = history
    self.storedDayCount = storedDayCount ?? history.dayCount
    self.features = features
    clockStart = clock
  }

  // MARK: Clock

  mutating func set(_ time: RingDateTime, now: MonotonicTime) {
    clockStart = time
    clockSet = now
  }

  /// Starts a clock that was never set.
  mutating func begin(now: MonotonicTime) { if clockSet == nil { clockSet = now } }

  private func clock(_ now: MonotonicTime) -> RingDateTime {
    let elapsed = (clockSet ?? now).duration(to: now).components.seconds
    let seconds = Int64(clockStart.timestamp) + elapsed
    return (try? RingDateTime(secondsSince1970: seconds, convention: .utc)) ?? clockStart
  }

  private func date(_ daysAgo: Int, _ now: MonotonicTime) -> RingDate {
    let seconds = Int64(clock(now).date.timestamp) - Int64(daysAgo) * 86_400
    return (try? RingDateTime(secondsSince1970: seconds, convention: .utc).date) ?? clockStart.date
  }

  /// Returns the minute of the day at which a day's log ends.
  private func end(_ daysAgo: Int, _ now: MonotonicTime) -> Int {
    let clock = clock(now)
    return daysAgo == 0 ? Int(clock.hour) * 60 + Int(clock.minute) : 1439
  }

  // MARK: Command channel

  /// Returns the frames that answer a request, without padding and checksum, or `nil` to refuse the request.
  mutating func answer(_ request: RingRequest, now: MonotonicTime) -> [[UInt8]]? {
    switch request {
    case .heartRateLog(let timestamp): heartRateLog(timestamp, now)
    case .stressLog(let daysAgo): slots(0x37, 30, daysAgo, now, history.stress)
    case .heartRateVariabilityLog(let daysAgo):
      features == .all ? slots(0x39, 30, daysAgo, now, history.heartRateVariability) : nil
    case .activityLog(let daysAgo): activityLog(Int(daysAgo), now)
    case .todayTotals: [totals(now)]
    // 5000 steps, 300 kcal, 3000 m: rsp-goals of the test vectors.
    case .goals: [[0x21, 0x01, 0x88, 0x13, 0, 0xE0, 0x93, 0x04, 0xB8, 0x0B]]
    case .findDevice: [[0x50, 0x55, 0xAA]]
    case .blinkTwice: [[0x10]]
    case .phoneName: [[0x04]]
    case .camera: [[0x02, 0x00]]
    default: setting(request)
    }
  }

  private mutating func setting(_ request: RingRequest) -> [[UInt8]]? {
    switch request {
    case .readPreferences: return [[0x0A, 0x01] + preferences]
    case .writePreferences:
      let command = request.command
      preferences = (2..<11).map { command.octet($0) }
      return [[0x0A, 0x02]]
    case .readHeartRateLogSettings: return [[0x16, 0x01] + heartRateSettings]
    case .writeHeartRateLogSettings:
      let command = request.command
      heartRateSettings = (2..<8).map { command.octet($0) }
      return [[0x16, 0x02, command.octet(2)]]
    case .readAutomaticMeasurement(let sensor):
      return has(sensor) ? [frame(sensor, 1, automatic.contains(sensor.rawValue) ? 1 : 0)] : nil
    case .writeAutomaticMeasurement(let measurement):
      guard has(measurement.sensor) else { return nil }
      if measurement.isEnabled {
        automatic.insert(measurement.sensor.rawValue)
      } else {
        automatic.remove(measurement.sensor.rawValue)
      }
      return [frame(measurement.sensor, 2, measurement.isEnabled ? 1 : 0)]
    default: return nil
    }
  }

  private func has(_ sensor: RingAutomaticSensor) -> Bool {
    switch sensor {
    case .spO2, .stress: true
    case .heartRateVariability, .temperature: features == .all
    }
  }

  private func frame(_ sensor: RingAutomaticSensor, _ action: UInt8, _ state: UInt8) -> [UInt8] {
    [sensor.rawValue] + (sensor == .temperature ? [3] : []) + [action, state]
  }

  // MARK: Logs

  private func heartRateLog(_ timestamp: UInt32, _ now: MonotonicTime) -> [[UInt8]] {
    let today = clock(now).date.timestamp / 86_400
    let daysAgo = Int(today) - Int(timestamp / 86_400)
    guard 0..<storedDayCount ~= daysAgo else { return [[0x15, 0xFF]] }
    let samples = Self.until(end(daysAgo, now) / 5, history.heartRates(date(daysAgo, now)))
    return Self.frames(0x15, 5, Self.littleEndian(timestamp), samples)
  }

  private func slots(
    _ opcode: UInt8, _ interval: Int, _ daysAgo: UInt8, _ now: MonotonicTime,
    _ samples: (RingDate) -> [UInt8]
  ) -> [[UInt8]] {
    guard Int(daysAgo) < storedDayCount else { return [[opcode, 0xFF]] }
    let last = end(Int(daysAgo), now) / interval
    return Self.frames(
      opcode, UInt8(interval), [daysAgo], Self.until(last, samples(date(Int(daysAgo), now))))
  }

  private static func until(_ last: Int, _ samples: [UInt8]) -> [UInt8] {
    samples.indices.map { $0 <= last ? samples[$0] : 0 }
  }

  /// Returns a header frame, then frames with the echo of the request and the samples, 13 bytes per frame.
  private static func frames(
    _ opcode: UInt8, _ interval: UInt8, _ echo: [UInt8], _ samples: [UInt8]
  ) -> [[UInt8]] {
    let octets = echo + samples
    let count = (octets.count + 12) / 13 + 1
    var frames: [[UInt8]] = [[opcode, 0, UInt8(count), interval]]
    for number in 1..<count {
      let start = (number - 1) * 13
      frames.append([opcode, UInt8(number)] + octets[start..<min(start + 13, octets.count)])
    }
    return frames
  }

  private func activity(_ daysAgo: Int, _ now: MonotonicTime) -> [RingHistory.Activity] {
    let last = end(daysAgo, now) / 60
    return history.activity(date(daysAgo, now)).filter { $0.hour <= last }
  }

  private func activityLog(_ daysAgo: Int, _ now: MonotonicTime) -> [[UInt8]] {
    guard daysAgo < storedDayCount else { return [[0x43, 0xFF]] }
    let hours = activity(daysAgo, now)
    guard !hours.isEmpty else { return [[0x43, 0xFF]] }
    let date = date(daysAgo, now)
    let day = [UInt8(date.year - 2000), date.month, date.day].map { ($0 / 10) << 4 | $0 % 10 }
    let records = hours.indices.map { index -> [UInt8] in
      let hour = hours[index]
      var record: [UInt8] = [0x43]
      record += day
      record += [UInt8(hour.hour * 4), UInt8(index), UInt8(hours.count)]
      for counter in [hour.calories, hour.steps, hour.distanceMeters] {
        record += Self.littleEndian(counter)
      }
      return record
    }
    return [[0x43, 0xF0, UInt8(hours.count), 1]] + records
  }

  /// Returns the totals of the day: big-endian, 24 bits each except for the minutes.
  private func totals(_ now: MonotonicTime) -> [UInt8] {
    let hours = activity(0, now)
    let steps = hours.reduce(0) { $0 + Int($1.steps) }
    let calories = hours.reduce(0) { $0 + Int($1.calories) * 10 }
    let meters = hours.reduce(0) { $0 + Int($1.distanceMeters) }
    var frame: [UInt8] = [0x48]
    for sum in [steps, 0, calories, meters] {
      for shift in [16, 8, 0] { frame.append(UInt8(truncatingIfNeeded: sum >> shift)) }
    }
    return frame + [0, UInt8(hours.count)]
  }

  // MARK: Big data

  /// Returns the response to a message, or `nil` to send no response, because rings ignore unknown messages.
  func answer(_ request: RingBigDataRequest, now: MonotonicTime) -> RingBigData? {
    let days = 0..<storedDayCount
    switch request {
    case .sleepLog(.plain), .sleepLog(.all): return sleep(Array(days), now)
    // Like an RT11CR, omits today, which needs a separate request.
    case .sleepLog(.day(0xFF)): return sleep(Array(days.dropFirst()), now)
    case .sleepLog(.day(let day)): return sleep(days.contains(Int(day)) ? [Int(day)] : [], now)
    case .spO2: return RingBigData(id: 0x2A, payload: oxygen(now))
    case .temperature(let count):
      guard features == .all else { return nil }
      return RingBigData(id: 0x25, payload: temperatures(days.prefix(Int(count)), now))
    case .manualHeartRate(let day):
      guard days.contains(Int(day)) else { return RingBigData(id: 0x28, payload: [day]) }
      let entry = history.manualHeartRate(date(Int(day), now))
      let isOver = entry.minute <= end(Int(day), now)
      let octets = Self.littleEndian(UInt16(entry.minute)) + [entry.beatsPerMinute]
      return RingBigData(id: 0x28, payload: [day] + (isOver ? octets : []))
    case .beginSync: return RingBigData(id: 0x30, payload: [0])
    case .lastSync: return RingBigData(id: 0x42, payload: [0])
    case .intervalTemperature(let day, let packet):
      guard features == .all, days.contains(Int(day)) else { return nil }
      return RingBigData(id: 0x77, payload: intervalTemperatures(day, packet, now))
    }
  }

  private func sleep(_ days: [Int], _ now: MonotonicTime) -> RingBigData {
    var payload = [UInt8(days.count)]
    for day in days.reversed() {
      let (start, stages) = history.night(date(day, now))
      let minutes = stages.reduce(0) { $0 + Int($1.minutes) }
      payload += [UInt8(day), UInt8(4 + 2 * stages.count)]
      payload += Self.littleEndian(UInt16(start < 0 ? start + 1440 : start))
      payload += Self.littleEndian(UInt16(start + minutes))
      for span in stages { payload += [span.stage.rawValue, span.minutes] }
    }
    return RingBigData(id: 0x27, payload: payload)
  }

  /// Returns the oxygen blocks of each day, oldest day first: number of days ago, then each hourly value
  /// twice.
  private func oxygen(_ now: MonotonicTime) -> [UInt8] {
    (0..<storedDayCount).reversed().flatMap { day in
      let last = end(day, now) / 60
      return [UInt8(day)] + Self.until(last, history.oxygen(date(day, now))).flatMap { [$0, $0] }
    }
  }

  /// Returns the temperature blocks of days: number of days ago, 30, then tenths of a degree above 20 °C.
  private func temperatures(_ days: Range<Int>, _ now: MonotonicTime) -> [UInt8] {
    days.reversed().flatMap { day in
      let last = end(day, now) / 30
      let octets = history.temperatures(date(day, now)).map { UInt8($0 - 200) }
      return [UInt8(day), 30] + Self.until(last, octets)
    }
  }

  /// Returns a packet of a day's temperatures, with 20 values per packet: number of days ago, 30, number of
  /// packets, index, then hundredths of a degree.
  private func intervalTemperatures(_ day: UInt8, _ packet: UInt8, _ now: MonotonicTime) -> [UInt8] {
    let last = end(Int(day), now) / 30
    let tenths = history.temperatures(date(Int(day), now))
    let values = tenths.indices.map { $0 <= last ? UInt16(tenths[$0] * 10) : 0 }
    let count = (values.count + 19) / 20
    let content = values.dropFirst(Int(packet) * 20).prefix(20).flatMap { Self.littleEndian($0) }
    return [day, 30, UInt8(count), packet] + content
  }

  private static func littleEndian<Number: FixedWidthInteger>(_ number: Number) -> [UInt8] {
    (0..<Number.bitWidth / 8).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
  }
}

/// A ring's stored data of a simulated wearer. The same seed and day give the same data, regardless of the
/// order of requests.
///
/// Days start at midnight of the ring's clock. The data of today ends at the ring's time.
public struct RingHistory: Hashable, Sendable {
  /// Number of stored days, including today.
  public var dayCount: Int
  public var seed: UInt64

  public init(dayCount: Int = 7, seed: UInt64 = 1) {
    precondition(1...31 ~= dayCount)
    self.dayCount = dayCount
    self.seed = seed
  }

  /// A record of the activity log. The log has one record per hour.
  public struct Activity: Hashable, Sendable {
    public let hour: Int
    public let steps: UInt16
    public let distanceMeters: UInt16
    /// Energy, in units of ten small calories.
    public let calories: UInt16
  }

  /// Returns the heart rate in beats per minute, every five minutes. 0 means that the wearer moved too much.
  public func heartRates(_ date: RingDate) -> [UInt8] {
    (0..<288).map { slot in
      number(date, .heartRate, slot, 20) == 0 ? 0 : UInt8(58 + number(date, .heartRate, slot + 1000, 40))
    }
  }

  /// Returns the stress level, 0 … 100, every half hour.
  public func stress(_ date: RingDate) -> [UInt8] {
    (0..<48).map { UInt8(20 + number(date, .stress, $0, 40)) }
  }

  /// Returns the heart rate variability in milliseconds, at full hours only, as in an RT11CR.
  public func heartRateVariability(_ date: RingDate) -> [UInt8] {
    (0..<48).map { $0.isMultiple(of: 2) ? UInt8(30 + number(date, .variability, $0, 30)) : 0 }
  }

  /// Returns the activity per hour. Omits hours without a step.
  public func activity(_ date: RingDate) -> [Activity] {
    (7..<22).compactMap { hour in
      let steps = number(date, .activity, hour, 900)
      guard steps >= 100 else { return nil }
      return Activity(
        hour: hour, steps: UInt16(steps), distanceMeters: UInt16(steps * 7 / 10),
        calories: UInt16(steps * 29 / 10))
    }
  }

  /// Returns the oxygen saturation in percent, every hour.
  public func oxygen(_ date: RingDate) -> [UInt8] {
    (0..<24).map { UInt8(95 + number(date, .oxygen, $0, 5)) }
  }

  /// Returns the temperature in tenths of a degree Celsius, every half hour.
  public func temperatures(_ date: RingDate) -> [Int] {
    (0..<48).map { 340 + number(date, .temperature, $0, 25) }
  }

  /// Returns the night that ended on this day: its start in minutes from midnight, and its stages.
  public func night(_ date: RingDate) -> (startMinute: Int, stages: [RingSleep.Span]) {
    let stages: [RingSleep.Stage] = [.light, .deep, .light, .rapidEyeMovement, .light, .awake, .light]
    let spans = stages.indices.map { index in
      RingSleep.Span(stage: stages[index], minutes: UInt8(20 + number(date, .sleep, index, 40)))
    }
    return (number(date, .sleep, 100, 60) - 40, spans)
  }

  /// Returns the only manual measurement of a day: minute of the day and beats per minute.
  public func manualHeartRate(_ date: RingDate) -> (minute: Int, beatsPerMinute: UInt8) {
    (number(date, .manual, 0, 1440), UInt8(60 + number(date, .manual, 1, 40)))
  }

  private enum Kind: UInt64 {
    case heartRate = 1
    case stress, variability, activity, oxygen, temperature, sleep, manual
  }

  /// Returns a pseudorandom number in 0 … bound − 1 (splitmix64).
  private func number(_ date: RingDate, _ kind: Kind, _ index: Int, _ bound: Int) -> Int {
    var state = seed &* 0x9E37_79B9_7F4A_7C15
    for part in [UInt64(date.timestamp / 86_400), kind.rawValue, UInt64(index)] {
      state = (state ^ part) &+ 0x9E37_79B9_7F4A_7C15
      state = (state ^ state >> 30) &* 0xBF58_476D_1CE4_E5B9
      state = (state ^ state >> 27) &* 0x94D0_49BB_1331_11EB
      state ^= state >> 31
    }
    return Int(state % UInt64(bound))
  }
}
