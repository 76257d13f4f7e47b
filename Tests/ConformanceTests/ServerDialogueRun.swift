import BLEEmulation
import BLEHost
import BLELinux
import BLEPeripheral
import BLESecurity
import BLEStack
import BLEWire
import Dialogues
import PeripheralKit
import Synchronization
import TestKit
import TestPeer
import Testing

/// Plays the tester of a dialogue against our server.
///
/// Words of the action: `refuse CODE HANDLE` and `refuse-write CODE HANDLE` (error code for reads or writes),
/// `allow HANDLE…` (permits writes), `demand HANDLE` and `demand-16 HANDLE` (requires encryption, or
/// encryption with a 16-byte key), `limit OCTETS HANDLE`. Events before the client's PDU number N: `bond@N`,
/// `pair-short@N` (with a 7-byte key), `reconnect@N` (encrypted, if bonded), `change@N` (adds or removes a
/// service), `sign@N` (the tester has distributed its key), `away-change@N` (a change while the client is
/// disconnected), `remove@N` (removes the last service), `other@N` (the tester continues as another client).
final class ServerDialogueRun {
  private let dialogue: ATTDialogue
  private let device: VirtualDevice
  private let channel: RawChannel
  private let services: [GATTServiceDescription]
  /// Bonds of the tester and of the server.
  private let bonds = KeptBonds()
  private let kept: KeptBonds
  private var pending: [(word: String, before: Int)]
  private var connection: Connection
  private var clientCount = 0
  private var answersDue = 0
  private var central = 0
  private var isChanged = false

  /// The first PDU that was unexpected or differs from the dialogue.
  private(set) var mismatch: String?

  static func play(_ dialogue: ATTDialogue) async throws -> String? {
    let channel = RawChannel()
    let device = try await VirtualDevice.open(
      centrals: 2, wrap: { HostileTransport($0, sending: channel.said, receiving: channel.heard) })
    let services = ServerDialogueDatabase(dialogue).services
    var mismatch: String?
    let kept = KeptBonds()
    try await device.host.secure(
      SecuritySettings(
        raising: .byPairing, store: kept, minimumKeyByteCount: 7, makeKeyPair: try P256KeyPair.maker()))
    try await device.serve(services) { server in
      let run = ServerDialogueRun(dialogue, device, channel, services, kept, try await device.connect())
      try await run.play(server)
      mismatch = run.mismatch
      await run.connection.close()
    }
    await device.close()
    return mismatch
  }

  private init(
    _ dialogue: ATTDialogue, _ device: VirtualDevice, _ channel: RawChannel,
    _ services: [GATTServiceDescription], _ kept: KeptBonds, _ connection: Connection
  ) {
    self.dialogue = dialogue
    self.device = device
    self.channel = channel
    self.services = services
    self.kept = kept
    self.connection = connection
    pending = dialogue.action.compactMap { word in
      let parts = word.split(separator: "@")
      return parts.count == 2 ? (String(parts[0]), Int(parts[1]) ?? 0) : nil
    }
  }

  private func play(_ server: GATTServer) async throws {
    for step in dialogue.steps {
      let octets = step.choices[0].octets.compactMap { $0 }
      let opcode = ATTOpcode(rawValue: octets[0])
      switch step.side {
      case .client:
        if answersDue == 0 { try await doWhatIsDue(server) }
        clientCount += 1
        if opcode.kind == .request { answersDue += 1 }
        try await connection.send(octets)
      case .server:
        if opcode.kind == .notification || opcode.kind == .indication {
          try await push(octets, opcode.kind == .indication, server)
        } else {
          answersDue -= 1
        }
        let pdu = try await channel.next()
        guard step.choices[0].matches(pdu.span) else {
          mismatch = "line \(step.line): \(hexOf(pdu))"
          return
        }
      }
    }
    // Nothing more has arrived: the next PDU is the response to an unsupported request.
    try await connection.send([0x3E])
    let last = hexOf(try await channel.next())
    if last != "013e000006" { mismatch = "at the end: \(last)" }
  }

