import BLELinux
public import BLESensors
public import BLEStack
import BLEWire
import ColmiRing

/// Description of a controller with emulated peripherals, as text: `ring`, `ring,rate=300,real-time`,
/// `source,payload=244,real-time`.
///
/// The kind of peripheral comes first, then options in any order, separated by commas:
///
/// | option | meaning |
/// |---|---|
/// | `rate=N` | notifications per second (default: a ring's 300, a source's as many as the link allows), or ticks of a sensor (1) |
/// | `count=N` | stop after this many notifications: of each stream of a ring, on each link of a source or sensor |
/// | `payload=N` | bytes of a source's values, 4 … 512 (default: 20) |
/// | `devices=N` | number of peripherals, 1 … 64, each with its own name and address |
/// | `real-time` | run at the speed of a real radio instead of as fast as the processor allows |
/// | `loss=P` | probability that a packet is damaged and sent again, 0 … 1; needs `real-time` |
/// | `extended` | support the extended advertising commands in the controller |
/// | `quiet` | a ring sends no requests to the central |
/// | `heart-rate=N` | beats per minute of the wearer of a ring, strap or Polar sensor: 72, or 64-80 for a rise and fall each minute |
/// | `variability=P` | amplitude of the heart rate's variation by breathing and a slow wave, 0 … 0.4 (default: 0.05) |
/// | `ectopic=P` | fraction of premature beats, 0 … 0.5 |
/// | `motion=KIND` | motion of a ring's wearer: `rest`, `walk`, `run` |
/// | `cadence=N` | steps per minute in motion, 30 … 240 (default: 105 and 160) |
/// | `bout=SECONDS` | alternate rest and motion, each of this duration |
/// | `perfusion=P` | optical pulse of a ring relative to that of a warm finger, 0 … 1 |
/// | `lifted-every=SECONDS` | a ring is off the finger for 5 s, at this interval |
/// | `taken-off-after=SECONDS` | a ring is off the finger after this time |
/// | `shared` | a ring, strap or Polar sensor is on the same body as the others with this option |
/// | `late=MS` | delay between measuring and sending, 0 … 10000 |
/// | `clock-ppm=N` | rate by which the clock is fast, in parts per million, −500 … 500 |
/// | `dropout=P` | probability that an optical reading of a ring is missing, 0 … 1 |
/// | `malformed-every=N` | a ring damages every N-th raw notification, a sensor every N-th value |
/// | `disconnect-after=N` | a ring loses the link after N raw notifications, a sensor after N values |
/// | `history=N` | a ring stores N days, 1 … 31 (default: 7); its clock is this machine's, in UTC |
/// | `all-features` | a ring also has temperature and heart rate variability |
/// | `late-replies=MS` | delay of a ring's replies in milliseconds |
/// | `wrong-checksum=N` | a ring damages every N-th reply |
/// | `foreign-replies` | before each answer, a ring sends the reply to a command that was not sent |
/// | `cut-logs=N` | a ring's logs stop after N frames |
/// | `unasked` | a ring sends unsolicited step counts between the frames of a log |
/// | `repeat-frames` | a ring sends each frame of a log twice |
/// | `attributes=KIND` | how a ring reports changes of its attributes: `captured` (Service Changed), `lasting` (not at all), `hashed` (Service Changed and a hash) |
/// | `stream-by=CHANNEL` | the characteristic for raw frames: `replies`, `big-data` |
/// | `move=WHERE` | where a ring's attributes move when they change: `away`, `swapped` |
/// | `move-after=N` | the attributes move after N raw notifications on a link |
/// | `move-between-links` | the attributes move after the first link |
/// | `sleeps-after=SECONDS` | a ring stops advertising this long after a link |
/// | `off-body-every=N` | a sensor is off the body in every N-th tick |
/// | `fahrenheit` | the unit of a thermometer or CORE sensor |
/// | `security=LEVEL` | security level that a central needs to use the device: `encrypted`, `authenticated` |
/// | `passkey=N` | the passkey that the device shows and types (default: 123456) |
/// | `io-capability=NAME` | the device's input and output: `none`, `display`, `yes-no`, `keyboard`, `keyboard-display` |
/// | `legacy-pairing` | the device pairs without Secure Connections |
///
/// Without wearer options, a ring's wearer is at rest with exactly 72 beats per minute. With any of them the
/// wearer breathes and has a heart rate that matches the motion; see `Wearer`.
///
/// Sensors are `heart-rate`, `thermometer`, `core`, `cycling` and `polar`. To put several peripherals in range
/// of each other, join them with `+`: `ring,rate=75+heart-rate+polar,real-time`.
public struct VirtualPeripheralSpecification: Hashable, Sendable {
  public enum Kind: String, CaseIterable, Hashable, Sendable {
    case ring, source
    case heartRate = "heart-rate"
    case thermometer, core, cycling, polar

