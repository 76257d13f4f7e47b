import ArgumentParser
import BLEEmulation
import BLEHost
import BLELinux
import BLEPeripheral
import BLESecurity
import BLEStack
import BLEWire
import CommandKit
import JSONText
import RingTap
import Synchronization

/// The command `ringtap serve FILE`.
package struct ServeCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "serve",
    abstract: "Run a GATT server from a file.",
    discussion: """
      Advertises until interrupted; several hosts may be connected at once. With --mode exclusive, or a \
      --transport, it uses its own controller. In raw mode the kernel manages the links and pairs. In \
      coexist mode the kernel advertises while bluetoothd runs: every host that connects, even for another \
      purpose, sees this device's attributes instead of bluetoothd's, and bluetoothd's agent \
      (`bluetoothctl`) answers pairing requests. A line on standard input sets a value and sends it to all \
      subscribers; the end of the input is ignored. Events are lines on standard output: connected, \
      disconnected, subscribed, written.

      FILE is a text file; `ringtap gatt ADDRESS --output FILE` writes one from a device. A type is a name or a UUID, a value \
      is hexadecimal, text in quotation marks, or numbers after their width. A number sign starts a comment; indentation is \
      ignored.
        device NAME                     the advertised name
        advertise "Heart Rate" 180f     services to advertise (default: all)
        service "Heart Rate"            a service, and after it
          characteristic 2a37 notify    its characteristics, with properties, and
          characteristic "Body Sensor Location" read = u8 1
            descriptor 2901 = "chest"   their descriptors
        service 180f
          characteristic 2a19 read notify encrypted = 64
                                        or authenticated: security it needs
        0x0030-0x0032 2800 0a18         or attributes in bytes as on air:
        0x0031 2803 02 3200 292a        handle, type, value
        0x0032 2a29 41636d65
        needs encrypted 0x0032 …
      Hosts may pair: --display shows a passkey on standard error, --passkey enters the host's, --yes accepts \
      a number comparison, else pairing is Just Works. Keys are stored with those of `ringtap pair`; with \
      --no-remember they are kept until the command ends.

      EXAMPLES
        sudo ringtap serve strap.txt --adapter hci0 --mode exclusive --json
            one object per line: event (ready, connected, disconnected,
            subscribed, written, end), central, address, addressType,
            handle, uuid, value, notifications, indications, reason
        sudo ringtap serve strap.txt --mode raw --extended --passkey 123456
        while sleep 1; do echo '{"uuid":"2A37","value":"0048"}'; done |
            sudo ringtap serve strap.txt --mode exclusive
            each line has handle or uuid, and value in hexadecimal
      """)

  @OptionGroup var radio: AdapterOptions
  @Argument(help: "The file with the device.", completion: .file()) var file: String
  @Option(help: "Advertise under this name instead of the file's.") var name: String?
  @Flag(help: "Show a passkey that the user of a pairing host must type.") var display = false
  @Option(
    help: "The passkey that a pairing host shows: six digits.",
    in: .passkey)
  var passkey: UInt32?
  @Flag(help: "Accept the number shown by a host without comparing it.") var yes = false
  @Flag(help: "Refuse hosts that pair without LE Secure Connections.") var secureConnections = false
  @Flag(help: "Use extended advertising, which older hosts do not receive.") var extended = false
  @Flag(name: .customLong("private"), help: "Use private addresses, which only bonded hosts can resolve.")
  var isPrivate = false
  @Flag(help: "Print JSON lines.") var json = false

  package init() {}

  func run() async throws {
    let device = try read()
    let opened = try await radio.open(links: .max)
    guard let adapter = opened.adapter.advertising, let securing = opened.adapter.securing else {
      await opened.end()
      throw Failure(
        "\(opened.adapter.name) cannot advertise: it is a log; choose an --adapter or a --transport")
    }
    let (file, bonds) = (device, radio.bondFiles)
    do {
      try await Interruption.cancelling {
        try await failing { () async throws(HostError) in
          do throws(HostError) { try await securing.secure(settings(bonds)) } catch {
            guard case .notPermitted = error else { throw error }
            Console.note("hosts cannot pair: \(error)")
          }
        }
        // A controller that does not respond must not delay the command's end.
        try await Interruption.leaving { try await serve(file, by: adapter) }
      }
    } catch is CancellationError {
      // A signal is the normal way to end the command.
    } catch {
      await opened.end()
      throw error
    }
    await opened.end()
  }

  private func read() throws -> DeviceFile {
    let text: String
    do throws(SystemError) {
      text = String(decoding: try WrittenFile.octets(of: file, limit: 1 << 24), as: UTF8.self)
    } catch {
      throw Failure("cannot read \(file): \(error); see `ringtap serve --help`")
    }
    do throws(DeviceFileError) { return try WrittenDevice.parse(text) } catch {
      throw Failure("\(file): \(error)")
    }
  }

  private func settings(_ bonds: (any BondStore)?) -> SecuritySettings {
    let capability: IOCapability =
      switch (display || yes, passkey != nil) {
      case (true, true): .keyboardDisplay
      case (true, false): yes ? .displayYesNo : .displayOnly
      case (false, true): .keyboardOnly
      case (false, false): .noInputNoOutput
      }
    let (passkey, yes, isAsked) = (passkey, yes, OneShot<Void>())
    let agent = PairingAgent(
      capability,
      showPasskey: {
        Console.note("passkey \(ServeText.passkey($0)), to type on the central, not to compare")
      },
      askPasskey: {
        if isAsked.current != nil {
          Console.note(
            "the passkey is used again: each pairing reveals more of it to eavesdroppers; restart with "
              + "another one"
          )
        }
        isAsked.set(())
        return passkey
      },
      compare: { number in
        Console.note("passkey \(ServeText.passkey(number)), to compare, not to type")
        return yes
      })
    var settings = SecuritySettings(
      agent: agent, raising: .byPairing, store: ServedBonds(bonds), makeKeyPair: try? P256KeyPair.maker()
    )
    if secureConnections { settings.kind = .secureConnections }
    return settings
  }

  private func serve(
    _ device: DeviceFile, by adapter: any AdvertisingAdapter
  ) async throws {
    let name = name ?? device.name
    let text = ServeText(isJSON: json)
    var advertisement = DeviceAdvertisement(
      name: name, services: device.advertised, form: extended ? .extended : .legacy)
    advertisement.isPrivate = isPrivate
    do {
      try await adapter.advertise(advertisement, services: device.services) { server in
        try text.ready(await adapter.advertisedAddress, adapter.name, name)
        let input = adapter.loop.task { await ServedValues(server).run() }
        defer { input.cancel() }
        for await event in server.events { try text.show(event, await server.attributes) }
        try text.end(await server.statistics)
      }
    } catch let error as HostError {
      throw Failure(error)
    }
  }
}

