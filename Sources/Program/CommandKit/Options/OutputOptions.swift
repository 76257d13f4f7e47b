package import ArgumentParser
import BLELinux
import BLEWire
package import Fleet
import JSONText
package import Outlets

/// Live outputs of a recording, in addition to its directory.
package struct Outputs: Sendable {
  /// Standard output and sockets that receive JSON lines.
  package private(set) var streams: [StreamTarget] = []
  /// Whether to publish Lab Streaming Layer streams.
  package private(set) var isForLab = false
  /// Publishing to collectors; `nil` if not requested.
  package private(set) var fleet: PublishRun.Plan?
  package private(set) var homeAssistant: HomePlan?
  package private(set) var influx: InfluxPlan?
  /// Receivers of Open Sound Control.
  package private(set) var osc: [OSCOutput.Place] = []
  /// The kind of rows for all outputs except collectors and Home Assistant.
  package var rows = SampleRows.tables

  package init() {}

  package var isEmpty: Bool { self.streams.isEmpty && isOnlyStreams }

  /// Whether there is no output other than `streams`.
  package var isOnlyStreams: Bool {
    !isForLab && fleet == nil && homeAssistant == nil && influx == nil && osc.isEmpty
  }

  /// Adds an output.
  ///
  /// - Parameter text: a value of `--to`, as described by `ringtap help outputs`.
  /// - Throws: `ValidationError`, whose text contains no password from the URL.
  package mutating func add(_ text: String) throws {
    switch text.prefix(while: { $0 != ":" }) {
    case "mqtt", "mqtts":
      let url = try OutputURL(text)
      switch url["as"] ?? "fleet" {
      case "fleet": try addFleet(url)
      case "home-assistant": try addHome(url)
      case let other: throw ValidationError("as=\(other.printable): it must be fleet or home-assistant")
      }
    case "influx+http", "influx+https": try add(influx: text.dropFirst("influx+".count))
    case "osc":
      guard let place = OSCOutput.Place(text) else {
        throw ValidationError("osc:// needs a host and a port, such as osc://127.0.0.1:9000")
      }
      guard !osc.contains(place) else { throw ValidationError("'\(text)' is given twice") }
      osc.append(place)
    case "lsl" where text == "lsl:": try set(\.isForLab, true, isFirst: !isForLab, text)
    case "ws": try add(web: text)
    case "-", "unix", "tcp": try add(stream: text)
    default:
      throw ValidationError(
        "'\(String(text.prefix { $0 != ":" }).printable)' is not an output: give -, unix:PATH, tcp:HOST:PORT, "
          + "ws://:PORT, lsl:, osc://HOST:PORT, mqtt://HOST or influx+http://HOST/PATH; see "
          + "`ringtap help outputs`")
    }
  }

  mutating func add(stream text: String) throws { try add(try Self.target(text), text) }

  private mutating func add(web text: String) throws {
    let url = try OutputURL(text)
    try url.allow(["origin"], "ws://")
    var target = try Self.target(url.place)
    if let origin = url["origin"], case .web(let place) = target {
      guard let place = place.allowing(origin: origin) else {
        throw ValidationError(
          "origin=\(origin.printable): it is not an origin such as https://example.org or http://localhost:3000"
        )
      }
      target = .web(place)
    }
    try add(target, text)
  }

  private static func target(_ text: String) throws -> StreamTarget {
    do throws(StreamTarget.ParseError) { return try StreamTarget(text) } catch {
      throw ValidationError("\(error)")
    }
  }

  private mutating func add(_ target: StreamTarget, _ text: String) throws {
    guard !streams.contains(target) else { throw ValidationError("'\(text)' is given twice") }
    streams.append(target)
  }

  private mutating func addFleet(_ url: OutputURL) throws {
    try url.allow(["as", "name", "backlog", "patience", "ca", "password-file"], "mqtt://")
    try set(
      fleet: url.place, name: url["name"],
      backlog: url["backlog"].map { try url.parse("backlog", $0, ByteCount.atLeast(.fourKilobytes)) },
      patience: url["patience"].map { try url.parse("patience", $0, PublishOptions.patiences.parse) },
      ca: url["ca"], passwordFile: url["password-file"])
  }

  mutating func set(
    fleet url: String, name: String?, backlog: ByteCount?, patience: Double?, ca: String?,
    passwordFile: String?
  ) throws {
    let plan = PublishRun.Plan(
      try BrokerOptions.broker(url, passwordFile: passwordFile), as: try name.map(FleetName.checked),
      backlog: backlog ?? .gigabyte, patience: .seconds(patience ?? PublishOptions.defaultPatience),
      certificates: ca)
    try set(\.fleet, plan, isFirst: fleet == nil, "a broker for collectors")
  }

  private mutating func addHome(_ url: OutputURL) throws {
    try url.allow(["as", "ca", "password-file"], "mqtt://…?as=home-assistant")
    try set(home: url.place, ca: url["ca"], passwordFile: url["password-file"])
  }

  mutating func set(home url: String, ca: String?, passwordFile: String?) throws {
    let plan = HomePlan(
      try BrokerOptions.broker(url, passwordFile: passwordFile, prefix: HomePlan.defaultPrefix),
      certificates: ca)
    try set(\.homeAssistant, plan, isFirst: homeAssistant == nil, "a broker for Home Assistant")
  }

  private mutating func add(influx text: Substring) throws {
    // Passes all other parameters to the server unchanged.
    var url = try OutputURL(String(text))
    let (token, ca) = (url.take("token-file"), url.take("ca"))
    try set(influx: url.text, token: token, ca: ca)
  }

  mutating func set(influx url: String, token: String?, ca: String?) throws {
    let token =
      try token.map { try BrokerOptions.secret(in: $0) } ?? ProcessFacts.environment("RINGTAP_INFLUX_TOKEN")
    let plan: InfluxPlan
    do throws(InfluxPlan.ParseError) {
      plan = try InfluxPlan(url, token: token, certificates: ca, version: Console.version)
    } catch { throw ValidationError("\(error)") }
    try set(\.influx, plan, isFirst: influx == nil, "a database")
  }

  mutating func setForLab() { isForLab = true }

  private mutating func set<Value>(
    _ path: WritableKeyPath<Outputs, Value>, _ value: Value, isFirst: Bool, _ what: String
  ) throws {
    guard isFirst else { throw ValidationError("\(what) is given twice: a recording has at most one") }
    self[keyPath: path] = value
  }
}