    /// Whether the kind is an `EmulatedSensor`.
    var isSensor: Bool {
      switch self {
      case .ring, .source: false
      case .heartRate, .thermometer, .core, .cycling, .polar: true
      }
    }

    /// Whether the kind has a wearer.
    var hasBody: Bool { !wearerOptions.isEmpty }

    var hasUnit: Bool { self == .thermometer || self == .core }

    /// The options of `Wearer.set` and `BodyTime.set` that the kind supports.
    var wearerOptions: [String] {
      switch self {
      case .ring: Wearer.options + BodyTime.options
      case .heartRate: Wearer.heartOptions + BodyTime.options
      case .polar: Wearer.heartOptions + ["motion", "cadence", "bout"] + BodyTime.options
      case .source, .thermometer, .core, .cycling: []
      }
    }

    /// The kind's options in addition to the common ones, for a message.
    var options: String {
      switch self {
      case .ring:
        "heart-rate=N, variability=P, ectopic=P, motion=KIND, cadence=N, bout=SECONDS, perfusion=P, lifted-every=SECONDS, "
          + "taken-off-after=SECONDS, dropout=P, sleeps-after=SECONDS, quiet, malformed-every=N, disconnect-after=N, history=N, all-features, "
          + "late-replies=MS, wrong-checksum=N, foreign-replies, cut-logs=N, unasked, repeat-frames, attributes=KIND, "
          + "stream-by=CHANNEL, move=WHERE, move-after=N, move-between-links, shared, late=MS, clock-ppm=N, "
      case .source: "payload=N, "
      case .heartRate, .polar:
        "heart-rate=N, variability=P, ectopic=P, "
          + (self == .polar ? "motion=KIND, cadence=N, bout=SECONDS, " : "")
          + "shared, late=MS, clock-ppm=N, malformed-every=N, disconnect-after=N, off-body-every=N, "
      case .cycling: "malformed-every=N, disconnect-after=N, off-body-every=N, "
      case .thermometer, .core: "malformed-every=N, disconnect-after=N, off-body-every=N, fahrenheit, "
      }
    }
  }

  /// Reason why a text is not a valid specification, for the user.
  public struct ParseError: Error, Hashable, Sendable, CustomStringConvertible {
    public let description: String
  }

  public static let deviceCounts = 1...64
  /// Valid rates: notifications per second, or ticks of a sensor.
  public static let rates = 0.001...1e6

  public var kind: Kind
  /// Notifications per second, or ticks of a sensor; `nil` for the kind's default.
  public var rate: Double?
  public var count: Int?
  public var payloadByteCount = EmulatedSource.Configuration().payloadByteCount
  public var deviceCount = 1
  public var pace = VirtualAir.Pace.immediate
  public var packetErrorRate = 0.0
  public var commandSet = VirtualController.Configuration.CommandSet.legacy
  public var behaviour = EmulatedRing.Configuration().behaviour
  /// The wearer; `nil` for the kind's default.
  public var wearer: Wearer?
  public var body = BodyTime()
  /// Probability that an optical reading of a ring is missing.
  public var dropoutRate = 0.0
  /// How long a ring advertises after a link; `nil` to advertise until a central connects.
  public var sleepsAfter: Duration?
  public var malformedEvery: Int?
  public var disconnectAfter: Int?
  /// Stored data; `nil` for a ring that refuses such requests.
  public var history: RingHistory? = RingHistory()
  public var features = EmulatedRing.Configuration().features
  public var replyFaults = RingReplyFaults()
  public var attributes = RingAttributes()
  public var offBodyEvery: Int?
  public var unit = TemperatureMeasurement.Unit.celsius
  /// The security that the device requires; `nil` for none.
  public var protection: PeripheralProtection? { security.protection }
  private var security = SecurityFields()
  /// The specifications after a `+`: devices in the same virtual air.
  private var others: [VirtualPeripheralSpecification] = []

