import BLELinux
public import BLESensors
public import BLEStack
public import BLEWire
import ColmiRing

/// An option of emulated peripherals, as in `virtual:ring,rate=75` and `ringtap emulate ring --rate 75`.
public struct VirtualOption: Hashable, Sendable {
  public typealias Kind = VirtualPeripheralSpecification.Kind

  public let name: String
  /// Placeholder of the value; `nil` for an option without a value.
  public let value: String?
  /// Kinds of peripherals that have the option.
  public let kinds: [Kind]
  /// Description for the user.
  public let meaning: String

  private init(_ name: String, _ value: String?, of kinds: [Kind] = Kind.allCases, _ meaning: String) {
    (self.name, self.value, self.kinds, self.meaning) = (name, value, kinds, meaning)
  }

  /// The option as it is written, such as `rate=N`.
  public var text: String { value.map { "\(name)=\($0)" } ?? name }

  private static let sensors: [Kind] = [.heartRate, .thermometer, .core, .cycling, .polar]
  private static let bodies: [Kind] = [.ring, .heartRate, .polar]

  /// All options: those of every kind, then those of a kind.
  public static let all: [VirtualOption] = [
    VirtualOption(
      "rate", "N",
      "notifications per second (a ring's 300, with emulate 3; a source's as many as the link allows), or ticks of a sensor (1)"
    ),
    VirtualOption(
      "count", "N", "stop after N notifications: of each stream of a ring, on each link of others"),
    VirtualOption("devices", "N", "number of peripherals, 1 … 64, each with its own name and address"),
    VirtualOption("real-time", nil, "the speed of a real radio instead of the processor's"),
    VirtualOption("loss", "P", "probability that a packet is damaged and sent again, 0 … 1; needs real-time"),
    VirtualOption("extended", nil, "extended advertising commands in the controller"),
    VirtualOption("security", "LEVEL", "what a central needs to use the device: encrypted or authenticated"),
    VirtualOption("passkey", "N", "the passkey that the device shows and types (123456)"),
    VirtualOption("io-capability", "NAME", "none, display, yes-no, keyboard or keyboard-display"),
    VirtualOption("legacy-pairing", nil, "pairing without Secure Connections"),
    VirtualOption("name", "NAME", of: [.ring] + sensors, "the advertised name"),
    VirtualOption("address", "ADDRESS", of: [.ring] + sensors, "the device address"),
    VirtualOption("address-type", "TYPE", of: [.ring], "public or random"),
    VirtualOption("malformed-every", "N", of: [.ring] + sensors, "damage every N-th value"),
    VirtualOption("disconnect-after", "N", of: [.ring] + sensors, "lose the link after N values"),
    VirtualOption(
      "heart-rate", "N", of: bodies, "beats per minute: 72, or 64-80 for a rise and fall each minute"),
    VirtualOption("variability", "P", of: bodies, "variation by breathing and a slow wave, 0 … 0.4 (0.05)"),
    VirtualOption("ectopic", "P", of: bodies, "fraction of premature beats, 0 … 0.5"),
    VirtualOption("shared", nil, of: bodies, "the same body as the other devices with this option"),
    VirtualOption("late", "MS", of: bodies, "delay between measuring and sending, 0 … 10000"),
    VirtualOption("clock-ppm", "N", of: bodies, "rate by which the clock is fast, -500 … 500"),
    VirtualOption("motion", "KIND", of: [.ring, .polar], "the wearer's motion: rest, walk or run"),
    VirtualOption("cadence", "N", of: [.ring, .polar], "steps per minute, 30 … 240 (walk 105, run 160)"),
    VirtualOption("bout", "SECONDS", of: [.ring, .polar], "alternate rest and motion, this long each"),
    VirtualOption("perfusion", "P", of: [.ring], "optical pulse relative to a warm finger's, 0 … 1"),
    VirtualOption("lifted-every", "SECONDS", of: [.ring], "off the finger for 5 s, at this interval"),
    VirtualOption("taken-off-after", "SECONDS", of: [.ring], "off the finger after this time"),
    VirtualOption("dropout", "P", of: [.ring], "probability that an optical reading is missing, 0 … 1"),
    VirtualOption("sleeps-after", "SECONDS", of: [.ring], "stop advertising this long after a link"),
    VirtualOption("advertising-interval", "MS", of: [.ring], "between advertisements, 20 … 10240 (100)"),
    VirtualOption("rings", "N", of: [.ring], "like devices, but the first keeps its name and address"),
    VirtualOption("quiet", nil, of: [.ring], "send no requests to the central"),
    VirtualOption(
      "history", "N", of: [.ring], "days of stored data, 1 … 31 (7); the clock is this machine's, in UTC"),
    VirtualOption("all-features", nil, of: [.ring], "temperature and heart rate variability, unlike an R02"),
    VirtualOption("late-replies", "MS", of: [.ring], "delay of replies"),
    VirtualOption("wrong-checksum", "N", of: [.ring], "damage every N-th reply"),
    VirtualOption(
      "foreign-replies", nil, of: [.ring], "before each answer, the reply to a command that was not sent"),
    VirtualOption("cut-logs", "N", of: [.ring], "end logs after N frames"),
    VirtualOption("unasked", nil, of: [.ring], "step counts between the frames of a log"),
    VirtualOption("repeat-frames", nil, of: [.ring], "each frame of a log twice"),
    VirtualOption(
      "attributes", "KIND", of: [.ring],
      "how changes of attributes are reported: captured (Service Changed), lasting (not at all), hashed (both)"
    ),
    VirtualOption(
      "stream-by", "CHANNEL", of: [.ring], "the characteristic of raw frames: replies or big-data"),
    VirtualOption("move", "WHERE", of: [.ring], "where attributes move when they change: away or swapped"),
    VirtualOption("move-after", "N", of: [.ring], "move the attributes after N raw notifications on a link"),
    VirtualOption("move-between-links", nil, of: [.ring], "move the attributes after the first link"),
    VirtualOption("off-body-every", "N", of: sensors, "off the body in every N-th tick"),
    VirtualOption("unit", "NAME", of: [.thermometer, .core], "celsius or fahrenheit"),
    VirtualOption("fahrenheit", nil, of: [.thermometer, .core], "the same as unit=fahrenheit"),
    VirtualOption("payload", "N", of: [.source], "bytes of a value, 4 … 512 (20)"),
  ]