/// A URL whose query contains parameters for ringtap.
private struct OutputURL {
  /// The URL without its query.
  let place: String
  private var items: [Substring]

  init(_ text: String) throws {
    let parts = text.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
    place = String(parts[0])
    items = parts.count > 1 ? parts[1].split(separator: "&") : []
  }

  /// The URL with the remaining parameters.
  var text: String { items.isEmpty ? place : place + "?" + items.joined(separator: "&") }

  subscript(_ name: String) -> String? {
    guard let item = items.first(where: { Self.name($0) == name }) else { return nil }
    let value = item.dropFirst(name.count + 1)
    return BrokerAddress.decoded(value) ?? String(value)
  }

  mutating func take(_ name: String) -> String? {
    defer { items.removeAll { Self.name($0) == name } }
    return self[name]
  }

  /// Rejects parameters that are not listed, have no value, or are given twice.
  func allow(_ names: [String], _ form: String) throws {
    for item in items {
      let name = Self.name(item)
      guard names.contains(String(name)) else {
        throw ValidationError(
          "\(form) has no parameter '\(String(name).printable)'; it has \(names.joined(separator: ", "))")
      }
      guard item.utf8.count > name.utf8.count + 1 else {
        throw ValidationError("the parameter '\(name)' has no value")
      }
      guard items.filter({ Self.name($0) == name }).count == 1 else {
        throw ValidationError("the parameter '\(name)' is given twice")
      }
    }
  }

  func parse<Value>(_ name: String, _ text: String, _ parse: (String) throws -> Value) throws -> Value {
    do { return try parse(text) } catch let error as ValidationError {
      throw ValidationError("\(name)=\(text.printable): \(error.message)")
    }
  }

  private static func name(_ item: Substring) -> Substring { item.prefix { $0 != "=" } }
}