  public init(_ kind: Kind) { self.kind = kind }

  public init(parsing text: String) throws(ParseError) {
    let parts = text.split(separator: "+", omittingEmptySubsequences: false).map(String.init)
    try self.init(one: parts[0])
    for part in parts.dropFirst() { others.append(try Self(one: part)) }
    let all = [self] + others
    if all.contains(where: { $0.pace == .air }) { pace = .air }
    if all.contains(where: { $0.commandSet == .extended }) { commandSet = .extended }
    packetErrorRate = all.map(\.packetErrorRate).max() ?? 0
    if packetErrorRate > 0, pace == .immediate {
      throw ParseError(description: "loss needs real-time in '\(text)'")
    }
  }

  private init(one text: String) throws(ParseError) {
    let fields = text.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
    guard let first = fields.first, let kind = Kind(rawValue: first) else {
      let kinds = Kind.allCases.map(\.rawValue).joined(separator: ", ")
      throw ParseError(
        description: "there is no virtual peripheral '\(fields.first ?? "")'; there are \(kinds)")
    }
    self.init(kind)
    for field in fields.dropFirst() { try take(field) }
    if let problem = security.problem { throw ParseError(description: "\(problem) in '\(text)'") }
  }

  private mutating func take(_ field: String) throws(ParseError) {
    let parts = field.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
    let value = parts.count == 2 ? parts[1] : nil
    switch (parts[0], value) {
    case ("real-time", nil): pace = .air
    case ("extended", nil): commandSet = .extended
    case ("rate", let value?):
      rate = try Self.number(value, field, "0.001 … 1000000 a second") { Self.rates.contains($0) }
    case ("count", let value?): count = try Self.whole(value, field, 1...Int.max)
    case ("devices", let value?): deviceCount = try Self.whole(value, field, Self.deviceCounts)
    case ("payload", let value?) where kind == .source:
      payloadByteCount = try Self.whole(value, field, EmulatedSource.payloadByteCounts)
    case ("quiet", nil) where kind == .ring: behaviour = .quiet
    case ("malformed-every", let value?) where kind != .source:
      malformedEvery = try Self.whole(value, field, 1...Int.max)
    case ("disconnect-after", let value?) where kind != .source:
      disconnectAfter = try Self.whole(value, field, 1...Int.max)
    case ("off-body-every", let value?) where kind.isSensor:
      offBodyEvery = try Self.whole(value, field, 1...Int.max)
    case ("fahrenheit", nil) where kind.hasUnit: unit = .fahrenheit
    case ("security", let value?): security.level = try Self.word(value, field)
    case ("passkey", let value?): security.passkey = UInt32(try Self.whole(value, field, 0...999_999))
    case ("io-capability", let value?): security.capability = try Self.word(value, field)
    case ("legacy-pairing", nil): security.isLegacy = true
    case ("loss", let value?):
      packetErrorRate = try Self.number(value, field, "0 … 1") { (0...1).contains($0) }
    case ("shared", nil) where kind.hasBody: body.isShared = true
    case (let name, let value?) where kind.wearerOptions.contains(name):
      do throws(Wearer.Refusal) {
        if try body.set(name, value) { return }
        var wearer = wearer ?? Wearer()
        try wearer.set(name, value)
        self.wearer = wearer
      } catch { throw ParseError(description: "'\(field)': \(error.range) is wanted") }
    case (let name, let value) where kind == .ring: try take(ringOption: name, value, field)
    default: throw Self.unknown(field, kind)
    }
  }