  /// Returns the options of a kind.
  public static func options(of kind: Kind) -> [VirtualOption] { all.filter { $0.kinds.contains(kind) } }
}

/// Description of a controller with emulated peripherals, as text: `ring`, `ring,rate=300,real-time`,
/// `source,payload=244,real-time`.
///
/// The kind of peripheral comes first, then options in any order, separated by commas. `VirtualOption.all` lists
/// them, and `ringtap help virtual` prints them.
///
/// Without wearer options, a ring's wearer is at rest with exactly 72 beats per minute. With any wearer
/// option, the wearer breathes and has a heart rate that matches the motion; see `Wearer`.
///
/// Sensors are `heart-rate`, `thermometer`, `core`, `cycling` and `polar`. To put several peripherals in range
/// of each other, join them with `+`: `ring,rate=75+heart-rate+polar,real-time`.
public struct VirtualPeripheralSpecification: Hashable, Sendable {
  public enum Kind: String, CaseIterable, Hashable, Sendable {
    case ring, source
    case heartRate = "heart-rate"
    case thermometer, core, cycling, polar
  }

  /// Reason why a text is not a valid specification. Shown to the user.
  public struct ParseError: Error, Hashable, Sendable, CustomStringConvertible {
    public let description: String
  }

  public static let deviceCounts = 1...64
  /// Bytes of a ring's name. Its advertisement has 31 bytes, five of which are not the name's.
  private static let ringNameByteCounts = 1...26
  /// Valid rates: notifications per second, or ticks of a sensor.
  public static let rates = 0.001...1e6

