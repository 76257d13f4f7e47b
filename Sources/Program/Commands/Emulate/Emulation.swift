package import ArgumentParser
package import BLEEmulation
package import BLEHost
import BLELinux
import BLEPeripheral
import BLESecurity
import BLEStack
import BLEWire
import CommandKit
import JSONText
import RingTap
import Synchronization

/// Options for an emulation's transport and its simulated air.
package struct EmulationOptions: ParsableArguments {
  enum Security: String, CaseIterable, ExpressibleByArgument {
    case encrypted, authenticated

    var level: PeripheralProtection.Level { self == .encrypted ? .encrypted : .authenticated }
  }

  enum Capability: String, CaseIterable, ExpressibleByArgument {
    case none, display, keyboard
    case yesNo = "yes-no"
    case keyboardDisplay = "keyboard-display"
  }

  @Flag(
    help: "Attach to the kernel through /dev/vhci (root). May be repeated, like --transport.")
  package var vhci: Int

  @Option(
    help: ArgumentHelp(
      """
      Serve the controller as an H4 byte stream instead: tcp-server:HOST:PORT, unix:PATH, pty:. May be \
      repeated; each is a separate controller in the same air.
      """, valueName: "spec"))
  package var transport: [String] = []

  @Option(help: "Advertise on this adapter, hci0 or its address, for other machines to find.")
  var adapter: String?

  @Option(help: "How to reach the --adapter: raw, coexist or exclusive; see `ringtap help modes`.")
  var mode: AdapterOptions.Mode?

  @Flag(help: "Support the extended advertising commands in the controller.")
  var extended = false

  @Flag(help: "Simulate the timing of a radio: connection events, packet lengths, scan windows, timeouts.")
  var realTime = false

  @Option(
    help: ArgumentHelp(
      "Probability that a packet is damaged and sent again, 0 to 1; needs --real-time.",
      valueName: "probability"), in: .share)
  var loss = 0.0

  @Option(help: "Security level that a central needs to use the device: encrypted or authenticated.")
  var security: Security?

  @Option(
    help: "The passkey that the device shows and types, with --security (default: 123456).",
    in: .passkey)
  var passkey: UInt32?

  @Option(
    help: """
      The device's input and output, with --security: none, display, yes-no, keyboard, keyboard-display \
      (default: display for authenticated, else none).
      """)
  var ioCapability: Capability?

  @Flag(help: "Use legacy pairing, without Secure Connections.")
  var legacyPairing = false

  @Flag(help: "Advertise under a resolvable private address that changes after each link.")
  var privateAddress = false

  @Option(
    help: ArgumentHelp(
      "Let the first controller stop responding after this time, until its host resets it.",
      valueName: "seconds"), in: NumberRange(above: 0, upTo: 86_400, "seconds"))
  var hangsAfter: Double?

  @Option(
    help: ArgumentHelp(
      "Let the first controller stop responding after this time, for good; its links are lost.",
      valueName: "seconds"),
    in: NumberRange(above: 0, upTo: 86_400, "seconds"))
  var diesAfter: Double?

  @Flag(help: "Print JSON lines.")
  package var json = false

  package init() {}

  package func validate() throws {
    if security == nil, passkey != nil || ioCapability != nil || legacyPairing || privateAddress {
      throw ValidationError(
        "--passkey, --io-capability, --legacy-pairing and --private-address need --security")
    }
    if let protection, !protection.isPossible {
      throw ValidationError("a device of --io-capability none cannot be authenticated")
    }
    guard min(vhci, 1) + (transport.isEmpty ? 0 : 1) + (adapter == nil ? 0 : 1) == 1 else {
      throw ValidationError("give one of --vhci, --transport and --adapter")
    }
    if adapter != nil, hangsAfter != nil || diesAfter != nil {
      throw ValidationError("--hangs-after and --dies-after are for a virtual controller, not an --adapter")
    }
    if transport.count > 1, hangsAfter != nil || diesAfter != nil {
      throw ValidationError("--hangs-after and --dies-after need a single --transport, or --vhci")
    }
    if mode != nil, adapter == nil { throw ValidationError("--mode is for an --adapter") }
    if adapter != nil, extended || realTime || loss > 0 || privateAddress || legacyPairing {
      throw ValidationError(
        "--extended, --real-time, --loss, --legacy-pairing and --private-address are for a virtual "
          + "controller, not an --adapter")
    }
    if loss > 0, !realTime { throw ValidationError("--loss needs --real-time") }
    _ = try specifications()
  }

  package func specifications() throws -> [TransportSpecification] {
    try transport.map { text in
      do throws(TransportSpecification.ParseError) {
        let specification = try TransportSpecification(text)
        switch specification {
        case .tcpServer, .unix, .pseudoTerminal: return specification
        default:
          throw TransportSpecification.ParseError(
            "\(text) cannot be served; use tcp-server:, unix: or pty:")
        }
      } catch { throw ValidationError(error.description) }
    }
  }

  /// The device's required security; `nil` for none.
  var protection: PeripheralProtection? {
    guard let security else { return nil }
    let capability = ioCapability.flatMap { PeripheralProtection.Capability(rawValue: $0.rawValue) }
    var protection = PeripheralProtection(security.level, passkey: passkey, capability: capability)
    if legacyPairing { protection.kind = .legacy }
    return protection
  }

  /// Returns these options together with the options in the text of a device that an adapter would also
  /// apply.
  func adding(_ specification: VirtualPeripheralSpecification) -> EmulationOptions {
    var options = self
    options.extended = extended || specification.commandSet == .extended
    options.realTime = realTime || specification.pace == .air
    options.loss = max(loss, specification.packetErrorRate)
    return options
  }

  /// Starts each fault of the first controller at its time.
  fileprivate func disturb(_ emulation: ControllerAttachment) async {
    // A dead controller is also removed from the virtual air, so its peers lose their links.
    let due = [
      (hangsAfter, [ControllerFault.silenceUntilReset]), (diesAfter, [.silence, .restart(announcedBy: [])]),
    ].compactMap { time, faults in time.map { (time: $0, faults: faults) } }.sorted { $0.time < $1.time }
    var passed = 0.0
    for (time, faults) in due {
      guard (try? await Task.sleep(for: .seconds(time - passed))) != nil else { return }
      passed = time
      for fault in faults { await emulation.inject(fault) }
    }
  }

  package var air: VirtualAir.Configuration {
    .init(pace: realTime ? .air : .immediate, packetErrorRate: loss)
  }

  /// Returns the configuration of the controller with this number. The first controller has the default
  /// address; further controllers have the following addresses.
  package func controller(_ number: Int) -> VirtualController.Configuration {
    let first = VirtualController.Configuration().address
    return VirtualController.Configuration(
      address: DeviceAddress(bits: first.bits + UInt64(number), type: first.type),
      commandSet: extended ? .extended : .legacy)
  }
}