  /// Parses the options for a ring's stored data and replies.
  private mutating func take(
    ringOption name: String, _ value: String?, _ field: String
  ) throws(ParseError) {
    switch (name, value) {
    case ("dropout", let value?):
      dropoutRate = try Self.number(value, field, "0 … 1") { (0...1).contains($0) }
    case ("sleeps-after", let value?):
      sleepsAfter = .seconds(try Self.number(value, field, "seconds above 0") { $0 > 0 && $0 <= 86_400 })
    case ("history", let value?): history = RingHistory(dayCount: try Self.whole(value, field, 1...31))
    case ("all-features", nil): features = .all
    case ("late-replies", let value?):
      replyFaults.delay = .milliseconds(try Self.whole(value, field, 1...600_000))
    case ("wrong-checksum", let value?):
      replyFaults.wrongChecksumEvery = try Self.whole(value, field, 1...Int.max)
    case ("foreign-replies", nil): replyFaults.foreignReplies = true
    case ("cut-logs", let value?): replyFaults.logFrameLimit = try Self.whole(value, field, 1...255)
    case ("unasked", nil): replyFaults.unaskedFrames = true
    case ("repeat-frames", nil): replyFaults.repeatedFrames = true
    case ("attributes", let value?): attributes.kind = try Self.word(value, field)
    case ("stream-by", let value?): attributes.streamChannel = try Self.word(value, field)
    case ("move", let value?): attributes.move = try Self.word(value, field)
    case ("move-after", let value?):
      attributes.moment = .afterNotifications(try Self.whole(value, field, 1...Int.max))
    case ("move-between-links", nil): attributes.moment = .betweenLinks
    default: throw Self.unknown(field, kind)
    }
  }

  private static func unknown(_ field: String, _ kind: Kind) -> ParseError {
    return ParseError(
      description:
        "'\(field)' is no option of virtual:\(kind.rawValue); there are rate=N, count=N, \(kind.options)"
        + "devices=N, real-time, loss=P, extended, security=LEVEL, passkey=N, io-capability=NAME, "
        + "legacy-pairing")
  }

  private static func word<Word: CaseIterable & RawRepresentable<String>>(
    _ text: String, _ field: String
  ) throws(ParseError) -> Word {
    guard let word = Word(rawValue: text) else {
      let words = Word.allCases.map(\.rawValue).joined(separator: ", ")
      throw ParseError(description: "'\(field)': one of \(words) is wanted")
    }
    return word
  }

  private static func number(
    _ text: String, _ field: String, _ range: String, isValid: (Double) -> Bool
  ) throws(ParseError) -> Double {
    guard let number = Double(text), isValid(number) else {
      throw ParseError(description: "'\(field)': \(range) is wanted")
    }
    return number
  }

  private static func whole(
    _ text: String, _ field: String, _ range: ClosedRange<Int>
  ) throws(ParseError) -> Int {
    guard let number = Int(text), range.contains(number) else {
      let upper = range.upperBound == .max ? "" : " \(range.upperBound)"
      throw ParseError(description: "'\(field)': a whole number, \(range.lowerBound) …\(upper), is wanted")
    }
    return number
  }

  // MARK: Results

  /// Creates new peripherals. A single one has the name and address of its kind.
  ///
  /// - Parameter keyPairs: required for Secure Connections; without it, protected devices use legacy pairing.
  public func makePeripherals(
    keyPairs: (@Sendable () -> any P256KeyAgreement)? = nil
  ) -> [any VirtualPeripheral] {
    let others = others.flatMap { $0.makePeripherals(keyPairs: keyPairs) }
    guard let protection else { return makeOpenPeripherals() + others }
    return makeOpenPeripherals().map { peripheral in
      let address = peripheral.advertisement?.address ?? .any
      let keyPairs = protection.kind == .legacy ? nil : keyPairs
      return SecuredPeripheral(
        peripheral, protection.level, PeripheralSecurity(protection, of: address, makeKeyPair: keyPairs))
    } + others
  }

  private func makeOpenPeripherals() -> [any VirtualPeripheral] {
    (0..<deviceCount).map { number in
      switch kind {
      case .ring: EmulatedRing(ring(number))
      case .source: EmulatedSource(source(number))
      case .heartRate: sensor(StrapModel(), number) { $0.rhythm = wearer?.rhythm ?? $0.rhythm }
      case .thermometer: sensor(ThermometerModel(), number) { $0.unit = unit }
      case .core: sensor(CoreModel(), number) { $0.unit = unit }
      case .cycling: sensor(CyclingModel(), number)
      case .polar:
        sensor(PolarModel(), number) {
          $0.rhythm = wearer?.rhythm ?? $0.rhythm
          $0.wearer = wearer.flatMap { $0.motion == .rest ? nil : $0 }
        }
      }
    }
  }