  public var kind: Kind
  /// Notifications per second, or ticks of a sensor; `nil` for the kind's default.
  public var rate: Double?
  public var count: Int?
  public var payloadByteCount = EmulatedSource.Configuration().payloadByteCount
  public var deviceCount = 1
  /// The advertised name; `nil` for the kind's default.
  public var name: String?
  /// The address; `nil` for the kind's default.
  public var address: DeviceAddress?
  private var addressType = AddressType.public
  /// Whether the first of several devices keeps its name and address.
  private var keepsFirst = false
  /// Time between a ring's advertisements.
  public var advertisingInterval = EmulatedRing.Configuration().advertisingInterval
  public var pace = VirtualAir.Pace.immediate
  public var packetErrorRate = 0.0
  public var commandSet = VirtualController.Configuration.CommandSet.legacy
  public var behaviour = EmulatedRing.Configuration().behaviour
  /// The wearer; `nil` for the kind's default.
  public var wearer: Wearer?
  public var body = BodyTime()
  /// Probability that an optical reading of a ring is missing.
  public var dropoutRate = 0.0
  /// Time for which a ring advertises after a link; `nil` to advertise until a central connects.
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
  /// The security that the device requires; `nil` for no security.
  public var protection: PeripheralProtection? { security.protection }
  private var security = SecurityFields()
  /// The specifications after a `+`: devices in the same virtual air.
  private var others: [VirtualPeripheralSpecification] = []

  public init(_ kind: Kind) { self.kind = kind }

  /// - Parameters:
  ///   - text: kinds and options, as described above.
  ///   - options: further options, which apply to each peripheral in the text.
  public init(
    parsing text: String, adding options: [(name: String, value: String?)] = []
  ) throws(ParseError) {
    let parts = text.split(separator: "+", omittingEmptySubsequences: false).map(String.init)
    try self.init(one: parts[0], options)
    for part in parts.dropFirst() { others.append(try Self(one: part, options)) }
    let all = [self] + others
    if all.contains(where: { $0.pace == .air }) { pace = .air }
    if all.contains(where: { $0.commandSet == .extended }) { commandSet = .extended }
    packetErrorRate = all.map(\.packetErrorRate).max() ?? 0
    if packetErrorRate > 0, pace == .immediate {
      throw ParseError(description: "loss needs real-time in '\(text)'")
    }
  }

  private init(one text: String, _ options: [(name: String, value: String?)]) throws(ParseError) {
    let fields = text.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
    guard let first = fields.first, let kind = Kind(rawValue: first) else {
      let kinds = Kind.allCases.map(\.rawValue).joined(separator: ", ")
      throw ParseError(
        description: "there is no virtual peripheral '\(fields.first ?? "")'; there are \(kinds)")
    }
    self.init(kind)
    for field in fields.dropFirst() {
      let parts = field.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
      try set(parts[0], parts.count == 2 ? parts[1] : nil)
    }
    for (name, value) in options { try set(name, value) }
    if let problem = security.problem { throw ParseError(description: "\(problem) in '\(text)'") }
    if let name, !isPossible(name) {
      throw ParseError(
        description: "the name must have at least 1 byte, and the whole advertisement at most 31")
    }
  }

  private func isPossible(_ name: String) -> Bool {
    switch kind {
    case .ring: Self.ringNameByteCounts.contains(name.utf8.count)
    case .source: false
    case .heartRate, .thermometer, .core, .cycling, .polar:
      !name.isEmpty && sensor(0).model.advertisingData.count <= Advertisement.maximumByteCount
    }
  }

  /// Sets an option.
  ///
  /// - Parameter value: text after the equals sign; `nil` without one.
  private mutating func set(_ name: String, _ value: String?) throws(ParseError) {
    let field = value.map { "\(name)=\($0)" } ?? name
    let options = VirtualOption.options(of: kind)
    guard options.contains(where: { $0.name == name && ($0.value == nil) == (value == nil) }) else {
      let texts = options.map(\.text).joined(separator: ", ")
      throw ParseError(
        description: "'\(field)' is no option of virtual:\(kind.rawValue); there are \(texts)")
    }
    if let value { try set(name, to: value, field) } else { set(name) }
  }