/// Bonds of emulated devices, which persist when a host disconnects.
private final class EmulatedBonds: Sendable {
  /// The security of each device, in the order of the devices; `nil` for a device without security.
  private let securities = Mutex<[PeripheralSecurity?]>([])
  /// Creates key pairs; `nil` if Secure Connections is not used.
  private let makeKeyPair: (@Sendable () -> any P256KeyAgreement)?

  init(
    _ options: EmulationOptions,
    _ devices: [(peripheral: any VirtualPeripheral, protection: PeripheralProtection?)]
  ) throws {
    let isNeeded = devices.contains {
      ($0.protection ?? options.protection).map { $0.kind != .legacy } ?? false
    }
    makeKeyPair = isNeeded ? try failing { () throws(MissingLibcrypto) in try P256KeyPair.maker() } : nil
  }

  /// Wraps the devices so that each requires its own security or, if it has none, the security of the
  /// options.
  func securing(
    _ devices: [(peripheral: any VirtualPeripheral, protection: PeripheralProtection?)],
    _ options: EmulationOptions
  ) -> [any VirtualPeripheral] {
    let devices = devices.map { ($0.peripheral, $0.protection ?? options.protection) }
    let kept = securities.withLock { kept in
      for (peripheral, protection) in devices.dropFirst(kept.count) {
        kept.append(
          protection.map {
            PeripheralSecurity(
              $0, of: peripheral.advertisement?.address ?? .any,
              makeKeyPair: $0.kind == .legacy ? nil : makeKeyPair)
          })
      }
      return kept
    }
    return zip(devices, kept).map { device, security in
      guard let protection = device.1, let security else { return device.0 }
      return SecuredPeripheral(
        device.0, protection.level, security, address: options.privateAddress ? .private : .identity)
    }
  }
}