/// `--to`, and the deprecated options that it replaced.
package struct OutputOptions: ParsableArguments {
  package init() {}

  @Option(
    help: ArgumentHelp(
      """
      Send samples elsewhere, too: -, unix:PATH, tcp:HOST:PORT, ws://:PORT, lsl:, osc://HOST:PORT, mqtt://HOST, \
      influx+http://…; repeatable (`ringtap help outputs`).
      """, valueName: "url"))
  package var to: [String] = []

  @Option(
    help: ArgumentHelp(
      """
      Which rows --to sends: tables (of each stream, at once), ticks (of a ring, all streams together, up to 8 s \
      later) or all.
      """, visibility: .hidden), completion: .list(SampleRows.allCases.map(\.rawValue)),
    transform: Words.parse)
  package var rows = SampleRows.tables

  @OptionGroup(visibility: .hidden) package var former: FormerOutputOptions

  package func validate() throws { _ = try outputs() }

  /// Returns the outputs.
  ///
  /// - Parameter streams: targets given by a deprecated option.
  package func outputs(_ streams: [String] = []) throws -> Outputs {
    var outputs = Outputs()
    outputs.rows = rows
    for text in to {
      do { try outputs.add(text) } catch let error as ValidationError {
        throw ValidationError("--to: \(error.message)")
      }
    }
    for text in streams { try outputs.add(stream: text) }
    try former.add(to: &outputs)
    return outputs
  }

  /// Returns the outputs of a recording. Prints the replacement of each deprecated option.
  ///
  /// - Parameter format: the format of the tables. Only text can be published to collectors.
  package func outputs(_ streams: FormerStreams = .none, for format: TableOptions.Format) throws -> Outputs {
    for line in former.notes + streams.notes { Console.note(line) }
    let outputs = try outputs(streams.texts)
    if outputs.fleet != nil, format != .csv {
      throw ValidationError("collectors receive text tables: record with --format csv")
    }
    return outputs
  }

  /// Rejects outputs without a recording.
  package func validate(output: String?, _ streams: FormerStreams = .none) throws {
    let outputs = try outputs(streams.texts)
    if output == nil, !outputs.isEmpty {
      throw ValidationError("--to needs an --output directory; without one, --json prints the samples")
    }
  }
}

/// Targets given by the deprecated options `--stream` and `--stream-to`.
package struct FormerStreams: Sendable {
  package static let none = FormerStreams([], "")

  let texts: [String]
  private let option: String

  package init(_ texts: [String], _ option: String) { (self.texts, self.option) = (texts, option) }

  var notes: [String] {
    texts.isEmpty ? [] : [FormerOutputOptions.note(option, "--to \(texts[0].printable)")]
  }
}

/// The deprecated option `--stream`.
package struct FormerStreamOptions: ParsableArguments {
  package init() {}

  @Option(help: ArgumentHelp(visibility: .hidden)) package var stream: [String] = []

  package var streams: FormerStreams { FormerStreams(stream, "--stream") }
}

/// Deprecated options that `--to` replaced. The options still work, and print a note.
package struct FormerOutputOptions: ParsableArguments {
  package init() {}

  @Flag(help: ArgumentHelp(visibility: .hidden)) var lsl = false
  @Option(help: ArgumentHelp(visibility: .hidden)) var publish: String?
  @Option(help: ArgumentHelp(visibility: .hidden)) var publishAs: String?
  @Option(help: ArgumentHelp(visibility: .hidden), transform: ByteCount.atLeast(.fourKilobytes))
  var publishBacklog: ByteCount?
  @Option(help: ArgumentHelp(visibility: .hidden), in: PublishOptions.patiences) var publishPatience: Double?
  @Option(help: ArgumentHelp(visibility: .hidden)) var publishCa: String?
  @Option(help: ArgumentHelp(visibility: .hidden)) var publishPasswordFile: String?
  @Option(help: ArgumentHelp(visibility: .hidden)) var homeAssistant: String?
  @Option(help: ArgumentHelp(visibility: .hidden)) var homeAssistantCa: String?
  @Option(help: ArgumentHelp(visibility: .hidden)) var homeAssistantPasswordFile: String?
  @Option(help: ArgumentHelp(visibility: .hidden)) var influx: String?
  @Option(help: ArgumentHelp(visibility: .hidden)) var influxToken: String?
  @Option(help: ArgumentHelp(visibility: .hidden)) var influxCa: String?

  func add(to outputs: inout Outputs) throws {
    if lsl { outputs.setForLab() }
    if let publish {
      try outputs.set(
        fleet: publish, name: publishAs, backlog: publishBacklog, patience: publishPatience, ca: publishCa,
        passwordFile: publishPasswordFile)
    } else if publishAs != nil || publishCa != nil || publishPasswordFile != nil || publishBacklog != nil
      || publishPatience != nil
    {
      throw ValidationError("--publish-as, -backlog, -patience, -ca and -password-file need --publish")
    }
    if let homeAssistant {
      try outputs.set(home: homeAssistant, ca: homeAssistantCa, passwordFile: homeAssistantPasswordFile)
    } else if homeAssistantCa != nil || homeAssistantPasswordFile != nil {
      throw ValidationError("--home-assistant-ca and -password-file need --home-assistant")
    }
    if let influx {
      try outputs.set(influx: influx, token: influxToken, ca: influxCa)
    } else if influxToken != nil || influxCa != nil {
      throw ValidationError("--influx-token and --influx-ca need --influx")
    }
  }

  var notes: [String] {
    var notes: [String] = []
    if lsl { notes.append(Self.note("--lsl", "--to lsl:")) }
    if publish != nil { notes.append(Self.note("--publish", "--to mqtt://…")) }
    if homeAssistant != nil {
      notes.append(Self.note("--home-assistant", "--to 'mqtt://…?as=home-assistant'"))
    }
    if influx != nil { notes.append(Self.note("--influx", "--to influx+http://…")) }
    return notes
  }

  static func note(_ option: String, _ now: String) -> String {
    "\(option) is now \(now), see `ringtap help outputs`; the next version does not know \(option)"
  }
}