/// Stores the keys of centrals. Because any device in range may pair, files store only the keys of known
/// centrals and of a limited number of new centrals. All other keys are kept in memory until the command
/// ends.
final class ServedBonds: BondStore {
  /// Maximum number of new centrals in files, and maximum number in memory.
  private static let limit = GATTServer.keptLimit

  private struct State: Sendable {
    var added = 0
    /// The device that distributed keys most recently, if it used legacy pairing.
    var lastLegacy: DeviceAddress?
    var passing: [StoredBond] = []
  }

  private let files: (any BondStore)?
  private let state = Mutex(State())

  init(_ files: (any BondStore)?) { self.files = files }

  func bonds() -> [StoredBond] { (files?.bonds() ?? []) + state.withLock(\.passing) }

  func keep(_ bond: StoredBond) {
    // If the device distributes an identity, its keys are stored twice, but the warning is printed once.
    let isTold = state.withLock { state in
      defer { state.lastLegacy = bond.bond.isSecureConnections ? nil : bond.device }
      return state.lastLegacy == bond.device
    }
    if !bond.bond.isSecureConnections, !isTold {
      Console.note(
        "\(bond.device) paired without Secure Connections: it does not support them, or an attacker in the "
          + "middle hid them. Anyone who recorded the pairing can find the keys; --secure-connections "
          + "refuses such a pairing")
    }
    if let files {
      let isKnown = files.bonds().contains { $0.device == bond.device }
      let isTaken = state.withLock { state in
        if !isKnown { state.added += 1 }
        return isKnown || state.added <= Self.limit
      }
      if isTaken { return files.keep(bond) }
    }
    state.withLock { state in
      state.passing.removeAll { $0.device == bond.device }
      if state.passing.count == Self.limit { state.passing.removeFirst() }
      state.passing.append(bond)
    }
  }

  /// Checks a signed write. Bonds in files have their sign counters in the files; for other bonds, the check
  /// uses memory.
  func accepts(_ command: borrowing SignedWriteCommand, from peer: DeviceAddress) -> Bool {
    if let files, files.bonds().contains(where: { $0.isMeant(by: peer) }) {
      return files.accepts(command, from: peer)
    }
    return state.withLock { state in
      guard let place = state.passing.lastIndex(where: { $0.isMeant(by: peer) }) else { return false }
      return state.passing[place].bond.accepts(command)
    }
  }
}