/// Emulated devices, and the text for reporting on them.
struct Emulation: Sendable {
  /// Number of values that the devices sent, and number of values dropped.
  private typealias Sent = (sent: Int, dropped: Int)

  /// Raw notifications per second of a ring. A stock ring sends 3.
  private static let ringRate = 3.0

  /// The devices; `nil` for none.
  private let specification: VirtualPeripheralSpecification?
  /// Address and name of the first device.
  private let first: (address: DeviceAddress, name: String)?
  /// Name of the values in the last line of output, and their key in JSON; `nil` to count nothing.
  private let values: (noun: String, key: String)?

  init(_ specification: VirtualPeripheralSpecification?) {
    self.specification = specification?.sendingRings(Self.ringRate)
    let devices = self.specification?.makeOpenPeripherals().map(\.peripheral) ?? []
    first = devices.first.map { ($0.advertisement?.address ?? .any, $0.name) }
    let isAlike = devices.allSatisfy { type(of: $0) == type(of: devices[0]) }
    values = devices.first.map {
      switch $0 {
      case is EmulatedRing where isAlike: ("raw notifications", "sentRawNotifications")
      case is EmulatedSource where isAlike: ("notifications", "sentNotifications")
      default: ("values", "sentValues")
      }
    }
  }

  private func makeDevices() -> [(peripheral: any VirtualPeripheral, protection: PeripheralProtection?)] {
    specification?.makeOpenPeripherals() ?? []
  }

  /// Runs until interrupted.
  func run(_ options: EmulationOptions) async throws {
    let total = Mutex<Sent>((0, 0))
    do {
      try await Interruption.cancelling {
        if let adapter = options.adapter {
          try await serve(behind: adapter, options, total)
        } else if options.vhci > 0 {
          let emulation = try await ControllerAttachment.attach(
            controller(options, EmulatedBonds(options, makeDevices())), to: VHCI())
          var names = ["hci\(emulation.index ?? 0)"]
          for number in 1..<options.vhci {
            names.append("hci\(try await emulation.add(options.controller(number), to: VHCI()))")
          }
          try ready(names.joined(separator: ","), options)
          await untilEnded(emulation, options, total)
        } else {
          try await serve(options, total)
        }
      }
    } catch is CancellationError {
      // A signal is the normal way to end an emulation.
    }
    try end(total.withLock { $0 }, options)
  }

  private func serve(_ options: EmulationOptions, _ total: borrowing Mutex<Sent>) async throws {
    let specifications = try options.specifications()
    var names: [String] = []
    var servers: [StreamServer] = []
    for specification in specifications {
      servers.append(
        try failing { () throws(HostError) in try StreamServer(specification) { names.append($0) } })
    }
    let bonds = try EmulatedBonds(options, makeDevices())
    try ready(names.joined(separator: ","), options)
    // A pseudo-terminal has only one peer.
    let isOnce = specifications.map { $0 == .pseudoTerminal }
    if servers.count == 1 {
      try await serve(servers[0], once: isOnce[0], options, bonds, total)
    } else {
      try await serve(Array(zip(servers, isOnce)), options, bonds, total)
    }
  }

