import ArgumentParser
import BLEHost
import BLELinux
import BLESecurity
import BLEStack
import BLEWire
import CommandKit
import JSONText
import Recording
import RingTap
import SensorSessions

/// The command `ringtap pair DEVICE`.
struct PairCommand: AsyncParsableCommand, ReachesDevice {
  static let configuration = CommandConfiguration(
    commandName: "pair",
    abstract: "Pair with a device and store its keys.",
    discussion: """
      After pairing, each link with the device is encrypted with the stored key. Prompts need a \
      terminal; without one, and without --passkey or --yes, pairing does not protect against an \
      attacker in the middle.

      In exclusive mode only ringtap has the keys. In raw mode the kernel pairs. Later, ringtap loads \
      the stored keys into the kernel in addition to the kernel's own, which requires root. If \
      bluetoothd runs, it keeps the keys and its agent (`bluetoothctl`) answers: ringtap only requests \
      encryption.

      EXAMPLES
        ringtap pair 70:CB:0D:00:A1:B2 --mode raw
        ringtap pair 70:CB:0D:00:A1:B2 --mode exclusive
        ringtap pair C4:12:34:56:78:9A --address-type random --passkey 123456
            --transport serial:/dev/ttyAMA0,115200
        ringtap pair 70:CB:0D:00:A1:B2 --mode exclusive --forget
      """)

  @OptionGroup var radio: AdapterOptions
  @OptionGroup(visibility: .hidden) var link: LinkOptions
  @OptionGroup var choice: DeviceOptions

  @Argument(help: "The device, such as 70:CB:0D:00:A1:B2, or the name of a known device.")
  var address: String

  @Option(
    help: "The passkey that the device shows, or that is printed on it: six digits.",
    in: .passkey)
  var passkey: UInt32?

  @Flag(help: "Accept the number shown by the device without comparing it.")
  var yes = false

  @Flag(help: "Fail unless the pairing protects against an attacker in the middle.")
  var authenticated = false

  @Flag(help: "Legacy pairing only, without Secure Connections.")
  var legacy = false

  @Flag(help: "Fail unless the pairing uses LE Secure Connections.")
  var secureConnections = false

  @Flag(inversion: .prefixedNo, help: "Store the keys for later links.")
  var bond = true

  @Flag(help: "Remove the device's keys instead.")
  var forget = false

  @Flag(help: "Print one JSON object.")
  var json = false

  func validate() throws {
    if legacy, secureConnections {
      throw ValidationError("--legacy and --secure-connections exclude each other")
    }
  }

  func run() async throws {
    let address = try device.parse(address)
    let store = device.radio.bondFiles
    if forget {
      var wasKept = false
      if let store { wasKept = try failing { () throws(SystemError) in try store.forget(address) } }
      guard wasKept else { throw Failure("no keys of \(address) are stored") }
      guard json else { return try Console.print("removed the keys of \(address)") }
      return try Console.json { line in
        line.member("address", address.description)
        line.member("forgotten", true)
      }
    }
    if bond, store == nil { Console.note("keys are not stored: this pairing ends with its link") }
    let settings = try settings(keeping: bond ? store : nil)
    let (device, request) = (device, try device.link.request())
    let result = try await device.withRadio { radio in
      guard let adapter = radio.adapter.securing else {
        throw Failure("this adapter does not support pairing")
      }
      if radio.adapter.exclusive == nil, ProcessFacts.processID(named: "bluetoothd") != nil {
        Console.note("bluetoothd is running: it keeps the keys, and its agent answers (`bluetoothctl`)")
      }
      let connection = try await failing { () async throws(HostError) in
        try await adapter.secure(settings)
        return try await adapter.connect(
          to: address, asking: request, timeout: .seconds(device.timeout), tap: nil)
      }
      let pair: @Sendable () async throws -> Bond? = {
        try await failing { () async throws(HostError) in try await adapter.makeBond(with: connection) }
      }
      // At a terminal there is no time limit, because a user needs time to type. The device still has only 30
      // s for each response (Core 5.4, Vol 3, Part H, 3.4).
      let bond = try await PairingPrompt.hasPerson ? pair() : device.answering(address, pair)
      await connection.close()
      return bond
    }
    try show(result, of: address)
  }

  private func settings(keeping store: BondFiles?) throws -> SecuritySettings {
    var settings = SecuritySettings(
      agent: PairingPrompt(passkey: passkey, takesAnyNumber: yes).agent, raising: .byPairing,
      protection: authenticated ? .authenticated : .encrypted, store: store)
    if secureConnections { settings.kind = .secureConnections }
    if !legacy {
      settings.makeKeyPair = try failing { () throws(MissingLibcrypto) in try P256KeyPair.maker() }
    }
    return settings
  }

  private func show(_ bond: Bond?, of address: DeviceAddress) throws {
    if let bond, !bond.isSecureConnections, !legacy {
      Console.note(
        "paired without Secure Connections: the device does not support them, or an attacker in the middle "
          + "hid them. Anyone who recorded the pairing can find the keys; --secure-connections refuses such "
          + "a pairing")
    }
    guard json else {
      let text = bond.map { "paired with \(address): \($0)" }
      return try Console.print(text ?? "the link with \(address) was encrypted; bluetoothd keeps the keys")
    }
    try Console.json { line in
      line.member("address", address.description)
      line.member("addressType", address.type.name)
      guard let bond else { return line.member("keptBy", "bluetoothd") }
      if let identity = bond.peerIdentity {
        line.member("identityAddress", identity.address.description)
        line.member("identityAddressType", identity.address.type.name)
      }
      line.member("authenticated", bond.isAuthenticated)
      line.member("secureConnections", bond.isSecureConnections)
      line.member("keySize", bond.keyByteCount)
      line.member("bonded", bond.isBonded)
    }
  }
}

/// Prompts the user, if standard input is a terminal.
private struct PairingPrompt: Sendable {
  let passkey: UInt32?
  let takesAnyNumber: Bool

  static var hasPerson: Bool {
    StandardStream.input.isTerminal && Console.isErrorTerminal
  }

  var agent: PairingAgent {
    PairingAgent(
      capability,
      showPasskey: {
        Console.note(
          "passkey \(Self.digits($0)): type it on the device; if the device shows a number itself, reject it "
            + "there"
        )
      },
      askPasskey: { [passkey] in
        if let passkey { return passkey }
        return await Self.line(
          "press Enter if the device asks for a comparison, else type the passkey that the device shows: "
        ).flatMap { UInt32($0) }
      },
      compare: { [takesAnyNumber] number in
        if takesAnyNumber {
          Console.note("number \(Self.digits(number))")
          return true
        }
        return await Self.line(
          "does the device show \(Self.digits(number)) and ask to compare it? Do not type it anywhere. [y/N] "
        )?
        .lowercased() == "y"
      })
  }

  /// The input and output capability to report to the device.
  private var capability: IOCapability {
    if Self.hasPerson { return .keyboardDisplay }
    if passkey != nil { return .keyboardOnly }
    return takesAnyNumber ? .displayYesNo : .noInputNoOutput
  }

  private static func digits(_ number: UInt32) -> String {
    NumberText.padded(Int(number), 6)
  }

  /// Reads a line of standard input on a separate thread, because the user may take a long time.
  private static func line(_ question: String) async -> String? {
    Console.ask(question)
    let line = OneShot<String?>()
    do throws(SystemError) {
      try SystemThread.start(named: "ringtap-prompt") { line.set(readLine()) }
    } catch { return nil }
    return await line.value()
  }
}
