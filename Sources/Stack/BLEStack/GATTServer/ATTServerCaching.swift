import BLEWire

/// A client's knowledge of the database, for robust caching. Core 5.4, Vol 3, Part G, 2.5.2.1 and 7.2.
///
/// Enforced only if the client has enabled robust caching. Other clients rely on Service Changed, if at all.
struct ClientCaching: Sendable {
  private enum Awareness: Sendable {
    case aware
    /// The database has changed since the client discovered it.
    case unaware
    /// The client has received Database Out Of Sync or has read the hash. Its next request makes it aware.
    case told
  }

  static let featuresByteCount = 1
  /// Robust caching, enhanced bearers, multiple value notifications. The other bits are reserved.
  static let knownFeatures: UInt8 = 0x07
  private static let robustCaching: UInt8 = 0x01

  /// Client Supported Features of this client.
  var features: UInt8 = 0
  /// Whether the outstanding indication is Service Changed.
  var isIndicated = false
  private var awareness = Awareness.aware

  private var isRobust: Bool { features & Self.robustCaching != 0 }

  /// Whether the database has changed and the client has not acknowledged it.
  var isBehind: Bool { awareness != .aware }

  /// Whether commands of the client are ignored, and values other than Service Changed are not sent to it.
  var isHeldBack: Bool { isRobust && awareness != .aware }

  mutating func databaseChanged() { awareness = .unaware }

  /// Resets `told` to `unaware`, because that state ends with the link. Core 5.4, Vol 3, Part G, 2.5.2.1.
  mutating func linkEnded() {
    isIndicated = false
    if awareness == .told { awareness = .unaware }
  }

  mutating func confirmed() {
    if isIndicated { awareness = .aware }
    isIndicated = false
  }

  /// Refuses a value that clears a bit, with Value Not Allowed. Core 5.4, Vol 3, Part G, 7.2.
  func require(_ value: Span<UInt8>, _ handle: AttributeHandle) throws(Refusal) {
    guard value.count == Self.featuresByteCount else { throw Refusal(handle, .invalidAttributeValueLength) }
    guard features & ~value[0] == 0 else { throw Refusal(handle, .valueNotAllowed) }
  }

  /// Checks whether the client may send a request, and updates what it knows.
  ///
  /// - Throws: Database Out Of Sync, once, for a request with a handle of the old database.
  mutating func admit(_ opcode: ATTOpcode, _ pdu: Span<UInt8>) throws(Refusal) {
    guard isRobust else { return }
    switch awareness {
    case .aware: break
    case .told: awareness = .aware
    case .unaware:
      switch Self.purpose(opcode, pdu) {
      case .discovery: break
      case .hash: awareness = .told
      case .value:
        awareness = .told
        throw Refusal(pdu.count >= 3 ? pdu.handle(at: 1) : .none, .databaseOutOfSync)
      }
    }
  }

  /// Purpose of a request.
  private enum Purpose {
    case discovery, hash, value
  }

  private static func purpose(_ opcode: ATTOpcode, _ pdu: Span<UInt8>) -> Purpose {
    switch opcode {
    case .readRequest, .readBlobRequest, .readMultipleRequest, .readMultipleVariableRequest, .writeRequest,
      .prepareWriteRequest:
      return .value
    case .readByTypeRequest:
      guard pdu.count == 7 || pdu.count == 21 else { return .discovery }
      switch pdu.uuid(at: 5, byteCount: pdu.count - 5) {
      case BluetoothUUID.include, BluetoothUUID.characteristic: return .discovery
      case BluetoothUUID.databaseHash:
        return HandleRange(start: pdu.handle(at: 1), end: pdu.handle(at: 3)) == .all ? .hash : .value
      default: return .value
      }
    default: return .discovery
    }
  }
}

extension ATTServer {
  /// Whether the client must still be sent a Service Changed indication.
  public var isBehind: Bool { caching.isBehind }

  /// Switches to a changed database. CCCDs keep their values if their characteristics have not moved.
  public mutating func databaseChanged(
    from old: borrowing GATTServerDatabase, to new: borrowing GATTServerDatabase
  ) {
    var kept = [UInt8](repeating: 0, count: new.configurationCount)
    for attribute in new.attributes {
      guard case .configuration(let slot, _) = attribute.role, let index = old.index(of: attribute.handle),
        case .configuration(let former, _) = old.attributes[index].role, index > 0,
        let place = new.index(of: attribute.handle), place > 0,
        old.attributes[index - 1].type == new.attributes[place - 1].type
      else { continue }
      kept[slot] = configurations[former]
    }
    configurations = kept
    written = []
    prepared.isStale = true
    caching.databaseChanged()
  }
}

extension GATTServerDatabase {
  /// The Database Hash: 16 bytes, most significant first, as BlueZ sends it. Other servers send the least
  /// significant first; clients only compare hashes. Core 5.4, Vol 3, Part G, 7.3.1.
  public var databaseHash: [UInt8] {
    let message = hashedOctets
    let code = AESCMAC(key: 0).code(message.span)
    return (0..<16).map { UInt8(truncatingIfNeeded: code >> UInt128(120 - 8 * $0)) }
  }

  /// Input of the Database Hash, which is its AES-CMAC with a key of 16 zero bytes: declarations with their
  /// values, and other descriptors defined by the specification without values. Core 5.4, Vol 3, Part G,
  /// 7.3.1.
  public var hashedOctets: [UInt8] {
    var octets: [UInt8] = []
    for attribute in attributes {
      guard let type = attribute.type.short else { continue }
      var value: [UInt8] = []
      switch type {
      // Service, include and characteristic declarations, extended properties.
      case 0x2800...0x2803, 0x2900: value = attribute.value
      case 0x2901...0x2905: break
      default: continue
      }
      octets += [UInt8](encoding: 4 + value.count) {
        $0.append(attribute.handle)
        $0.append(u16: type)
        $0.append(value.span)
      }
    }
    return octets
  }
}