  /// Serves one host after another. Each host gets a new simulation.
  private func serve(
    _ server: StreamServer, once: Bool, _ options: EmulationOptions, _ bonds: EmulatedBonds,
    _ total: borrowing Mutex<Sent>
  ) async throws {
    while !Task.isCancelled {
      let peer = try await failing { () async throws(HostError) in try await server.next() }
      let emulation = try await failing { () async throws(SystemError) in
        try await ControllerAttachment.attach(controller(options, bonds), to: peer.take(), .stream)
      }
      await untilEnded(emulation, options, total)
      if once { return }
    }
  }

  /// Serves a host at each server, in one air. Hosts may connect and disconnect at any time; each host gets a
  /// controller in its power-on state.
  private func serve(
    _ servers: [(server: StreamServer, once: Bool)], _ options: EmulationOptions, _ bonds: EmulatedBonds,
    _ total: borrowing Mutex<Sent>
  ) async throws {
    let emulation = try failing { () throws(SystemError) in
      try ControllerAttachment.attach(controller(options, bonds))
    }
    let serving = Task {
      try await withThrowingTaskGroup(of: Void.self) { group in
        for (number, (server, once)) in servers.enumerated() {
          group.addTask {
            while !Task.isCancelled {
              let peer = try await failing { () async throws(HostError) in try await server.next() }
              let closed = try await failing { () async throws(SystemError) in
                try await emulation.add(options.controller(number), to: peer.take(), .stream)
              }
              await closed.value()
              if once { return }
            }
          }
        }
        defer { group.cancelAll() }
        try await group.waitForAll()
      }
    }
    // Ends the air if a server fails, or when all pseudo-terminals have closed.
    let ending = Task {
      _ = await serving.result
      await emulation.detach()
    }
    await untilEnded(emulation, options, total)
    serving.cancel()
    await ending.value
    do { try await serving.value } catch {
      if !Task.isCancelled { throw error }
    }
  }

  /// Serves on a real adapter.
  private func serve(
    behind name: String, _ options: EmulationOptions, _ total: borrowing Mutex<Sent>
  ) async throws {
    let words = ["--adapter", name, "--no-remember"] + (options.mode.map { ["--mode", $0.rawValue] } ?? [])
    let opened = try await AdapterOptions.parse(words).open(links: .max)
    do {
      let counts = try await Interruption.leaving { try await advertise(by: opened.adapter, options) }
      total.withLock { $0 = counts }
    } catch {
      await opened.end()
      throw error
    }
    await opened.end()
  }

  private func advertise(by adapter: any Adapter, _ options: EmulationOptions) async throws -> Sent {
    guard let advertising = adapter.advertising, let securing = adapter.securing else {
      throw Failure("\(adapter.name) cannot advertise")
    }
    let address = await advertising.advertisedAddress
    guard let device = makeDevices().first else { throw Failure("there is no device to advertise") }
    var peripheral = device.peripheral
    if let protection = device.protection ?? options.protection {
      let settings = SecuritySettings(
        agent: protection.agent, raising: .byPairing, store: ServedBonds(nil),
        makeKeyPair: try? P256KeyPair.maker())
      try await failing { () async throws(HostError) in try await securing.secure(settings) }
      peripheral = SecuredPeripheral(
        peripheral, protection.level, PeripheralSecurity(protection, of: address, makeKeyPair: nil))
    }
    guard let advertisement = peripheral.advertisement else { throw Failure("the device does not advertise") }
    // The interval is in units of 0.625 ms.
    let units = UInt16(clamping: Int(advertisement.interval / .microseconds(625)))
    let served = AdapterEmulation(peripheral, at: address, on: adapter.loop)
    let server = GATTServer(served, on: adapter.loop)
    try await advertising.advertise(
      DeviceAdvertisement(
        data: advertisement.data, scanResponse: advertisement.scanResponse,
        interval: AdvertisingInterval(units...units)),
      server, upTo: 1, tap: nil
    ) { server in
      try ready(adapter.name, at: address, options)
      for await _ in server.events {}
    }
    return await adapter.loop.task { served.base.sentValues }.value
  }