  /// Sets an option without a value.
  private mutating func set(_ name: String) {
    switch name {
    case "real-time": pace = .air
    case "extended": commandSet = .extended
    case "legacy-pairing": security.isLegacy = true
    case "shared": body.isShared = true
    case "fahrenheit": unit = .fahrenheit
    case "quiet": behaviour = .quiet
    case "all-features": features = .all
    case "foreign-replies": replyFaults.foreignReplies = true
    case "unasked": replyFaults.unaskedFrames = true
    case "repeat-frames": replyFaults.repeatedFrames = true
    case "move-between-links": attributes.moment = .betweenLinks
    default: preconditionFailure("an option of VirtualOption.all")
    }
  }

  private mutating func set(_ name: String, to value: String, _ field: String) throws(ParseError) {
    switch name {
    case "rate":
      rate = try Self.number(value, field, "0.001 … 1000000 a second") { Self.rates.contains($0) }
    case "count": count = try Self.whole(value, field, 1...Int.max)
    case "devices": (deviceCount, keepsFirst) = (try Self.whole(value, field, Self.deviceCounts), false)
    case "rings": (deviceCount, keepsFirst) = (try Self.whole(value, field, Self.deviceCounts), true)
    case "name": self.name = value
    case "address":
      guard let address = DeviceAddress(value, type: .public) else {
        throw ParseError(description: "'\(field)': an address such as 70:CB:0D:00:A1:B2 is wanted")
      }
      self.address = address
    case "address-type":
      guard let type = ["public": AddressType.public, "random": .random][value] else {
        throw ParseError(description: "'\(field)': one of public, random is wanted")
      }
      addressType = type
    case "advertising-interval":
      advertisingInterval = .milliseconds(try Self.whole(value, field, 20...10_240))
    case "payload": payloadByteCount = try Self.whole(value, field, EmulatedSource.payloadByteCounts)
    case "malformed-every": malformedEvery = try Self.whole(value, field, 1...Int.max)
    case "disconnect-after": disconnectAfter = try Self.whole(value, field, 1...Int.max)
    case "off-body-every": offBodyEvery = try Self.whole(value, field, 1...Int.max)
    case "unit":
      guard let unit = ["celsius": TemperatureMeasurement.Unit.celsius, "fahrenheit": .fahrenheit][value]
      else {
        throw ParseError(description: "'\(field)': one of celsius, fahrenheit is wanted")
      }
      self.unit = unit
    case "security": security.level = try Self.word(value, field)
    case "passkey": security.passkey = UInt32(try Self.whole(value, field, 0...999_999))
    case "io-capability": security.capability = try Self.word(value, field)
    case "loss": packetErrorRate = try Self.number(value, field, "0 … 1") { (0...1).contains($0) }
    case "dropout", "sleeps-after", "history", "late-replies", "wrong-checksum", "cut-logs", "attributes",
      "stream-by", "move", "move-after":
      try set(ringOption: name, to: value, field)
    default:
      do throws(Wearer.Refusal) {
        if try body.set(name, value) { return }
        var wearer = wearer ?? Wearer()
        try wearer.set(name, value)
        self.wearer = wearer
      } catch { throw ParseError(description: "'\(field)': \(error.range) is wanted") }
    }
  }