  public func makeAir(keyPairs: (@Sendable () -> any P256KeyAgreement)? = nil) -> VirtualAir {
    VirtualAir(
      VirtualAir.Configuration(pace: pace, packetErrorRate: packetErrorRate),
      peripherals: makePeripherals(keyPairs: keyPairs))
  }

  /// Creates a controller in a virtual air of its own with the peripherals.
  public func makeController(
    keyPairs: (@Sendable () -> any P256KeyAgreement)? = nil
  ) -> VirtualController {
    VirtualController(controller, in: makeAir(keyPairs: keyPairs))
  }

  public var controller: VirtualController.Configuration { .init(commandSet: commandSet) }

  private func ring(_ number: Int) -> EmulatedRing.Configuration {
    var ring = EmulatedRing.Configuration()
    // Fast enough for useful recordings, and within a link's capacity.
    ring.notificationsPerSecond = rate ?? 300
    ring.notificationLimit = count
    ring.behaviour = behaviour
    ring.wearer = wearer ?? .even
    ring.body = body
    ring.dropoutRate = dropoutRate
    ring.sleepsAfter = sleepsAfter
    ring.malformedEvery = malformedEvery
    ring.disconnectAfter = disconnectAfter
    ring.history = history
    ring.features = features
    ring.replyFaults = replyFaults
    ring.attributes = attributes
    ring.clock = try? RingDateTime(
      secondsSince1970: SystemClock.now().nanoseconds / 1_000_000_000, convention: .utc)
    if deviceCount > 1 {
      ring.name = "R02_" + Self.fourDigits(number + 1)
      ring.address = Self.address(ring.address, number)
    }
    return ring
  }

  private func source(_ number: Int) -> EmulatedSource.Configuration {
    var source = EmulatedSource.Configuration()
    source.payloadByteCount = payloadByteCount
    source.notificationsPerSecond = rate
    source.notificationLimit = count
    if deviceCount > 1 {
      source.name = "source " + Self.fourDigits(number + 1)
      source.address = Self.address(source.address, number)
    }
    return source
  }

  private func sensor<Model: SensorModel>(
    _ model: Model, _ number: Int, _ change: (inout Model) -> Void = { _ in }
  ) -> EmulatedSensor {
    var (model, sensor) = (model, EmulatedSensor.Configuration())
    change(&model)
    sensor.ticksPerSecond = rate ?? sensor.ticksPerSecond
    sensor.valueLimit = count
    sensor.malformedEvery = malformedEvery
    sensor.disconnectAfter = disconnectAfter
    sensor.offBodyEvery = offBodyEvery
    sensor.body = body
    if deviceCount > 1 {
      model.name = String(model.name.split(separator: " ")[0]) + " " + Self.fourDigits(number + 1)
      model.address = Self.address(model.address, number)
    }
    return EmulatedSensor(model, sensor)
  }

  /// Replaces the lowest two bytes with the device's number from 1, as in the names.
  private static func address(_ base: DeviceAddress, _ number: Int) -> DeviceAddress {
    DeviceAddress(bits: base.bits & ~0xFFFF | UInt64(number + 1), type: base.type)
  }

  private static func fourDigits(_ number: Int) -> String {
    let digits = String(number)
    return String(repeating: "0", count: max(0, 4 - digits.count)) + digits
  }
}

/// Security options of a specification.
struct SecurityFields: Hashable, Sendable {
  var level: PeripheralProtection.Level?
  var passkey: UInt32?
  var capability: PeripheralProtection.Capability?
  var isLegacy = false

  var protection: PeripheralProtection? {
    guard let level else { return nil }
    var protection = PeripheralProtection(level, passkey: passkey, capability: capability)
    if isLegacy { protection.kind = .legacy }
    return protection
  }

  /// Reason why the options are invalid; `nil` if they are valid.
  var problem: String? {
    guard let protection else {
      return passkey != nil || capability != nil || isLegacy
        ? "passkey, io-capability and legacy-pairing need security=LEVEL" : nil
    }
    return protection.isPossible ? nil : "a device without io-capability cannot be authenticated"
  }
}