  /// Sends a value of the application. Service Changed is left to the server.
  private func push(_ octets: [UInt8], _ isIndication: Bool, _ server: GATTServer) async throws {
    let handle = octets.span.handle(at: 1)
    if await server.handle(of: .serviceChanged) == handle { return try await doWhatIsDue(server) }
    let (value, centrals) = (Array(octets[3...]), await server.centrals)
    let last = try #require(centrals.last)
    if isIndication {
      // Returns when it is confirmed, or the link has ended.
      device.loop.task { try? await server.indicate(value, of: handle, to: last) }
    } else {
      try await server.notify(value, of: handle, to: last)
    }
  }

  private func doWhatIsDue(_ server: GATTServer) async throws {
    while let next = pending.first, next.before == clientCount + 1 {
      pending.removeFirst()
      switch next.word {
      case "bond", "pair-short":
        if next.word == "pair-short" { channel.shortenKeys() }
        try await device.centrals[central].secure(
          SecuritySettings(store: bonds, minimumKeyByteCount: 7, makeKeyPair: try P256KeyPair.maker()))
        _ = try await device.centrals[central].pair(connection)
      case "sign":
        // The key from BlueZ's unit/test-crypto.c.
        let bond = Bond(
          isAuthenticated: false, isSecureConnections: false, keyByteCount: 16, isBonded: true,
          peerSigningKey: 0x611b_64eb_fbcd_1fd3_72ec_9196_df42_5e50)
        let (tester, local) = (await device.centrals[central].address, await device.host.address)
        kept.keep(StoredBond(device: tester, local: local, bond: bond))
      case "reconnect": try await reconnect(server) {}
      case "away-change": try await reconnect(server) { await self.change(server) }
      case "change": await change(server)
      case "remove": await server.change(to: Array(services.dropLast()))
      case "other":
        central = 1
        connection = try await device.connect(1)
      default: throw Unreadable(description: next.word)
      }
    }
  }

  private func reconnect(_ server: GATTServer, _ body: () async -> Void) async throws {
    await connection.close()
    while await !server.centrals.isEmpty { await Task.yield() }
    await body()
    connection = try await device.connect(central)
  }

  private func change(_ server: GATTServer) async {
    isChanged.toggle()
    let added = GATTServiceDescription(.battery, handle: AttributeHandle(0x0020))
    await server.change(to: isChanged ? services + [added] : services)
  }

  struct Unreadable: Error, CustomStringConvertible {
    let description: String
  }
}

/// ATT channel of the tester's links, used instead of the client of its host.
final class RawChannel: Sendable {
  private let heardPDUs = Mutex<[[UInt8]]>([])
  private let isShortening = Mutex(false)

  /// Sets Maximum Encryption Key Size to 7 for all further pairings.
  func shortenKeys() { isShortening.withLock { $0 = true } }

  @Sendable func said(_ channel: UInt16, _ payload: [UInt8]) -> [[UInt8]] {
    [shortened(channel, payload, 0x01)]
  }

  @Sendable func heard(_ channel: UInt16, _ payload: [UInt8]) -> [[UInt8]] {
    guard channel == 4 else { return [shortened(channel, payload, 0x02)] }
    heardPDUs.withLock { $0.append(payload) }
    return []
  }

  private func shortened(_ channel: UInt16, _ payload: [UInt8], _ code: UInt8) -> [UInt8] {
    guard channel == 6, payload[0] == code, isShortening.withLock({ $0 }) else { return payload }
    return payload[..<4] + [7] + payload[5...]
  }

  func next() async throws -> [UInt8] {
    try await eventually("a PDU of the server's") { heardPDUs.withLock { !$0.isEmpty } }
    return heardPDUs.withLock { $0.removeFirst() }
  }
}

/// Converts the attributes of a dialogue to descriptions for a server.
struct ServerDialogueDatabase {
  private(set) var services: [GATTServiceDescription] = []
  private let dialogue: ATTDialogue