  private func controller(_ options: EmulationOptions, _ bonds: EmulatedBonds) -> VirtualController {
    let peripherals = bonds.securing(makeDevices(), options)
    return VirtualController(options.controller(0), peripherals: peripherals, air: options.air)
  }

  /// Waits until the peer closes the connection or the task is cancelled.
  private func untilEnded(
    _ emulation: ControllerAttachment, _ options: EmulationOptions, _ total: borrowing Mutex<Sent>
  ) async {
    let faults = Task { await options.disturb(emulation) }
    await emulation.runUntilCancelled()
    faults.cancel()
    let (sent, dropped) = await emulation.inspect { controller in
      var (all, dropped) = (0, 0)
      for peripheral in controller.peripherals {
        let counts = peripheral.unsecured.sentValues
        (all, dropped) = (all + counts.sent, dropped + counts.dropped)
      }
      return (all, dropped)
    }
    total.withLock { $0 = ($0.sent + sent, $0.dropped + dropped) }
  }

  // MARK: Lines

  /// Prints the line that announces the device.
  ///
  /// - Parameter address: the adapter's address, if the device is on a real adapter.
  private func ready(
    _ name: String, at address: DeviceAddress? = nil, _ options: EmulationOptions
  ) throws(Console.WriteError) {
    let device = first.map { (address: address ?? $0.address, name: $0.name) }
    guard options.json else {
      return try Console.print("ready \(name)" + (device.map { " \($0.address) \($0.name)" } ?? ""))
    }
    try Console.json { line in
      line.member("event", "ready")
      line.member("adapter", name)
      if let device {
        line.members(of: device.address)
        line.member("name", device.name)
      }
    }
  }

  private func end(_ total: Sent, _ options: EmulationOptions) throws(Console.WriteError) {
    guard options.json else {
      let dropped = total.dropped > 0 ? ", \(total.dropped) dropped" : ""
      return try Console.print("end" + (values.map { " \(total.sent) \($0.noun) sent\(dropped)" } ?? ""))
    }
    try Console.json { line in
      line.member("event", "end")
      if let values {
        line.member(values.key, total.sent)
        line.member("dropped", total.dropped)
      }
    }
  }
}

extension VirtualPeripheral {
  /// The peripheral without the wrapper that adds security.
  var unsecured: any VirtualPeripheral { (self as? SecuredPeripheral)?.base ?? self }

  /// The advertised name of the device.
  fileprivate var name: String {
    switch self {
    case let ring as EmulatedRing: ring.configuration.name
    case let source as EmulatedSource: source.configuration.name
    case let sensor as EmulatedSensor: sensor.model.name
    default: ""
    }
  }

  /// Number of values that the device has sent and dropped so far.
  fileprivate var sentValues: (sent: Int, dropped: Int) {
    switch self {
    case let ring as EmulatedRing: (ring.sentRawNotifications, ring.droppedByRing)
    case let source as EmulatedSource: (source.sent, 0)
    case let sensor as EmulatedSensor: (sensor.sent, sensor.dropped)
    default: (0, 0)
    }
  }
}

extension PeripheralProtection {
  /// Agent that answers pairing requests for a device on an adapter. The adapter's host generates the
  /// passkeys that the device shows.
  fileprivate var agent: PairingAgent {
    PairingAgent(
      capability.value, showPasskey: { Console.note("passkey \(ServeText.passkey($0))") },
      askPasskey: { [passkey] in passkey }, compare: { _ in true })
  }
}