/// The output of `serve`, as text or as JSON lines.
struct ServeText: Sendable {
  let isJSON: Bool

  /// Formats a passkey as six digits.
  static func passkey(_ number: UInt32) -> String {
    let digits = String(number)
    return String(repeating: "0", count: max(0, 6 - digits.count)) + digits
  }

  /// Returns the reason for a disconnection, as written in JSON.
  private static func reason(_ end: BearerEnd) -> String {
    switch end {
    case .closedLocally: "closedLocally"
    case .linkLost(.silence): "silence"
    case .linkLost(.closedByPeer): "closedByPeer"
    case .linkLost(.controllerReset): "controllerReset"
    case .linkLost(.unknown): "unknown"
    case .transactionTimeout: "transactionTimeout"
    case .encryptionLost: "encryptionLost"
    case .silent: "silent"
    case .answersNotTaken: "answersNotTaken"
    }
  }

  func ready(_ address: DeviceAddress, _ adapter: String, _ name: String) throws(Console.WriteError) {
    guard isJSON else { return try Console.print("ready \(adapter) \(address) \(name)") }
    try Console.json { line in
      line.member("event", "ready")
      line.member("adapter", adapter)
      line.members(of: address)
      line.member("name", name)
    }
  }

  func show(
    _ event: GATTServerEvent, _ attributes: [GATTServerDatabase.Attribute]
  ) throws(Console.WriteError) {
    switch event {
    case .connected(let central):
      try tell("connected", central) { _ in }
    case .disconnected(let central, let end):
      try tell("disconnected", central, Self.reason(end)) { $0.member("reason", Self.reason(end)) }
    case .written(let central, let handle, let value):
      let hex = value.map { hexadecimal($0) }.joined()
      try tell("written", central, "\(handle.rawValue.handleText) \(hex)") { line in
        line.members(of: handle, attributes)
        line.member("value", hex)
      }
    case .subscribed(let central, let handle, let pushes):
      let words = [(ServerPush.notification, "notifications"), (.indication, "indications")]
        .filter { pushes.contains($0.0) }.map(\.1)
      let text = words.isEmpty ? "nothing" : words.joined(separator: ", ")
      try tell("subscribed", central, "\(handle.rawValue.handleText) \(text)") { line in
        line.members(of: handle, attributes)
        line.member("notifications", pushes.contains(.notification))
        line.member("indications", pushes.contains(.indication))
      }
    }
  }

  func end(_ counts: GATTServerStatistics) throws(Console.WriteError) {
    guard isJSON else {
      let wrongs = Self.wrongs(counts).filter { $0.1 > 0 }.map { ", \($0.1) \($0.0)" }.joined()
      return try Console.print(
        "end \(counts.centrals) connected, \(counts.writes) written, \(counts.notifications) notified, "
          + "\(counts.indications) indicated\(wrongs)")
    }
    try Console.json { line in
      line.member("event", "end")
      line.member("connected", counts.centrals)
      line.member("written", counts.writes)
      line.member("notified", counts.notifications)
      line.member("indicated", counts.indications)
      for (name, count) in Self.wrongs(counts) { line.member(name, count) }
    }
  }

  /// Returns the counts of centrals' errors, with the names in `GATTServerStatistics`.
  private static func wrongs(_ counts: GATTServerStatistics) -> [(String, Int)] {
    [
      ("unconfirmed", counts.unconfirmed), ("brokenWrites", counts.brokenWrites), ("floods", counts.floods),
      ("refusals", counts.refusals), ("failedPairings", counts.failedPairings), ("faults", counts.faults),
    ]
  }

  private func tell(
    _ event: String, _ central: Central, _ text: String = "", _ members: (inout JSONLine) -> Void
  ) throws(Console.WriteError) {
    guard isJSON else {
      return try Console.print(
        "\(event) \(central.number) \(central.address)" + (text.isEmpty ? "" : " \(text)"))
    }
    try Console.json { line in
      line.member("event", event)
      line.member("central", central.number)
      line.members(of: central.address)
      members(&line)
    }
  }
}

extension JSONLine {
  mutating func members(of address: DeviceAddress) {
    member("address", address.description)
    member("addressType", address.type.name.description)
  }

  fileprivate mutating func members(of handle: AttributeHandle, _ attributes: [GATTServerDatabase.Attribute])
  {
    member("handle", Int(handle.rawValue))
    if let attribute = attributes.first(where: { $0.handle == handle }) {
      member("uuid", attribute.type.description)
    }
  }
}