  /// Sets an option for a ring's readings, stored data, replies and attributes.
  private mutating func set(
    ringOption name: String, to value: String, _ field: String
  ) throws(ParseError) {
    switch name {
    case "dropout": dropoutRate = try Self.number(value, field, "0 … 1") { (0...1).contains($0) }
    case "sleeps-after":
      sleepsAfter = .seconds(try Self.number(value, field, "seconds above 0") { $0 > 0 && $0 <= 86_400 })
    case "history": history = RingHistory(dayCount: try Self.whole(value, field, 1...31))
    case "late-replies": replyFaults.delay = .milliseconds(try Self.whole(value, field, 1...600_000))
    case "wrong-checksum": replyFaults.wrongChecksumEvery = try Self.whole(value, field, 1...Int.max)
    case "cut-logs": replyFaults.logFrameLimit = try Self.whole(value, field, 1...255)
    case "attributes": attributes.kind = try Self.word(value, field)
    case "stream-by": attributes.streamChannel = try Self.word(value, field)
    case "move": attributes.move = try Self.word(value, field)
    case "move-after": attributes.moment = .afterNotifications(try Self.whole(value, field, 1...Int.max))
    default: preconditionFailure("an option of VirtualOption.all")
    }
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

  /// Creates new peripherals. A single peripheral has the name and address of its kind.
  ///
  /// - Parameter keyPairs: required for Secure Connections; if `nil`, protected devices use legacy pairing.
  public func makePeripherals(
    keyPairs: (@Sendable () -> any P256KeyAgreement)? = nil
  ) -> [any VirtualPeripheral] {
    makeOpenPeripherals().map { peripheral, protection in
      guard let protection else { return peripheral }
      let address = peripheral.advertisement?.address ?? .any
      let keyPairs = protection.kind == .legacy ? nil : keyPairs
      return SecuredPeripheral(
        peripheral, protection.level, PeripheralSecurity(protection, of: address, makeKeyPair: keyPairs))
    }
  }

  /// Creates new peripherals without security, each with the security that it requires; `nil` for none.
  package func makeOpenPeripherals() -> [(
    peripheral: any VirtualPeripheral, protection: PeripheralProtection?
  )] {
    (0..<deviceCount).map { (makeOpenPeripheral($0), protection) }
      + others.flatMap { $0.makeOpenPeripherals() }
  }

  /// Returns the specification with a rate for each ring that lacks one.
  package func sendingRings(_ rate: Double) -> Self {
    var specification = self
    if kind == .ring { specification.rate = self.rate ?? rate }
    specification.others = others.map { $0.sendingRings(rate) }
    return specification
  }

  private func makeOpenPeripheral(_ number: Int) -> any VirtualPeripheral {
    switch kind {
    case .ring: EmulatedRing(ring(number))
    case .source: EmulatedSource(source(number))
    case .heartRate, .thermometer, .core, .cycling, .polar: sensor(number)
    }
  }

  private func sensor(_ number: Int) -> EmulatedSensor {
    switch kind {
    case .heartRate: sensor(StrapModel(), number) { $0.rhythm = wearer?.rhythm ?? $0.rhythm }
    case .thermometer: sensor(ThermometerModel(), number) { $0.unit = unit }
    case .core: sensor(CoreModel(), number) { $0.unit = unit }
    case .cycling: sensor(CyclingModel(), number)
    default:
      sensor(PolarModel(), number) {
        $0.rhythm = wearer?.rhythm ?? $0.rhythm
        $0.wearer = wearer.flatMap { $0.motion == .rest ? nil : $0 }
      }
    }
  }

  public func makeAir(keyPairs: (@Sendable () -> any P256KeyAgreement)? = nil) -> VirtualAir {
    VirtualAir(
      VirtualAir.Configuration(pace: pace, packetErrorRate: packetErrorRate),
      peripherals: makePeripherals(keyPairs: keyPairs))
  }

  /// Creates a controller in a new virtual air with the peripherals.
  public func makeController(
    keyPairs: (@Sendable () -> any P256KeyAgreement)? = nil
  ) -> VirtualController {
    VirtualController(controller, in: makeAir(keyPairs: keyPairs))
  }

  public var controller: VirtualController.Configuration { .init(commandSet: commandSet) }

  private func ring(_ number: Int) -> EmulatedRing.Configuration {
    var ring = EmulatedRing.Configuration()
    // This default is fast enough for useful recordings, and within a link's capacity.
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
    ring.advertisingInterval = advertisingInterval
    ring.name = name ?? ring.name
    ring.address = DeviceAddress(bits: (address ?? ring.address).bits, type: addressType)
    if deviceCount > 1, number > 0 || !keepsFirst {
      ring.name = "R02_" + Self.fourDigits(number + 1)
      ring.address =
        keepsFirst
        ? DeviceAddress(bits: ring.address.bits + UInt64(number), type: addressType)
        : Self.address(ring.address, number)
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
    model.name = name ?? model.name
    model.address = address ?? model.address
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

  /// Returns the address with the device's number, from 1 as in the names, in the lowest two bytes.
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