  init(_ dialogue: ATTDialogue) {
    self.dialogue = dialogue
    let starts = dialogue.database.filter { Self.isService($0.type) }.map(\.handle)
    var isPushed = false
    for (index, attribute) in dialogue.database.enumerated() {
      let (value, last) = (attribute.value, services.count - 1)
      switch attribute.type {
      case .primaryService, .secondaryService:
        services.append(
          GATTServiceDescription(
            Self.uuid(value), kind: attribute.type == .primaryService ? .primary : .secondary,
            handle: attribute.handle, endHandle: attribute.range.end))
      case .include:
        services[last].includes.append(starts.firstIndex(of: value.span.handle(at: 0)) ?? 0)
      case .characteristic:
        let properties = CharacteristicProperties(rawValue: value[0])
        isPushed = !properties.isDisjoint(with: [.notify, .indicate])
        services[last].characteristics.append(
          GATTCharacteristicDescription(
            Self.uuid(Array(value[3...])), properties, value: dialogue.database[index + 1].value,
            handle: attribute.handle))
      case _ where dialogue.database[index - 1].type == .characteristic: break
      // The server adds it by itself.
      case .clientCharacteristicConfiguration where isPushed: break
      default:
        let characteristic = services[last].characteristics.count - 1
        services[last].characteristics[characteristic].descriptors.append(
          GATTDescriptorDescription(attribute.type, value: value, handle: attribute.handle))
      }
    }
    obey()
  }

  private static func isService(_ type: BluetoothUUID) -> Bool {
    type == .primaryService || type == .secondaryService
  }

  private static func uuid(_ octets: [UInt8]) -> BluetoothUUID {
    octets.span.uuid(at: 0, byteCount: octets.count) ?? .include
  }

  private mutating func obey() {
    var words = dialogue.action.dropFirst()[...]
    func code() -> ATTAccess { .refused(ATTErrorCode(rawValue: UInt8(words.removeFirst(), radix: 16) ?? 0)) }
    func handle() -> UInt16 { UInt16(words.removeFirst().dropFirst(2), radix: 16) ?? 0 }
    while let word = words.popFirst() {
      switch word {
      case "refuse":
        let access = code()
        change(handle()) {
          $0 = access
        } writing: { _ in
        }
      case "refuse-write":
        let access = code()
        change(handle()) { _ in
        } writing: {
          $0 = access
        }
      case "allow":
        while words.first?.hasPrefix("0x") ?? false {
          change(handle()) { _ in
          } writing: {
            $0 = .allowed
          }
        }
      case "demand", "demand-16":
        let access = ATTAccess.needs(.encrypted, keyByteCount: word == "demand" ? 7 : 16)
        change(handle()) {
          $0 = access
        } writing: {
          $0 = access
        }
      case "limit":
        let limit = Int(words.removeFirst()) ?? 0
        let value = handle()
        for (service, characteristic) in places where valueHandle(service, characteristic) == value {
          services[service].characteristics[characteristic].maximumByteCount = limit
        }
      default: break
      }
    }
  }

  private var places: [(Int, Int)] {
    services.indices.flatMap { service in services[service].characteristics.indices.map { (service, $0) } }
  }

  private func valueHandle(_ service: Int, _ characteristic: Int) -> UInt16 {
    (services[service].characteristics[characteristic].handle?.rawValue ?? 0) + 1
  }

  /// Changes the read and write access of the value or descriptor with this handle.
  private mutating func change(
    _ handle: UInt16, _ reading: (inout ATTAccess) -> Void, writing: (inout ATTAccess) -> Void
  ) {
    for (service, index) in places {
      if valueHandle(service, index) == handle {
        reading(&services[service].characteristics[index].readAccess)
        writing(&services[service].characteristics[index].writeAccess)
      }
      for place in services[service].characteristics[index].descriptors.indices
      where services[service].characteristics[index].descriptors[place].handle?.rawValue == handle {
        reading(&services[service].characteristics[index].descriptors[place].readAccess)
        writing(&services[service].characteristics[index].descriptors[place].writeAccess)
      }
    }
  }
}