/// Option values shared by `publish` and outputs for collectors.
package enum PublishOptions {
  /// Valid range of the no-progress timeout, in seconds.
  package static let patiences = NumberRange(above: 0, upTo: 1e6, "seconds")
  package static let defaultPatience = 10.0
}

/// The sample stream of a command.
extension SampleStream {
  /// Maximum time to send the remaining samples after a signal.
  private static let leavingPatience = Duration.milliseconds(250)

  /// The action of a recording when the reader of standard output closes it.
  package enum OutputEnd: Sendable {
    case goesOn
    /// Ends the recording as a first Ctrl-C does, because it has no other output.
    case ends
  }

  /// Opens the stream.
  ///
  /// - Returns: `nil` without a target.
  package static func open(_ targets: [StreamTarget], _ end: OutputEnd) throws -> SampleStream? {
    if targets.isEmpty { return nil }
    let stream = try failing { () throws(SystemError) in
      try SampleStream(targets) { news in
        switch news {
        case .refused: Console.note("a reader of the stream was refused: the limit of readers is reached")
        case .outputEnded(let error): tell(Console.WriteError(error), end)
        }
      }
    }
    for case .web(let place) in targets {
      Console.note(
        "live plots: \(place.url)"
          + (place.isLoopback ? "" : "; everyone who can reach this address receives all samples"))
    }
    return stream
  }

  private static func tell(_ error: Console.WriteError, _ end: OutputEnd) {
    if case .failed(let error) = error {
      Console.note(failure: Failure(error).message + (end == .goesOn ? "; the recording continues" : ""))
    }
    if end == .ends { Interruption.interrupt(because: "standard output was closed by its reader") }
  }

  /// Sends the remaining samples, and prints the number of samples that the reader of standard output missed.
  package func finishAndTell() async {
    // An interrupted command does not wait for its readers.
    try? await Interruption.leaving(after: Self.leavingPatience) { await self.finish() }
    let missed = missed
    guard missed > 0 else { return }
    Console.note(
      "the reader of standard output was too slow and missed \(counted(missed, "line")); the recording has "
        + "them")
  }
}

/// The database connection of a command.
extension InfluxWriter {
  /// Opens the database connection.
  ///
  /// - Returns: `nil` without a plan.
  package static func open(_ plan: InfluxPlan?) throws -> InfluxWriter? {
    guard let plan else { return nil }
    do throws(NoInfluxWriter) { return try InfluxWriter(plan) { Console.note($0) } } catch {
      throw Failure("\(error)")
    }
  }

  /// Writes the remaining rows, and prints a message if the database may lack rows.
  ///
  /// - Returns: whether the database has confirmed all rows.
  package func finishAndTell() async -> Bool {
    // An interrupted command does not wait long for a database.
    let isOver: Void? = try? await Interruption.leaving { await self.finish() }
    if isOver == nil { await leave() }
    guard let problem else { return true }
    Console.note(
      "\(problem); the recording is complete, and `ringtap convert DIR --to influx` writes all of it")
    return false
  }
}

extension HomePlan {
  /// Creates a plan for publishing to Home Assistant.
  ///
  /// - Parameter certificates: PEM file of CA certificates; `nil` for the system's certificates.
  package init(_ broker: BrokerAddress, certificates: String?) {
    self.init(broker, certificates: certificates, version: Console.version)
  }
}

/// The end of a command's connection to Home Assistant.
extension HomeAssistant {
  /// Publishes the end of the recording. Prints a message if a value could not be published.
  ///
  /// - Returns: whether everything was published.
  package func finishAndTell() async -> Bool {
    let problem: String?
    // An interrupted command does not wait for a broker.
    do { problem = try await Interruption.leaving { await self.finish() } } catch {
      problem = "the broker was too slow"
    }
    guard let problem else { return true }
    Console.note("Home Assistant did not receive everything: \(problem); the recording is complete")
    return false
  }
}
